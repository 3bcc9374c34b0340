"""Findings as one HTML file: no script, nothing fetched, every text escaped as it is placed."""

from __future__ import annotations

from html import escape
from math import log10
from typing import Sequence

from pld_core.bench.engines import PLAIN
from pld_core.bench.numbers import ALL, Line
from pld_core.bench.report import Call, Report, columns, ratios

# No script and no request, whatever stands in the texts.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--soft:#f5f6f8;--text:#16191f;--muted:#565d69;
--line:#dcdfe5;--ours:#0067a3;--peer:#a85300;--bar:.28}
@media(prefers-color-scheme:dark){:root{--ground:#14171c;--soft:#1b1f26;--text:#e9ecf1;
--muted:#a2aab7;--line:#2f353f;--ours:#62b8ec;--peer:#f0a830;--bar:.4}}
*{box-sizing:border-box}
body{margin:0 auto;padding:16px;max-width:1040px;background:var(--ground);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
h1{font-size:24px;line-height:1.25;margin:8px 0}h2{font-size:18px;margin:36px 0 4px}
h3{font-size:15px;margin:18px 0 4px}p{margin:4px 0;max-width:72ch}.quiet{color:var(--muted)}
code{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:13px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:12px 0}
dt{color:var(--muted)}dd{margin:0}
.scroll{overflow-x:auto;margin:8px 0}.scroll:focus-visible{outline:2px solid var(--ours)}
table{border-collapse:collapse;font-size:14px}
th,td{padding:3px 12px 3px 0;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--line)}
th{font-weight:600}th:first-child,td:first-child,.words{text-align:left}
pre{white-space:pre-wrap;background:var(--soft);padding:8px 12px;font-size:13px;margin:4px 0}
summary{cursor:pointer;padding:2px 0}
.best{font-weight:700;text-decoration:underline}
.chart{display:grid;grid-template-columns:minmax(7em,15em) 1fr minmax(4.2em,max-content);
gap:6px 12px;align-items:center;margin:8px 0;font-size:14px}
.chart .value{text-align:right}
.track{display:block;width:100%;height:18px;overflow:visible}
.ours{--mark:var(--ours)}.peer{--mark:var(--peer)}
.bar{fill:var(--mark);fill-opacity:var(--bar)}
.middle,.tick,.spread{stroke:var(--mark);vector-effect:non-scaling-stroke}
.middle{stroke-width:3}.tick{stroke-width:2}.spread{stroke-width:1.5}
.rule{stroke:var(--muted);stroke-dasharray:3 3;vector-effect:non-scaling-stroke}
.ground{stroke:var(--line);vector-effect:non-scaling-stroke}
.scale{position:relative;height:18px;color:var(--muted);font-size:12px}
.scale span{position:absolute;white-space:nowrap;transform:translateX(-50%)}
@media(max-width:560px){.chart{grid-template-columns:1fr max-content;gap:2px 12px}
.chart .label,.chart .value{font-size:13px}.chart .plot{grid-column:1/-1;grid-row:auto;order:0}
.chart .label{padding-top:6px}.chart{grid-auto-flow:dense}dl{grid-template-columns:1fr;gap:0}
dd{margin-bottom:6px}}
@media(forced-colors:active){.bar{fill:CanvasText}.middle,.tick,.spread{stroke:CanvasText}}
"""


class Html(str):
    """Text that is markup already."""


def el(name: str, *children: str | None, **attributes: str | float) -> Html:
    """An element. Children that are no Html are escaped, and so is every attribute."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    inside = "".join(
        child if isinstance(child, Html) else escape(child) for child in children if child
    )
    return Html(f"<{name}{given}>{inside}</{name}>")


def document(title: str, *body: Html) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + el("title", title)
        + f"<style>{_STYLE}</style></head>"
        + el("body", el("main", el("h1", title), *body))
        + "</html>\n"
    )


