"""Text that would like to be markup, code or layout is shown as the text that it is."""

import json

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import View
from tests.browser.scripted import ScriptedSlot, lane, lines

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


def test_as_prompt_and_as_output_in_a_file(view: View) -> None:
    for number, text in enumerate(HOSTILE):
        more = ["."] * number
        view.load(trace_of(["before ", text, *more], ["before ", text, " after", text]))
        expect(view.part("promptCount")).to_have_text(f"{2 + number} tokens")
        assert view.text("prompt") == f"before {text}{'.' * number}"
        assert view.text("lookup") == f"before {text} after{text}"
        view.part("range").fill("2")
        assert nothing_ran(view)


def test_spans_stand_in_the_order_of_the_tokens(view: View) -> None:
    pieces = ["one ", "\u202e", "two ", "שלום ", "three ", "\u2067", "four"]
    view.load(trace_of(["x"], pieces))
    expect(view.part("lookup")).to_have_text("".join(pieces))
    lefts = view.part("lookup").evaluate(
        "e => [...e.querySelectorAll('.token')].filter(t => /[a-zש]/.test(t.textContent))"
        ".map(t => t.getBoundingClientRect().left)"
    )
    assert lefts == sorted(lefts)


def test_the_big_list_of_naughty_strings(view: View, shared, slot: ScriptedSlot) -> None:
    path = shared / "blns.json"
    if not path.is_file():
        pytest.skip("no blns.json among the real inputs")
    strings = json.loads(path.read_text("utf-8"))
    spaced = [piece for text in strings for piece in (text, "\n")]
    view.load(trace_of(spaced, spaced))
    expect(view.part("promptCount")).to_have_text(f"{len(spaced):,} tokens")
    assert view.text("prompt") == view.text("lookup") == view.text("plain") == "".join(spaced)
    pieces = json.loads(
        view.part("lookup").evaluate("e => JSON.stringify([...e.querySelectorAll('.token')].map(t => t.textContent))")
    )
    assert pieces == spaced
    assert nothing_ran(view)
    # and as a prompt that is typed, line ends as a text box keeps them
    typed = "\n".join(strings).replace("\r\n", "\n").replace("\r", "\n")
    slot.context, slot.n_max = 100_000, 1
    view.run(slot, typed, spaced[:100])
    assert view.text("prompt") == slot.requests[-1].prompt == typed
    assert view.text("lookup") == "".join(spaced[:100])
    assert nothing_ran(view)
