"""One agent's fitted scikit-learn model, with prediction sets.

>>> from sklearn.datasets import load_iris
>>> from sklearn.linear_model import LogisticRegression
>>> import fedwqcp as fw
>>> X, y = load_iris(return_X_y=True)
>>> model = LogisticRegression(max_iter=500).fit(X[::2], y[::2])
>>> agent = ConformalClassifier(model, score=fw.LAC())
>>> release = fw.calibrate({"here": agent.calibration(X[1::4], y[1::4])}, alpha=0.1)
>>> sets = agent.use(release.threshold("here")).predict_set(X[3::4])
>>> len(sets)
37
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, group_places
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Calibration
from fedwqcp.scores import IntervalScore, LabelScore, Rule, row_ids, uniforms
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.scores.custom import Custom
from fedwqcp.sets import Intervals, LabelSets

try:
    from sklearn.base import BaseEstimator
except ImportError:
    raise MissingExtraError("fedwqcp.sklearn", "sklearn") from None

__all__ = ["ConformalClassifier", "ConformalRegressor"]


class _Conformal(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
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
        release = calibrate(
            {"here": cal}, method="split-cp", alpha=alpha, by=by, score=Custom(cal.columns)
        )
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


class ConformalClassifier(_Conformal):
    """A fitted classifier whose predictions are sets of labels.

    Parameters
    ----------
    estimator : object
        Fitted, with ``predict_proba`` and ``classes_``.
    score : LabelScore, optional
        Randomised APS by default.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set.
    key : str, optional
        Key of the uniforms of a randomised score.
    """

    def __init__(
        self,
        estimator: Any,
        score: LabelScore | None = None,
        rule: Rule = "leq",
        key: str = "",
    ) -> None:
        self.estimator = estimator
        self.score = score
        self.rule = rule
        self.key = key

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
            Points that the estimator was not trained on; y in the estimator's own classes.
        ids : array_like, optional
            Ids of the rows, for randomised scores; by default made of their content.
        groups : array_like, shape (n,), optional
            Group of each point, for a round by group.

        Returns
        -------
        Calibration
            Scores, labels and groups.

        Raises
        ------
        InputError
            If y holds a class that the estimator does not know.
        """
        probs = np.asarray(self.estimator.predict_proba(X))
        classes = np.asarray(self.estimator.classes_)
        given = np.asarray(y)
        labels = np.searchsorted(classes, given).clip(max=len(classes) - 1)
        if not (classes[labels] == given).all():
            raise InputError("y holds a class that the estimator was not trained on")
        scores = self._score().of(probs, labels, u=self._uniforms(probs, ids))
        return Calibration(scores, labels, n_classes=len(classes), groups=groups)

    def predict_set(
        self,
        X: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> LabelSets:
        """Return a set of labels for each row; columns follow ``estimator.classes_``.

        Parameters
        ----------
        X : array_like
            Inputs.
        ids : array_like, optional
            Ids of the rows, for randomised scores.
        groups : array_like, shape (n,), optional
            Group of each row, where thresholds are by group.

        Returns
        -------
        LabelSets
            One set for each row.
        """
        probs = np.asarray(self.estimator.predict_proba(X))
        u = self._uniforms(probs, ids)
        return self._score().invert(probs, self._threshold(groups, len(probs)), self.rule, u)

    def _score(self) -> LabelScore:
        """Return the score."""
        return APS() if self.score is None else self.score

    def _uniforms(self, probs: Floats, ids: npt.ArrayLike | None) -> Floats | None:
        """Return the uniforms of a randomised score."""
        if not self._score().randomized:
            return None
        return uniforms(self.key, row_ids(probs) if ids is None else ids)


class ConformalRegressor(_Conformal):
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
