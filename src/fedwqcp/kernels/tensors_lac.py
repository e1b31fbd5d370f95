"""LAC on torch tensors: one comparison for each probability.

On a CUDA device one pass checks the rows and scores their labels, or makes or measures the sets.
"""

from __future__ import annotations

from math import inf
from typing import TypeAlias

from fedwqcp.kernels._torch import torch
from fedwqcp.kernels.tensors_fused import Cut, pointers, wanted
from fedwqcp.kernels.tensors_tiles import flag, programs, tiles

Tensor: TypeAlias = torch.Tensor


def scored(own: Tensor) -> Tensor:
    """Return one minus each probability, at least 0.

    Parameters
    ----------
    own : Tensor
        Probabilities.

    Returns
    -------
    Tensor
        The scores, float64.
    """
    return (1.0 - own.to(torch.float64)).clamp(min=0.0)


def smallest(q: Tensor, like: Tensor) -> Tensor:
    """Return the smallest probability whose score is at most a threshold.

    The score falls as the probability grows, rounding included, so ``p >= smallest(q)`` says
    exactly what ``1 - p <= q`` says, in the type of the probabilities. It is found by halving the
    range of bits, since near 0 many floats have one score.

    Parameters
    ----------
    q : Tensor
        Thresholds, float64.
    like : Tensor
        Probabilities, for their type.

    Returns
    -------
    Tensor
        As many as thresholds; +inf where no probability reaches.
    """
    level = q.cpu() if q.numel() == 1 else q  # a number is found sooner without launches
    low = torch.full_like(level, -1, dtype=torch.int64)
    high = torch.ones_like(level).view(torch.int64)
    while bool((high - low > 1).any()):
        mid = low + (high - low) // 2
        enough = scored(mid.view(torch.float64)) <= level
        high = torch.where(enough & (high - low > 1), mid, high)
        low = torch.where(~enough & (high - low > 1), mid, low)
    least = torch.where(level < 0, inf, high.view(torch.float64)).to(like.device)
    if like.dtype == torch.float64:
        return least
    short = least.to(like.dtype)
    up = torch.nextafter(short, torch.full_like(short, inf))
    return torch.where(short.to(torch.float64) < least, up, short)


def score_labels(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the score of one label of each row, and whether any input looks wrong.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        Probabilities, not yet checked, that `tensors_tiles.fits`.
    labels : Tensor, shape (n,)
        Labels, int64, not yet checked.

    Returns
    -------
    tuple of Tensor
        Scores; and a flag that is not 0 if some row is hardly a distribution, or its label no
        class.
    """
    ready = programs()
    assert ready is not None
    p, grid, options = tiles(probs, whole_rows=False)
    scores = torch.empty(len(p), dtype=torch.float64, device=p.device)
    raised = flag(p)
    ready.lac_scores[grid](p, labels.contiguous(), scores, raised, len(p), p.stride(0), **options)
    return scores, raised


def cut(probs: Tensor, q: Tensor, *, top: bool, labels: Tensor | None = None) -> Cut:
    """Return the sets of all rows, or with labels only what they say of these.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        Probabilities, not yet checked, that `tensors_tiles.fits`.
    q : Tensor
        Thresholds that broadcast against the probabilities, float64.
    top : bool
        Whether every set holds the most probable label.
    labels : Tensor, optional
        Labels, int64, not yet checked; then no mask is made.

    Returns
    -------
    Cut
        Sets, or coverage and sizes; and the flag.
    """
    ready = programs()
    assert ready is not None
    p, grid, options = tiles(probs, whole_rows=True)
    level = q.reshape((1,) * (2 - q.ndim) + tuple(q.shape)).contiguous()
    found = wanted(p, labels)
    ready.lac_sets[grid](
        *(p, level, *pointers(found, labels)),
        *(len(p), p.stride(0), level.stride(0) if len(level) > 1 else 0),
        TOP=top,
        EACH=level.shape[1] > 1,
        WRITE=labels is None,
        **options,
    )
    return found
