"""The largest scores of a row, held to torch's own search."""

from __future__ import annotations

import math

import pytest
import torch

from pld_core.largest import BLOCK, Ranking

SIZES = (1, 2, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK - 7, 8 * BLOCK, 50_257)


def scores(width: int, size: int, levels: int = 0) -> torch.Tensor:
    """Random rows, of few levels where a largest is to stand at many places."""
    random = torch.Generator().manual_seed(width * size + levels)
    if levels:
        return torch.randint(levels, (width, size), generator=random).float()
    return torch.randn(width, size, generator=random)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("levels", (0, 1, 3))
def test_the_place_of_the_largest_is_the_first_one_as_torch_finds_it(size, levels):
    for width in (1, 2, 7):
        rows = scores(width, size, levels)
        first = [row.index(max(row)) for row in rows.tolist()]
        assert Ranking(rows).argmax().tolist() == first == rows.argmax(-1).tolist()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", (1, 2, 5, 64))
def test_the_top_are_what_torch_finds_and_stand_where_they_are_said_to(size, count):
    for levels in (0, 3):
        rows = scores(3, size, levels)
        values, places = Ranking(rows).top(count)
        there = min(count, size)
        assert values.shape == places.shape == (3, count)
        assert torch.equal(values[:, :there], rows.topk(there).values)
        assert (values[:, there:] == -math.inf).all()
        assert torch.equal(rows.gather(-1, places[:, :there]), values[:, :there])
        for row in places[:, :there].tolist():
            assert len(set(row)) == there


@pytest.mark.parametrize("size", SIZES)
def test_rows_without_a_number_and_rows_that_allow_nothing(size):
    rows = torch.full((4, size), -math.inf)
    rows[1, -1] = math.nan
    rows[2, size // 2] = -5.0
    rows[3, size // 3] = math.inf
    ranking = Ranking(rows)
    assert ranking.argmax().tolist() == [0, size - 1, size // 2, size // 3]
    values, places = ranking.top(2)
    assert values[2].tolist() == [-5.0, -math.inf] and places[2, 0] == size // 2
    assert values[3, 0] == math.inf and math.isnan(values[1, 0])


def test_a_part_of_the_rows_is_ranked_as_alone():
    rows = scores(6, 5 * BLOCK + 3)
    for searched in (False, True):
        whole = Ranking(rows)
        if searched:
            whole.argmax()
        for taken in (slice(2), slice(3, 4), [5, 0, 3]):
            part, alone = whole[taken], Ranking(rows[taken])
            assert torch.equal(part.rows, alone.rows)
            assert torch.equal(part.argmax(), alone.argmax())
            assert all(map(torch.equal, part.top(3), alone.top(3)))
