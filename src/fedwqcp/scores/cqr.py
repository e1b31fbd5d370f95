"""CQR: how far y lies outside two estimated quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.kernels.numpy import distance, reach
from fedwqcp.scores._base import IntervalScore
from fedwqcp.sets import Intervals


@dataclass(frozen=True)
class CQR(IntervalScore):
    """Conformalised quantile regression: V(x, y) = max(lo(x) - y, y - hi(x)).

    The interval is [lo - q, hi + q]. A score, and so a threshold, may be negative; the interval is
    empty where it shrinks past itself. Outputs are lo and hi, shape (n, 2), estimates of the
    alpha / 2 and 1 - alpha / 2 quantiles; where they cross they change places.

    Parameters
    ----------
    symmetric : bool, optional
        One score per point (default). Otherwise two, lo - y and y - hi, each calibrated at
        alpha / 2: scores have shape (n, 2), a threshold is (q_lo, q_hi), and the interval
        [lo - q_lo, hi + q_hi] holds y where neither score passes its threshold.

    References
    ----------
    Romano, Patterson, Candes (2019), NeurIPS.

    Examples
    --------
    >>> CQR().of([[1.0, 3.0], [1.0, 3.0]], [2.5, 4.0])
    array([-0.5,  1. ])
    >>> CQR(symmetric=False).invert([[1.0, 3.0]], [0.5, 0.0])[0]
    (0.5, 3.0)
    """

    width: ClassVar[int] = 2
    _is_distance: ClassVar[bool] = True

    symmetric: bool = True

    @property
    def columns(self) -> int:
        """One score per point, or one for each end of the interval."""
        return 1 if self.symmetric else 2

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # an interval has no classes
        return -inf, inf

    def _of(self, out: Floats, y: Floats) -> Floats:
        lo, hi = np.minimum(*out.T), np.maximum(*out.T)
        below, above = distance(-lo, -y), distance(hi, y)
        return np.maximum(below, above) if self.symmetric else np.column_stack([below, above])

    def _invert(self, out: Floats, q_low: Floats, q_high: Floats) -> Intervals:
        lo, hi = np.minimum(*out.T), np.maximum(*out.T)
        return Intervals(-reach(-lo, q_low), reach(hi, q_high))
