"""Other engines' lookup rules against statements of what they do that count everything, and where
the engine is at hand against the engine itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pld_core.bench.lookups import TransformersItself, made_up, rules
from pld_core.peers import (
    PEERS,
    LlamaCache,
    LlamaMap,
    LlamaMap4,
    LlamaMod,
    LlamaSimple,
    OriginalPLD,
    SuffixDecoding,
    Transformers,
    VllmNgram,
)

TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=60)
SIZES = st.integers(1, 4)


def proposed(lookup, text, k=10**6, cut=None):
    """The draft behind a text that came in two pieces."""
    cut = len(text) if cut is None else cut
    lookup.extend(text[:cut])
    if text[cut:]:
        lookup.extend(text[cut:])
    return lookup.propose(k).tokens


def starts(text, gram, end):
    """Where a gram stands wholly before `end`, oldest first."""
    return [i for i in range(end - len(gram) + 1) if text[i : i + len(gram)] == gram]


@given(TEXTS, SIZES, st.integers(1, 6), st.sets(st.integers(0, 3), max_size=2))
def test_transformers_is_what_transformers_drafts(text, n, k, eos):
    import torch

    itself = TransformersItself(k)
    itself._peer.max_matching_ngram_size = n
    itself._peer.eos_token_id = torch.tensor(sorted(eos)) if eos else None
    assert proposed(Transformers(n, k, eos), text) == proposed(itself, text)


@given(TEXTS, SIZES, st.integers(1, 6))
def test_the_original_drafts_whole_continuations_only(text, n, k):
    places = [
        (start, m)
        for m in range(min(n, len(text) - 1), 0, -1)
        for start in starts(text, text[-m:], len(text) - k)
    ]
    wanted = text[places[0][0] + places[0][1] :][:k] if places else []
    assert proposed(OriginalPLD(n, k), text) == wanted


@given(TEXTS, SIZES, SIZES, st.integers(1, 6))
def test_vllm_takes_the_longest_match_and_of_equals_the_oldest(text, n, n_min, k):
    n_min = min(n, n_min)
    found = [
        (m, -start)
        for m in range(n_min, n + 1)
        if m < len(text)
        for start in starts(text, text[-m:], len(text) - 1)
    ]
    m, start = max(found, default=(0, 0))
    wanted = text[m - start :][:k] if found else []
    assert proposed(VllmNgram(n, k, n_min=n_min), text) == wanted


@given(TEXTS, st.integers(2, 8), st.integers(1, 6))
def test_suffix_decoding_follows_the_counts(text, depth, k):
    def count(gram):
        return len(starts(text, gram, len(text)))

    best, most = [], 0.0
    for m in range(1, min(len(text), depth)):
        gram = text[-m:]
        if count(gram) == 1:
            break
        draft, probability, score = [], 1.0, 0.0
        while len(draft) < min(k, m, depth - m):
            whole = gram + draft
            after = [text[i + len(whole)] for i in starts(text, whole, len(text) - 1)]
            if not after:
                break
            token = max(dict.fromkeys(after), key=after.count)
            probability *= after.count(token) / count(whole)
            if probability < 0.1:
                break
            draft.append(token)
            score += probability
        if score >= most:
            best, most = draft, score
    assert proposed(SuffixDecoding(depth, k), text) == best


@given(TEXTS, SIZES, st.integers(1, 6))
def test_llama_simple_drafts_at_least_n_tokens_or_none(text, n, k):
    before = text[:-1]
    wanted = []
    if len(before) > n + k + 1:
        found = [i for i in starts(before, text[-n:], len(before) - 1) if i > 0]
        if found:
            follows = before[found[-1] + n :][:k]
            wanted = follows if len(follows) >= n else []
    assert proposed(LlamaSimple(n, k), text) == wanted


@given(TEXTS, TEXTS, SIZES, st.integers(1, 6), st.sampled_from([LlamaMap, LlamaMap4]))
def test_llama_map_drafts_what_follows_a_place_it_may_see(prompt, answer, n, k, kind):
    lookup = kind(n, k)
    lookup.extend(prompt)
    text = [*prompt]
    for token in answer:
        lookup.extend([token])
        text.append(token)
        draft = lookup.propose(10**6)
        if not draft.tokens:
            continue
        start = draft.match.start
        assert text[start : start + n] == text[-n:]
        assert text[start + n :][: len(draft.tokens)] == draft.tokens
        assert 0 < start < len(text) - 1 - n - k
        assert start > len(prompt) or start <= len(prompt) - n - k - 1


def test_llama_map_drafts_as_much_of_a_key_as_stood_last_time():
    story = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    lookup = LlamaMap(2, 4)
    lookup.extend([0, *story, *range(20, 40)])
    lookup.extend([1])
    assert lookup.propose(9).tokens == []  # 39, 1 never stood before
    lookup.extend([2])
    assert lookup.propose(9).tokens == [3, 4, 5, 6]
    lookup.extend([3, 4, 90])  # two stood
    assert lookup.propose(9).tokens == []
    lookup.extend([1])
    lookup.propose(9)
    lookup.extend([2])
    assert lookup.propose(9).tokens == [3, 4]
    lookup.extend([91, 1])  # none stood
    lookup.propose(9)
    lookup.extend([2])
    assert lookup.propose(9).tokens == []


def test_llama_map4_needs_a_clear_winner():
    a, b = [1, 2, 10, 11, 12], [1, 2, 20, 21, 22]
    filling = [*range(50, 70)]
    torn = LlamaMap4(2, 3)
    torn.extend([0, *a, 30, *b, *filling, 1])
    torn.propose(9)
    torn.extend([2])
    assert torn.propose(9).tokens == []
    clear = LlamaMap4(2, 3)
    clear.extend([0, *b, 30, *a, 31, *a, *filling, 1])
    clear.propose(9)
    clear.extend([2])
    assert clear.propose(9).tokens == [10, 11, 12]


@given(TEXTS, st.integers(1, 3), st.integers(1, 6))
def test_llama_mod_chains_what_last_followed(text, n, k):
    before = text[:-1]  # the newest token is part of what is looked up, not of what was read
    last = {tuple(text[i : i + n]): text[i + n] for i in range(len(text) - n)}
    chain = text[-n:]
    while len(chain) < n + k and tuple(chain[-n:]) in last:
        chain.append(last[tuple(chain[-n:])])
    wanted = chain[n:] if len(chain) == n + k and len(before) >= n else []
    assert proposed(LlamaMod(n, k), text) == wanted


def test_llama_mod_forgets_all_after_five_poor_drafts():
    lookup = LlamaMod(1, 4)
    lookup.extend([1, 2, 3, 4, 5, 6, 7])
    for _ in range(5):
        lookup.extend([1])
        assert lookup.propose(9).tokens == [2, 3, 4, 5]
        lookup.extend([9])
        lookup.propose(9)
    lookup.extend([1])
    assert lookup.propose(9).tokens == []


@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(1, 4), st.integers(1, 6))
def test_llama_cache_counts_within_what_came_at_once(pieces, n, k):
    def following(gram):
        return [
            piece[i + len(gram)] for piece in pieces for i in starts(piece, gram, len(piece) - 1)
        ]

    lookup = LlamaCache(n, k)
    for piece in pieces:
        lookup.extend(piece)
        draft = lookup.propose(10**6).tokens
    context = [token for piece in pieces for token in piece]
    wanted = []
    while len(wanted) < k:
        for m in range(min(n, len(context)), 0, -1):
            after = following(context[-m:])
            token = max([*dict.fromkeys(after)][::-1], key=after.count) if after else None
            least, share = {1: (2, 66), 2: (2, 50), 3: (1, 50), 4: (1, 50)}[m]
            if after and len(after) >= least and 100 * after.count(token) >= share * len(after):
                break
        else:
            break
        wanted.append(token)
        context.append(token)
    assert draft == wanted


@given(TEXTS, st.integers(0, 59), st.integers(0, 12))
def test_every_rule_keeps_to_k_and_reads_a_text_in_any_pieces(text, cut, k):
    for name, kind in PEERS.items():
        whole = proposed(kind(), text, k)
        assert len(whole) <= k
        if name.startswith("llama.cpp") and not name.endswith("simple"):
            continue  # what came at once decides there
        assert proposed(kind(), text, k, cut=max(1, min(cut, len(text)))) == whole, name


def test_each_rule_stands_at_its_defaults_at_our_k_and_at_our_n_and_k():
    made = rules(3, 1, 10)
    sizes = {(rule.name, rule.n, rule.k) for rule in made}
    assert {("transformers", 2, 10), ("transformers", 3, 10)} <= sizes
    assert {("vLLM ngram", 5, 5), ("vLLM ngram", 5, 10), ("vLLM ngram", 3, 10)} <= sizes
    assert {("vLLM suffix", 24, 24), ("vLLM suffix", 24, 10)} <= sizes
    assert ("vLLM suffix", 3, 10) not in sizes
    assert len({rule.label for rule in made}) == len(made)


THEIRS = [rule for rule in rules(3, 1, 10) if not rule.own]


@pytest.mark.parametrize("rule", THEIRS, ids=lambda rule: rule.label)
def test_a_long_text_is_looked_up_in(rule):
    text = made_up(3000)
    lookup = rule.make(())
    lookup.extend(text[:2000])
    for place in range(2000, 3000, 7):
        assert len(lookup.propose(rule.k).tokens) <= rule.k
        lookup.extend(text[place : place + 7])
