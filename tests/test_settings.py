"""Settings are checked once, survive a file, and are refused in one sentence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pld_core.settings import POLICIES, Settings, SettingsError

pairs = st.tuples(st.integers(1, 64), st.integers(1, 64)).map(sorted)
good = st.builds(
    lambda pair, **rest: Settings(n_min=pair[0], n_max=pair[1], **rest),
    pairs,
    k=st.integers(0, 512),
    policy=st.sampled_from(POLICIES),
    search=st.sampled_from(["context", "prompt"]),
    periodic=st.booleans(),
    max_new_tokens=st.integers(1, 1_000_000),
    stop=st.lists(st.text(min_size=1), max_size=3).map(tuple),
)


@given(good)
def test_settings_survive_their_json(settings):
    data = settings.to_json()
    assert json.loads(json.dumps(data)) == data
    assert Settings.from_json(data) == settings
    assert Settings.from_json({**data, "of another version": 1}) == settings


@given(good)
def test_plain_is_the_same_run_without_drafts(settings):
    plain = settings.plain()
    assert plain.k == 0
    assert {**plain.to_json(), "k": settings.k} == settings.to_json()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(sorted(Settings().to_json())), anything))
def test_any_recorded_settings_are_settings_or_refused(data):
    try:
        settings = Settings.from_json(data)
    except SettingsError as error:
        assert str(error).endswith(".")
        assert len(str(error).splitlines()) == 1
    else:
        assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_max": 0}, {"n_min": 0}, {"n_max": 65}, {"k": -1}, {"k": 513}, {"k": True},
        {"k": 1.0}, {"k": "1"}, {"k": None}, {"n_min": 4, "n_max": 3}, {"policy": "web"},
        {"search": "web"}, {"max_new_tokens": 0}, {"stop": ("",)}, {"stop": (1,)},
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_name(wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong)).replace("_", ".")):
        Settings(**wrong)
