"""The files for those who host: what they name is there, and they say what the page expects."""

import re
from dataclasses import fields
from pathlib import Path

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


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in ("README.md", "HOSTING.md"):
        for target in re.findall(r"\]\(([\w./-]+)\)", read(page)):
            assert (ROOT / target).exists(), target
