"""What a visitor can ask for: texts, files, settings; links out and in; other engines."""

import json
import re
from urllib.parse import urlsplit

from playwright.sync_api import expect

from pld_core.page.examples import presets
from pld_core.serving import Rival
from tests.browser.conftest import View, opened
from tests.browser.scripted import ScriptedSlot, tokens_of

LETTERS = "a b c d e f g"
ANSWER = tokens_of(" b c d e X f")
HAVE = "document.querySelector('.pld-lens [data-part=run]')?.textContent"


def unfold(view: View, title: str) -> None:
    view.page.get_by_role("button", name=re.compile(f"^{title}")).click()


def number(view: View, name: str, value: str) -> None:
    """Sliders take what is typed only once their fold has settled."""
    box = view.page.get_by_role("spinbutton", name=name)
    for _ in range(5):
        box.fill(value)
        box.press("Tab")
        view.page.wait_for_timeout(150)
        if box.input_value() == value:
            return


def upload(view: View, where: str, name: str, data: bytes) -> None:
    with view.page.expect_file_chooser() as chooser:
        view.page.locator(where).click()
    chooser.value.set_files({"name": name, "mimeType": "text/plain", "buffer": data})


def test_every_control_reaches_the_decoder(view: View, slot: ScriptedSlot) -> None:
    unfold(view, "Settings")
    number(view, "Shortest match, tokens", "2")
    view.page.locator("#system textarea").fill("Be brief.")
    view.page.get_by_label("Strict mode").check()
    unfold(view, "Settings")
    unfold(view, "Sampling")
    number(view, "Temperature", "0.7")
    number(view, "Top k", "40")
    number(view, "Top p", "0.9")
    number(view, "Seed", "11")
    view.run(slot, LETTERS, ANSWER)
    request = slot.requests[-1]
    assert (request.n_min, request.system, request.strict) == (2, "Be brief.", True)
    assert (request.temperature, request.top_k, request.top_p, request.seed) == (0.7, 40, 0.9, 11)
    assert request.policy == "nearest" and request.rival is None and request.reference == ""
    assert request.settings().fixed_width == request.k + 1


def test_a_begun_answer_goes_with_its_prompt(view: View) -> None:
    prompt, begun = (view.page.locator(f"#{name} textarea") for name in ("prompt", "answer-prefix"))
    first = presets()[0]
    expect(begun).to_have_value(first["answer_prefix"])
    prompt.fill(first["prompt"].replace("owl", "fox") + " Please.")  # it is still that prompt
    expect(begun).to_have_value(first["answer_prefix"])
    prompt.fill("What is a lighthouse?")
    expect(begun).to_have_value("")
    begun.fill("A lighthouse is")  # one's own stays
    prompt.fill("What is a bookshop?")
    expect(begun).to_have_value("A lighthouse is")


def test_a_text_file_is_added_to_the_prompt(view: View, slot: ScriptedSlot) -> None:
    prompt = view.page.locator("#prompt textarea")
    prompt.fill("Summarise this:")
    upload(view, "#to-prompt", "notes.txt", "\ufeffZwei Zeilen,\r\nüber ${x} </script>.\r\n".encode())
    want = "Summarise this:\n\nZwei Zeilen,\nüber ${x} </script>."
    expect(prompt).to_have_value(want)
    notice = view.page.locator("#notice")
    for name, data, sentence in (
        ("photo.png", b"\x89PNG\xff\xfe", "photo.png is not a text in UTF-8."),
        ("zeros.txt", b"a\x00b", "zeros.txt is not a text in UTF-8."),
        ("long.txt", b"a" * 200_001, "long.txt is larger than 200 kB, too large for a prompt here."),
    ):
        upload(view, "#to-prompt", name, data)
        expect(notice).to_have_text(sentence)
        expect(prompt).to_have_value(want)


def test_a_file_that_is_added_to_a_preset_says_so_and_its_begun_answer_goes(view: View) -> None:
    prompt, begun = (view.page.locator(f"#{name} textarea") for name in ("prompt", "answer-prefix"))
    first = presets()[0]
    expect(begun).to_have_value(first["answer_prefix"])
    upload(view, "#to-prompt", "notes.txt", b"More of it.")
    expect(prompt).to_have_value(f"{first['prompt']}\n\nMore of it.")
    expect(begun).to_have_value("")
    expect(view.page.locator("#notice")).to_have_text(
        "notes.txt stands behind what was in the prompt."
    )


def test_a_chosen_file_is_not_sent(view: View) -> None:
    sent = []
    view.page.on("request", lambda request: sent.append(request.post_data))
    upload(view, "#to-prompt", "notes.txt", b"for the model")
    expect(view.page.locator("#prompt textarea")).to_have_value(re.compile("for the model$"))
    assert not any("for the model" in (data or "") for data in sent)


def link_of(view: View) -> str:
    view.page.locator("#copy-link").click()
    box = view.page.locator("#link textarea")
    expect(box).to_have_value(re.compile("^http"))
    return box.input_value()


