"""LAC on torch tensors: one comparison for each probability."""

from __future__ import annotations

from math import inf
from typing import TypeAlias

from fedwqcp.kernels._torch import torch

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
