"""RAPS: APS with a penalty on labels ranked far down."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from fedwqcp._validation import Floats, check_least
from fedwqcp.kernels import Ranked
from fedwqcp.scores._base import RankedScore, check_penalty


@dataclass(frozen=True)
class RAPS(RankedScore):
    """Regularised adaptive sets: V(x, y) = rho(y) + u p_y + penalty * max(0, o(y) - k_reg).

    o(y) is the rank of y and rho(y) the mass ranked before it. The penalty, which the random part
    does not scale, shortens the sets of inputs whose probabilities have a long tail.

    Parameters
    ----------
    penalty : float, optional
        What each rank beyond `k_reg` adds; 0 gives APS.
    k_reg : int, optional
        How many ranks are free of it.
    randomized : bool, optional
        Take a uniform u per row (default), or u = 1.

    References
    ----------
    Angelopoulos, Bates, Malik, Jordan (2021), ICLR.

    Examples
    --------
    >>> RAPS(penalty=0.25, randomized=False).of_every_label([[0.5, 0.25, 0.25]])
    array([[0.5, 1. , 1.5]])
    """

    penalty: float = 0.01
    k_reg: int = 1
    randomized: bool = True

    def __post_init__(self) -> None:
        check_penalty(self.penalty)
        check_least(self.k_reg, 0, "k_reg")

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        if not self.penalty:
            return 0.0, 1.0
        return 0.0, inf if n_classes is None else 1.0 + self.penalty * max(
            0, n_classes - self.k_reg
        )

    def _formula(self, ranked: Ranked, u: Floats | float) -> Floats:
        mass = ranked.before + u * (ranked.upto - ranked.before)
        return mass + self.penalty * np.maximum(0, ranked.rank - self.k_reg)
