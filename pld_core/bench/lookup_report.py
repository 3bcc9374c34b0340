"""What a benchmark of lookups found, as Markdown, JSON and one HTML page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Sequence

from pld_core.bench import page
from pld_core.bench.lookup_records import Cost
from pld_core.bench.lookups import Worth, behind
from pld_core.bench.page import Html, el
from pld_core.bench.report import Call, table

COPY = (
    "Peers' rules are our plain statements of them in Python: what they draft is that engine's, "
    "what they cost is not."
)

_POWERS = ((6, "1 µs"), (5, "10 µs"), (4, "100 µs"), (3, "1 ms"), (2, "10 ms"))


@dataclass(frozen=True, slots=True)
class LookupReport(Call):
    """Everything that one call found of lookups."""

    costs: list[Cost]
    worths: list[Worth]

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(worth.category for worth in self.worths))

    @property
    def behind(self) -> list[str]:
        mine = next(worth.rule for worth in self.worths if worth.own)
        return behind(self.worths) or [f"No peer's rule drafts better than ours ({mine})."]


def markdown(report: LookupReport) -> str:
    """Tokens per pass by category, where we are behind, and what lookups cost."""
    parts = []
    if report.worths:
        parts += [table(_worth_rows(report)), "\n".join(f"- {said}" for said in report.behind)]
    if report.costs:
        parts += [table(_cost_rows(report.costs)), COPY]
    return "\n\n".join(parts)


def data(report: LookupReport) -> dict:
    """All of it as JSON's types."""
    return {
        **report.head(),
        "worths": [
            asdict(worth)
            | {"tokens_per_pass": worth.tokens_per_pass, "unmatched_share": worth.unmatched_share}
            for worth in report.worths
        ],
        "behind": report.behind if report.worths else [],
        "costs": [asdict(cost) for cost in report.costs],
    }


def html(report: LookupReport) -> str:
    """One page."""
    parts: list[Html] = [page.about(report)]
    if report.worths:
        parts += [
            el("h2", "Tokens per pass"),
            el("p", "Each rule asked of the same recorded answers, over all passes, the prompt's "
                    "and those without a draft included. The best of a column is underlined.",
               class_="quiet"),
            _worth_table(report),
            el("ul", *(el("li", said) for said in report.behind)),
        ]  # fmt: skip
        for category in [*report.categories[-1:], *report.categories[:-1]]:
            here = [w for w in report.worths if w.category == category and (w.own or w.equal)]
            ordered = sorted(here, key=lambda w: -w.tokens_per_pass)
            bars = [
                (w.rule, w.tokens_per_pass, w.tokens_per_pass, w.tokens_per_pass,
                 f"{w.tokens_per_pass:.2f}", w.own)
                for w in ordered
            ]  # fmt: skip
            runs = f"{here[0].runs} run{'s' if here[0].runs > 1 else ''}, equal n and k"
            parts += [el("h3", f"{category} ({runs})"), page.bars(bars, rule=1.0)]
    if report.costs:
        parts += [
            el("h2", "Cost of a lookup"),
            el("p", "CPU time of one pass's lookup, a tick per length of the context, from "
                    f"{_tokens(report.costs[0].context)} to {_tokens(report.costs[-1].context)} "
                    f"tokens. {COPY}", class_="quiet"),
            page.strip(
                [
                    (rule, [(max(c.lookup, 1e-9), f"{_tokens(c.context)}: {_seconds(c.lookup)}")
                            for c in own],
                     f"{_seconds(own[0].lookup)} to {_seconds(own[-1].lookup)}", own[0].own)
                    for rule, own in _by_rule(report.costs).items()
                ],
                [(10.0**-e, text) for e, text in _POWERS],
            ),
            page.table(*_split(_cost_rows(report.costs)), "Cost of a lookup"),
        ]  # fmt: skip
    return page.document("Lookups side by side", *parts)


def _worth_rows(report: LookupReport) -> list[list[str]]:
    head = ["tokens per pass", *_heads(report)]
    return [
        head,
        *(
            [rule, *(f"{w.tokens_per_pass:.2f}" for w in own), *_drafting(own[-1])]
            for rule, own in _by_rule(report.worths).items()
        ),
    ]


def _heads(report: LookupReport) -> list[str]:
    runs = {worth.category: worth.runs for worth in report.worths}
    categories = [f"{category} ({runs[category]})" for category in report.categories]
    return [*categories, "without a draft", "drafted per pass"]


def _drafting(worth: Worth) -> tuple[str, str]:
    return f"{100 * worth.unmatched_share:.0f} %", f"{worth.drafted_per_pass:.1f}"


def _worth_table(report: LookupReport) -> Html:
    best = {
        category: max(w.tokens_per_pass for w in report.worths if w.category == category)
        for category in report.categories
    }

    def cell(worth: Worth) -> str | Html:
        text = f"{worth.tokens_per_pass:.2f}"
        return el("td", text, class_="best") if text == f"{best[worth.category]:.2f}" else text

    rows = [
        [rule, *(cell(worth) for worth in own), *_drafting(own[-1])]
        for rule, own in _by_rule(report.worths).items()
    ]
    return page.table(["rule", *_heads(report)], rows, "Tokens per pass")


def _cost_rows(costs: Sequence[Cost]) -> list[list[str]]:
    contexts = list(dict.fromkeys(cost.context for cost in costs))
    head = ["CPU time", *(f"lookup at {_tokens(c)}" for c in contexts),
            f"per token read, at {_tokens(contexts[-1])}"]  # fmt: skip
    return [head, *(
        [rule, *(_seconds(cost.lookup) for cost in own), _seconds(own[-1].token)]
        for rule, own in _by_rule(costs).items()
    )]  # fmt: skip


def _by_rule(found: Sequence) -> dict[str, list]:
    rules: dict[str, list] = {}
    for one in found:
        rules.setdefault(one.rule, []).append(one)
    return rules


def _split(rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    return rows[0], rows[1:]


def _tokens(count: int) -> str:
    return f"{count // 1024}k" if count >= 1024 else str(count)


def _seconds(value: float) -> str:
    return f"{1e6 * value:.1f} µs" if value < 1e-3 else f"{1e3 * value:.2f} ms"
