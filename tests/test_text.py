"""Pieces never split a character, never take back what was shown, and join to the whole."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from pld_core.text import Pieces, pieces_of

WORDS = """The quick brown fox jumps over the lazy dog, and then it doesn't. She said: "I'll
be there at 12:30!" def f(x):  return x + 1 ... naïve café, straße, привет мир, 東京は晴れ,
مرحبا بالعالم, 🦊 team 🐙. the the the and and of of in in to to is is it it's we're\n\n\tend\n"""

NASTY = ["🦊", "👩\u200d👩\u200d👧", "e\u0301", "\u2028", "\u202eabc", "שלום", "漢字", "𠮷", "\ufeff", "  ",
         "   x", " a", "\n\n", "\t", " .", " ,", "n't", " 's", "\r\n", "ß", "€", "\ufffd", "a\ufffdb", "🏳️\u200d🌈"]  # fmt: skip
texts = st.lists(
    st.one_of(st.sampled_from(NASTY), st.text(max_size=4), st.sampled_from(WORDS.split())),
    max_size=8,
).map("".join)


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>", "<|start|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS] * 3, trainer)
    return tokenizer


def metaspace():
    """As Llama's and Mistral's: a leading space that decoding drops, bytes for the unknown."""
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False)
    learned.train_from_iterator([WORDS.encode("ascii", "ignore").decode()] * 3, trainer)
    model = json.loads(learned.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *[f"<0x{byte:02X}>" for byte in range(256)]]
    names += sorted(set(model["vocab"]) - set(names), key=model["vocab"].get)
    tokenizer = Tokenizer(
        models.BPE(
            vocab={name: i for i, name in enumerate(names)},
            merges=[tuple(merge) for merge in model["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


class Kind:
    """A tokenizer as Pieces sees it; counts the longest decode it was asked for."""

    def __init__(self, tokenizer, special):
        self.tokenizer = tokenizer
        self.special = {tokenizer.token_to_id(name): name for name in special}
        self.longest = 0

    def decode(self, ids):
        self.longest = max(self.longest, len(ids))
        return self.whole(ids)

    def whole(self, ids):
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def encode(self, text):
        if self.special.get(1) == "<s>":
            # several real U+FFFD in a row, each three byte tokens, look like broken bytes
            text = text.replace("\ufffd", "?")
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def pieces(self, **options):
        return Pieces(self.decode, self.special, **options)


BYTE_LEVEL = Kind(byte_level(), ["<|end|>", "<|start|>"])
METASPACE = Kind(metaspace(), ["<s>", "</s>"])
KINDS = pytest.mark.parametrize("kind", [BYTE_LEVEL, METASPACE], ids=["byte-level", "metaspace"])


def stream(kind, ids, whole=None):
    """The pieces of `ids` and what is flushed after them, with every law that one can see."""
    whole = kind.whole(ids) if whole is None else whole
    pieces = kind.pieces()
    kind.longest = 0
    shown = ""
    made = []
    for place, token in enumerate(ids):
        if place % 3 == 0:
            check_preview(kind, pieces, ids[place : place + 6])
        made.append(pieces.push(token))
        shown += made[-1]
        assert whole.startswith(shown), (whole, shown)
        if "\ufffd" not in whole:
            assert "\ufffd" not in made[-1]
    rest = pieces.flush()
    assert shown + rest == whole
    assert pieces.flush() == ""
    return made, rest


def check_preview(kind, pieces, draft):
    """A preview is what pushing would give, and changes nothing."""
    before = list(pieces._anchor), list(pieces._held)
    previews = pieces.preview(draft)
    assert (pieces._anchor, pieces._held) == before
    assert len(previews) == len(draft)
    copy = kind.pieces(show_special=True)
    copy._anchor, copy._held = before
    pushed = [copy.push(token) for token in draft]
    if pushed:
        pushed[-1] += copy.flush()
    assert previews == pushed


def test_the_two_tokenizers_are_what_they_should_be():
    assert "<0xF0>" in METASPACE.tokenizer.get_vocab()
    for kind in (BYTE_LEVEL, METASPACE):
        fox = kind.encode("🦊")
        assert len(fox) >= 2
        assert kind.whole(fox) == "🦊"
        assert "\ufffd" in kind.whole(fox[-1:])
        assert len(kind.encode(WORDS)) < len(WORDS.encode())
    hello = METASPACE.encode(" the dog the")
    assert METASPACE.whole(hello[-1:]) == "the"  # alone, its space is gone


@KINDS
@hypothesis_settings(max_examples=400)
@given(text=texts)
def test_pieces_of_a_text_join_to_the_decoded_whole(kind, text):
    stream(kind, kind.encode(text))


@KINDS
@hypothesis_settings(max_examples=200)
@given(text=texts, data=st.data())
def test_an_answer_may_end_at_any_token(kind, text, data):
    ids = kind.encode(text)
    ids = ids[: data.draw(st.integers(0, len(ids)))]
    if kind is BYTE_LEVEL:
        stream(kind, ids)
        return
    # whole characters stay whole, though decoding all at once loses them in the broken run
    end = len(ids)
    while "\ufffd" in kind.whole(ids[:end]):
        end -= 1
    stream(kind, ids, kind.whole(ids[:end]) + "\ufffd" * (len(ids) - end))


@KINDS
@hypothesis_settings(max_examples=150)
@given(parts=st.lists(texts, max_size=4), data=st.data())
def test_an_answer_that_begins_anywhere_and_jumps_about(kind, parts, data):
    # whole words and characters in an order that no encoder gives: spaces doubled, none at all
    ids = [token for part in parts for token in kind.encode(part)]
    stream(kind, ids)


@hypothesis_settings(max_examples=500)
@given(st.lists(st.integers(2, BYTE_LEVEL.tokenizer.get_vocab_size() - 1), max_size=30))
def test_random_bytes_that_are_no_utf8_join_to_the_decoded_whole(ids):
    stream(BYTE_LEVEL, ids)


def raw(kind):
    """Tokens of one byte each that can take part in characters of several bytes."""
    if kind is METASPACE:
        return [kind.tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in range(0x80, 0x100)]
    return [
        token
        for token in range(kind.tokenizer.get_vocab_size())
        if kind.whole([token]) == "\ufffd"
    ]


@pytest.mark.parametrize("seed", range(40))
def test_long_runs_of_raw_bytes_join_and_are_decoded_in_a_short_window(seed):
    random_ = random.Random(seed)
    bytes_ = raw(BYTE_LEVEL)
    letters = BYTE_LEVEL.encode("abc the 🦊 end")
    for _ in range(10):
        ids = [random_.choice(bytes_ if random_.random() < 0.95 else letters) for _ in range(120)]
        stream(BYTE_LEVEL, ids)
        assert BYTE_LEVEL.longest <= 40


@pytest.mark.parametrize("seed", range(20))
def test_broken_bytes_never_hold_up_the_text_behind_them(seed):
    random_ = random.Random(seed)
    bytes_ = raw(METASPACE)
    fox, letters = METASPACE.encode("🦊")[1:], METASPACE.encode("the dog")
    for _ in range(20):
        ids = []
        while len(ids) < 80:
            ids += random_.choice([fox, [random_.choice(bytes_)], random_.sample(letters, 2)])
        pieces = METASPACE.pieces()
        METASPACE.longest = 0
        joined = ""
        for token in ids:
            joined += pieces.push(token)
            if token in letters:
                assert pieces._held == []
        joined += pieces.flush()
        assert METASPACE.longest <= 40
        ascii_ = [text.encode("ascii", "ignore") for text in (joined, METASPACE.whole(ids))]
        assert ascii_[0] == ascii_[1]


@KINDS
@pytest.mark.parametrize("unit", ["the ", "🦊", "漢", "e\u0301", " ", "\n", "👩\u200d👧", "a"])
def test_the_window_does_not_grow_with_the_text(kind, unit):
    stream(kind, kind.encode(unit * 200))
    assert kind.longest <= 40


@KINDS
@hypothesis_settings(max_examples=150)
@given(text=texts, data=st.data())
def test_control_tokens_have_no_text_in_an_answer(kind, text, data):
    ids = kind.encode(text)
    for token in data.draw(st.lists(st.sampled_from(sorted(kind.special)), max_size=3)):
        ids.insert(data.draw(st.integers(0, len(ids))), token)
    stream(kind, ids)


@KINDS
def test_control_tokens_have_their_name_in_prompts_and_drafts(kind):
    end, name = next(iter(kind.special.items()))
    ids = [end, *kind.encode("a 🦊"), end, *kind.encode("b")]
    pieces = pieces_of(ids, kind.decode, kind.special)
    assert len(pieces) == len(ids)
    assert "".join(pieces).replace(" ", "") == f"{name}a🦊{name}b"
    assert pieces[0] == name


@KINDS
@hypothesis_settings(max_examples=150)
@given(text=texts)
def test_pieces_of_a_prompt_join_to_the_prompt(kind, text):
    ids = kind.encode(text)
    pieces = pieces_of(ids, kind.decode, kind.special)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == kind.whole(ids)


@KINDS
def test_a_character_is_the_text_of_the_token_that_completes_it(kind):
    ids = kind.encode("x🦊")
    made, rest = stream(kind, ids)
    assert "".join(made[:-1]) == "x"
    assert (made[-2], made[-1], rest) == ("", "🦊", "")


@KINDS
@pytest.mark.parametrize("text", ["\ufffd", "a\ufffdb", "\ufffd \ufffd", "🦊\ufffd🦊"])
def test_a_real_replacement_character_is_text_like_any_other(kind, text):
    ids = kind.tokenizer.encode(text, add_special_tokens=False).ids
    assert kind.whole(ids) == text
    stream(kind, ids)


@KINDS
def test_bytes_still_incomplete_at_the_end_are_flushed(kind):
    ids = kind.encode("x🦊")[:-1]
    made, rest = stream(kind, ids)
    assert made[-1] == ""
    assert set(rest) == {"\ufffd"}


@pytest.mark.parametrize(
    "text",
    ["Ticket 🦊-41 goes to 🦊 team", "x\u2028y", "  two  spaces 12 34", "𠮷野家", "مرحبا", *NASTY],
)
def test_the_embedded_model_s_own_tokenizer(embedded, text):
    tokenizer = Tokenizer.from_file(str(embedded / "tokenizer.json"))
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    kind = Kind(tokenizer, special)
    stream(kind, kind.encode(text))
    stream(kind, kind.encode(text * 3)[1:-1])
    random_ = random.Random(text)
    size = tokenizer.get_vocab_size()
    for _ in range(20):
        stream(kind, [random_.randrange(size) for _ in range(30)])
