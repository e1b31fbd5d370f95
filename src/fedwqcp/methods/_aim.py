"""Where CPhet aims: an agent's weights at the target, and the thresholds of single inputs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._calibration import Calibration
from fedwqcp.methods._density import GaussianMixture, fit_mixture
from fedwqcp.methods._laws import Laws
from fedwqcp.methods._ratios import (
    Target,
    clip_weights,
    local_ratios,
    pooled_ratios,
    quantiles_at,
)
from fedwqcp.methods._reweighting import Weighed, WeightedScores
from fedwqcp.quantile import weighted_quantile

WEIGHT_ROUNDING = 1e-6
"""Share by which rounding may raise a weight: of a log density of -1e9 the last bit is 1e-7."""


@dataclass(frozen=True)
class Aim:
    """A target, whose scores are weighted towards it, and where weights are cut.

    Parameters
    ----------
    target : str or tuple of float
        ``"own"``, ``"mixture"``, or a law in numbers.
    local : bool
        Whether an agent's own scores are weighted, not those of all.
    clip : float
        Level at which weights are cut; 1 cuts none.
    """

    target: Target
    local: bool
    clip: float

    @property
    def even(self) -> bool:
        """Whether the target is where the scores come from: all weights are 1."""
        return self.target == ("own" if self.local else "mixture")

    def law(self, cal: Calibration) -> GaussianMixture | None:
        """Return the law of an agent's features.

        Parameters
        ----------
        cal : Calibration
            The agent's data.

        Returns
        -------
        GaussianMixture or None
            None where none is needed, or there are too few points.

        Raises
        ------
        InputError
            If there are points without features.
        """
        if self.even or cal.n == 0:
            return None
        if cal.features is None:
            raise InputError(
                "cphet needs the features of the calibration points: "
                "pass Calibration(scores, features=...)"
            )
        return fit_mixture(cal.features, cal.labels)

    def ratios(self, x: Floats, laws: Laws | None, own: GaussianMixture | None) -> Floats:
        """Return density ratios, uncut.

        Parameters
        ----------
        x : Floats, shape (n, d)
            Features.
        laws : Laws or None
            Laws of all agents, where they are needed.
        own : GaussianMixture or None
            The agent's law.

        Returns
        -------
        Floats, shape (T, n)
            One row for each target.
        """
        if self.even:
            return np.ones((1, len(x)))
        if self.local or laws is None:
            return local_ratios(self.target, own, laws, x)
        return pooled_ratios(self.target, laws, x)

    def weights(self, cal: Calibration, laws: Laws | None) -> Floats:
        """Return the weights of an agent's points, cut at its own quantile.

        Parameters
        ----------
        cal : Calibration
            The agent's data.
        laws : Laws or None
            Laws of all agents, where they are needed.

        Returns
        -------
        Floats, shape (T, n)
            One row for each target.
        """
        own = self.law(cal)
        if self.even or cal.n == 0 or cal.features is None:
            rows = len(laws.sizes) if laws and self.target == "own" else 1
            return np.ones((rows, cal.n))
        return clip_weights(self.ratios(cal.features, laws, own), self.clip)

    def of_own(
        self, cal: Calibration, laws: Laws | None, alpha: float, x: Floats | None, *, oracle: bool
    ) -> Floats:
        """Return the threshold from an agent's own scores.

        Parameters
        ----------
        cal : Calibration
            The agent's data.
        laws : Laws or None
            Laws of all agents, where their mixture is the target.
        alpha : float
            Miscoverage level.
        x : Floats, shape (m, d), or None
            Features of the test inputs.
        oracle : bool
            Whether a test input adds its mass at +inf.

        Returns
        -------
        Floats, shape () or (m, 1)
            One threshold, or one for each input.
        """
        weights = self.weights(cal, laws)[0]
        if not oracle:
            return quantiles_at(cal.scores, weights, alpha, np.array(0.0))
        ratios = None if x is None else self.ratios(x, laws, self.law(cal))[0]
        return self.thresholds(cal.scores, weights, alpha, ratios)

    def thresholds(
        self, scores: Floats, weights: Floats, alpha: float, ratios: Floats | None
    ) -> Floats:
        """Return thresholds with the test input's mass at +inf.

        Parameters
        ----------
        scores, weights : Floats, shape (n,)
            Scores and their weights.
        alpha : float
            Miscoverage level.
        ratios : Floats, shape (m,), or None
            Uncut ratios of the test inputs.

        Returns
        -------
        Floats, shape (m, 1) or ()
            One for each input; without ratios the largest that any input can get.
        """
        uncut = self.clip == 1 and not self.even
        largest = inf if uncut else float(weights.max(initial=0.0))
        if ratios is None:
            return quantiles_at(scores, weights, alpha, np.array(largest))
        return quantiles_at(scores, weights, alpha, np.minimum(ratios, largest))[:, None]


def check_weights(
    sent: Weighed | WeightedScores, n: int, largest: Floats, *, exact: bool
) -> Floats:
    """Refuse weights that n points cannot have; return their totals.

    A weight is at most the largest of its target. Towards all agents' own densities, moreover,
    sum_t (N_t / N) lambda_t(x) = 1 at every x, so that the weights of a point, each in units of the
    largest, sum to at most 1: what an agent adds towards one target it lacks towards the others.
    ``exact`` says that every point weighs the largest: 1, where the target is the mixture.
    """
    T = len(largest)
    units = np.divide(1.0, largest, out=np.zeros(T), where=largest > 0)
    most = 1 + WEIGHT_ROUNDING
    if isinstance(sent, WeightedScores):
        if len(sent.values) != n:
            raise InputError(f"values: must be {n} scores as in the first answer")
        if len(sent.weights) != T:
            raise InputError(f"weights: must be {T} rows, one per target")
        rows = np.array(sent.weights, dtype=np.float64).reshape(T, n)
        totals, squares = rows.sum(axis=1), np.square(rows).sum(axis=1)
        if (rows > largest[:, None] * most).any() or (units @ rows > most).any():
            raise InputError("weights: must not pass the largest that the round's densities allow")
    else:
        if len(sent.totals) != T or len(sent.quantiles) not in (0, T):
            raise InputError(f"totals: must be {T}, one per target, as quantiles where asked for")
        totals, squares = np.array(sent.totals), np.array(sent.squares)
    if (totals > n * largest * most).any() or (exact and (totals != n * largest).any()):
        raise InputError(f"totals: must not pass n = {n} times the largest weight")
    if units @ totals > n * most:
        raise InputError(f"totals: must not pass n = {n} points over all targets together")
    low, high = np.square(totals) / max(1, n), totals * largest
    if (squares * most < low).any() or (squares > high * most).any():
        raise InputError("squares: must be those of n weights with these totals")
    return np.asarray(totals)


def weighed(scores: Floats, weights: Floats, alpha: float, *, quantiles: bool) -> Weighed:
    """Return the sums of an agent's weights.

    Parameters
    ----------
    scores : Floats, shape (n,)
        Scores.
    weights : Floats, shape (T, n)
        Their weights at each target.
    alpha : float
        Miscoverage level.
    quantiles : bool
        Whether the agent's own weighted quantiles are needed too.

    Returns
    -------
    Weighed
        What the agent sends.
    """
    return Weighed(
        totals=tuple(weights.sum(axis=1).tolist()),
        squares=tuple(np.square(weights).sum(axis=1).tolist()),
        quantiles=tuple(weighted_quantile(scores, row, alpha) for row in weights if quantiles),
    )
