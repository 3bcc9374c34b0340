"""Which strings stand in a text: a suffix automaton, built as the text grows."""

from __future__ import annotations


class SuffixAutomaton:
    """Every substring of the text leads from the root, state 0, to one state; a state is a set of
    substrings that end at the same places (Blumer et al. 1985, "The smallest automaton
    recognizing the subwords of a text"). Costs O(1) amortised per appended token, and at most
    two states.
    """

    def __init__(self) -> None:
        self.length = [0]  # [state]: of its longest substring
        self.end = [-1]  # [state]: where its substrings first ended, as given by `extend`
        self._link = [-1]  # [state]: that of the longest suffix that ends at more places
        self._next: list[dict[int, int]] = [{}]
        self._last = 0  # the state of the whole text

    @property
    def repeated(self) -> int:
        """The state of the longest suffix of the text that also ends earlier in it."""
        return max(0, self._link[self._last])

    def extend(self, token: int, end: int) -> None:
        """Append a token, whose position is `end`."""
        new = self._state(self.length[self._last] + 1, end, {})
        state = self._last
        self._last = new
        while state >= 0 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        if state < 0:
            self._link[new] = 0
            return
        reached = self._next[state][token]
        if self.length[reached] == self.length[state] + 1:
            self._link[new] = reached
            return
        # The shorter substrings of `reached` now end at a place where its longest does not.
        split = self._state(self.length[state] + 1, self.end[reached], dict(self._next[reached]))
        self._link[split] = self._link[reached]
        self._link[reached] = self._link[new] = split
        while state >= 0 and self._next[state].get(token) == reached:
            self._next[state][token] = split
            state = self._link[state]

    def step(self, state: int, length: int, token: int) -> tuple[int, int]:
        """From the match of a suffix, `length` tokens that lead to `state`, to the longest match
        of a suffix with `token` behind it: (state, length)."""
        while state > 0 and token not in self._next[state]:
            state = self._link[state]
            length = self.length[state]
        if token in self._next[state]:
            return self._next[state][token], length + 1
        return 0, 0

    def _state(self, length: int, end: int, following: dict[int, int]) -> int:
        self.length.append(length)
        self.end.append(end)
        self._link.append(-1)
        self._next.append(following)
        return len(self.length) - 1
