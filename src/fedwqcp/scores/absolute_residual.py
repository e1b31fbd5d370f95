"""Absolute residual: how far y lies from the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.kernels.numpy import distance, reach
from fedwqcp.scores._base import IntervalScore
from fedwqcp.sets import Intervals


@dataclass(frozen=True)
class AbsoluteResidual(IntervalScore):
    """Absolute residual: V(x, y) = abs(y - f(x)), with the interval [f - q, f + q].

    Every interval of a model has the same length. Outputs are the predictions, shape (n,).

    References
    ----------
    Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), JASA 113.

    Examples
    --------
    >>> AbsoluteResidual().of([2.0, 5.0], [2.5, 4.0])
    array([0.5, 1. ])
    >>> AbsoluteResidual().invert([2.0, 5.0], 0.5)[0]
    (1.5, 2.5)
    """

    _is_distance: ClassVar[bool] = True

    def _of(self, out: Floats, y: Floats) -> Floats:
        return np.maximum(distance(-out, -y), distance(out, y))

    def _invert(self, out: Floats, q_low: Floats, q_high: Floats) -> Intervals:
        return Intervals(-reach(-out, q_low), reach(out, q_high))