def about(call: Call) -> Html:
    """When and how it was measured, and on what the numbers depend."""
    setup = {name: value for name, value in call.setup.items() if name != "engines"}
    engines = {engine: said for engine, said in call.setup.get("engines", {}).items() if said}
    facts = {"date": call.created, "command": call.command, **setup, **engines}
    return el("dl", *(joined(el("dt", name), el("dd", _said(fact))) for name, fact in facts.items()))


def _said(fact: object) -> str:
    return ", ".join(f"{k} {v}" for k, v in fact.items()) if isinstance(fact, dict) else str(fact)


def joined(*parts: Html) -> Html:
    """Elements side by side: adding them up would make plain text of them."""
    return Html("".join(parts))


def table(
    head: Sequence[str], rows: Sequence[Sequence[str | Html]], name: str, words: Sequence[int] = ()
) -> Html:
    """A table that scrolls sideways by itself. Cells that are Html are cells already; columns in
    `words` hold words and no numbers."""

    def cell(kind: str, column: int, text: str | Html) -> Html:
        if isinstance(text, Html):
            return text
        return el(kind, text, class_="words") if column in words else el(kind, text)

    def row(kind: str, cells: Sequence[str | Html]) -> Html:
        return el("tr", *(cell(kind, column, text) for column, text in enumerate(cells)))

    made = el(
        "table",
        el("thead", row("th", head)),
        el("tbody", *(row("td", cells) for cells in rows)),
    )
    return el("div", made, class_="scroll", tabindex=0, role="region", aria_label=name)


def bars(
    rows: Sequence[tuple[str, float, float, float, str, bool]], rule: float | None = None
) -> Html:
    """A bar per row (label, low, middle, high, what is written beside it, is it ours) with a
    whisker from low to high; rule: a value at which a dashed line stands."""
    most = max([high for _, _, _, high, _, _ in rows] + [rule or 0, 1e-9]) * 1.02
    made = []
    for label, low, middle, high, said, own in rows:
        x = [round(1000 * value / most, 1) for value in (low, middle, high)]
        marks = [
            el("rect", x=0, y=3, width=x[1], height=12, class_="bar"),
            el("line", x1=x[1], x2=x[1], y1=1, y2=17, class_="middle"),
        ]
        if high > low:
            marks.append(el("line", x1=x[0], x2=x[2], y1=9, y2=9, class_="spread"))
        if rule is not None:
            at = round(1000 * rule / most, 1)
            marks.append(el("line", x1=at, x2=at, y1=-4, y2=22, class_="rule"))
        made.append(_row(label, said, own, marks, f"{label}: {said}"))
    return el("div", *made, class_="chart")


def strip(
    rows: Sequence[tuple[str, list[tuple[float, str]], str, bool]],
    marks: Sequence[tuple[float, str]],
    rule: float | None = None,
) -> Html:
    """A row (label, ticks (value, what it is), what is written beside it, is it ours) per line
    on one logarithmic scale; marks (value, text) stand under it."""
    values = [value for _, ticks, _, _ in rows for value, _ in ticks] + [v for v, _ in marks]
    low, high = log10(min(values) * 0.9), log10(max(values) * 1.1)

    def place(value: float) -> float:
        return round(1000 * (log10(value) - low) / (high - low), 1)

    made = []
    for label, ticks, said, own in rows:
        drawn = [el("line", x1=0, x2=1000, y1=9, y2=9, class_="ground")]
        for value, what in ticks:
            x = place(value)
            drawn.append(el("line", el("title", what), x1=x, x2=x, y1=2, y2=16, class_="tick"))
        if rule is not None:
            drawn.append(el("line", x1=place(rule), x2=place(rule), y1=-4, y2=22, class_="rule"))
        made.append(_row(label, said, own, drawn, f"{label}: {said}"))
    scale = [el("span", text, style=f"left:{place(value) / 10:.1f}%") for value, text in marks]
    made.append(
        joined(
            el("span", class_="label"),
            el("div", *scale, class_="scale plot"),
            el("span", class_="value"),
        )
    )
    return el("div", *made, class_="chart")


