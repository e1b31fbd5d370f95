"""SAPS: the largest probability, and a fixed step for every rank after the first."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.kernels import Ranked
from fedwqcp.scores._base import GrowsWith, RankedScore, check_penalty


@dataclass(frozen=True)
class SAPS(RankedScore):
    """Sorted adaptive sets: V(x, y) = u p_max if o(y) = 1, else p_max + (o(y) - 2 + u) * penalty.

    o(y) is the rank of y. Of all probabilities only the largest enters, so noise in the small ones
    does not.

    Parameters
    ----------
    penalty : float, optional
        What each rank adds (lambda). There is no value that suits every model: the default is of
        the size of a second probability; choose another on data that does not calibrate.
    randomized : bool, optional
        Take a uniform u per row (default), or u = 1.

    References
    ----------
    Huang, Xi, Zhang, Yao, Qiu, Wei (2024), ICML.

    Examples
    --------
    >>> SAPS(penalty=0.25).of_every_label([[0.5, 0.3, 0.2]], u=[0.5])
    array([[0.25 , 0.625, 0.875]])
    """

    penalty: float = 0.1
    randomized: bool = True

    def __post_init__(self) -> None:
        check_penalty(self.penalty)

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        if not self.penalty:
            return 0.0, 1.0
        return 0.0, inf if n_classes is None else 1.0 + (n_classes - 1) * self.penalty

    @property
    def _grows_with(self) -> GrowsWith:
        return "top"

    def _formula(self, ranked: Ranked, u: Floats | float) -> Floats:
        steps = ranked.rank - 2 + u
        return np.where(ranked.rank == 1, u * ranked.top, ranked.top + steps * self.penalty)
