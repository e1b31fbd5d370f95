"""Compiled loops over scores: how many lie below, and which lie between."""

from __future__ import annotations

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.kernels._jit import Whole, jit

BLOCK = 64
"""Values that are looked at together; most blocks hold nothing that is wanted."""


@jit
def below(values: Floats, low: float, high: float) -> tuple[Whole, Whole]:
    """Count the values below either of two."""
    below_low, below_high = np.int64(0), np.int64(0)
    for i in range(len(values)):
        below_low += values[i] < low
        below_high += values[i] < high
    return below_low, below_high


@jit
def between(values: Floats, low: float, high: float, kept: Floats) -> None:
    """Keep the values from low on and below high; there is room for one more."""
    n = np.int64(0)
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        inside = np.int64(0)
        for i in range(len(block)):
            inside += (block[i] >= low) & (block[i] < high)
        for i in range(len(block) if inside else 0):
            kept[n] = block[i]  # stays only if the next one goes behind it
            n += (block[i] >= low) & (block[i] < high)
