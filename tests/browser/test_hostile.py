"""Text that would like to be markup, code or layout is shown as the text that it is."""

import csv
import io
import json
import random
import re
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from playwright.sync_api import expect

import app
from pld_core import links
from tests.browser.conftest import View
from tests.browser.scripted import ScriptedSlot, lane, lines
from tests.mutations import mutated, with_trees

HOSTILE = [
    "${window.__pwned = 1}",
    "`${window.__pwned = 1}`",
    "{{x}} {{{x}}} {{#each value}}{{this}}{{/each}}",
    "</script><script>window.__pwned = 1</script>",
    "<img src=x onerror='window.__pwned = 1'>",
    "</textarea></p><svg onload=window.__pwned=1>",
    "javascript:window.__pwned=1",
    "[a](javascript:window.__pwned=1) ![b](x) **c** $$d$$",
    "&lt;b&gt; &amp; &#0; \\u003cb\\u003e \\",
    "left \u202e right \u2066 isolate \u200f mark",
    "line\u2028paragraph\u2029next\x85\x0b\x0c",
    "nul \x00 bell \x07 escape \x1b[31m",
    "tab\tand\r\nwindows\rold\n\n\n  two leading",
    "👩‍👩‍👧‍👦 🏳️‍🌈 é ﷽ שלום عربى Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
    "lone \ud83d high, \ude00 low",
    "__proto__ constructor toString",
    "x" * 20_000,
]


def nothing_ran(view: View) -> bool:
    return view.page.evaluate(
        "() => window.__pwned === undefined"
        " && !document.querySelector('.pld-lens :is(img, script, iframe, svg[onload], a)')"
    )


def trace_of(prompt: list[str], answer: list[str]) -> str:
    return "".join(lines(lane(prompt, answer), lane(prompt, answer, "plain")))


def test_as_prompt_and_as_output_in_a_run(view: View, slot: ScriptedSlot) -> None:
    prompt = "\n".join(text for text in HOSTILE if text.isprintable())
    view.run(slot, prompt, HOSTILE + HOSTILE)
    assert view.text("prompt") == prompt == slot.requests[-1].prompt
    assert view.text("lookup") == view.text("plain") == "".join(HOSTILE + HOSTILE)
    assert nothing_ran(view)
    width = view.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0


def test_lone_surrogates_typed_into_the_prompt(view: View, slot: ScriptedSlot) -> None:
    view.page.locator("#prompt textarea").evaluate(
        "e => { e.value = 'half \\ud83d here'; e.dispatchEvent(new Event('input')); }"
    )
    slot.answer = [" ok"]
    view.page.locator("#plain input").set_checked(True)
    view.page.locator("#answer-prefix textarea").fill("")
    view.page.locator("#run").click()
    expect(view.part("lookup")).to_have_text(" ok")
    assert view.text("prompt") == "half \ud83d here"


@pytest.fixture(scope="module")
def strings() -> list[str]:
    """All that is hostile here, and the big list of naughty strings where it is at hand."""
    big = Path(app.__file__).parent.parent / "shared" / "data" / "blns.json"
    return HOSTILE + (json.loads(big.read_text("utf-8")) if big.is_file() else [])


