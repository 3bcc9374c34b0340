"""The longest match of all, however long."""

from __future__ import annotations

from typing import Sequence

from pld_core.lookup.automaton import SuffixAutomaton
from pld_core.lookup.ngram import NgramLookup
from pld_core.lookup.protocol import Draft
from pld_core.settings import Settings

_BORDER = -1  # equals no token, so no match reaches from the reference into the context


class LongestLookup(NgramLookup):
    """A match of more than n_max tokens is as long as the text allows, and copied from where it
    first stood: a suffix automaton knows both at no cost. Up to n_max tokens the place matters
    more, as there are many: it is the most recent, as an n-gram index knows. How many places a
    longer match has is not counted.
    """

    def __init__(self, settings: Settings, reference: Sequence[int] = ()) -> None:
        super().__init__(settings, reference)
        self._n_max = settings.n_max
        self._automaton = SuffixAutomaton()
        # What ends a text has nothing behind it to be copied.
        for place, token in enumerate(reference[:-1]):
            self._automaton.extend(token, place)
        self._automaton.extend(_BORDER, self._border)
        self._state = 0
        self._length = 0

    def extend(self, tokens: Sequence[int]) -> None:
        super().extend(tokens)
        text = self._index.tokens
        end = self._prompt_end if self._prompt_only else len(text)
        for place in range(len(text) - len(tokens), len(text)):
            if self._border < place < end:
                self._automaton.extend(text[place - 1], place - 1)
                self._state = self._automaton.repeated
                self._length = self._automaton.length[self._state]
            self._state, self._length = self._automaton.step(
                self._state, self._length, text[place]
            )

    def propose(self, k: int) -> Draft:
        if k < 1 or self._length <= self._n_max:
            return super().propose(k)
        start = self._automaton.end[self._state] + 1 - self._length
        return self._draft(start, self._length, 0, k)
