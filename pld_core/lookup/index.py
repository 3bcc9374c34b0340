"""Where each n-gram of a growing text stands: one place of it, and how many there are."""

from __future__ import annotations

from typing import Sequence


class NgramIndex:
    """The most recent place of every n-gram of up to `n_max` tokens, and how many it has.

    An n-gram is entered when a token follows it, so the text's own suffix is never found as
    its own match and every hit has a continuation. Costs O(n_max) per appended token and
    O(1) per find, whatever the length of the text. Another choice of the place is a subclass.
    """

    _SHIFT = 32  # token ids fit 32 bits, so packed n-grams cannot collide

    def __init__(self, n_max: int) -> None:
        self.tokens: list[int] = []
        self.n_max = n_max
        self._border = 0
        self._suffix = [0] * (n_max + 1)  # [n]: the last n tokens, packed into one integer
        self._start: list[dict[int, int]] = [{} for _ in range(n_max + 1)]
        self._count: list[dict[int, int]] = [{} for _ in range(n_max + 1)]

    def extend(self, tokens: Sequence[int], enter: bool = True) -> None:
        """Append tokens; with enter=False n-grams that they continue are not entered."""
        suffix = self._suffix
        for token in tokens:
            length = len(self.tokens)
            if enter:
                for n in range(1, min(self.n_max, length - self._border) + 1):
                    key = suffix[n]
                    self._count[n][key] = self._count[n].get(key, 0) + 1
                    self._enter(n, key, length - n, token)
            for n in range(self.n_max, 0, -1):
                suffix[n] = suffix[n - 1] << self._SHIFT | token
            self.tokens.append(token)

    def end_text(self) -> None:
        """Another text follows: no n-gram reaches over this border."""
        self._border = len(self.tokens)

    def suffix(self, n: int) -> int | None:
        """The packed last n tokens, None when there are fewer."""
        return self._suffix[n] if 0 < n <= len(self.tokens) - self._border else None

    def find(self, n: int, key: int) -> tuple[int, int] | None:
        """(start, how many) of a packed n-gram, or None."""
        start = self._start[n].get(key)
        return None if start is None else (start, self._count[n][key])

    def _enter(self, n: int, key: int, start: int, token: int) -> None:
        """`token` follows the n-gram at `start`, the newest of its places."""
        self._start[n][key] = start


class OldestIndex(NgramIndex):
    """The oldest place of every n-gram."""

    def _enter(self, n: int, key: int, start: int, token: int) -> None:
        self._start[n].setdefault(key, start)
