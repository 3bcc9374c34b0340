# make run     open the page on http://127.0.0.1:7860 (make run PORT=8000 HOST=0.0.0.0)
# make test    run the whole suite
# make test-space   run it as a Hugging Face Space would: Python 3.12 and the torch of ZeroGPU
#                   (make test-space SPACE_PYTHON=... TESTS=tests/test_space.py)
# make audit   look the pinned versions up among the known vulnerabilities (PyPI's, over the network)
# make clean   remove what these two made here; the embedded model stays in the user's cache

PYTHON ?= python3
BIN := .venv/bin
SPACE_PYTHON ?= python3.12
SPACE_BIN := .venv-space/bin

.PHONY: run test test-space clean

run: .venv/installed
	@exec $(BIN)/python app.py

test: .venv/installed-test
	@$(BIN)/python -m pytest -n 2 --dist loadfile

test-space: .venv-space/installed
	@$(SPACE_BIN)/python -m pytest -n 2 --dist loadfile $(TESTS)

# Strict: a package that could not be looked up is no package without a fault.
audit: .venv/audit/bin/pip-audit
	@$< --requirement constraints.txt --no-deps --disable-pip --strict

.venv/audit/bin/pip-audit: | .venv/python
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install pip-audit

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

# As a Space installs: first what is pinned, then the rest, with the Gradio of the README's head.
.venv-space/installed: pre-requirements.txt requirements.txt requirements-test.txt
	$(SPACE_PYTHON) -m venv .venv-space
	$(SPACE_BIN)/python -m pip install -r pre-requirements.txt -r requirements-test.txt spaces \
	  "gradio[oauth,mcp]==$$(sed -n 's/^sdk_version: //p' README.md)"
	@touch $@

clean:
	rm -rf .venv .venv-space .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
