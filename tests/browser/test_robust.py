"""Long runs, lost connections, a Stop that costs nothing, and ports that are taken."""

import socket
from types import SimpleNamespace
from typing import Iterator

import pytest
from playwright.sync_api import Browser, expect

import app
from pld_core.events import End, Pass, Prefill, Prompt, Seconds, Start, dumps
from tests.browser.conftest import View, opened
from tests.browser.scripted import ScriptedSlot, tokens_of

LONG = tokens_of(" alpha beta gamma delta" * 60)


def long_lane(passes: int, created: str) -> Iterator[str]:
    """A lane of so many passes that keep three tokens each, as lines."""
    yield dumps(Start("pld", "scripted", "0", "cpu", "float32", {}, {"n_max": 3, "k": 3},
                      Prompt([0, 1], ["a", " b"], 2), created=created))  # fmt: skip
    yield dumps(Prefill("pld", 0.2, [1], [" b"]))
    pieces = [" one", " two", " three"]
    for index in range(2, passes + 2):
        yield dumps(
            Pass("pld", index, None, [2, 3, 9], [*pieces[:2], " no"], 2, 4, [2, 3, 4], pieces, 4,
                 Seconds(1e-6, 0.03, 1e-5), margins=[1.0] * 3, probabilities=[0.9] * 3)
        )  # fmt: skip
    yield dumps(End("pld", "eos", 1 + 3 * passes, 1 + passes))


def measured(view: View, slot: ScriptedSlot, passes: int, monkeypatch) -> int:
    """Bytes that reach the browser for a run of so many passes, in updates of ten passes."""
    created = f"long-{passes}"

    def run(request):
        text = ""
        for number, line in enumerate(long_lane(passes, created)):
            text += line + "\n"
            if number % 10 == 0:
                yield text
        yield text

    monkeypatch.setattr(slot, "run", run)
    network = view.page.context.new_cdp_session(view.page)
    network.send("Network.enable")
    received = SimpleNamespace(bytes=0)

    def count(event) -> None:
        received.bytes += event["dataLength"]

    network.on("Network.dataReceived", count)
    view.ask("a b", plain=False)
    expect(view.part("run")).to_contain_text(created, timeout=60_000)
    expect(view.part("lookupState")).to_have_text("complete", timeout=120_000)
    expect(view.part("lookupCount")).to_have_text(f"{1 + 3 * passes:,} tokens, {1 + passes:,} passes")
    assert view.text("lookup") == " b" + " one two three" * passes
    network.detach()
    return received.bytes


def test_what_is_sent_grows_with_the_run_not_with_its_square(
    view: View, slot: ScriptedSlot, monkeypatch
) -> None:
    short, long = (measured(view, slot, n, monkeypatch) for n in (150, 1500))
    assert long < 11 * short
    # and it can be scrubbed: the newest cursor wins, whatever came before
    for pass_ in ("700", "20", "1400"):
        view.part("range").fill(pass_)
    expect(view.part("position")).to_have_text("pass 1,400 of 1,501")
    assert view.marked("lookup", "ahead")[0] == 1 + 3 * 1399


WATCH = """() => {
  window.work = { spans: new Set(), rebuilt: 0 };
  new MutationObserver((all) => {
    for (const { type, target, addedNodes } of all) {
      if (type === 'childList') window.work.rebuilt += [...addedNodes].filter((n) => n.nodeType === 1).length;
      else window.work.spans.add(target);
    }
  }).observe(document.querySelector('.pld-lens .panes'), { subtree: true, childList: true, attributeFilter: ['class'] });
}"""


def worked(view: View) -> tuple[int, int]:
    """How many elements of the panes changed a class, and how many were made, since asked last."""
    view.drawn()
    done = view.page.evaluate(
        "() => { const { spans, rebuilt } = work; window.work.spans = new Set();"
        " window.work.rebuilt = 0; return [spans.size, rebuilt]; }"
    )
    return tuple(done)


def test_a_move_over_a_long_run_touches_little_and_builds_nothing(view: View) -> None:
    passes, kept = 1400, 3
    view.load("".join(f"{line}\n" for line in long_lane(passes, "long")))
    view.page.evaluate(WATCH)
    view.scrub(700)
    worked(view)
    for to, most in ((701, 40), (690, 120), (1, 300), (1400, 300)):
        view.scrub(to)
        touched, built = worked(view)
        assert 0 < touched <= most and built == 0, to
        assert view.marked("lookup", "ahead")[:1] == [1 + kept * (to - 1)]


def test_a_far_move_waits_for_no_text_that_is_out_of_sight(view: View) -> None:
    view.load("".join(f"{line}\n" for line in long_lane(1400, "far")))
    view.page.evaluate(WATCH)
    chunks = view.page.evaluate(
        """() => new Promise((done) => {
          pldLens.view.moveTo(20);
          requestAnimationFrame(() => done([...work.spans].filter((e) => e.matches(".chunk")).length));
        })"""
    )
    assert 0 < chunks <= 2 * 7  # of some 60 in each of two panes
    assert view.marked("lookup", "ahead") == list(range(1 + 3 * 19, 1 + 3 * 1400))


