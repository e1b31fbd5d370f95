"""Normalised residual: how far y lies from the prediction, in units of its spread."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError
from fedwqcp.kernels.numpy import distance, ratio, reach, stretch
from fedwqcp.scores._base import IntervalScore
from fedwqcp.sets import Intervals


@dataclass(frozen=True)
class NormalizedResidual(IntervalScore):
    """Normalised residual: V(x, y) = abs(y - f(x)) / s(x), with the interval [f - q s, f + q s].

    s(x) = max(sigma(x), floor). Intervals are long where the model says that it is unsure. Outputs
    are predictions and their spreads sigma >= 0, shape (n, 2).

    Parameters
    ----------
    floor : float, optional
        Smallest spread that is believed; positive.

    References
    ----------
    Papadopoulos, Proedrou, Vovk, Gammerman (2002), ECML.

    Examples
    --------
    >>> NormalizedResidual().of([[2.0, 0.5], [2.0, 2.0]], [3.0, 3.0])
    array([2. , 0.5])
    """

    width: ClassVar[int] = 2

    floor: float = 1e-8

    def __post_init__(self) -> None:
        if not 0 < self.floor < inf:
            raise InputError(f"floor must be a positive number, got {self.floor!r}")

    def _of(self, out: Floats, y: Floats) -> Floats:
        f, s = out.T
        return ratio(np.maximum(distance(-f, -y), distance(f, y)), s)

    def _invert(self, out: Floats, q_low: Floats, q_high: Floats) -> Intervals:
        f, s = out.T
        return Intervals(-reach(-f, stretch(q_low, s)), reach(f, stretch(q_high, s)))

    def _outputs(self, outputs: npt.ArrayLike) -> Floats:
        out = super()._outputs(outputs)
        negative = out[:, 1] < 0
        if negative.any():
            raise InputError(
                "outputs for NormalizedResidual must be predictions and spreads of at least 0, "
                "got a negative spread",
                row=int(np.argmax(negative)),
            )
        return np.column_stack([out[:, 0], np.maximum(out[:, 1], self.floor)])
