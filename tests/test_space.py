"""What a Hugging Face Space reads before it runs anything: the README's front matter and the
requirements it installs first."""

import re
from pathlib import Path

import pytest
import yaml
from PIL import Image

import app
from pld_core.models import embedded

ROOT = Path(__file__).resolve().parent.parent
# The hub's own lists, of huggingface.co/docs/hub/spaces-config-reference.
KEYS = set(
    "title emoji colorFrom colorTo sdk python_version sdk_version suggested_hardware app_file "
    "app_build_command app_port base_path fullWidth header short_description models datasets tags "
    "thumbnail pinned hf_oauth hf_oauth_expiration_minutes hf_oauth_scopes disable_embedding "
    "startup_duration_timeout custom_headers preload_from_hub license".split()
)
COLOURS = set("red yellow green blue indigo purple pink gray".split())
HARDWARE = set("cpu-basic cpu-upgrade t4-small t4-medium l4x1 l4x4 l40sx1 a10g-small".split())
REPOSITORY = r"[\w.-]+/[\w.-]+"


@pytest.fixture(scope="module")
def card() -> dict:
    head = re.match(r"---\n(.*?)\n---\n", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    return yaml.safe_load(head[1])


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and line[0] != "#")


def test_the_hub_knows_every_key_and_value(card: dict) -> None:
    assert set(card) <= KEYS
    assert card["sdk"] == "gradio" and card["license"] == "apache-2.0"
    assert card["pinned"] is False
    assert {card["colorFrom"], card["colorTo"]} <= COLOURS
    assert card["suggested_hardware"] in HARDWARE
    assert len(card["title"]) <= 40 and len(card["short_description"]) <= 60
    assert len(card["emoji"]) == 1 and ord(card["emoji"]) > 0x2000
    assert all(re.fullmatch(r"[a-z0-9-]{2,40}", tag) for tag in card["tags"])


def test_versions_are_texts_and_those_that_are_tested(card: dict) -> None:
    assert card["sdk_version"] == pins("constraints.txt")["gradio"]
    assert card["python_version"] == "3.12"
    first = pins("pre-requirements.txt")
    assert first.pop("torch") in ("2.8.0", "2.9.1", "2.10.0", "2.11.0")  # ZeroGPU's
    tested = pins("constraints.txt")
    assert first == {name: tested[name] for name in first}
    wanted = re.findall(r"^([a-z_]+)[>=<]", (ROOT / "requirements.txt").read_text("utf-8"), re.M)
    assert set(wanted) <= {"gradio", "torch", *first}


def test_the_files_it_names_are_there(card: dict) -> None:
    assert (ROOT / card["app_file"]).is_file()
    with Image.open(ROOT / card["thumbnail"]) as picture:
        assert picture.size == (1200, 630)
    assert (ROOT / card["thumbnail"]).stat().st_size < 100_000


def test_the_models_are_those_that_it_runs_and_downloads_beforehand(card: dict) -> None:
    assert all(re.fullmatch(REPOSITORY, model) for model in card["models"])
    assert {app.GPU_MODEL} < set(card["models"])
    assert any(model.endswith(f"/{embedded.NAME}") for model in card["models"])
    for wanted in card["preload_from_hub"]:
        model, files, commit = wanted.split(" ")
        assert model == app.GPU_MODEL and re.fullmatch(r"[0-9a-f]{40}", commit)
        assert {"config.json", "model.safetensors", "tokenizer.json"} < set(files.split(","))