def test_an_event_is_drawn_for_what_it_adds(view: View) -> None:
    text = [f"{line}\n" for line in long_lane(1000, "growing")]
    take = "text => pldLens.view.take(text)"
    view.page.evaluate(WATCH)
    for seen in (10, 900):
        view.page.evaluate(take, "".join(text[:seen]))
        worked(view)
        view.page.evaluate(take, "".join(text[: seen + 1]))
        touched, built = worked(view)
        assert touched < 30 and built <= 2 * 3 + 4, seen


def test_stop_sends_no_trace_back_and_forth(view: View, slot: ScriptedSlot) -> None:
    slot.gate_at = 60
    slot.gate.clear()
    view.start(slot, "nothing of it", LONG)
    expect(view.token("plain", 20)).to_be_visible()
    sent: list[int] = []
    view.page.on("request", lambda request: sent.append(len(request.post_data or "")))
    view.page.locator("#stop").click()
    expect(view.part("plainState")).to_have_text("stopped")
    assert slot.closed.wait(10)
    assert len(view.saved()) > 10_000
    assert sum(sent) < 3_000


def test_a_lost_connection_is_a_state_and_what_arrived_stays(
    view: View, slot: ScriptedSlot
) -> None:
    slot.gate_at = 20
    slot.gate.clear()
    view.start(slot, "nothing of it", LONG)
    expect(view.token("plain", 4)).to_be_visible()
    arrived = view.text("lookup")
    view.page.route("**/app_id", lambda route: route.abort())
    expect(view.part("lookupState")).to_have_text("connection lost", timeout=30_000)
    expect(view.part("plainState")).to_have_text("connection lost")
    expect(view.part("status")).to_contain_text("The connection to the server is lost.")
    assert view.text("lookup") == arrived
    assert view.saved().count("\n") == 20
    view.page.unroute("**/app_id")
    slot.gate.set()  # it was not lost after all
    view.wait_for_end()
    expect(view.part("lookupState")).to_have_text("complete")
    assert view.text("lookup") == "".join(LONG)


def test_a_slow_pass_is_no_lost_connection(view: View, slot: ScriptedSlot) -> None:
    slot.gate_at = 20
    slot.gate.clear()
    asked: list[str] = []
    view.start(slot, "nothing of it", LONG)
    view.page.on("request", lambda request: asked.append(request.url))
    while sum(url.endswith("/app_id") for url in asked) < 2:
        view.page.wait_for_timeout(200)
    expect(view.part("lookupState")).to_have_text("running")
    slot.gate.set()
    view.wait_for_end()


def test_a_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit) as ended:
            app.address_of("127.0.0.1", port)
        assert str(ended.value).startswith(f"Port {port} on 127.0.0.1 is in use: choose another")
    assert app.address_of("127.0.0.1", port) == int(port)


@pytest.mark.parametrize(
    ("host", "port", "sentence"),
    [
        ("127.0.0.1", "many", "PORT is a whole number from 1 to 65535, not 'many'."),
        ("127.0.0.1", "70000", "PORT is a whole number from 1 to 65535, not '70000'."),
        ("no.such.host.invalid", "7860", "HOST=no.such.host.invalid is no address of this machine."),
    ],
)
def test_an_address_that_cannot_be_is_one_sentence(host, port, sentence) -> None:
    with pytest.raises(SystemExit) as ended:
        app.address_of(host, port)
    assert str(ended.value) == sentence


def test_who_waits_is_told_where_and_who_stops_waiting_is_gone(
    view: View, slot: ScriptedSlot, browser: Browser
) -> None:
    slot.gate_at = 20
    slot.gate.clear()
    view.start(slot, "nothing of it", LONG)
    others = [opened(browser, view.address) for _ in range(2)]
    places = ("In line: 1 run comes before yours", "In line: 2 runs come before yours")
    for other, place in zip(others, places):
        other.ask("a b")
        expect(other.page.locator("#notice [role=alert]")).to_contain_text(place, timeout=30_000)
    others[0].page.locator("#stop").click()
    expect(others[1].page.locator("#notice [role=alert]")).to_contain_text(places[0], timeout=30_000)
    slot.gate_at = None
    slot.gate.set()
    others[1].wait_for_end()
    expect(others[1].part("lookup")).to_have_text("".join(LONG), timeout=60_000)
    expect(others[1].page.locator("#notice [role=alert]")).to_have_text("", timeout=30_000)
    assert [request.prompt for request in slot.requests] == ["nothing of it", "a b"]
    for other in others:
        other.page.context.close()
        assert other.faults == []