def as_typed(text: str) -> str:
    """Line ends as a text box keeps them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def unfold(view: View) -> None:
    for fold in ("Settings", "Reference text"):
        view.page.get_by_role("button", name=re.compile(f"^{fold}")).click()


def form_text(view: View, name: str) -> str:
    box = view.page.locator(f"#{name} textarea")
    return json.loads(box.evaluate("e => JSON.stringify(e.value)"))


def test_in_every_text_of_the_form(view: View, slot: ScriptedSlot, strings: list[str]) -> None:
    shown = [text for text in strings if "\x00" not in text and len(text) < 9_000]
    few = [text.encode("utf-8", "replace").decode() for text in shown if text in HOSTILE]
    # what is drawn token by token has a third of the rest each, what is not has all of it
    parts = {"prompt": shown[::3], "answer-prefix": shown[1::3], "reference": shown[2::3], "system": shown}
    typed = {name: as_typed("\n".join(few + part)) for name, part in parts.items()}
    typed = {name: text.encode("utf-8", "replace").decode() for name, text in typed.items()}
    pieces = [piece for text in strings for piece in (text, "\n")]
    slot.context, slot.n_max = 100_000, 1
    unfold(view)
    for name, text in typed.items():
        view.page.locator(f"#{name} textarea").fill(text)
    slot.answer = pieces[:100]
    view.page.locator("#plain input").set_checked(False)
    view.page.locator("#run").click()
    expect(view.part("lookupState")).to_have_text("complete", timeout=60_000)
    expect(view.part("run")).to_contain_text("run-1", timeout=60_000)
    request = slot.requests[-1]
    assert typed == {name: getattr(request, name.replace("-", "_")) for name in typed}
    assert view.text("prompt") == typed["prompt"] + typed["answer-prefix"]
    assert view.text("reference") == typed["reference"]
    assert view.text("lookup") == "".join(pieces[:100])
    assert nothing_ran(view)


def test_in_a_file_and_in_a_link(view: View, strings: list[str]) -> None:
    whole = "\n".join(text.replace("\x00", "") for text in strings).encode("utf-8", "replace").decode()
    with view.page.expect_file_chooser() as chooser:
        view.page.locator("#to-prompt").click()
    name = "<img src=x onerror=window.__pwned=1>.txt"
    view.page.locator("#prompt textarea").fill("")
    chooser.value.set_files({"name": name, "mimeType": "text/plain", "buffer": whole.encode()})
    expect(view.page.locator("#prompt textarea")).not_to_be_empty()
    assert form_text(view, "prompt") == as_typed(whole)
    with view.page.expect_file_chooser() as chooser:
        view.page.locator("#to-prompt").click()
    chooser.value.set_files({"name": name, "mimeType": "text/plain", "buffer": b"\xff"})
    expect(view.page.locator("#notice")).to_have_text(f"{name} is not a text in UTF-8.")
    assert nothing_ran(view)

    texts = {name: as_typed(whole)[:40_000] for name in links.TEXTS}
    hostile = "&".join(f"{name}={quote(HOSTILE[3] + HOSTILE[4])}" for name in ("example", *links.FIELDS))
    link = links.write(view.address, {}, None, None, texts)
    view.page.goto("about:blank")
    view.page.goto(link.replace("?", f"?{hostile}&", 1))
    expect(view.page.locator("#notice")).to_contain_text("should be")
    unfold(view)
    for name in links.TEXTS:
        assert form_text(view, name.replace("_", "-")) == texts[name]
    assert nothing_ran(view)


def test_in_every_text_of_a_trace_and_all_that_is_made_of_it(view: View, browser, tmp_path, strings) -> None:
    """Each text of each event is all of the strings, and so is what is taken away."""
    view.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    every = "".join(strings)
    stream = trace_of(["a ", *strings, "b "], ["a ", *strings, "b "]).splitlines()
    start, *_ = events = [json.loads(line) for line in stream]
    for event in events:
        for name in ("model", "revision", "device", "dtype", "hardware", "message", "created"):
            if name in event:
                event[name] = every
        if event["type"] == "start":
            event["notices"] = strings
            event["settings"] = {name: every for name in ("n_max", "n_min", "k", "policy", "search", "sampling")}
            event["versions"] = {every: every}
        for one in event.get("wanted", []):
            one["piece"] = every
    view.load("\n".join(map(json.dumps, events)))
    view.page.wait_for_function(
        "count => document.querySelectorAll('[data-part=lookup] .token').length === count",
        arg=len(strings) + 2,
    )
    assert view.text("lookup") == view.text("prompt") == f"a {every}b "
    for look in ("Tokens", "Text"):
        view.page.locator(".viewing").get_by_text(look, exact=True).click()
        view.scrub(2)
        view.token("lookup", 1).hover()
        assert nothing_ran(view)
    assert every[:40].split("$")[0] in view.part("run").text_content()

    def taken(name: str) -> bytes:
        view.part("exports").locator("summary").click()
        with view.page.expect_download() as download:
            view.part(f"export-{name}").click()
        return Path(download.value.path()).read_bytes()

    rows = list(csv.reader(io.StringIO(taken("csv").decode("utf-8", "replace"), "")))
    assert len({len(row) for row in rows}) == 1
    assert not [cell for row in rows for cell in row if re.match(r"\s*[=+@-]|[\t\r\n]", cell)]
    svg = ElementTree.fromstring(re.sub(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", b"", taken("svg")))
    assert not [one for one in svg.iter() if one.tag.split("}")[-1] in ("script", "a", "image", "foreignObject")]
    view.part("exports").locator("summary").click()
    view.part("export-markdown").click()
    expect(view.part("status")).to_contain_text("copied")
    table = view.page.evaluate("navigator.clipboard.readText()")
    assert not re.search(r"(?<!\\)[<`]|(?<!\\)\]\(", table)
    file = tmp_path / "kept.html"
    file.write_bytes(taken("page"))
    page = browser.new_context(offline=True).new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    text = page.locator("[data-part=lookup]").evaluate("e => JSON.stringify(e.textContent)")
    assert json.loads(text) == f"a {every}b "
    assert page.evaluate("window.__pwned") is None and asked == [file.as_uri()]
    page.context.close()


def test_markup_that_found_its_way_in_would_run_nothing(view: View) -> None:
    """The second wall: the page's headers."""
    view.page.evaluate(
        """() => document.body.insertAdjacentHTML("beforeend", `<img src=x onerror="window.__pwned = 1">
          <svg onload="window.__pwned = 1"></svg><iframe srcdoc="<script>parent.__pwned = 1</script>"></iframe>
          <a id=leap href="javascript:window.__pwned = 1">x</a>
          <form action="https://example.com/"><button id=send>x</button></form>`)"""
    )
    view.page.evaluate("() => { leap.click(); send.click(); }")
    refused = view.page.evaluate("() => fetch('https://example.com/').then(() => false, () => true)")
    view.page.wait_for_timeout(300)
    assert refused and view.page.evaluate("window.__pwned") is None
    assert any("inline event handler" in fault for fault in view.faults)
    view.faults.clear()


