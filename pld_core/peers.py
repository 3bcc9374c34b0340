"""How other engines look up drafts: their rules, stated plainly, each as a Lookup.

They are here to be measured beside ours, on the same texts and by the same loop. Each is written
from what its source does, not from its code, down to the quirks that decide what is drafted;
times of these classes are those of a plain statement in Python, not of that engine. State that an
engine shares between requests starts empty, so each text is looked up in alone.

A rule has its own names for its numbers. Here `n` is the longest (or only) match in tokens, `k`
the longest draft; without them a rule has its engine's defaults.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Iterator, Sequence

from pld_core.accept import agreement
from pld_core.events import Match
from pld_core.lookup import Draft, Lookup


class _Text:
    """A growing text in which an n-gram is found at the speed of a byte search."""

    WIDTH = 4

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.prompt_length = 0
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        if not self.tokens:
            self.prompt_length = len(tokens)
        self.tokens.extend(tokens)
        self._bytes += array("I", tokens).tobytes()

    def first(self, gram: Sequence[int], end: int) -> int | None:
        """Where `gram` stands first, wholly before position `end`."""
        wanted, stop = array("I", gram).tobytes(), max(0, end) * self.WIDTH
        at = self._bytes.find(wanted, 0, stop)
        while at >= 0 and at % self.WIDTH:
            at = self._bytes.find(wanted, at + 1, stop)
        return None if at < 0 else at // self.WIDTH

    def last(self, gram: Sequence[int], begin: int, end: int) -> int | None:
        """Where `gram` stands last, wholly between positions `begin` and `end`."""
        wanted, stop = array("I", gram).tobytes(), max(0, end) * self.WIDTH
        at = self._bytes.rfind(wanted, begin * self.WIDTH, stop)
        while at >= 0 and at % self.WIDTH:
            at = self._bytes.rfind(wanted, begin * self.WIDTH, at + len(wanted) - 1)
        return None if at < 0 else at // self.WIDTH

    def draft(self, start: int, n: int, k: int) -> Draft:
        """The k tokens behind the n-gram at `start`, fewer where the text ends."""
        tokens = self.tokens[start + n : start + n + k]
        region = "prompt" if start < self.prompt_length else "output"
        return Draft(tokens, Match(start, n, region), 1) if tokens else Draft()


class OriginalPLD:
    """The first implementation: n from 3 down to 1, the oldest match that has k tokens behind it;
    one with fewer is none.

    Source: apoorvumang/prompt-lookup-decoding, its notebook. Where nothing matches it drafts one
    filler token (id 100), which costs a position and stands by accident alone: left out here.
    """

    def __init__(self, n: int = 3, k: int = 10, eos: Sequence[int] = ()) -> None:
        self.n, self.k = n, k
        self._text = _Text()

    def extend(self, tokens: Sequence[int]) -> None:
        self._text.extend(tokens)

    def propose(self, k: int) -> Draft:
        text = self._text
        for n in range(min(self.n, len(text) - 1), 0, -1):
            start = text.first(text.tokens[-n:], len(text) - self.k)
            if start is not None:
                return text.draft(start, n, min(k, self.k))
        return Draft()


class Transformers:
    """n from 2 (max_matching_ngram_size) down to 1, the oldest match, as much as follows it, cut
    before the first end-of-sequence token, which is never drafted.

    Source: huggingface/transformers 5.24, PromptLookupCandidateGenerator in
    generation/candidate_generator.py.
    """

    def __init__(self, n: int = 2, k: int = 10, eos: Sequence[int] = ()) -> None:
        self.n, self.k = n, k
        self._eos = set(eos)
        self._text = _Text()

    def extend(self, tokens: Sequence[int]) -> None:
        self._text.extend(tokens)

    def propose(self, k: int) -> Draft:
        text = self._text
        for n in range(min(self.n, len(text) - 1), 0, -1):
            start = text.first(text.tokens[-n:], len(text) - 1)
            if start is None:
                continue
            follows = text.tokens[start + n : start + n + min(k, self.k)]
            ends = [place for place, token in enumerate(follows) if token in self._eos]
            return text.draft(start, n, ends[0] if ends else len(follows))
        return Draft()


class VllmNgram:
    """The longest match of n_min to n tokens (both 5 unless given), the oldest among equals, as
    much as follows it.

    Source: vllm-project/vllm, v1/spec_decode/ngram_proposer.py: a failure table over the reversed
    text, whose last best position is the oldest. num_speculative_tokens has no default there; 5
    is what vLLM's documentation gives.
    """

    def __init__(
        self, n: int = 5, k: int = 5, eos: Sequence[int] = (), n_min: int | None = None
    ) -> None:
        self.n, self.n_min, self.k = n, min(n, 5 if n_min is None else n_min), k
        self._text = _Text()

    def extend(self, tokens: Sequence[int]) -> None:
        self._text.extend(tokens)

    def propose(self, k: int) -> Draft:
        text = self._text
        for n in range(min(self.n, len(text) - 1), self.n_min - 1, -1):
            start = text.first(text.tokens[-n:], len(text) - 1)
            if start is not None:
                return text.draft(start, n, min(k, self.k))
        return Draft()


class SuffixDecoding:
    """Every match length at once, scored by frequency: behind a match of m tokens the most
    frequent next token is drafted, again and again, at most m of them, while the product of their
    shares is at least 0.1; the match whose shares sum to most wins, the longer one of equals.

    Source: snowflakedb/ArcticInference, csrc/suffix_decoding/suffix_tree.cc, as vLLM's method
    "suffix" calls it: a tree of depth 24 (m and the draft together), factor 1, no offset, no tree
    drafts. Its tree counts the text's own end, so a share is never quite 1 at first. Of next
    tokens that are equally frequent the one seen first is taken; there it is the order of a list.
    """

    def __init__(
        self, n: int = 24, k: int = 24, eos: Sequence[int] = (), min_probability: float = 0.1
    ) -> None:
        self.n, self.k = n, k
        self._least = min_probability
        self._text = _Text()
        self._places: dict[int, list[int]] = defaultdict(list)

    def extend(self, tokens: Sequence[int]) -> None:
        for place, token in enumerate(tokens, len(self._text)):
            self._places[token].append(place)
        self._text.extend(tokens)

    def propose(self, k: int) -> Draft:
        tokens = self._text.tokens
        ends = self._places[tokens[-1]]
        best, most = Draft(), 0.0
        for m in range(1, min(len(tokens), self.n)):
            ends = [end for end in ends if end >= m - 1 and tokens[end - m + 1] == tokens[-m]]
            if len(ends) == 1:  # the text's own end
                break
            drafted, score = self._walk(ends, min(k, self.k, m, self.n - m))
            if score >= most:
                start = ends[0] - m + 1
                region = "prompt" if start < self._text.prompt_length else "output"
                best, most = Draft(drafted, Match(start, m, region), len(ends) - 1), score
        return best if best.tokens else Draft()

    def _walk(self, ends: list[int], longest: int) -> tuple[list[int], float]:
        """The draft behind places `ends`, and the sum of its tokens' probabilities."""
        tokens = self._text.tokens
        draft: list[int] = []
        probability, score = 1.0, 0.0
        while len(draft) < longest:
            after = len(draft) + 1
            going = [end for end in ends if end + after < len(tokens)]
            if not going:
                break
            token, count = Counter(tokens[end + after] for end in going).most_common(1)[0]
            probability *= count / len(ends)
            if probability < self._least:
                break
            draft.append(token)
            score += probability
            ends = [end for end in going if tokens[end + after] == token]
        return draft, score


