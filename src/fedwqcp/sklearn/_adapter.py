"""What the adapters of classifiers and regressors share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, group_places
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Calibration

try:
    from sklearn.base import BaseEstimator
except ImportError:
    raise MissingExtraError("fedwqcp.sklearn", "sklearn") from None


class Conformal(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What both adapters share."""

    estimator: Any
    threshold_: float | Floats | dict[str, float | Floats]

    def calibration(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Calibration:
        """Score calibration points, for a federated round; they stay here."""
        raise NotImplementedError

    def fit(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        alpha: float = 0.1,
        by: Literal["label", "group"] | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Calibrate on this agent's own points alone (split conformal prediction).

        Parameters
        ----------
        X, y : array_like
            Calibration points that the estimator was not trained on.
        alpha : float, optional
            Miscoverage level.
        by : {"label", "group"}, optional
            A threshold of its own for each class, or for each group.
        groups : array_like, shape (n,), optional
            Group of each point, for ``by="group"``.

        Returns
        -------
        object
            The adapter itself.
        """
        cal = self.calibration(X, y, groups=groups)
        release = calibrate({"here": cal}, method="split-cp", alpha=alpha, by=by)
        if by == "group":
            return self.use(release.by_group("here"))
        return self.use(release.threshold("here"))

    def use(self, threshold: float | Floats | Mapping[str, float | Floats]) -> Self:
        """Predict with a threshold that a federation agreed on.

        Parameters
        ----------
        threshold : float, Floats or mapping
            As ``release.threshold(agent)`` gives it; for a round by group, as
            ``release.by_group(agent)`` does.

        Returns
        -------
        object
            The adapter itself.
        """
        self.threshold_ = dict(threshold) if isinstance(threshold, Mapping) else threshold
        return self

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the estimator's own predictions.

        Parameters
        ----------
        X : array_like
            Inputs.

        Returns
        -------
        ndarray
            One prediction for each row.
        """
        return np.asarray(self.estimator.predict(X))

    def _threshold(self, groups: npt.ArrayLike | None, n: int) -> float | Floats:
        """Return the threshold: one for all rows, or that of each row's group."""
        if not hasattr(self, "threshold_"):
            raise InputError("no threshold yet: call fit(X, y), or use(release.threshold(agent))")
        if not isinstance(self.threshold_, dict):
            if groups is not None:
                raise InputError("the thresholds are not by group: leave groups out")
            return self.threshold_
        names = list(self.threshold_)
        if groups is None:
            raise InputError(
                f"the thresholds are by group: pass groups, one for each row; known: "
                f"{', '.join(names)}"
            )
        table = np.array([np.atleast_1d(self.threshold_[name]) for name in names])
        return np.asarray(table[group_places(groups, names, n)])
