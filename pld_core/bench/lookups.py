"""Lookups side by side, without a model: what one costs by the context's length, and what its
drafts are worth on recorded runs. Ours, and other engines' rules as peers.py states them."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import median
from time import process_time
from typing import Callable, Sequence

from pld_core.bench.lookup_records import Cost, LookupRecords, Replayed, run_key
from pld_core.bench.progress import Progress
from pld_core.lookup import POLICIES, Draft, Lookup, build
from pld_core.peers import ANY_LENGTH, PEERS
from pld_core.replay import what_if
from pld_core.settings import Settings
from pld_core.trace import Trace

CONTEXTS = (1024, 4096, 16384, 65536, 131072)
"""Tokens of context at which lookups are timed."""

BRANCHES = (2, 4, 8)
"""Branches of our trees; a tree drafts more tokens than k, each branch at most k deep."""

LOOKUPS = 128
"""Lookups timed in each."""

ALL = "all"


@dataclass(frozen=True, slots=True)
class Rule:
    """One lookup with its numbers. `make` builds it for a text whose answers end at `eos`;
    equal: whether its n and k are those that ours are asked to use."""

    name: str
    n: int
    k: int
    own: bool
    equal: bool
    make: Callable[[Sequence[int]], Lookup]

    @property
    def label(self) -> str:
        return f"{self.name}, n {self.n}, k {self.k}"


def rules(n: int, n_min: int, k: int, asked: str = Settings().policy) -> list[Rule]:
    """Ours at n, n_min and k, the policy asked for first; the peers' with their engines'
    defaults, at our k, and at our n and k where they have such an n."""
    base = Settings(n_max=n, n_min=n_min, k=k, policy=asked, adaptive=False)
    policies = sorted(POLICIES, key=lambda policy: policy != asked)
    ours = {policy: replace(base, policy=policy) for policy in policies}
    ours |= {f"{asked}, {b} branches": replace(base, branches=b) for b in BRANCHES}
    made = [
        Rule(name, n, k, True, True, lambda eos, settings=settings: build(settings))
        for name, settings in ours.items()
    ]
    for name, kind in PEERS.items():
        usual = kind()
        sizes = [(usual.n, usual.k), (usual.n, k)]
        if kind not in ANY_LENGTH:
            sizes.append((n, k))
        for size in dict.fromkeys(sizes):
            equal = size[1] == k and (size[0] == n or kind in ANY_LENGTH)
            made.append(Rule(name, *size, False, equal, _maker(name, *size, equal, n_min)))
    return made


def _maker(name: str, n: int, k: int, equal: bool, n_min: int) -> Callable[..., Lookup]:
    least = {"n_min": n_min} if equal and name == "vLLM ngram" else {}
    return lambda eos: PEERS[name](n=n, k=k, eos=eos, **least)


def costs(
    wanted: Sequence[Rule],
    contexts: Sequence[int],
    records: LookupRecords,
    bar: Progress,
    clock: Callable[[], float] = process_time,
) -> list[Cost]:
    """Times each rule at each length as far as `records` lacks it, on the ends of one made-up
    text: what is looked up is the same at every length."""
    every = [(rule, length) for length in contexts for rule in wanted]
    todo = [(rule, length) for rule, length in every if (rule.label, length) not in records.found]
    bar.plan("time", len(todo))
    whole = made_up(max(contexts) + LOOKUPS)
    for rule, length in todo:
        bar.begin(f"{rule.label}, {length} tokens")
        token, lookup = _timed(rule, whole[-length - LOOKUPS :], length, clock)
        bar.end("time")
        records.add(Cost(rule.label, rule.own, length, token, lookup))
    bar.clear()
    return [records.found[rule.label, length] for rule, length in every]


def _timed(
    rule: Rule, text: list[int], length: int, clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds for a token of the first `length`, and for a lookup at each of the others."""
    lookup = rule.make(())
    began = clock()
    lookup.extend(text[:length])
    lookup.propose(rule.k)  # some only read when they are asked
    token = (clock() - began) / length
    spent = []
    for place in range(length, len(text)):
        began = clock()
        lookup.extend(text[place : place + 1])
        lookup.propose(rule.k)
        spent.append(clock() - began)
    return token, median(spent)


def made_up(length: int, seed: int = 0) -> list[int]:
    """A text of `length` tokens whose frequencies fall as in language (Zipf, 32,768 words) and
    of which about a third is copied from before, in spans of 4 to 40 tokens."""
    random = Random(seed)
    sums = list(accumulate(1 / (rank + 2.7) for rank in range(32768)))
    text: list[int] = []
    while len(text) < length:
        if text and random.random() < 0.025:
            start = random.randrange(len(text))
            text += text[start : start + random.randint(4, 40)]
        else:
            text.append(bisect_left(sums, random.random() * sums[-1]))
    return text[:length]


