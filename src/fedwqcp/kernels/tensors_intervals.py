"""Scores of regressors on torch tensors; the twins of `scores._intervals`, to the last bit."""

from __future__ import annotations

from math import inf
from typing import TypeAlias

from fedwqcp.kernels._torch import torch

Tensor: TypeAlias = torch.Tensor


def distance(base: Tensor, y: Tensor) -> Tensor:
    """Return y - base, raised where base plus the rounded difference would fall short of y.

    Parameters
    ----------
    base, y : Tensor
        Where to measure from and to.

    Returns
    -------
    Tensor
        The smallest q with ``y <= reach(base, q)``.
    """
    q = y - base
    return torch.where(base + q < y, _next(q, inf), q)


def reach(base: Tensor, q: Tensor) -> Tensor:
    """Return base + q, lowered where its distance from the base would pass q.

    Parameters
    ----------
    base, q : Tensor
        Where to start, and how far to go.

    Returns
    -------
    Tensor
        The largest y with ``distance(base, y) <= q``.
    """
    y = base + q
    return torch.where(distance(base, y) > q, _next(y, -inf), y)


def ratio(length: Tensor, scale: Tensor) -> Tensor:
    """Return length / scale, raised where scale times the rounded ratio would fall short.

    Parameters
    ----------
    length, scale : Tensor
        What to measure, and a positive unit.

    Returns
    -------
    Tensor
        The smallest q with ``length <= stretch(q, scale)``.
    """
    q = length / scale
    return torch.where(q * scale < length, _next(q, inf), q)


def stretch(q: Tensor, scale: Tensor) -> Tensor:
    """Return q * scale, lowered where its ratio to the scale would pass q.

    Parameters
    ----------
    q, scale : Tensor
        How many units, and a positive unit.

    Returns
    -------
    Tensor
        The largest length with ``ratio(length, scale) <= q``.
    """
    length = q * scale
    return torch.where(ratio(length, scale) > q, _next(length, -inf), length)


def _next(values: Tensor, towards: float) -> Tensor:
    """Return the next float in one direction."""
    return torch.nextafter(values, torch.full_like(values, towards))
