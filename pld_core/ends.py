"""Where an answer ends, asked of one token after the other, so that a block of accepted
tokens ends where plain decoding would have."""

from __future__ import annotations

from typing import Collection, Sequence


class Ends:
    """End-of-sequence ids, stop strings and the length limit of one answer.

    A stop string is looked for in the generated text alone, so the prompt's own copy never
    fires it; the token that completes it is the last one kept (transformers' rule).
    """

    def __init__(self, eos: Collection[int], stop: Sequence[str], max_new_tokens: int) -> None:
        self._eos = frozenset(eos)
        self._stop = tuple(stop)
        self._remaining = max_new_tokens
        self._tail = ""
        self._reach = max((len(stop) for stop in self._stop), default=1) - 1

    @property
    def remaining(self) -> int:
        """How many tokens may still be kept."""
        return self._remaining

    def after(self, token: int, piece: str) -> str | None:
        """The reason why `token`, whose text is `piece`, is the last one, or None."""
        self._remaining -= 1
        if token in self._eos:
            return "eos"
        if self._stop:
            window = self._tail + piece
            if any(stop in window for stop in self._stop):
                return "stop"
            self._tail = window[-self._reach :] if self._reach else ""
        return "length" if self._remaining == 0 else None