class LlamaSimple:
    """One match length only, the most recent match, and no draft at all unless at least n tokens
    follow it (so none ever where k < n). The first token of the text is never matched.

    Source: ggml-org/llama.cpp, common/ngram-map.cpp, `--spec-type ngram-simple`.
    """

    def __init__(self, n: int = 12, k: int = 48, eos: Sequence[int] = ()) -> None:
        self.n, self.k = n, k
        self._text = _Text()

    def extend(self, tokens: Sequence[int]) -> None:
        self._text.extend(tokens)

    def propose(self, k: int) -> Draft:
        text, n = self._text, self.n
        before = len(text) - 1  # the newest token is not yet part of the text that is searched
        if before <= n + self.k + 1:
            return Draft()
        start = text.last(text.tokens[-n:], 1, before - 1)
        if start is None or min(self.k, before - start - n) < n:
            return Draft()
        return text.draft(start, n, min(k, self.k, before - start - n))


@dataclass(slots=True)
class _Value:
    """What followed a key: where, how often, and how much of its last draft stood."""

    place: int
    accepted: int
    count: int = 0


@dataclass(slots=True)
class _Key:
    accepted: int  # of its last draft, where no values are kept
    seen: int = 0  # places up to here are counted in `values`
    values: list[_Value] = field(default_factory=list)


