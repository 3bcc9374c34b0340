"""Trees of drafts in a model's forward pass: who sees whom, and whether a model can do it."""

from __future__ import annotations

from typing import Callable, Sequence

import torch

from pld_core.models.target import Target


def tree_mask(parents: Sequence[int], begin: int, dtype: torch.dtype, device) -> torch.Tensor:
    """[W, begin + W], added to the attention's scores: each position of a tree sees the context,
    the root and the nodes above it, itself included. parents [W - 1], see pld_core.tree."""
    sees = [[True] + [False] * len(parents)]
    for row, parent in enumerate(parents, 1):
        sees.append(sees[parent + 1].copy())
        sees[-1][row] = True
    mask = torch.zeros(len(sees), begin + len(sees), dtype=dtype, device=device)
    hidden = ~torch.tensor(sees, device=device)
    mask[:, begin:].masked_fill_(hidden, torch.finfo(dtype).min)
    return mask


def reads_trees(
    make: Callable[[], Target], close: Callable[[torch.Tensor, torch.Tensor], bool]
) -> bool:
    """Whether the targets of `make` do: three branches of a tree, the last one kept, give the
    logits that reading each of them alone gives, and so does what is read next. Found by trying,
    as an architecture may do with a mask what it likes."""
    parents = [-1, 0, -1, 2, 0, 3]
    branches = [[0, 1], [0, 4], [2, 3, 5]]
    wrong = make()
    size = wrong.vocabulary
    prompt, root, last = [p * p * 797 % size for p in (5, 6, 9)], 7 % size, 11 % size
    tokens = [place * place * 797 % size for place in (8, 6, 11, 9, 5, 10)]
    try:
        wrong.prefill(prompt)
        rows = wrong.forward([root, *tokens], parents).logits.float()
        wrong.commit(4, [1 + node for node in branches[-1]])
        behind = wrong.forward([last]).logits.float()
    except Exception:  # whatever a model does with arguments that it does not expect
        return False
    for branch in branches:
        right = make()
        right.prefill(prompt)
        alone = right.forward([root, *(tokens[node] for node in branch)]).logits.float()
        if not close(rows[[0, *(1 + node for node in branch)]], alone):
            return False
    right.commit(4)
    return close(behind, right.forward([last]).logits.float())
