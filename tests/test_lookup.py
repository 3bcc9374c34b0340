"""Every lookup equals a brute-force search that was written from the definition alone."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pld_core import settings
from pld_core.lookup import POLICIES, Draft, NgramIndex, NgramLookup, NoLookup, build
from pld_core.lookup.automaton import SuffixAutomaton
from pld_core.settings import Settings


class Oracle:
    """The same lookups by trying every place of every length, written from their definitions.

    A place is an earlier n-gram equal to the suffix with a token after it; prompt-only search
    reads no further than the prompt for both. Places are listed from the oldest: the
    reference text stands before the prompt.
    """

    def __init__(self, settings, reference):
        self.settings = settings
        self.reference = reference
        self.context = []
        self.prompt_length = None
        self.proposed = None  # (text, position) that the newest proposal was copied from
        self.going = None  # (text, position) where the last copy would go on

    def extend(self, tokens):
        if self.proposed and tokens and self.at(*self.proposed) == tokens[0]:
            self.going = self.proposed
        self.proposed = None
        if self.going:
            text, position = self.going
            self.going = text, position + len(tokens)
        self.context = self.context + tokens
        if self.prompt_length is None:
            self.prompt_length = len(tokens)

    def propose(self, k):
        """(region, start, n, draft, how many), or None."""
        if k < 1:
            return None
        n_max, n_min = self.settings.n_max, self.settings.n_min
        longest = len(self.context) if self.settings.policy == "longest" else n_max
        for n in range(longest, n_min - 1, -1):
            places = self.places(n)
            if places:
                text, start = self.choose(places, n)
                count = len(places) if n <= n_max else 0  # not counted
                self.proposed = text, start + n
                region = "output" if text == "context" else text
                if text == "context" and start < self.prompt_length:
                    region = "prompt"
                return region, start, n, self.copy(text, start + n, k), count
        return None

    def places(self, n):
        if n > len(self.context):
            return []
        suffix = self.context[len(self.context) - n :]
        prompt_only = self.settings.search == "prompt"
        readable = self.prompt_length if prompt_only else len(self.context)
        return [
            (text, start)
            for text, tokens, end in (
                ("reference", self.reference, len(self.reference)),
                ("context", self.context, readable),
            )
            for start in range(len(tokens))
            if start + n < end and tokens[start : start + n] == suffix
        ]

    def choose(self, places, n):
        policy = self.settings.policy
        if policy == "oldest" or (policy == "longest" and n > self.settings.n_max):
            return places[0]
        if policy == "vote":
            following = [self.at(text, start + n) for text, start in places]
            most = max(following.count(token) for token in following)
            return [
                place
                for place, token in zip(places, following)
                if following.count(token) == most
            ][-1]
        if policy == "nearest" and self.going:
            text, position = self.going
            near = [
                (abs(start + n - position), position - start, (text, start))
                for its_text, start in places
                if its_text == text and abs(start + n - position) <= 8
            ]
            if near:
                return min(near)[-1]
        return places[-1]

    def copy(self, text, begin, k):
        tokens = list(self.reference if text == "reference" else self.context)
        draft = []
        for position in range(begin, begin + k):
            if position == len(tokens):
                break
            draft.append(tokens[position])
            if self.settings.periodic and text == "context":
                tokens.append(tokens[position])
        return draft

    def at(self, text, position):
        return (self.reference if text == "reference" else self.context)[position]


def asked(lookup, k):
    """A lookup's answer in the oracle's form."""
    draft = lookup.propose(k)
    if draft.match is None:
        assert draft == Draft()
        return None
    match = draft.match
    return match.region, match.start, match.n, draft.tokens, draft.alternatives


def check(ids, cuts, settings, reference, ks):
    """Feeds `ids` in chunks that end at `cuts`; after every chunk each k is asked. Says how
    often there was a match."""
    lookup, oracle = build(settings, reference), Oracle(settings, reference)
    begin = matches = 0
    for end in cuts:
        lookup.extend(ids[begin:end])
        oracle.extend(ids[begin:end])
        begin = end
        for k in ks:
            expected = oracle.propose(k)
            assert asked(lookup, k) == expected, (ids[:end], cuts, settings, reference, k)
            matches += expected is not None
    return matches


@st.composite
def searches(draw):
    letters = st.integers(0, draw(st.integers(0, 3)))
    ids = draw(st.lists(letters, min_size=1, max_size=40))
    cuts = sorted(draw(st.sets(st.integers(1, len(ids)), max_size=8)) | {len(ids)})
    n_max = draw(st.integers(1, 7))
    settings = Settings(
        n_max=n_max,
        n_min=draw(st.integers(1, n_max)),
        policy=draw(st.sampled_from(list(POLICIES))),
        search=draw(st.sampled_from(["context", "prompt"])),
        periodic=draw(st.booleans()),
    )
    reference = draw(st.lists(letters, max_size=15))
    return ids, cuts, settings, reference, draw(st.lists(st.integers(0, 30), max_size=3))


@hypothesis_settings(max_examples=600)
@given(searches())
def test_lookup_equals_brute_force_on_any_text_fed_in_any_chunks(search):
    check(*search)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("search", ["context", "prompt"])
def test_lookup_equals_brute_force_on_thousands_of_random_texts(policy, search):
    random_ = random.Random(f"{policy} {search}")
    matched = 0
    for _ in range(2000):
        letters = random_.randint(1, 4)
        ids = [random_.randrange(letters) for _ in range(random_.randint(1, 36))]
        reference = [random_.randrange(letters) for _ in range(random_.choice([0, 0, 3, 12]))]
        cuts = sorted({random_.randint(1, len(ids)) for _ in range(6)} | {len(ids)})
        n_max = random_.randint(1, 6)
        settings = Settings(
            n_max=n_max,
            n_min=random_.randint(1, n_max),
            policy=policy,
            search=search,
            periodic=random_.random() < 0.5,
        )
        matched += check(ids, cuts, settings, reference, [1, random_.randint(2, 20)]) > 0
    assert matched > 1000  # the oracle itself found something to compare


def cases(shared):
    with open(shared / "lookup_cases.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(("policy", "column"), [("recent", "most_recent"), ("oldest", "oldest")])
def test_known_cases(shared, policy, column):
    for case in cases(shared):
        expected = case[column]
        for periodic in (False, True):
            settings = Settings(
                n_max=case["n_max"], n_min=case["n_min"], policy=policy, periodic=periodic
            )
            lookup = build(settings)
            lookup.extend(case["ids"])
            draft = lookup.propose(case["k"])
            if expected["n"] == 0:
                assert draft == Draft(), case["id"]
                continue
            assert (draft.match.start, draft.match.n) == (expected["start"], expected["n"])
            if periodic:
                assert len(draft.tokens) == case["k"], case["id"]
                assert draft.tokens[: len(expected["draft"])] == expected["draft"], case["id"]
            else:
                assert draft.tokens == expected["draft"], case["id"]


@pytest.mark.parametrize(
    ("ids", "k", "draft"),
    [
        ([1, 1], 5, [1, 1, 1, 1, 1]),
        ([1, 2, 1, 2], 5, [1, 2, 1, 2, 1]),
        ([1, 2, 3, 1, 2, 3, 1], 7, [2, 3, 1, 2, 3, 1, 2]),
        ([4, 1, 2, 9, 1, 2], 8, [9, 1, 2, 9, 1, 2, 9, 1]),
    ],
)
def test_a_period_goes_on_into_the_draft(ids, k, draft):
    lookup = NgramLookup(Settings())
    lookup.extend(ids)
    assert lookup.propose(k).tokens == draft


def test_drafts_from_a_reference_end_where_it_ends():
    lookup = NgramLookup(Settings(periodic=True), [5, 6, 7, 8])
    lookup.extend([1, 5, 6])
    draft = lookup.propose(10)
    assert (draft.tokens, draft.match.region, draft.match.start) == ([7, 8], "reference", 0)


@pytest.mark.parametrize(("policy", "region"), [("recent", "prompt"), ("oldest", "reference")])
def test_a_reference_stands_before_the_prompt(policy, region):
    lookup = build(Settings(policy=policy), [5, 6, 7])
    lookup.extend([5, 6, 8, 5, 6])
    draft = lookup.propose(1)
    assert draft.match.region == region
    assert draft.alternatives == 2


def test_a_longer_match_in_the_reference_beats_a_recent_shorter_one():
    lookup = NgramLookup(Settings(), [1, 2, 3, 4])
    lookup.extend([3, 9, 1, 2, 3])
    assert (lookup.propose(1).match.n, lookup.propose(1).tokens) == (3, [4])


def test_the_newest_token_is_part_of_the_search():
    lookup = NgramLookup(Settings(n_min=3))
    lookup.extend([1, 2, 3, 4, 9, 1, 2])
    assert lookup.propose(5).match is None
    lookup.extend([3])
    assert lookup.propose(1).tokens == [4]


def test_prompt_only_search_is_blind_to_the_output():
    ids = [7, 1, 2, 3, 1, 2]
    for search, found in (("context", True), ("prompt", False)):
        lookup = NgramLookup(Settings(search=search))
        lookup.extend(ids[:1])
        for token in ids[1:]:
            lookup.extend([token])
        assert bool(lookup.propose(4).tokens) is found


def test_a_proposal_leaves_the_context_as_it_was():
    lookup = NgramLookup(Settings())
    lookup.extend([1, 2, 1, 2])
    first = lookup.propose(6)
    first.tokens[:] = [9, 9, 9]
    assert lookup.propose(6).tokens == [1, 2, 1, 2, 1, 2]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_large_ids_never_collide(n):
    # neighbours in every bit, and values whose packed forms would meet if ids spilled over
    edges = [0, 1, 2, 2**15, 2**16, 2**16 + 1, 2**30, 2**31 - 2, 2**31 - 1]
    grams = {}
    index = NgramIndex(n)
    random_ = random.Random(n)
    ids = [random_.choice(edges) for _ in range(4000)]
    for place, token in enumerate(ids):
        index.extend([token])
        if place >= n - 1:
            gram = tuple(ids[place - n + 1 : place + 1])
            assert grams.setdefault(index.suffix(n), gram) == gram
    assert len(grams) == len(set(grams.values()))


class Counted:
    """Counts entries touched; whatever walks over all of them is an error."""

    touched = 0


def counted(base, cheap, walks):
    def count(name):
        method = getattr(base, name)

        def call(self, *arguments):
            Counted.touched += 1
            result = method(self, *arguments)
            if name == "__getitem__" and isinstance(arguments[0], slice):
                Counted.touched += len(result)
            return result

        return call

    forbidden = dict.fromkeys(walks, None)
    return type(f"Counted{base.__name__}", (base,), {n: count(n) for n in cheap} | forbidden)


CountedDict = counted(
    dict,
    ["__getitem__", "__setitem__", "__contains__", "get", "setdefault", "pop"],
    ["__iter__", "keys", "values", "items", "update", "copy"],
)
CountedList = counted(
    list,
    ["__getitem__", "append"],
    ["__iter__", "__contains__", "__add__", "__reversed__", "index", "count", "copy", "sort"],
)


def counting(value):
    """The same value; lists and dictionaries in it, at any depth, are counted."""
    if isinstance(value, list):
        return CountedList(counting(item) for item in value)
    if isinstance(value, dict):
        return CountedDict(value)
    if isinstance(value, (NgramIndex, SuffixAutomaton)):
        for name, part in vars(value).items():
            setattr(value, name, counting(part))
    return value


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("letters", [1, 3, 1000])
def test_cost_per_token_and_per_lookup_does_not_grow_with_the_context(policy, letters):
    """A suffix automaton's cost is bounded over many tokens, any other lookup's for each."""
    random_ = random.Random(letters)
    lookup = build(Settings(n_max=3, policy=policy))
    for name, part in vars(lookup).items():
        setattr(lookup, name, counting(part))

    def costs(count):
        for token in (random_.randrange(letters) for _ in range(count)):
            Counted.touched = 0
            lookup.extend([token])
            extended = Counted.touched
            lookup.propose(8)
            yield extended, Counted.touched - extended

    def most(costs):
        extending, proposing = zip(*costs)
        amortised = policy == "longest"
        return (sum(extending) / 1000 if amortised else max(extending)) + max(proposing)

    early = most(costs(1000))
    lookup.extend([random_.randrange(letters) for _ in range(20_000)])
    late = most(costs(1000))
    assert 0 < early <= 130
    assert late <= early + 6  # a young text may leave a key missing that is there later


def test_draft_length_zero_builds_no_lookup():
    lookup = build(Settings(k=0))
    assert isinstance(lookup, NoLookup)
    lookup.extend([1, 1, 1])
    assert lookup.propose(5) == Draft()


def test_the_reference_reaches_the_lookup_that_is_built():
    lookup = build(Settings(), [1, 2, 3])
    lookup.extend([1, 2])
    assert lookup.propose(1).tokens == [3]


def test_every_policy_of_the_settings_has_a_class():
    assert tuple(POLICIES) == settings.POLICIES


def test_after_a_change_the_copy_goes_on_where_it_was():
    """a b c d ... a b X: a copy of the first line with c changed; then "d" goes on there, not
    after the most recent d."""
    source = [10, 11, 12, 13, 14, 15]
    lookup = build(Settings(policy="nearest"))
    lookup.extend([*source, 1, 13, 99, 98, 10, 11])
    assert lookup.propose(4).tokens == [12, 13, 14, 15]
    lookup.extend([50])
    lookup.propose(4)
    lookup.extend([13])
    assert lookup.propose(2).tokens == [99, 98]  # the copy of 12 never came true
    lookup = build(Settings(policy="nearest"))
    lookup.extend([*source, 1, 13, 99, 98, 10])
    assert lookup.propose(4).tokens == [11, 12, 13, 14]
    lookup.extend([11, 50])
    assert lookup.propose(4).match is None
    lookup.extend([13])
    assert lookup.propose(2).tokens == [14, 15]


def test_most_places_win_and_the_most_recent_of_them_is_shown():
    lookup = build(Settings(policy="vote"))
    lookup.extend([1, 2, 3, 1, 2, 4, 1, 2, 3, 1, 2, 5, 1, 2])
    draft = lookup.propose(2)
    assert (draft.tokens, draft.match.start, draft.alternatives) == ([3, 1], 6, 4)


def test_a_match_can_be_longer_than_n_max():
    ids = [1, 2, 3, 4, 5, 6, 9, 8, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6]
    for policy, n, token, places in (("recent", 3, 7, 2), ("longest", 6, 9, 0)):
        lookup = build(Settings(n_max=3, policy=policy))
        lookup.extend(ids)
        draft = lookup.propose(1)
        assert (draft.match.n, draft.tokens, draft.alternatives) == (n, [token], places)