class LlamaMap:
    """One match length, found by a hash table that keeps the place it met first and loses keys
    that collide; only places with more than k tokens behind them count, and none that begins in
    the prompt's last n + k + 1 tokens. A key drafts at most as many tokens as stood the last time
    it drafted: once none stood, it never drafts again.

    Source: ggml-org/llama.cpp, common/ngram-map.cpp, `--spec-type ngram-map-k`.
    """

    SLOTS = 1 << 18
    FACTOR = 2654435761

    def __init__(self, n: int = 12, k: int = 48, eos: Sequence[int] = ()) -> None:
        self.n, self.k = n, k
        self._text = _Text()
        self._table: dict[int, int] = {}
        self._entered = 0  # places up to here are in the table
        self._keys: dict[tuple[int, ...], _Key] = {}
        self._drafted: tuple[list[int], _Key | _Value] | None = None

    def extend(self, tokens: Sequence[int]) -> None:
        if self._drafted is not None:
            drafted, source = self._drafted
            source.accepted = agreement(drafted, tokens)
            self._drafted = None
        self._text.extend(tokens)

    def propose(self, k: int) -> Draft:
        before = len(self._text) - 1
        if before < 2 * self.n + self.k:
            return Draft()
        gram = tuple(self._text.tokens[-self.n :])
        place = self._find(gram, before)
        self._enter(before)
        if place is None:
            return Draft()
        key = self._keys.setdefault(gram, _Key(self.k))
        source = self._source(key, place, gram)
        if source is None:
            return Draft()
        draft = self._text.draft(place, self.n, min(k, self.k, source.accepted))
        if draft.tokens:
            self._drafted = (draft.tokens, source)
        return draft

    def _source(self, key: _Key, place: int, gram: tuple[int, ...]) -> _Key | _Value | None:
        """What remembers how much of a draft stood; None for no draft."""
        return key

    def _new(self, before: int) -> Iterator[range]:
        """Places not yet in the table, newest first: of the prompt, then of the answer."""
        prompt, edge = self._text.prompt_length, self.n + self.k + 1
        if prompt > edge:
            yield range(prompt - edge, self._entered, -1)
        yield range(before - edge, max(prompt, self._entered), -1)

    def _find(self, gram: tuple[int, ...], before: int) -> int | None:
        tokens, n = self._text.tokens, self.n
        known = self._table.get(self._slot(gram))
        if known is not None and known < before - n - self.k - 1:
            if tuple(tokens[known : known + n]) == gram:
                return known
        for places in self._new(before):
            if len(places):
                found = self._text.last(gram, places[-1], places[0] + n)
                if found is not None:
                    return found
        return None

    def _enter(self, before: int) -> None:
        for places in self._new(before):
            for place in places:
                gram = self._text.tokens[place : place + self.n]
                self._table.setdefault(self._slot(gram), place)
        self._entered = max(self._entered, before - self.n - self.k - 1)

    def _slot(self, gram: Sequence[int]) -> int:
        value = 0
        for token in gram:
            value = (value * self.FACTOR + token) & 0xFFFFFFFF
        return value % self.SLOTS


class LlamaMap4(LlamaMap):
    """As LlamaMap, but a key counts what followed it, up to four different continuations of k
    tokens, and drafts only where one is at least twice as frequent as the others together. What
    it then drafts is what follows the place found, whichever continuation won.

    Source: ggml-org/llama.cpp, common/ngram-map.cpp, `--spec-type ngram-map-k4v`.
    """

    VALUES = 4

    def _source(self, key: _Key, place: int, gram: tuple[int, ...]) -> _Value | None:
        tokens, n, k = self._text.tokens, self.n, self.k
        for start in range(key.seen, place + 1):
            if tuple(tokens[start : start + n]) != gram:
                continue
            follows = tokens[start + n : start + n + k]
            for value in key.values:
                if tokens[value.place : value.place + k] == follows:
                    value.count += 1
                    break
            else:
                if len(key.values) < self.VALUES:
                    key.values.append(_Value(start + n, k, 1))
        key.seen = place
        best = max(key.values, key=lambda value: value.count)
        others = sum(value.count for value in key.values) - best.count
        return None if others and best.count < 2 * others else best


