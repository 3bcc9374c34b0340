"""Which scores of a row are the largest."""

from __future__ import annotations

from functools import cached_property

import torch

BLOCK = 256


class Ranking:
    """Rows of scores [W, V] and the largest of each.

    On a CPU torch's `argmax` and `topk` take a row number by number, which lasts seven times as
    long as `amax`, and that over a pass's logits as long as a layer of a small model. So a row is
    read once, for the largest of each block, and only blocks with the largest of those are searched.
    """

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __getitem__(self, rows: slice | list[int]) -> Ranking:
        part = Ranking(self.rows[rows])
        if "_maxima" in vars(self):
            part._maxima = self._maxima[rows]
        return part

    def argmax(self) -> torch.Tensor:
        """The place of the largest of each row, of equal ones the first: [W], as torch's."""
        scores, places = self._inside(self._maxima.argmax(-1, keepdim=True))
        return places.gather(-1, scores.argmax(-1, keepdim=True))[:, 0]

    def top(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The `count` <= BLOCK largest of each row, the largest first: scores and places
        [W, count]. Where there are fewer a score is -inf; the place of a -inf means nothing."""
        blocks = min(count, self._maxima.shape[-1])
        scores, places = self._inside(self._maxima.topk(blocks).indices)
        scores, found = scores.topk(count)
        return scores, places.gather(-1, found)

    @cached_property
    def _maxima(self) -> torch.Tensor:
        """The largest of each block; the last block may be shorter: [W, blocks]."""
        rows = self.rows
        whole = rows.shape[-1] // BLOCK * BLOCK
        maxima = rows[:, :whole].unflatten(-1, (-1, BLOCK)).amax(-1)
        if whole == rows.shape[-1]:
            return maxima
        return torch.cat((maxima, rows[:, whole:].amax(-1, keepdim=True)), -1)

    def _inside(self, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The scores of each row's own blocks [W, B] and their places, both [W, B * BLOCK]; what
        would lie beyond the row is -inf."""
        within = torch.arange(BLOCK, device=blocks.device)
        places = (blocks[..., None] * BLOCK + within).flatten(1)
        last = self.rows.shape[-1] - 1
        scores = self.rows.gather(-1, places.clamp(max=last))
        return scores.masked_fill_(places > last, float("-inf")), places
