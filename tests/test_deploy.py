"""The files for those who host: what they name is there, and they say what the page expects."""

import re
import shutil
import subprocess
from configparser import ConfigParser
from dataclasses import fields
from pathlib import Path

import pytest

from pld_core.hosting.limits import HOSTED, LOCAL, Limits

ROOT = Path(__file__).resolve().parent.parent


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_container_copies_what_there_is_and_ignores_none_of_it() -> None:
    copied = [
        source
        for line in re.findall(r"^COPY (.+)$", read("Dockerfile"), re.M)
        for source in line.split()[:-1]
    ]
    allowed = {line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")}
    assert set(copied) == allowed
    assert all((ROOT / source).exists() for source in copied)
    # and so is what Gradio writes beside its components, which git leaves out as well
    made = {line.lstrip("/") for line in read(".gitignore").splitlines() if line.endswith(".pyi")}
    assert made and made < set(read(".dockerignore").splitlines())
    # whatever the page is made of is among them
    made_of = [path for path in ("app.py", "pld_core", "static") if path in copied]
    assert len(made_of) == 3


def test_the_container_has_no_rights_and_says_how_it_is() -> None:
    text = read("Dockerfile")
    assert re.search(r"^USER lens$", text, re.M) and text.index("\nUSER") > text.index("\nRUN pip")
    assert "HEALTHCHECK" in text and "/health" in text
    cache = re.search(r"^VOLUME (\S+)$", text, re.M)[1]
    for name in ("PLD_CACHE", "HF_HOME"):
        assert re.search(rf"{name}=(\S+)", text)[1].startswith(f"{cache}/")
    assert "PLD_HOSTED=1" in text


def test_the_container_takes_the_build_of_torch_for_cpus_unless_it_is_told_another() -> None:
    text = read("Dockerfile")
    index = re.search(r"^ARG TORCH_INDEX=(\S+)$", text, re.M)
    assert index[1].endswith("/cpu")
    torch, rest = re.search(r"^RUN pip (.+) \\\n +&& pip (.+)$", text, re.M).groups()
    assert '--index-url "$TORCH_INDEX" torch' in torch and "--no-deps" in torch
    assert "-r requirements.txt" in rest and "index" not in rest
    assert all("-c constraints.txt" in command for command in (torch, rest))


def test_the_container_can_be_read_where_the_checkout_is_its_owners_alone() -> None:
    text = read("Dockerfile")
    assert text.rindex("\nCOPY") < text.index("\nRUN chmod -R a+rX .\n") < text.index("\nUSER")


def test_the_service_gives_up_what_it_can_and_keeps_what_a_model_needs() -> None:
    service = settings_of("deploy/pld-lens.service")["Service"]
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == ""
    hides = {"PrivateDevices", "DeviceAllow", "ProtectClock", "ProcSubset"}
    assert not {*hides, "MemoryDenyWriteExecute"} & set(service)


def test_systemd_knows_every_setting_of_the_service() -> None:
    if not (analyze := shutil.which("systemd-analyze")):
        pytest.skip("no systemd-analyze here")
    command = [analyze, "security", "--offline=true", "--threshold=30", "--no-pager"]
    said = subprocess.run(
        [*command, str(ROOT / "deploy/pld-lens.service")], capture_output=True, text=True
    )
    assert (said.returncode, said.stderr) == (0, ""), said.stdout


def settings_of(unit: str) -> ConfigParser:
    """A unit's sections, of a name that stands twice the last."""
    parser = ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(read(unit))
    return parser


def test_the_service_and_the_site_speak_of_one_port() -> None:
    service, site = read("deploy/pld-lens.service"), read("deploy/nginx.conf")
    port = re.search(r"PORT=(\d+)", service)[1]
    assert f"proxy_pass http://127.0.0.1:{port}/;" in site
    for needed in ("proxy_buffering off;", "proxy_http_version 1.1;", "X-Forwarded-For $remote_addr"):
        assert needed in site
    assert "app.py" in service and "PLD_HOSTED=1" in service


def test_every_limit_stands_in_the_page_for_hosts() -> None:
    rows = dict(re.findall(r"^\| `(PLD_MAX_\w+)` \| (.+?) \| .+$", read("HOSTING.md"), re.M))
    assert set(rows) == {f"PLD_MAX_{field.name.upper()}" for field in fields(Limits)}
    for field in fields(Limits):
        row = re.search(rf"`PLD_MAX_{field.name.upper()}` \| ([\d,]+) \| ([\d,]+) ", read("HOSTING.md"))
        told = tuple(int(number.replace(",", "")) for number in row.groups())
        assert told == (getattr(HOSTED, field.name), getattr(LOCAL, field.name))


def anchors(page: str) -> set[str]:
    """The names by which GitHub knows a page's headings."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "HOSTING.md", "SECURITY.md"])
def test_links_between_the_pages_lead_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", read(page)):
        there = ROOT / (target or page)
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text("utf-8")), anchor


def test_every_section_of_the_readme_stands_in_its_contents() -> None:
    contents = re.findall(r"\]\(#([\w-]+)\)", read("README.md"))
    assert sorted(contents) == sorted(anchors(read("README.md")) - {"pld-lens", "licence"})