class LlamaMod:
    """Token by token: a table of 4 M entries says what last followed the hash of the last n
    tokens; a draft of fewer than 48 tokens is none. New text enters in pieces. After five drafts
    in a row of which less than a quarter stood, the table is emptied.

    Source: ggml-org/llama.cpp, common/ngram-mod.cpp and common/speculative.cpp, `--spec-type
    ngram-mod` (`--spec-default`). Where k < 48 the least draft is taken to be k.
    """

    SLOTS = 4 * 1024 * 1024
    FACTOR = 6364136223846793005
    LEAST = 48
    PIECE = 32

    def __init__(self, n: int = 24, k: int = 64, eos: Sequence[int] = ()) -> None:
        self.n, self.k = n, k
        self._tokens: list[int] = []
        self._table: dict[int, int] = {}
        self._entered = 0
        self._drafted: list[int] = []
        self._poor = 0

    def extend(self, tokens: Sequence[int]) -> None:
        first = not self._tokens
        if self._drafted:
            self._judge(agreement(self._drafted, tokens) / len(self._drafted))
        self._drafted = []
        self._tokens.extend(tokens)
        if first and len(tokens) >= self.n:
            self._enter(len(tokens))

    def propose(self, k: int) -> Draft:
        before, n = len(self._tokens) - 1, self.n
        if before < n:
            return Draft()
        if self._entered + self.PIECE < before:
            self._enter(before)
        context = self._tokens[-n:]
        for _ in range(self.k):
            token = self._table.get(self._slot(context[-n:]))
            if token is None:
                break
            context.append(token)
        draft = context[n:]
        if len(draft) < min(self.LEAST, self.k):
            return Draft()
        self._drafted = draft[:k]
        return Draft(self._drafted)

    def _judge(self, stood: float) -> None:
        self._poor = self._poor + 1 if stood < 0.25 else 0
        if self._poor >= 5:
            self._table.clear()
            self._poor = self._entered = 0

    def _enter(self, end: int) -> None:
        for place in range(self._entered, end - self.n):
            gram = self._tokens[place : place + self.n]
            self._table[self._slot(gram)] = self._tokens[place + self.n]
        self._entered = end - self.n

    def _slot(self, gram: Sequence[int]) -> int:
        value = 0
        for token in gram:
            value = (value * self.FACTOR + token) & 0xFFFFFFFFFFFFFFFF
        return value % self.SLOTS


class LlamaCache:
    """Token by token: what most often followed the last 4, 3, 2 or 1 tokens, the longest of them
    that was seen often enough (1, 1, 2, 2 times) and clearly enough (50, 50, 50, 66 %).

    Source: ggml-org/llama.cpp, common/ngram-cache.cpp and common/speculative.cpp, `--spec-type
    ngram-cache` without cache files. New tokens are counted among themselves only, so an n-gram
    that crosses from one pass's tokens into the next one's is never counted. Of tokens that are
    equally frequent the one that turned up latest is taken: so its hash table (GNU's) lists them.
    """

    SEEN = {1: 2, 2: 2, 3: 1, 4: 1}
    PERCENT = {1: 66, 2: 50, 3: 50, 4: 50}

    def __init__(self, n: int = 4, k: int = 8, eos: Sequence[int] = ()) -> None:
        self.n, self.k = min(n, 4), k
        self._tokens: list[int] = []
        self._fresh: list[int] = []
        self._counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)

    def extend(self, tokens: Sequence[int]) -> None:
        self._tokens.extend(tokens)
        self._fresh.extend(tokens)

    def propose(self, k: int) -> Draft:
        for n in range(1, self.n + 1):
            for place in range(n, len(self._fresh)):
                self._counts[tuple(self._fresh[place - n : place])][self._fresh[place]] += 1
        self._fresh = []
        context = self._tokens[-self.n :]
        draft: list[int] = []
        while len(draft) < min(k, self.k):
            token = self._next(context)
            if token is None:
                break
            draft.append(token)
            context = [*context, token][-self.n :]
        return Draft(draft)

    def _next(self, context: list[int]) -> int | None:
        for n in range(min(self.n, len(context)), 0, -1):
            counts = self._counts.get(tuple(context[-n:]))
            if not counts:
                continue
            token = max(reversed(counts), key=counts.__getitem__)
            most, total = counts[token], counts.total()
            if total >= self.SEEN[n] and 100 * most >= self.PERCENT[n] * total:
                return token
        return None


PEERS: dict[str, type[Lookup]] = {
    "original PLD": OriginalPLD,
    "transformers": Transformers,
    "vLLM ngram": VllmNgram,
    "vLLM suffix": SuffixDecoding,
    "llama.cpp ngram-simple": LlamaSimple,
    "llama.cpp ngram-map-k": LlamaMap,
    "llama.cpp ngram-map-k4v": LlamaMap4,
    "llama.cpp ngram-mod": LlamaMod,
    "llama.cpp ngram-cache": LlamaCache,
}
"""Each rule by the engine's own name for it; called without arguments, with that engine's
defaults. All take n, k and eos."""

ANY_LENGTH = (SuffixDecoding, LlamaCache)
"""Rules whose n is the bound of a structure, and no length of a match that somebody sets."""
