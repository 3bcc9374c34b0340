"""A tree of drafts is what a search of the whole text finds, holds its chain, and is drafted as
far as it pays."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from pld_core import tree
from pld_core.cost import PassCost
from pld_core.events import Match
from pld_core.lookup import POLICIES, TreeLookup, build
from pld_core.lookup.tree import PLACES
from pld_core.replay import what_if
from pld_core.settings import Settings
from pld_core.trace import read
from pld_core.width import AdaptiveLookup, drafter

EXAMPLES = sorted((Path(__file__).parents[1] / "static" / "examples").glob("*.ndjson"))
PAIRS = ((1, 10.0), (2, 12.0), (4, 13.0), (8, 15.0), (16, 19.0), (32, 27.0))
FREE = ((1, 10.0), (64, 10.0))


def places(settings, reference, prompt, output):
    """(match, its continuation without end) of each place, best first, by looking everywhere."""
    border, text = len(reference), [*reference, *prompt, *output]
    context = text[border:]
    for n in range(settings.n_max, settings.n_min - 1, -1):
        starts = []
        for start in range(len(text) - n):
            inside = start + n < border or start >= border
            if settings.search == "prompt" and start + n >= border + len(prompt):
                inside = False
            if inside and n <= len(context) and text[start : start + n] == context[-n:]:
                starts.append(start)
        for start in starts[::-1][:PLACES]:
            if start < border:
                yield Match(start, n, "reference"), text[start + n : border]
                continue
            place = start - border
            rest = context[place + n :]
            if settings.periodic:
                rest = rest * (1 + settings.k // len(rest))
            yield Match(place, n, "prompt" if place < len(prompt) else "output"), rest


def grown(settings, chain, found):
    """The branches, each with its match: continuations that the tree does not hold yet."""
    branches, nodes = [], set()
    for match, rest in [(chain.match, chain.tokens), *found]:
        rest = rest[: settings.k]
        prefixes = [tuple(rest[: i + 1]) for i in range(len(rest))]
        new = [prefix for prefix in prefixes if prefix not in nodes]
        new = new[: tree.NODES - len(nodes)]
        if new and len(branches) < settings.branches:
            nodes.update(new)
            branches.append((match, list(new[-1])))
    return branches, nodes


@given(st.integers(0, 2**30))
def test_a_tree_is_what_looking_everywhere_finds(seed):
    random_ = random.Random(seed)
    letters = random_.choice([2, 3, 5])
    settings = replace(
        toy.random_settings(random_), branches=random_.randint(2, 8), k=random_.choice([1, 3, 9, 30])
    )

    def tokens(most):
        return [random_.randrange(letters) for _ in range(random_.randint(1, most))]

    reference, prompt, output = random_.choice([[], tokens(30)]), tokens(60), []
    lookup = TreeLookup(POLICIES[settings.policy](settings, reference), settings, reference)
    chain = POLICIES[settings.policy](settings, reference)
    for one in (lookup, chain):
        one.extend(prompt)
    for _ in range(5):
        drafted, alone = lookup.propose(settings.k), chain.propose(settings.k)
        found = list(places(settings, reference, prompt, output))
        branches, nodes = grown(settings, alone, found) if alone.tokens else ([], set())
        if len(branches) < 2:
            assert drafted == alone
        else:
            paths = [tree.path(drafted.parents, branch.leaf) for branch in drafted.branches]
            got = [[drafted.tokens[node] for node in path] for path in paths]
            assert [*zip([b.match for b in drafted.branches], got)] == branches
            assert len(drafted.tokens) == len(nodes) <= tree.NODES
            assert drafted.chain(0).tokens == alone.tokens
            assert (drafted.match, drafted.alternatives) == (alone.match, alone.alternatives)
        more = tokens(6)
        output += more
        for one in (lookup, chain):
            one.extend(more)


def with_branches(run, branches, **more):
    return replace(run, settings=replace(run.settings, branches=branches, **more))


def test_decoding_with_trees_is_plain_decoding_in_no_more_passes():
    passes, kept_beside = [0, 0], 0
    for run in toy.runs("tree lookup", 400):
        chain = run.trace()
        lane = with_branches(run, 4).trace()
        assert lane.ids == chain.ids and lane.text == chain.text
        assert (lane.end.reason, list(lane.laws())) == (chain.end.reason, [])
        passes[0] += len(chain.steps)
        passes[1] += len(lane.steps)
        kept_beside += sum(1 for step in lane.passes if step.path and step.path[-1] >= step.accepted)
    assert passes[1] < passes[0]
    assert kept_beside > 20


def test_replaying_gives_the_trees_again():
    for run in toy.runs("tree replays", 150):
        asked = with_branches(run, 3)
        lanes = [asked.trace(), what_if(run.trace(), asked.settings)]
        shown = [[(s.draft, s.parents, s.branches, s.path, s.match) for s in t.passes] for t in lanes]
        assert shown[0] == shown[1]


@pytest.mark.parametrize("pairs", [PAIRS, FREE])
def test_adaptive_trees_are_lawful_and_replay_exactly(pairs):
    for run in toy.runs("adaptive trees", 100):
        asked = with_branches(run, 4, adaptive=True, pass_seconds=pairs)
        lane = asked.trace(drafter(asked.settings, run.reference or ()))
        assert lane.ids == run.trace().ids and not list(lane.laws())
        again = what_if(lane, asked.settings)
        shown = [[(s.draft, s.parents, s.path, s.gain) for s in t.passes] for t in (lane, again)]
        assert shown[0] == shown[1]
        assert all(step.gain > 1 for step in lane.passes if step.draft)


def test_free_nodes_are_all_drafted():
    for run in toy.runs("free trees", 60):
        settings = replace(run.settings, branches=4)
        whole, free = build(settings), AdaptiveLookup(build(settings), PassCost(FREE))
        for lookup in (whole, free):
            lookup.extend(run.prompt)
        drafted, chosen = whole.propose(settings.k), free.propose(settings.k)
        assert (drafted.tokens, drafted.parents) == (chosen.tokens, chosen.parents)


@pytest.mark.parametrize(("pairs", "most"), [(PAIRS, 1.02), (FREE, 0.97)])
def test_a_tree_as_far_as_it_pays_is_no_dearer_than_its_chain(pairs, most):
    """Over the recorded runs, by what passes of their widths cost."""
    passes, seconds = [], []
    for branches in (1, 4):
        steps = []
        for path in EXAMPLES:
            trace = read(path.read_text("utf-8").splitlines())["pld"]
            recorded = Settings.from_json(trace.start.settings)
            settings = replace(recorded, branches=branches, adaptive=True, pass_seconds=pairs)
            steps += what_if(trace, settings).passes
        passes.append(len(steps))
        seconds.append(sum(PassCost(pairs).seconds(step.width) for step in steps))
    assert passes[1] < passes[0]
    assert seconds[1] < most * seconds[0]


def test_a_lookup_s_work_does_not_grow_with_the_text():
    settings = Settings(branches=8, k=16)
    lookup = build(settings)
    lookup.extend([0, 1] * 4)
    looked = []
    draft = lookup._draft
    lookup._draft = lambda *where: looked.append(where) or draft(*where)
    for length in (10, 1000, 20_000):
        lookup.extend([0, 1, 0] * length)
        looked.clear()
        lookup.propose(16)
        assert len(looked) <= 3 * PLACES
