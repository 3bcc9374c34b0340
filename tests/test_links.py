"""Links out and in: what is written is read again, and nothing else does harm."""

import zlib
from base64 import urlsafe_b64encode
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pld_core import links
from pld_core.links import FIELDS, Link, LinkError, read, write

BASE = "https://someone-pld.hf.space/"
DEFAULTS = {field.name: field.default for field in FIELDS.values()}


def back(link: str) -> Link:
    parts = urlsplit(link)
    return read(parts.query, parts.fragment)


def test_a_link_names_the_example_the_settings_and_the_pass() -> None:
    link = write(BASE, DEFAULTS, "rename-in-code", 14)
    assert link == BASE + "?example=rename-in-code&n=3&k=31&pass=14"


def value_of(field: links.Field):
    if field.choices:
        return st.sampled_from(field.choices)
    if isinstance(field.default, bool):
        return st.booleans()
    if isinstance(field.default, int):
        return st.integers(int(field.low), int(field.high))
    return st.integers(1, 100).map(lambda n: n / 100)


@given(
    st.fixed_dictionaries({field.name: value_of(field) for field in FIELDS.values()}),
    st.dictionaries(st.sampled_from(links.TEXTS), st.text(min_size=1)),
)
def test_what_is_written_is_read(settings, texts) -> None:
    got = back(write(BASE, settings, None, None, texts))
    assert got.problems == ()
    assert got.texts == texts
    merged = {**DEFAULTS, **got.settings}
    hidden = () if settings["rival"] else [name for name in settings if name.startswith("rival_")]
    assert all(merged[name] == value for name, value in settings.items() if name not in hidden)


def test_no_text_without_asking() -> None:
    assert "#" not in write(BASE, DEFAULTS, None, 3)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("k=abc", "The link's k should be a whole number from 1 to 64, not 'abc'."),
        ("k=" + "9" * 5000, "The link's k should be a whole number from 1 to 64, not '9999"),
        ("k=nan", "The link's k should be"),
        ("temperature=inf", "The link's temperature should be a number from 0 to 2, not 'inf'."),
        ("temperature=nan", "The link's temperature should be"),
        ("strict=yes", "The link's strict should be 0 or 1, not 'yes'."),
        ("policy=worst", "The link's policy should be one of recent, oldest"),
        ("&".join(f"a{i}=1" for i in range(500)), "The link's query string has too many fields"),
    ],
)
def test_a_wrong_setting_is_left_out_with_a_sentence(query: str, sentence: str) -> None:
    got = read(query)
    assert len(got.problems) == 1 and got.problems[0].startswith(sentence)
    assert got.settings == {}


def deflated(data: bytes) -> str:
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return urlsafe_b64encode(squeezed.compress(data) + squeezed.flush()).decode().rstrip("=")


@pytest.mark.parametrize(
    "hash_",
    [
        "#!!!",
        "#é",
        "#AAAA",
        "#" + deflated(b"[1, 2]"),
        "#" + deflated(b'{"prompt": 7}'),
        "#" + deflated(b"[" * 100_000),
        "#" + deflated(b"\xff\xfe"),
        "#" + deflated(b'{"prompt": "whole"}')[:-3],
    ],
)
def test_a_hostile_hash_is_one_sentence(hash_: str) -> None:
    got = read("?k=7", hash_)
    assert got.problems == (
        "The link's text could not be read: it is damaged, or it is no text of ours.",
    )
    assert got.texts == {} and got.settings == {"k": 7}


def test_a_bomb_is_not_inflated() -> None:
    got = read("", deflated(b"a" * 50_000_000))
    assert got.problems == ("The link's text is too long to be read.",)
    assert read("", "A" * 200_000).problems == ("The link's text is too long to be read.",)


def test_a_text_too_long_for_a_link_is_refused() -> None:
    with pytest.raises(LinkError, match="too long for a link"):
        write(BASE, DEFAULTS, texts={"prompt": "a" * 2_000_000})


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_link_can_be_read(search: str, hash_: str) -> None:
    got = read(search, hash_)
    assert all(problem.endswith(".") for problem in got.problems)
