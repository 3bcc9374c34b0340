# make run     open the page on http://127.0.0.1:7860 (make run PORT=8000 HOST=0.0.0.0)
# make test    run the whole suite
# make clean   remove what these two made here; the embedded model stays in the user's cache

PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test clean

run: .venv/installed
	@exec $(BIN)/python app.py

test: .venv/installed-test
	@$(BIN)/python -m pytest

# A stamp is written when its install has succeeded, so a later start installs nothing.
.venv/installed: requirements.txt constraints.txt | .venv/python
	$(BIN)/python -m pip install -r requirements.txt -c constraints.txt
	@touch $@

.venv/installed-test: requirements.txt requirements-test.txt constraints.txt | .venv/python
	$(BIN)/python -m pip install -r requirements-test.txt -c constraints.txt
	@touch .venv/installed $@

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "PLD Lens needs Python 3.11 or newer, as transformers does; name one with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

clean:
	rm -rf .venv .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