class TransformersItself:
    """transformers' own prompt lookup, called as generate() calls it: beside our statement of its
    rule, a time that is that engine's. Needs torch."""

    def __init__(self, k: int = 10) -> None:
        import torch
        from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

        self._torch = torch
        self._ids = torch.empty((1, 0), dtype=torch.long)
        self._peer = PromptLookupCandidateGenerator(
            num_output_tokens=k, max_matching_ngram_size=2, max_length=1 << 30
        )

    def extend(self, tokens: Sequence[int]) -> None:
        more = self._torch.tensor([list(tokens)], dtype=self._torch.long)
        self._ids = self._torch.cat((self._ids, more), dim=1)

    def propose(self, k: int) -> Draft:
        found, _ = self._peer.get_candidates(self._ids)
        return Draft(found[0, self._ids.shape[1] :].tolist()[:k])


def itself() -> list[Rule]:
    """transformers' own code as a rule to time, where it is installed."""
    try:
        TransformersItself()
    except ImportError:
        return []
    return [Rule("transformers itself", 2, 10, False, False, lambda eos: TransformersItself())]


@dataclass(frozen=True, slots=True)
class Worth:
    """What a rule's drafts come to on the runs of a category."""

    rule: str
    own: bool
    equal: bool
    category: str
    runs: int = 0
    tokens: int = 0
    passes: int = 0
    unmatched: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes

    @property
    def drafted_per_pass(self) -> float:
        """Draft tokens checked in a pass after the prefill, on average."""
        return self.drafted / max(1, self.passes - self.runs)

    @property
    def unmatched_share(self) -> float:
        """Share of the passes after the prefill that drafted nothing."""
        return self.unmatched / max(1, self.passes - self.runs)


def worths(
    wanted: Sequence[Rule],
    traces: Sequence[tuple[str, Trace]],
    records: LookupRecords,
    bar: Progress,
) -> list[Worth]:
    """Replays every run (category, lane) with every rule, as far as `records` lacks it. Over all
    passes; the last category is ALL, where there are several."""
    runs = [(category, run_key(trace), trace) for category, trace in traces]
    todo = [
        (rule, category, run, trace)
        for rule in wanted
        for category, run, trace in runs
        if (rule.label, run) not in records.found
    ]
    bar.plan("replay", len(todo))
    for rule, category, run, trace in todo:
        bar.begin(f"{rule.label}, {category}")
        settings = Settings(k=rule.k, adaptive=False)
        n = what_if(trace, settings, rule.make(trace.start.eos)).numbers()
        bar.end("replay")
        counts = (n.tokens, n.passes, n.undrafted_passes, n.drafted, n.accepted)
        records.add(Replayed(rule.label, run, *counts))
    bar.clear()
    groups: dict[str, list[str]] = {}
    for category, run, _ in sorted(runs, key=lambda run: run[0]):
        groups.setdefault(category, []).append(run)
    if len(groups) > 1:
        groups[ALL] = [run for _, run, _ in runs]
    return [
        _worth(rule, category, [records.found[rule.label, run] for run in group])
        for category, group in groups.items()
        for rule in wanted
    ]


def _worth(rule: Rule, category: str, replayed: Sequence[Replayed]) -> Worth:
    names = ("tokens", "passes", "unmatched", "drafted", "accepted")
    sums = (sum(getattr(one, name) for one in replayed) for name in names)
    return Worth(rule.label, rule.own, rule.equal, category, len(replayed), *sums)


def category_of(path: Path) -> str:
    """A run's category: its file's name without the number at its end."""
    return re.sub(r"[-_.]?\d+$", "", path.stem) or path.stem


def behind(found: Sequence[Worth]) -> list[str]:
    """Where a peer's rule drafts better than the first of ours, a sentence for each category."""
    said = []
    for category in dict.fromkeys(worth.category for worth in found):
        here = [worth for worth in found if worth.category == category]
        mine = next(worth for worth in here if worth.own)
        best = max((worth for worth in here if worth.own), key=lambda w: w.tokens_per_pass)
        better = [w for w in here if not w.own and w.tokens_per_pass > mine.tokens_per_pass]
        if not better:
            continue
        peer = max(better, key=lambda w: w.tokens_per_pass)
        more = f", {len(better)} rules in all" if len(better) > 1 else ""
        said.append(
            f"{category} ({mine.runs} run{'s' if mine.runs > 1 else ''}): {peer.rule} has "
            f"{peer.tokens_per_pass:.2f} tokens per pass, {mine.rule} {mine.tokens_per_pass:.2f} "
            f"(best of ours: {best.rule}, {best.tokens_per_pass:.2f}){more}."
        )
    return said
