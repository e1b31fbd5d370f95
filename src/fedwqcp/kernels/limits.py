"""What a threshold allows at each rank.

The scores of `Ranked` places do not fall from one rank to the next, whatever the random part: the
labels within one threshold are the first few of the row. With u = 1 a score is a function of the
rank and of one mass, the mass up to the label or the largest of the row, and so a threshold is one
limit on that mass for each rank. Of the first label beyond its limit the random part decides; all
labels before it are in, and all after it are out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedwqcp.arrays import Bools, Floats
from fedwqcp.kernels.compiled import Integers
from fedwqcp.kernels.ranked import ONE

LOOSE = np.int64(2**62)
NEAR = 64
"""How far a guessed limit may be off, in units of 2^-52, before the whole range is searched."""


@dataclass(frozen=True, eq=False)
class Limits:
    """How much mass each rank may have.

    Parameters
    ----------
    at : Integers, shape (C + 1,)
        Largest mass within the threshold at ranks 0 to C, in fixed point; rank 0 has none.
    by_top : bool
        Whether the mass is the largest probability of the row, or the mass up to the label.
    """

    at: Integers
    by_top: bool

    def pair(self) -> tuple[Integers, Integers]:
        """Return limits on the mass up to the label, and on the largest probability.

        Returns
        -------
        tuple of Integers
            The second is empty where it sets no limit.
        """
        none = np.empty(0, np.int64)
        return (np.full_like(self.at, LOOSE), self.at) if self.by_top else (self.at, none)

    def reals(self) -> Floats:
        """Return the limits as numbers.

        Returns
        -------
        Floats, shape (C + 1,)
            +inf from mass 1 on: masses are capped there. The mass up to the last label is 1.
        """
        whole = self.at >= ONE
        reals = np.where(whole, np.inf, np.ldexp(self.at.astype(np.float64), -52))
        if not self.by_top and not whole[-1]:
            reals[-1] = -np.inf
        return reals

    @cached_property
    def none(self) -> bool:
        """Whether all labels fit, whatever they weigh."""
        return bool((self.at >= ONE).all())


def limits_of(within: Callable[[Integers], Bools], guess: Floats, by_top: bool) -> Limits:
    """Return the largest mass within a threshold at each rank.

    Parameters
    ----------
    within : callable
        Given one mass in fixed point for each rank from 1 to C, whether scores are within the
        threshold; true for small masses.
    guess : Floats, shape (C,)
        About what it is, as a number.
    by_top : bool
        Which mass it is.

    Returns
    -------
    Limits
        -1 where no mass is within.
    """
    middle = np.ldexp(np.clip(guess, 0, 1), 52).astype(np.int64)
    low, high = np.maximum(middle - NEAR, 0), np.minimum(middle + NEAR, ONE)
    low = np.where(within(low), low, -1)
    high = np.where(~within(high), high, np.where(within(np.full_like(high, ONE)), ONE + 1, ONE))
    while (wide := high - low > 1).any():
        middle = np.where(wide, (low + high) // 2, np.maximum(low, 0))
        inside = within(middle)
        low = np.where(wide & inside, middle, low)
        high = np.where(wide & ~inside, middle, high)
    return Limits(np.concatenate([[ONE], low]), by_top)
