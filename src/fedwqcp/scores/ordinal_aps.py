"""Ordinal APS: the mass of the block of neighbouring labels that reaches the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwqcp._validation import Floats, Probabilities
from fedwqcp.kernels import Integers, Ranked
from fedwqcp.kernels.numpy import fixed_point, rank_in_order
from fedwqcp.scores._base import GrowsWith, RankedScore


@dataclass(frozen=True)
class OrdinalAPS(RankedScore):
    """Ordinal adaptive sets: V(x, y) = mass of the smallest block of labels that holds y.

    For labels with an order, such as grades of a disease. The block starts at the most probable
    label and grows by the more probable of its two neighbours, the lower one of equals, so that
    every set is a run of labels without gaps.

    Parameters
    ----------
    randomized : bool, optional
        Take the whole mass of y as the source does (default), or only a share u of it.

    References
    ----------
    Lu, Angelopoulos, Pomerantz (2022), MICCAI.

    Examples
    --------
    >>> OrdinalAPS().of_every_label([[0.25, 0.125, 0.5, 0.125]])
    array([[0.875, 0.625, 0.5  , 1.   ]])
    """

    randomized: bool = False

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # a mass is at most 1
        return 0.0, 1.0

    @property
    def _grows_with(self) -> GrowsWith | None:
        return None  # the order is that of blocks, not of masses

    def _formula(self, ranked: Ranked, u: Floats | float) -> Floats:
        return ranked.before + u * (ranked.upto - ranked.before)

    def _places(self, p: Probabilities) -> Ranked:
        fixed = fixed_point(p)
        return rank_in_order(fixed, _grown(fixed))


def _grown(p: Integers) -> Integers:
    """Return the labels of each row in the order in which the block takes them in."""
    n, n_classes = p.shape
    walled = np.pad(p, ((0, 0), (1, 1)), constant_values=-1)  # label j stands at j + 1
    row = np.arange(n)
    order = np.empty((n, n_classes), np.int64)
    order[:, 0] = low = high = p.argmax(axis=1)
    for step in range(1, n_classes):
        down = walled[row, low] >= walled[row, high + 2]
        low, high = low - down, high + ~down
        order[:, step] = np.where(down, low, high)
    return order
