"""A target without weights: its next token is a function of what its cache holds, so a cache
that was rolled back wrongly gives another text."""

import itertools
import random
from dataclasses import dataclass, field

from pld_core import trace, tree
from pld_core.decoder import decode
from pld_core.events import Branch, Match, Prompt, Start
from pld_core.lookup import Draft, build
from pld_core.settings import POLICIES, Settings
from pld_core.text import Pieces, pieces_of

# Token -> bytes: whole letters, parts of stop strings, and a character in three parts.
BYTES = [b"a", b"b", b"#", b"##", b" ", b"\xe2", b"\x82", b"\xac", b"ab", b"\x82\xac#", b"", b"<e>"]
VOCABULARY = len(BYTES)


def text_of(ids):
    """The tokens' text; the last token of the vocabulary is a control token without one."""
    return b"".join(BYTES[i] for i in ids if i != VOCABULARY - 1).decode("utf-8", "replace")


def pieces():
    return Pieces(text_of, {VOCABULARY - 1: "<e>"})


def brain(seed, letters=VOCABULARY, copying=0.8):
    """context -> next token: mostly what followed the same two tokens before, sometimes a
    function of the whole context, so that a wrong or misplaced entry anywhere shows."""

    def choose(context):
        h = hash((seed, *context[-6:], len(context)))
        h = (h ^ (h >> 29)) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        if (h >> 40) % 1000 < copying * 1000 and len(context) > 2:
            pair = context[-2:]
            for place in range(len(context) - 3, -1, -1):
                if context[place : place + 2] == pair:
                    return context[place + 2]
        return hash((seed, sum(context), h)) % letters

    return choose


@dataclass
class ToyScores:
    choices: list
    width: int

    def kept(self, rows):
        assert 1 <= rows <= len(self.choices)
        return [0.5] * rows, [1.0] * rows

    def along(self, rows):
        return ToyScores([self.choices[row] for row in rows], self.width)

    def favourites(self, row, count):
        assert 0 <= row < len(self.choices)
        return [(self.choices[row], 0.5), ((self.choices[row] + 1) % VOCABULARY, 0.25)][:count]


class ToyTarget:
    """Checks the order of the calls and their bounds; `forwards` counts what it was asked."""

    def __init__(
        self, choose, context_limit=None, vocabulary=VOCABULARY, fails_at=None, trees=True
    ):
        self.vocabulary = vocabulary
        self.trees = trees
        self.context_limit = context_limit
        self.cache = []
        self.forwards = []
        self._choose = choose
        self._open = None
        self._fails_at = fails_at

    @property
    def room(self):
        if self.context_limit is None:
            return 2**31
        return self.context_limit - len(self.cache)

    def prefill(self, ids):
        assert self.cache == [] and self.forwards == []
        return ToyScores(self._run(list(ids))[-1:], 1)

    def forward(self, tokens, parents=()):
        assert self._open is None, "a forward before the last one was committed"
        assert self.forwards, "a forward before the prefill"
        before = len(self.cache)
        scores = ToyScores(self._run(list(tokens), list(parents)), len(tokens))
        self._open = before, len(tokens)
        return scores

    def commit(self, positions, rows=None):  # rows: those of a tree's accepted nodes
        before, width = self._open
        assert 1 <= positions <= width
        read = self.cache[before:]
        rows = range(1, positions) if rows is None else rows[: positions - 1]
        self.cache[before + 1 :] = [read[row] for row in rows]
        assert len(self.cache) == before + positions
        self._open = None

    def _run(self, tokens, parents=()):
        assert 1 <= len(tokens) <= self.room
        assert all(type(token) is int and 0 <= token < self.vocabulary for token in tokens)
        self.forwards.append(len(tokens))
        if len(self.forwards) == self._fails_at:
            raise RuntimeError("out of memory")
        before, choices = list(self.cache), []
        parents = parents or range(-1, len(tokens) - 1)
        for row, token in enumerate(tokens):
            above = tree.path([-1, *(parent + 1 for parent in parents)], row)
            choices.append(self._choose(before + [tokens[node] for node in above]))
            self.cache.append(token)
        return choices


def token_by_token(choose, prompt, eos=(), stop=(), max_new_tokens=256, context_limit=None):
    """(generated ids, reason), written without the decoder: the answer's definition."""
    context, seen = list(prompt), ""
    while True:
        context.append(choose(context))
        output = context[len(prompt) :]
        text = text_of(output)
        if not text.endswith("\ufffd"):  # text that may still be half a character is not shown
            seen = text
        if output[-1] in eos:
            return output, "eos"
        if any(string in seen for string in stop):
            return output, "stop"
        if len(output) == max_new_tokens:
            return output, "length"
        if context_limit is not None and len(context) > context_limit:
            return output, "context_full"


