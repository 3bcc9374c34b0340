"""The benchmarks' pages: readable on a phone, light and dark, clean for axe, and they run and
fetch nothing, whatever stands in them."""

from pathlib import Path

import axe_playwright_python
import pytest

from pld_core.bench import lookup_report, page
from pld_core.bench.lookup_records import Cost
from pld_core.bench.lookups import Worth
from pld_core.bench.numbers import cells
from pld_core.bench.records import Failed, Measured
from pld_core.bench.report import Report

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
HOSTILE = (
    "</style><script>document.title = 'run'</script><img src=http://127.0.0.1:9/x> " + "w" * 300
)


def benchmark() -> str:
    runs = [
        Measured(row, row, category, engine, turn,
                 {"text": "a", "ids": None, "tokens": 40, "passes": passes, "unsaid": "",
                  "at_first": 1, "prefill_seconds": 0.4, "decode_seconds": seconds * (1 + turn / 30)})
        for row, category in (("one", "edit"), ("two", "chat"), (HOSTILE, HOSTILE))
        for engine, passes, seconds in (("ours-plain", 40, 2.0), ("ours-pld", 9, 0.6),
                                        (f"llama-server {HOSTILE}", None, 1.2))
        for turn in (1, 2, 3)
    ]  # fmt: skip
    setup = {"model": HOSTILE, "versions": {"torch": "2"}, "engines": {"ours-pld": {"k": "10"}}}
    failed = [Failed(HOSTILE, "chat", "openai", "The server cannot be reached.")]
    return page.benchmark(
        Report(
            f"python -m pld_core {HOSTILE}", "2026", setup, {HOSTILE: HOSTILE}, cells(runs), failed
        )
    )


def lookups() -> str:
    rules = (("recent, n 3, k 10", True), (f"peer {HOSTILE}", False))
    costs = [
        Cost(rule, own, n, 1e-6, 4e-6 * n / 1024) for rule, own in rules for n in (1024, 131072)
    ]
    worths = [
        Worth(rule, own, True, category, 3, 300, 100 + 20 * own, 40)
        for category in ("edit", "all")
        for rule, own in rules
    ]
    return lookup_report.html(lookup_report.LookupReport("python", "2026", {}, costs, worths))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("make", [benchmark, lookups])
def test_the_page_is_readable_and_runs_nothing(browser, tmp_path, make, scheme: str) -> None:
    file = tmp_path / "bench.html"
    file.write_text(make(), encoding="utf-8")
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": 390, "height": 844}, bypass_csp=True
    )
    shown = context.new_page()
    asked, said = [], []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("console", lambda message: said.append(message.text))
    shown.goto(file.as_uri())
    assert asked == [file.as_uri()]
    assert shown.title() != "run"
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
    heights = shown.locator(".track").evaluate_all("all => all.map(e => e.clientHeight)")
    assert len(heights) > 3
    assert min(heights) > 10
    shown.add_script_tag(path=AXE)
    found = shown.evaluate("() => axe.run().then(result => result.violations)")
    assert [
        f"{v['id']}: {n['target']} {n['failureSummary']}" for v in found for n in v["nodes"]
    ] == []
    assert said == []
    context.close()
