"""What nobody comes back for is forgotten, and nothing that somebody still reads."""

from pld_core.hosting.leftovers import PATIENCE, Leftovers


def test_a_session_is_forgotten_some_time_after_its_last_run() -> None:
    now, alive = [0.0], {"runs"}
    messages = {"runs": [1], "read": [], "left": [2]}
    ids = {"runs": {"a"}, "left": {"b"}}
    leftovers = Leftovers([messages, ids], lambda: alive, lambda: now[0])
    leftovers.sweep()
    now[0] += PATIENCE
    messages["new"] = [3]
    leftovers.sweep()
    assert set(messages) == {"runs", "read", "left", "new"}
    now[0] += 1
    alive.add("read")  # came back just in time
    leftovers.sweep()
    assert set(messages) == {"runs", "read", "new"} and set(ids) == {"runs"}
    alive.clear()
    now[0] += PATIENCE
    leftovers.sweep()
    assert set(messages) == {"runs", "read"}  # counted from when they were last seen at work
    now[0] += PATIENCE + 1
    leftovers.sweep()
    assert messages == ids == {}
