"""Margin: how far the label's probability lies below the largest of the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwqcp._validation import Floats, Probabilities
from fedwqcp.scores import LabelScore


@dataclass(frozen=True)
class Margin(LabelScore):
    """Margin: V(x, y) = max of p over the other labels, minus p_y.

    References
    ----------
    Linusson, Johansson, Bostrom, Lofstrom (2018), COPA.

    Examples
    --------
    >>> Margin().of([[0.75, 0.25]], [0])
    array([-0.5])
    """

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # the range is the same for any number of classes
        return -1.0, 1.0

    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        del u  # nothing is random
        wide = np.pad(p.astype(np.float64), ((0, 0), (0, 1)))  # no other label has none
        second, first = np.sort(wide, axis=1)[:, -2:].T[:, :, None]
        best = wide.argmax(axis=1)[:, None] == np.arange(p.shape[1])
        margins: Floats = np.where(best, second, first) - wide[:, :-1]
        return margins