def test_spans_stand_in_the_order_of_the_tokens(view: View) -> None:
    pieces = ["one ", "\u202e", "two ", "שלום ", "three ", "\u2067", "four"]
    view.load(trace_of(["x"], pieces))
    expect(view.part("lookup")).to_have_text("".join(pieces))
    lefts = view.part("lookup").evaluate(
        "e => [...e.querySelectorAll('.token')].filter(t => /[a-zש]/.test(t.textContent))"
        ".map(t => t.getBoundingClientRect().left)"
    )
    assert lefts == sorted(lefts)


READS = """texts => texts.map(text => {
  try {
    const trace = pldLens.Trace.of(text);
    if (!trace.main) return "unexpected: no lane";
    pldLens.csv(trace);
    pldLens.markdown(trace);
    pldLens.figure(trace, "passes");
    return null;
  } catch (error) {
    return error instanceof pldLens.TraceError ? error.message : `unexpected: ${error.stack}`;
  }
})"""


def test_a_trace_that_was_tampered_with_is_drawn_or_refused(view: View) -> None:
    good = trace_of(*[[*"abcab"], [*"cabcx"]])
    texts = [
        mutated((good, with_trees())[seed % 2], random.Random(seed), 1 + seed % 3)
        for seed in range(400)
    ]
    texts += [good[:cut] for cut in range(1, len(good), 97)]
    start = good.splitlines()[0]
    texts += [
        "\n".join(start.replace('"pld"', f'"{lane}"', 1) for lane in range(17)),
        start.replace('"settings":{', '"settings":{"deep":' + "[" * 9000 + "]" * 9000 + ",", 1),
        good.replace('"forward":0.03', '"forward":1e999'),
        good.replace('"forward":0.03', '"forward":1e308'),
    ]
    said = view.page.evaluate(READS, texts)
    assert [one for one in said if one and (one.startswith("unexpected") or len(one) > 200)] == []
    assert sum(one is not None for one in said) > 100
    assert "more than 16 lanes" in said[-4] and said[-3] is None and said[-1] is not None
    drawn = [text for text, one in zip(texts, said) if one is None][:40]
    assert len(drawn) > 30
    for text in drawn:
        view.page.evaluate("text => { pldLens.view.take(text); pldLens.view.moveTo(2); }", text)
        view.drawn()
    assert nothing_ran(view)
