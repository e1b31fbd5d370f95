"""Regressors whose predictions are intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.methods import Calibration
from fedwqcp.scores import IntervalScore
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.sets import Intervals
from fedwqcp.sklearn._adapter import Conformal


class ConformalRegressor(Conformal):
    """A fitted regressor whose predictions are intervals.

    Parameters
    ----------
    estimator : object
        Fitted, with ``predict`` giving what the score needs: shape (n,), or (n, 2) for scores of
        two outputs.
    score : IntervalScore, optional
        Absolute residual by default.
    """

    def __init__(self, estimator: Any, score: IntervalScore | None = None) -> None:
        self.estimator = estimator
        self.score = score

    def calibration(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Calibration:
        """Score calibration points, for a federated round; they stay here.

        Parameters
        ----------
        X, y : array_like
            Points that the estimator was not trained on.
        ids : array_like, optional
            Not used: nothing is random.
        groups : array_like, shape (n,), optional
            Group of each point, for a round by group.

        Returns
        -------
        Calibration
            Scores and groups.
        """
        del ids  # nothing is random
        return Calibration(self._score().of(self.estimator.predict(X), y), groups=groups)

    def predict_interval(self, X: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Intervals:
        """Return an interval for each row.

        Parameters
        ----------
        X : array_like
            Inputs.
        groups : array_like, shape (n,), optional
            Group of each row, where thresholds are by group.

        Returns
        -------
        Intervals
            One interval for each row.
        """
        outputs = np.asarray(self.estimator.predict(X))
        return self._score().invert(outputs, self._threshold(groups, len(outputs)))

    def _score(self) -> IntervalScore:
        """Return the score."""
        return AbsoluteResidual() if self.score is None else self.score