def _row(label: str, said: str, own: bool, marks: Sequence[Html], spoken: str) -> Html:
    track = el(
        "svg", *marks, viewBox="0 0 1000 18", preserveAspectRatio="none", class_="track",
        role="img", aria_label=spoken,
    )  # fmt: skip
    kind = "ours" if own else "peer"
    return joined(
        el("span", label, class_="label"),
        el("span", track, class_=f"plot {kind}"),
        el("span", said, class_="value"),
    )


def benchmark(report: Report) -> str:
    """The page of a benchmark of engines."""
    lines = report.lines
    whole = [line for line in lines if line.category == ALL] or lines
    parts = [
        about(report),
        el("h2", "Decode speed"),
        el("p", "Tokens per second after the first token, over all rows: median, quartiles as a "
                "line.", class_="quiet"),
        _speeds(whole),
    ]  # fmt: skip
    if every := ratios(report.cells):
        parts += [
            el("h2", "Row by row"),
            el("p", f"Decode speed over {PLAIN}'s: a tick per row. Left of the dashed line an "
                    "engine is slower than plain decoding.", class_="quiet"),
            strip(
                [
                    (engine, [(value, f"{cell.row}: {value:.2f}") for cell, value in found],
                     f"{min(v for _, v in found):.2f} to {max(v for _, v in found):.2f}",
                     engine.startswith("ours"))
                    for engine, found in every.items()
                ],
                [(v, f"{v:g}x") for v in (0.5, 1, 2, 4, 8) if _within(v, every)] or [(1, "1x")],
                rule=1.0,
            ),
        ]  # fmt: skip
    parts += [el("h2", "Tokens per pass"), el("p", "Over all passes, the prompt's and those "
              "without a draft included.", class_="quiet")]  # fmt: skip
    for category in dict.fromkeys(line.category for line in lines):
        rows = [
            (line.engine, t, t, t, f"{t:.2f}", line.engine.startswith("ours"))
            for line in lines
            if line.category == category and (t := line.tokens_per_pass) is not None
        ]
        if rows:
            parts += [el("h3", category), bars(rows, rule=1.0)]
    parts += [el("h2", "All numbers"), _lines(lines)]
    if report.unsaid:
        parts.append(el("ul", *(el("li", said) for said in report.unsaid)))
    if report.failures:
        parts += [el("h3", "Not measured"), el("ul", *(el("li", said) for said in report.failed))]
    parts += [el("h2", "All rows"), _rows(report)]
    return document(f"Benchmark of {report.setup.get('model', 'a model')}", *parts)


def _within(value: float, every: dict) -> bool:
    found = [v for pairs in every.values() for _, v in pairs]
    return min(found) * 0.5 <= value <= max(found) * 2


def _speeds(lines: Sequence[Line]) -> Html:
    return bars(
        [
            (line.engine, line.rate.low, line.rate.middle, line.rate.high,
             f"{line.rate.middle:.1f}/s", line.engine.startswith("ours"))
            for line in lines
            if line.rate
        ]
    )  # fmt: skip


def _lines(lines: Sequence[Line]) -> Html:
    head = ["rows", "engine", "tokens per pass", "tokens per second (quartiles)",
            f"times {PLAIN} (quartiles)", "first token, ms", "same text"]  # fmt: skip
    return table(head, [columns(line) for line in lines], "All numbers", words=(1,))


def _rows(report: Report) -> Html:
    head = ["row", "category", "engine", "tokens", "passes", "tokens per second, each repeat",
            "same text"]  # fmt: skip
    rows = []
    for cell in report.cells:
        tokens, passes = (cell.runs[0][name] for name in ("tokens", "passes"))
        rows.append(
            [
                cell.row,
                cell.category,
                cell.engine,
                "-" if tokens is None else str(tokens),
                "-" if passes is None else str(passes),
                ", ".join(f"{rate:.1f}" for rate in cell.rates) or "-",
                {None: "-", True: "yes", False: "no"}[cell.same],
            ]
        )
    names = {cell.key: cell.row for cell in report.cells}
    prompts = [
        el("details", el("summary", f"The prompt of {name}"), el("pre", report.prompts.get(row)))
        for row, name in names.items()
    ]
    return joined(table(head, rows, "All rows", words=(1, 2)), *prompts)
