"""APS: the probability mass ranked before the label, and a share of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedwqcp._validation import SUM_TOLERANCE, Floats, Probabilities
from fedwqcp.kernels import Ranked
from fedwqcp.kernels.numpy import rank_every_label, rank_in_float32
from fedwqcp.scores._base import GrowsWith, RankedScore


@dataclass(frozen=True)
class APS(RankedScore):
    """Adaptive prediction sets: V(x, y) = rho(y) + u p_y, or rho(y) + p_y.

    rho(y) is the mass of the labels ranked before y. Under a calibrated model the randomised score
    is uniform, so thresholds of agents of any strength are comparable; the deterministic score
    piles up at 1 for confident models.

    Parameters
    ----------
    randomized : bool, optional
        Take a uniform u per row (default), or the whole p_y.
    precision : {"exact", "float32"}, optional
        Sums in fixed point, exact and capped at 1; or as plain float32 code gives them, for
        comparison with published results. In fixed point a score is a multiple of 2^-52, so a
        threshold typed by hand may miss a score by the last bit; one taken from scores never does.

    References
    ----------
    Romano, Sesia, Candes (2020), NeurIPS.

    Examples
    --------
    >>> APS(randomized=False).of_every_label([[0.5, 0.25, 0.25]])
    array([[0.5 , 0.75, 1.  ]])
    >>> APS().of([[0.5, 0.25, 0.25]], [1], u=[0.5])
    array([0.625])
    """

    randomized: bool = True
    precision: Literal["exact", "float32"] = "exact"

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # twice the tolerance has room for the roundings of any number of sums
        return 0.0, 1.0 if self.precision == "exact" else 1.0 + 2 * SUM_TOLERANCE

    @property
    def _grows_with(self) -> GrowsWith | None:
        return "mass" if self.precision == "exact" else None

    def _formula(self, ranked: Ranked, u: Floats | float) -> Floats:
        if isinstance(u, float) and u == 1:
            return ranked.upto  # the same number, since these sums are exact
        return ranked.before + u * (ranked.upto - ranked.before)

    def _places(self, p: Probabilities) -> Ranked:
        return rank_every_label(p) if self.precision == "exact" else rank_in_float32(p)
