"""Tilted APS: randomised APS with a small part of LAC."""

from __future__ import annotations

from dataclasses import dataclass

from fedwqcp._validation import Floats, Probabilities
from fedwqcp.errors import InputError
from fedwqcp.kernels.numpy import rank_every_label
from fedwqcp.scores import LabelScore


@dataclass(frozen=True)
class TiltedAPS(LabelScore):
    """APS leaning towards LAC: V(x, y) = (1 - tilt)(rho(y) + u p_y) + tilt (1 - p_y).

    Randomised APS leaves out labels of easy inputs as often as of hard ones. A small tilt decides
    by probability first where the random parts are close, and gives smaller sets for the same
    coverage of one model.

    Parameters
    ----------
    tilt : float, optional
        The part of LAC, from 0 (APS) to 1 (LAC).
    randomized : bool, optional
        Take a uniform u per row (default), or u = 1.

    Notes
    -----
    Not for averaging thresholds of calibrated models. Randomised APS scores of every calibrated
    model are uniform; tilted ones are larger for weak models. At tilt 0.07 and level 0.95 a model
    that is always sure and right has the threshold 0.8835, one that knows nothing of ten classes
    0.9465; with their mean the second covers 0.916. Where strong models are overconfident and weak
    ones underconfident the two effects can cancel: compare agents' thresholds on held-out rows
    with and without the tilt before using it.

    References
    ----------
    Romano, Sesia, Candes (2020), NeurIPS, for APS; Sadinle, Lei, Wasserman (2019), JASA 114, for
    LAC.

    Examples
    --------
    >>> TiltedAPS(tilt=0.5).of_every_label([[0.5, 0.25, 0.25]], u=[0.5])
    array([[0.375 , 0.6875, 0.8125]])
    """

    tilt: float = 0.07
    randomized: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.tilt <= 1:
            raise InputError(f"tilt must be a number from 0 to 1, got {self.tilt!r}")

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # the range is the same for any number of classes
        return 0.0, 1.0

    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        place = rank_every_label(p)
        own = place.upto - place.before
        mass = place.before + (1.0 if u is None else u[:, None]) * own
        found: Floats = (1 - self.tilt) * mass + self.tilt * (1 - own)
        return found