@dataclass
class Run:
    """What one decoding is asked."""

    seed: int
    prompt: list
    settings: Settings = field(default_factory=Settings)
    eos: list = field(default_factory=list)
    context_limit: int | None = None
    reference: list | None = None
    letters: int = VOCABULARY
    copying: float = 0.8

    @property
    def choose(self):
        return brain(self.seed, self.letters, self.copying)

    def start(self, lane="pld"):
        def as_prompt(ids):
            return Prompt(ids, pieces_of(ids, text_of, {VOCABULARY - 1: "<e>"}), len(ids))

        return Start(
            lane=lane,
            model="toy",
            revision="",
            device="none",
            dtype="none",
            versions={},
            settings=self.settings.to_json(),
            prompt=as_prompt(self.prompt),
            eos=self.eos,
            context_limit=self.context_limit,
            reference=None if self.reference is None else as_prompt(self.reference),
        )

    def expected(self):
        return token_by_token(
            self.choose,
            self.prompt,
            self.eos,
            self.settings.stop,
            self.settings.max_new_tokens,
            self.context_limit,
        )

    def target(self, **changes):
        return ToyTarget(self.choose, self.context_limit, **changes)

    def events(self, lookup=None, target=None, lane="pld", clock=None, parts=False):
        return decode(
            self.start(lane),
            target or self.target(),
            lookup or build(self.settings, self.reference or ()),
            pieces(),
            self.settings,
            clock=clock or itertools.count().__next__,
            parts=parts,
        )

    def trace(self, lookup=None):
        (lane,) = trace.lanes(self.events(lookup)).values()
        return lane


class Trees:
    """A lookup that drafts trees around the answer, which it knows, whole [P + T]: `right(k)`
    gives for each branch how many of its tokens are right; the next is wrong, and then comes
    anything at all."""

    def __init__(self, whole, right, letters=VOCABULARY, seed=0):
        self._whole = whole
        self._random = random.Random(seed)
        self._right, self._letters = right, letters
        self._length = 0

    def extend(self, tokens):
        self._length += len(tokens)

    def propose(self, k):
        draft = Draft(match=NOWHERE)
        truth = self._whole[self._length : self._length + k]
        for right in self._right(k):
            branch = truth[:right]
            if right < len(truth):
                branch.append((truth[right] + self._random.randint(1, 3)) % self._letters)
            branch += [self._random.randrange(self._letters) for _ in range(k - len(branch))]
            draft = grown(draft, branch)
        return draft


def whole(run):
    """The prompt and what follows it, however the answer ends."""
    return run.prompt + token_by_token(run.choose, run.prompt, max_new_tokens=90)[0]


NOWHERE = Match(0, 1, "prompt")


def grown(draft, branch, match=NOWHERE):
    """The tree with one more branch, its shared beginning merged."""
    tokens, parents, at = list(draft.tokens), list(draft.parents), -1
    for token in branch:
        below = [n for n, p in enumerate(parents) if p == at and tokens[n] == token]
        if not below:
            below = [len(tokens)]
            tokens.append(token)
            parents.append(at)
        at = below[0]
    if at < 0:
        return draft
    branches = [*draft.branches, Branch(at, match)]
    return Draft(tokens, branches[0].match, 1, None, parents, branches)


STOPS = ["#", "##", "###", "a#", "ab", "€", "€#", "b€", " ", "zz", "aa##"]


def random_settings(random_):
    n_max = random_.randint(1, 4)
    return Settings(
        n_max=n_max,
        n_min=random_.randint(1, n_max),
        k=random_.choice([1, 1, 2, 3, 4, 5, 8, 13]),
        policy=random_.choice(POLICIES),
        search=random_.choice(["context", "context", "prompt"]),
        periodic=random_.random() < 0.7,
        max_new_tokens=random_.choice([1, 2, 3, 4, 5, 7, 15, 30, 40]),
        stop=tuple(random_.sample(STOPS, random_.choice([0, 0, 1, 2]))),
    )


def random_run(random_):
    letters = random_.choice([2, 4, 6, VOCABULARY])
    prompt = [random_.randrange(letters) for _ in range(random_.choice([1, 2, 5, 12, 25]))]
    return Run(
        seed=random_.randrange(2**30),
        prompt=prompt,
        settings=random_settings(random_),
        eos=random_.sample(range(letters), random_.choice([0, 0, 1, 2])),
        context_limit=random_.choice([None, None, len(prompt) + random_.randint(0, 20)]),
        reference=random_.choice([None, [random_.randrange(letters) for _ in range(9)]]),
        letters=letters,
        copying=random_.choice([0.0, 0.5, 0.9, 0.97]),
    )


def runs(seed, count):
    random_ = random.Random(seed)
    for _ in range(count):
        yield random_run(random_)
