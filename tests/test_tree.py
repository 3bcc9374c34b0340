"""Several continuations in one pass: the text stays plain decoding's, whatever tree is drafted,
and the cache holds the way through it that was kept."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
import toy
from hypothesis import given
from hypothesis import strategies as st

from pld_core import accept, specspecs, trace, tree
from pld_core.events import Branch, EventError, Match, Pass, dumps, loads
from pld_core.lookup import Draft
from pld_core.replay import what_if
from pld_core.settings import Settings, SettingsError


@st.composite
def trees(draw, most=12):
    size = draw(st.integers(1, most))
    return [draw(st.integers(-1, node - 1)) for node in range(size)]


@given(trees(), st.data())
def test_paths_depths_and_branches_agree(parents, data):
    node = data.draw(st.integers(-1, len(parents) - 1))
    path = tree.path(parents, node)
    assert [parents[place] for place in path] == [-1, *path][: len(path)]
    assert path[-1:] == ([node] if node >= 0 else [])
    assert [0, *tree.depths(parents)][node + 1] == len(path)
    leaves = data.draw(st.lists(st.integers(0, len(parents) - 1), min_size=1, max_size=4))
    paths = [tree.path(parents, leaf) for leaf in leaves]
    assert tree.on_branches(parents, leaves) == {node for path in paths for node in path}
    holding = [branch for branch, own in enumerate(paths) if own[: len(path)] == path]
    assert tree.kept(parents, leaves, path) == (holding[0] if holding else 0)
    assert tree.is_chain(parents) is (parents == list(range(-1, len(parents) - 1)))


@given(trees(), st.data())
def test_walking_a_tree_is_the_longest_branch_that_agrees(parents, data):
    tokens = data.draw(st.lists(st.integers(0, 2), min_size=len(parents), max_size=len(parents)))
    # what the target says depends on the way it came, siblings may be the same token
    choices = data.draw(
        st.lists(st.integers(0, 2), min_size=len(parents) + 1, max_size=len(parents) + 1)
    )
    walked = accept.walk(tokens, parents, choices)
    at = -1
    while True:
        right = [n for n, p in enumerate(parents) if p == at and tokens[n] == choices[at + 1]]
        if not right:
            break
        at = right[0]
    assert walked == tree.path(parents, at)


@given(st.lists(st.integers(0, 2), max_size=8), st.data())
def test_walking_a_chain_is_its_agreement(draft, data):
    size = len(draft) + 1
    choices = data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    parents = list(range(-1, len(draft) - 1))
    assert accept.walk(draft, parents, choices) == list(range(accept.agreement(draft, choices)))


def check(run, lookup, **target):
    """Decodes with trees, looking into the target after every pass; the trace, which was right."""
    expected, reason = run.expected()
    target = run.target(**target)
    context, events = list(run.prompt), []
    for event in run.events(lookup, target):
        events.append(event)
        assert loads(dumps(event)) == event
        if isinstance(event, Pass):
            remaining = run.settings.max_new_tokens - (len(context) - len(run.prompt))
            depth = max(tree.depths(event.parents), default=len(event.draft))
            assert depth <= min(run.settings.k, remaining - 1)
            assert target.forwards[-1] == event.width == 1 + len(event.draft)
            assert len(event.draft) <= max(tree.NODES, depth)
            assert not event.parents or not tree.is_chain(event.parents)
            parents = event.parents or range(-1, len(event.draft) - 1)
            followed = {event.draft[parent] for parent in parents if parent >= 0}
            assert not followed & set(run.eos)  # nothing can stand behind an end
            assert bool(event.wanted) is (event.bonus is not None and bool(event.refused))
        context += getattr(event, "kept", [])
        if event.type != "start":
            assert target.cache == context[:-1]
    (lane,) = trace.lanes(events).values()
    assert (lane.ids, lane.end.reason, lane.text) == (expected, reason, toy.text_of(expected))
    return lane


def test_every_count_along_every_branch_is_accepted_exactly():
    seen = Counter()
    for branches in (2, 5):
        for k in (1, 2, 5):
            for kept in range(branches):
                for right in range(k + 1):

                    def counts(k, kept=kept, right=right, branches=branches):
                        return [min(right, k) if b == kept else 0 for b in range(branches)]

                    run = toy.Run(3, [1, 2, 3], Settings(k=k, max_new_tokens=24))
                    lane = check(run, toy.Trees(toy.whole(run), counts, seed=right))
                    for step in lane.passes:
                        assert step.accepted >= min(right, len(step.line))
                        if step.parents:
                            seen[k, right] += step.accepted == right
                            seen["not the first"] += step.match is not None and 0 not in step.path
    assert all(seen[k, right] for k in (2, 5) for right in range(k + 1))
    assert seen["not the first"] > 50


def test_trees_end_where_the_answer_does():
    random_ = random.Random(1)
    reasons, cut = Counter(), Counter()
    for run in toy.runs("trees", 200):
        lookup = toy.Trees(toy.whole(run), lambda k: random_.choices(range(k + 1), k=random_.randint(1, 4)))
        lane = check(run, lookup)
        reasons[lane.end.reason] += 1
        cut[lane.end.reason] += lane.passes[-1:] != [] and lane.passes[-1].bonus is None
    assert set(reasons) == {"eos", "stop", "length", "context_full"}
    assert cut["eos"] and cut["stop"]


def hostile(random_):
    def any_token():
        return random_.choice([*range(8), toy.VOCABULARY, -1, 2**40])

    def tokens(k, more=0):
        return [any_token() for _ in range(random_.randint(1, k + more))]

    def below(parents):
        return [random_.randint(-1, max(-1, node - 1)) for node in range(parents)]

    def some(k):
        drafted = tokens(3 * k, 90)
        leaves = [random_.randrange(-3, len(drafted) + 3) for _ in range(random_.randint(0, 12))]
        branches = [Branch(leaf, toy.NOWHERE) for leaf in leaves]
        return drafted, branches

    def well_formed(k):
        drafted, branches = some(k)
        return Draft(drafted, None, 0, None, below(len(drafted)), branches)

    def wrong_parents(k):
        drafted, branches = some(k)
        parents = [random_.randint(-4, len(drafted) + 2) for _ in drafted]
        return Draft(drafted, None, 0, None, parents, branches)

    def other_length(k):
        drafted, branches = some(k)
        return Draft(drafted, None, 0, None, below(random_.randint(1, 20)), branches)

    def no_branch(k):
        drafted, _ = some(k)
        return Draft(drafted, toy.NOWHERE, 0, None, below(len(drafted)))

    def ring(k):
        return Draft([1, 1, 1], None, 0, None, [2, 0, 1], [Branch(2, toy.NOWHERE)])

    def twins(k):
        return Draft([1, 1, 1, 2], None, 0, None, [-1, -1, 0, 1], [Branch(2, toy.NOWHERE), Branch(3, toy.NOWHERE)])

    return [well_formed, wrong_parents, other_length, no_branch, ring, twins]


class Asked:
    def __init__(self, draft):
        self._draft = draft

    def extend(self, tokens):
        pass

    def propose(self, k):
        return self._draft(k)


@pytest.mark.parametrize("takes_trees", [True, False])
def test_no_tree_can_change_the_text(takes_trees):
    random_ = random.Random("hostile trees")
    drafted = Counter()
    for run in toy.runs("hostile trees", 60):
        for draft in hostile(random_):
            lane = check(run, Asked(draft), trees=takes_trees)
            drafted[draft.__name__] += sum(len(step.draft) for step in lane.passes)
            assert takes_trees or not any(step.parents for step in lane.passes)
    assert drafted["no_branch"] == drafted["ring"] == 0
    assert min(drafted[name] for name in ("well_formed", "wrong_parents", "other_length")) > 10


def test_a_target_without_trees_is_given_the_first_branch_as_a_chain():
    class Bare:
        """A target of its own that has never heard of trees."""

        def __init__(self, target):
            self._target = target

        def forward(self, tokens):
            return self._target.forward(tokens)

        def commit(self, positions):
            self._target.commit(positions)

        def __getattr__(self, name):
            if name == "trees":
                raise AttributeError(name)
            return getattr(self._target, name)

    run = toy.Run(4, [1, 2, 3], Settings(k=5, max_new_tokens=40))
    for right in range(6):
        lookup = toy.Trees(toy.whole(run), lambda k, right=right: [min(right, k), k])
        (lane,) = trace.lanes(run.events(lookup, Bare(run.target()))).values()
        assert lane.ids == run.expected()[0]
        assert not any(step.parents for step in lane.passes)
        full = [step for step in lane.passes if len(step.draft) == 5]
        assert {step.accepted for step in full} == {right}


def test_the_kept_branch_s_match_is_the_pass_s():
    first, second = Match(0, 2, "prompt"), Match(5, 1, "prompt")
    run = toy.Run(3, [1, 2, 3], Settings(k=3, max_new_tokens=30))
    truth = run.expected()[0]

    class Both:
        length, turn = -3, 0

        def extend(self, tokens):
            self.length += len(tokens)
            self.turn += 1

        def propose(self, k):
            right = truth[self.length : self.length + k]
            wrong = [(token + 1) % toy.VOCABULARY for token in right]
            pairs = [(right, first), (wrong, second)]
            draft = Draft()
            for branch, match in pairs if self.turn % 2 else pairs[::-1]:
                draft = toy.grown(draft, branch, match)
            return draft

    lane = check(run, Both())
    trees = [step for step in lane.passes if step.parents]
    assert {step.match for step in trees} == {first}
    assert {step.path[0] for step in trees} == {0, 3}
    for step in trees:
        assert [step.draft[node] for node in step.line] == step.kept[: len(step.line)]


def test_the_laws_hold_of_every_branch():
    """abcab: the last two tokens stood before, and so did the last one alone."""
    a, b, c, d = range(4)
    lane = toy.Run(1, [a, b, c, b, d, a, b], Settings(k=2, max_new_tokens=5)).trace()
    draft = toy.grown(Draft(), [c, b], Match(0, 2, "prompt"))
    draft = toy.grown(draft, [d, a], Match(3, 1, "prompt"))
    step = Pass(
        "pld", 2, Match(3, 1, "prompt"), draft.tokens, ["x"] * 4, 1, c, [d, c], ["x", "x"], 5,
        lane.passes[0].seconds, parents=draft.parents, branches=draft.branches, path=[2],
    )  # fmt: skip
    start = replace(lane.start, prompt=toy.Run(1, [a, b, c, b, d, a]).start().prompt)
    prefill = replace(lane.prefill, kept=[b])

    def laws(step):
        return list(trace.Trace(start, prefill, [step], replace(lane.end, tokens=3, passes=2)).laws())

    assert laws(step) == []
    assert step.line == [2, 3] and step.refused == [a]
    for place, match in ((0, Match(3, 1, "prompt")), (1, Match(0, 2, "prompt"))):
        branches = [replace(b, match=match) if i == place else b for i, b in enumerate(step.branches)]
        kept = branches[1].match
        assert any("something else" in law for law in laws(replace(step, branches=branches, match=kept)))
    assert any("was right" in law for law in laws(replace(step, bonus=a, kept=[d, a])))


GOOD = toy.grown(toy.grown(Draft(), [1, 2, 3]), [1, 5], Match(2, 1, "output"))
STEP = Pass(
    "pld", 2, Match(2, 1, "output"), GOOD.tokens, list("abcd"), 2, 7, [1, 5, 7], list("xyz"), 5,
    toy.Run(1, [1]).trace().passes[0].seconds,
    parents=GOOD.parents, branches=GOOD.branches, path=[0, 3],
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"parents": []},
        {"parents": [-1, 0, 1]},
        {"parents": [-1, 0, 1, 3]},
        {"parents": [-1, 0, 1, 4]},
        {"parents": [-2, 0, 1, 0]},
        {"parents": [-1, 0, 1, -1]},
        {"path": []},
        {"path": [0]},
        {"path": [0, 3, 3]},
        {"path": [3, 0]},
        {"path": [0, 2]},
        {"path": [0, 9]},
        {"path": [-1, 3]},
        {"path": [0, 1]},
        {"accepted": 1},
        {"kept": [1, 2, 7]},
        {"branches": []},
        {"branches": [{"leaf": 2, "match": {"start": 0, "n": 1, "region": "prompt"}}]},
        {"branches": [{"leaf": 4, "match": {"start": 2, "n": 1, "region": "output"}}] * 2},
        {"branches": [{"leaf": -1, "match": {"start": 2, "n": 1, "region": "output"}}] * 2},
        {"branches": [{"leaf": 2, "match": None}]},
        {"branches": [{"leaf": 2}, {"leaf": 3}]},
        {"branches": 3},
        {"match": None},
        {"match": {"start": 0, "n": 1, "region": "prompt"}},
        {"width": 4},
    ],
    ids=str,
)
def test_a_tree_that_contradicts_itself_is_refused(changes):
    data = json.loads(dumps(STEP))
    assert loads(json.dumps(data)) == STEP
    with pytest.raises(EventError) as refused:
        loads(json.dumps({**data, **changes}))
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)


def test_a_chain_s_line_knows_nothing_of_trees():
    for run in toy.runs("chains", 20):
        for step in run.trace().passes:
            assert not {"parents", "branches", "path"} & set(dumps(step).split('"'))


@pytest.mark.parametrize("branches", [0, 9, -1, True, 1.0, "2", None])
def test_a_number_of_branches_that_cannot_be_meant_is_refused(branches):
    with pytest.raises(SettingsError):
        Settings(branches=branches)


def test_a_replay_walks_the_same_trees():
    for run in toy.runs("tree replay", 100):
        counts = random.Random(run.seed)

        def right(k, counts=counts):
            return [counts.randint(0, k) for _ in range(3)]

        lane = run.trace(toy.Trees(toy.whole(run), right))
        counts.seed(run.seed)
        again = what_if(lane, run.settings, toy.Trees(toy.whole(run), right))
        shown = [[(s.draft, s.parents, s.path, s.kept, s.match) for s in t.passes] for t in (lane, again)]
        assert shown[0] == shown[1]


def test_a_tree_s_row_in_a_table_is_its_kept_branch():
    row = specspecs._row("run", STEP, 9, None)
    assert row["draft_tokens"] == [9, 1, 5]
    assert row["acceptances"] == [True, True, True]
    assert (row["acceptance_length"], row["emitted_token"]) == (3, 7)
