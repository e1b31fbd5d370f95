"""LAC: one minus the probability of the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.scores._labels import LabelScore


@dataclass(frozen=True)
class LAC(LabelScore):
    """Least ambiguous sets: V(x, y) = 1 - p_y.

    The smallest sets on average for a given coverage; they are empty where no label is probable
    enough, and say little about hard inputs.

    References
    ----------
    Sadinle, Lei, Wasserman (2019), JASA 114. Also called THR.

    Examples
    --------
    >>> LAC().of([[0.75, 0.25]], [0])
    array([0.25])
    """

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # the range is the same for any number of classes
        return 0.0, 1.0

    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        del u  # nothing is random
        return np.maximum(0.0, 1.0 - p.astype(np.float64))

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        return self._of_every_label(np.take_along_axis(p, y[:, None], axis=1), u)[:, 0]
