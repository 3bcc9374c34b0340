"""What every target here has in common: which tokens of one sequence are read, how a prompt is
read in parts, and what is kept of a pass."""

from __future__ import annotations

from typing import Iterator, Sequence

import torch

from pld_core.sampling import ChosenScores, Chooser


class SequenceTarget:
    """One sequence of a model; see Target. An engine adds how its cache reads a part of a prompt
    (`_read`), moves positions (`_move`) and forgets them (`_forget`), and `forward`."""

    part = 512  # positions; bounds the memory of a long prompt's attention, and the wait for a Stop

    def __init__(self, config, chooser: Chooser) -> None:
        self.vocabulary: int = config.vocab_size
        self.context_limit: int | None = context_limit(config)
        self._chooser = chooser
        self._ids: list[int] = []  # those in the cache
        self._width = 0  # of the last forward

    @property
    def room(self) -> int:
        limit = self.context_limit
        return 2**31 if limit is None else limit - len(self._ids)

    def read(self, ids: Sequence[int]) -> Iterator[int]:
        for begin in range(len(self._ids), len(ids) - self.part, self.part):
            self._read(ids[begin : begin + self.part])
            yield len(self._ids)

    def prefill(self, ids: Sequence[int]) -> ChosenScores:
        for _ in self.read(ids):
            pass
        logits = self._read(ids[len(self._ids) :])
        return self._chooser.scores(logits, self._ids)

    def commit(self, positions: int, rows: Sequence[int] = ()) -> None:
        kept = [0, *rows[: positions - 1]]
        if rows and kept != list(range(positions)):
            begin = len(self._ids) - self._width
            self._move(begin, kept)
            self._ids[begin : begin + positions] = [self._ids[begin + row] for row in kept]
        self._forget(self._width - positions)

    def _read(self, ids: Sequence[int]) -> torch.Tensor:
        """Reads the next positions of a prompt. Returns the logits [1, V] of the last one."""
        raise NotImplementedError

    def _move(self, begin: int, rows: Sequence[int]) -> None:
        """Puts the positions begin + rows of the cache, rising, at `begin` and behind."""
        raise NotImplementedError

    def _forget(self, count: int) -> None:
        """Forgets the last positions."""
        del self._ids[len(self._ids) - count :]


def context_limit(config, prompt_length: int = 2**31) -> int | None:
    """How many positions a model of this config has; None when it names no limit or counts
    relative positions only (T5).

    "longrope" turns all positions by other angles once there are more than were trained at
    first, so the keys of the shorter context are worth nothing in the longer one: a prompt on
    this side of the border has the positions up to it, one beyond it has all.
    """
    if hasattr(config, "relative_attention_num_buckets"):
        return None
    rope = getattr(config, "rope_parameters", None) or {}
    ropes = [rope, *(each for each in rope.values() if isinstance(each, dict))]  # by kind of layer
    borders = [
        each.get("original_max_position_embeddings", 0)
        for each in ropes
        if each.get("rope_type") == "longrope"
    ]
    if ahead := [border for border in borders if prompt_length <= border]:
        return min(ahead)
    for name in ("max_position_embeddings", "n_positions", "max_seq_len"):
        limit = getattr(config, name, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return None
