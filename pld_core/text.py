"""Tokens to text pieces that never split a character and together are the decoded whole."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import Callable, Mapping, Protocol, Sequence

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_REMEMBERED = 1024  # windows whose text is known
_LONGEST = 4  # bytes of the longest UTF-8 character, so tokens of the longest one too


class Text(Protocol):
    """How a lane turns its tokens into text."""

    def push(self, token: int) -> str:
        """The text that `token` completes: "" when it completes none."""

    def preview(self, tokens: Sequence[int]) -> list[str]:
        """What pushing the tokens would give, special tokens shown by name; one piece each."""

    def flush(self) -> str:
        """The text still held back; afterwards nothing is."""


class Pieces:
    """Incremental decoding with a tokenizer's `decode(ids) -> str`.

    A token alone has no text: byte-level tokens hold parts of characters, SentencePiece ones
    a leading space that only the first of a text loses. So a piece is the difference between
    decoding with and without the token, in a window that begins at the last token known to
    end at a character border. A character made of several tokens is the text of the token that
    completes it; the others have "".

    Joined, the pieces are the decoded whole, with one exception: SentencePiece decodes a run
    of byte tokens as U+FFFD throughout when one of its bytes is broken, and characters of the
    run that were whole when they were shown stay.

    special: id -> name of control tokens. They have no text in an answer, and their name
    where `show_special` is set (prompts, drafts).
    """

    def __init__(
        self,
        decode: Callable[[list[int]], str],
        special: Mapping[int, str],
        show_special: bool = False,
    ) -> None:
        self._text = lru_cache(_REMEMBERED)(lambda *ids: decode(list(ids)))
        self._special = special
        self._show_special = show_special
        self._anchor: list[int] = []
        self._held: list[int] = []

    def push(self, token: int) -> str:
        if token in self._special:
            return self.flush() + self._special[token] if self._show_special else ""
        self._held.append(token)
        before, after = self._window()
        if after.endswith(REPLACEMENT):
            return self._settled(after) if len(self._held) > 2 * _LONGEST else ""
        return self._release(after[len(before) :])

    def preview(self, tokens: Sequence[int]) -> list[str]:
        fork = copy(self)  # with what it remembers: what is accepted afterwards was decoded here
        fork._show_special = True
        fork._held = list(self._held)
        pieces = [fork.push(token) for token in tokens]
        if pieces:
            pieces[-1] += fork.flush()
        return pieces

    def flush(self) -> str:
        if not self._held:
            return ""
        before, after = self._window()
        return self._release(after[len(before) :])

    def _window(self) -> tuple[str, str]:
        before, after = self._text(*self._anchor), self._text(*self._anchor, *self._held)
        if after.startswith(before):
            return before, after
        # broken bytes took the whole characters before them along: they stand for themselves
        return "", self._text(*self._held)

    def _settled(self, after: str) -> str:
        """Of bytes that are no text, all but the last few can wait for nothing any more: the
        window stays short whatever the model says."""
        held = self._held
        self._held = held[:-_LONGEST]
        before, settled = self._window()
        if not after.startswith(settled) and len(held) < 8 * _LONGEST:
            self._held = held
            return ""
        piece = self._release(settled[len(before) :])
        self._held = held[-_LONGEST:]
        return piece

    def _release(self, piece: str) -> str:
        if piece:
            self._anchor = self._held
        elif len(self._anchor) < 2 * _LONGEST:
            # no text, but perhaps the leading space that only the first token of a text loses
            self._anchor = self._anchor + self._held
        self._held = []
        return piece


def pieces_of(
    ids: Sequence[int], decode: Callable[[list[int]], str], special: Mapping[int, str]
) -> list[str]:
    """The pieces of a whole text, control tokens by name; one piece per id."""
    return Pieces(decode, special).preview(ids)
