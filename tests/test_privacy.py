"""What a visitor writes is nowhere but in the answer: no log, no file, no count."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKER = "zebrafinch-4711"

SCRIPT = """
import json, logging, socket, sys
from types import SimpleNamespace
from pld_core.threads import settle
settle()
logging.basicConfig(level=logging.DEBUG)
import app
from pld_core.hosting.limits import HOSTED
from pld_core.hosting.metrics import Metrics
from pld_core.serving import Slot, Status
from tests import tiny
from tests.strangers import Stranger

MARKER = sys.argv[1]
slot, metrics = Slot(), Metrics()
slot._model = tiny.model("Llama")
slot._status = Status("ready", "tiny")
page = app.build(slot, allowed=HOSTED, metrics=metrics)
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
settings = app.launch_settings(slot, HOSTED, metrics)
_, url, _ = page.launch(server_port=port, prevent_thread_lock=True, **settings)
stranger = Stranger(url, slot)
texts = dict(prompt=MARKER, answer_prefix=MARKER, system=MARKER, reference=MARKER)
answers = [stranger.run(**texts, chat=False, max_new_tokens=8)]
for refused in (dict(prompt=MARKER * 50_000), dict(prompt=MARKER, k=MARKER), dict(prompt=MARKER, n_min=9)):
    try:
        answers.append(stranger.run(**refused))
    except Exception as error:
        answers.append(str(error))
def fails(*asked, **more):
    raise OSError("the disk is on fire")
model, slot._model = slot._model, SimpleNamespace(run=fails)
try:
    stranger.run(MARKER)
except Exception as error:
    answers.append(str(error))
slot._model = model
click = stranger.listener("run", "click")
names = [MARKER] * 4 + [3, 1, 5, "recent", 5, False, True, False, False, 0, 0, 1, 0, False, 3, 1, 5, "recent", False]
inputs = len(next(one for one in stranger.listeners if one["id"] == click)["inputs"])
answers.append(stranger.queue(click, (names + [None] * inputs)[:inputs]))
place = json.dumps({"base": url, "search": "?example=" + MARKER + "&k=" + MARKER, "hash": "#" + MARKER, "pass": 1})
link = stranger.listener("copy-link", "click")
inputs = len(next(one for one in stranger.listeners if one["id"] == link)["inputs"])
answers.append(stranger.send(link, ([place, True, None] + names + [None] * inputs)[:inputs]).text)
for listener in stranger.listeners:
    if listener["targets"] and listener["targets"][0][1] == "load" and len(listener["inputs"]) == 1:
        answers.append(stranger.send(listener["id"], [place]).text)
counts = stranger.http.get("metrics").text + stranger.http.get("health").text
with open(sys.argv[2], "w") as file:
    json.dump([answers, counts], file)
page.close()
"""


def test_a_prompt_is_in_no_log_and_in_no_file(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "answers.json"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if "GRADIO" not in name}
    environment = {**kept, "TMPDIR": str(home), "HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, MARKER, str(out)],
        cwd=home, env=environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    answers, counts = json.loads(out.read_text())
    assert MARKER in "".join(answers[0][0]["prompt"]["pieces"])
    for told in (done.stdout, done.stderr, counts):
        assert MARKER not in told
    assert "the disk is on fire" in done.stderr  # a fault is told all the same
    found = [path for path in home.rglob("*") if path.is_file()]
    assert [path for path in found if MARKER.encode() in path.read_bytes()] == []


def calls(path: Path) -> list[tuple[str, ast.Call]]:
    tree = ast.parse(path.read_text("utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(ast.unparse(call.func), call) for call in found]


SOURCES = [ROOT / "app.py", *(ROOT / "pld_core").rglob("*.py")]


def test_no_model_brings_code_along() -> None:
    """No load trusts a repository's own code, and none leaves that to a default."""
    loads = [
        call
        for path in SOURCES
        for name, call in calls(path)
        if name.split(".")[-1] in ("from_pretrained", "from_config", "pipeline")
    ]
    assert loads
    for call in loads:
        trusted = {word.arg: word.value for word in call.keywords}.get("trust_remote_code")
        assert isinstance(trusted, ast.Constant) and trusted.value is False, ast.unparse(call)


def test_nothing_that_is_read_is_run() -> None:
    unsafe = {"eval", "exec", "compile", "torch.load", "pickle.load", "pickle.loads", "os.system"}
    for path in SOURCES:
        named = {name for name, _ in calls(path)}
        assert not named & unsafe, path
        if path.name != "embedded.py":  # runs pip, with words of its own
            assert not any(name.startswith("subprocess.") for name in named), path