def test_a_link_holds_the_example_the_settings_and_the_pass(view: View, slot: ScriptedSlot) -> None:
    view.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    unfold(view, "Link to this")
    view.part("range").fill("1")
    expect(view.part("position")).to_contain_text("pass 1 of")
    link = link_of(view)
    first = presets()[0]
    assert urlsplit(link).query == f"example=counting&n={first['n_max']}&k={first['k']}&max={first['max_new_tokens']}&pass=1"
    assert link.startswith(view.address)
    expect(view.page.locator("#link-note")).to_have_text("Copied.")
    assert view.page.evaluate("navigator.clipboard.readText()") == link


def test_a_link_opens_where_it_was_made(browser, served, slot: ScriptedSlot, view: View) -> None:
    unfold(view, "Settings")
    number(view, "Draft length, tokens (k)", "7")
    unfold(view, "Settings")
    view.page.locator("#recorded input").click()
    view.page.get_by_role("option", name="Walking").click()
    expect(view.part("lookup")).to_have_text(" and on")
    view.part("range").fill("1")
    expect(view.part("position")).to_contain_text("pass 1 of")
    unfold(view, "Link to this")
    link = link_of(view)
    assert "example=walking" in link and "k=7" in link and "pass=1" in link
    other = View(browser.new_context().new_page(), link)
    expect(other.part("lookup")).to_have_text(" and on")
    expect(other.part("position")).to_contain_text("pass 1 of")
    expect(other.page.locator("#recorded input")).to_have_value("Walking")
    slot.answer = ANSWER
    other.page.locator("#run").click()
    other.wait_for_end()
    expect(other.part("position")).to_have_text(re.compile(r"pass (\d+) of \1"))
    assert slot.requests[-1].k == 7
    other.page.context.close()


def test_a_prompt_is_in_a_link_only_when_asked_for(browser, view: View, slot: ScriptedSlot) -> None:
    secret = "My own </script> ${prompt} größer\n\u2028 than it looks"
    view.page.locator("#prompt textarea").fill(secret)
    view.page.locator("#recorded input").evaluate("e => e.blur()")
    view.run(slot, secret, ANSWER, prefix="So")
    unfold(view, "Link to this")
    link = link_of(view)
    assert "#" not in link and "example" not in link and "pass" not in link
    expect(view.page.locator("#link-note")).to_contain_text("Your prompt is not in it.")
    view.page.get_by_label("Put my prompt into the link").check()
    view.page.locator("#copy-link").click()
    expect(view.page.locator("#link textarea")).to_have_value(re.compile("#"))
    link = view.page.locator("#link textarea").input_value()
    other = View(browser.new_context().new_page(), link)
    expect(other.page.locator("#prompt textarea")).to_have_value(secret)
    expect(other.page.locator("#answer-prefix textarea")).to_have_value("So")
    expect(other.page.locator("#about")).to_have_text(
        "The link's prompt and settings are in the form: press Run."
    )
    expect(other.part("lookup")).to_have_text("")
    assert other.faults == []
    other.page.context.close()
    view.page.locator("#prompt textarea").fill("Another one.")
    expect(view.page.locator("#link textarea")).to_have_value("")


def test_a_hostile_link_is_one_sentence(browser, served) -> None:
    for link, sentence in (
        ("?k=<img src=x onerror=alert(1)>", "The link's k should be a whole number from 1 to 64"),
        ("?example=../../etc/passwd", "There is no recorded run called '../../etc/passwd' here."),
        ("#AAAA", "The link's text could not be read"),
        ("?pass=1e9&n=0", "The link's n should be a whole number from 1 to 16, not '0'."),
    ):
        view = View(browser.new_context().new_page(), served[0] + link)
        expect(view.page.locator("#notice")).to_contain_text(sentence)
        assert view.faults == []
        assert view.page.evaluate(HAVE)
        view.page.context.close()


def test_settings_b_go_with_a_link(browser, served, slot: ScriptedSlot) -> None:
    view = opened(browser, served[0] + "?b=1&b_n=2&b_k=9&n=4")
    slot.answer = ANSWER
    view.page.wait_for_timeout(1000)  # the folded settings show nothing to wait for
    view.page.locator("#run").click()
    expect(view.part("rival")).to_be_visible()
    assert slot.requests[-1].n_max == 4
    assert slot.requests[-1].rival == Rival(2, 1, 9, "recent")
    view.page.context.close()


def test_the_settings_of_other_engines_follow_the_form(view: View) -> None:
    view.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    unfold(view, "Settings")
    number(view, "Draft length, tokens (k)", "13")
    unfold(view, "These settings in other engines")
    panel = view.page.locator("#elsewhere")
    expect(panel.locator("pre").first).to_contain_text("prompt_lookup_num_tokens=13,")
    assert panel.locator("h3").all_inner_texts() == [
        "transformers", "vLLM", "SGLang", "llama.cpp", "TensorRT-LLM",
    ]  # fmt: skip
    panel.get_by_role("button", name="Copy: vLLM").click()
    expect(panel.get_by_role("button", name="Copied: vLLM")).to_be_visible()
    copied = view.page.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied.split("'")[1])["num_speculative_tokens"] == 13
    number(view, "Shortest match, tokens", "9")
    expect(panel.locator(".note")).to_have_text("n_min (9) is larger than n_max (3).")
