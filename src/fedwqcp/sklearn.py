"""One agent's fitted scikit-learn model, with prediction sets.

>>> from sklearn.datasets import load_iris
>>> from sklearn.linear_model import LogisticRegression
>>> import fedwqcp as fw
>>> X, y = load_iris(return_X_y=True)
>>> model = LogisticRegression(max_iter=500).fit(X[::2], y[::2])
>>> agent = ConformalClassifier(model, fw.LAC())
>>> release = fw.calibrate({"here": agent.calibration(X[1::4], y[1::4])}, alpha=0.1, score="lac")
>>> sets = agent.use(release, "here").predict_set(X[3::4])
>>> len(sets)
37
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import as_classes, check_same_classes, named
from fedwqcp.api import calibrate
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.predict import scored
from fedwqcp.federation.release import Release
from fedwqcp.methods import Calibration
from fedwqcp.outputs import Outputs
from fedwqcp.scores import IntervalScore, LabelScore, Rule, row_ids
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.serve import Predictor
from fedwqcp.sets import Intervals, LabelSets

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import NotFittedError
    from sklearn.utils import column_or_1d
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import type_of_target
except ImportError:
    raise MissingExtraError("fedwqcp.sklearn", "sklearn") from None

__all__ = ["ConformalClassifier", "ConformalRegressor", "NotReadyError"]


class NotReadyError(InputError, NotFittedError):  # type: ignore[misc]  # scikit-learn is untyped
    """The estimator is not fitted, or there is no threshold yet; scikit-learn's NotFittedError."""


class _Conformal(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What both adapters share."""

    estimator: Any
    conformity_score: LabelScore | IntervalScore | None
    alpha: float
    rule: Rule = "leq"
    key: str = ""
    predictor_: Predictor
    calibration: Callable[..., Calibration]
    _default: ClassVar[LabelScore | IntervalScore]

    def conformalize(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        alpha: float | None = None,
        by: Literal["label", "group"] | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> Self:
        """Calibrate on this agent's own points alone (split conformal prediction).

        Parameters
        ----------
        X, y : array_like
            Calibration points that the estimator was not trained on.
        alpha : float, optional
            Miscoverage level; by default the adapter's.
        by : {"label", "group"}, optional
            A threshold of its own for each class, or for each group.
        groups : array_like, shape (n,), optional
            Group of each point, for ``by="group"``.

        Returns
        -------
        object
            The adapter itself.

        Raises
        ------
        NotReadyError
            If the estimator is not fitted.
        """
        release = calibrate(
            {"here": self.calibration(X, y, groups=groups)},
            method="split-cp",
            alpha=self.alpha if alpha is None else alpha,
            by=by,
            score=self._score,
            rule=self.rule,
            key=self.key,
        )
        return self.use(release)

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, **options: Any) -> Self:
        """Calibrate, under the name that scikit-learn's tools call; the estimator stays as it is.

        Parameters
        ----------
        X, y : array_like
            Calibration points that the estimator was not trained on.
        **options
            As `conformalize` takes them.

        Returns
        -------
        object
            The adapter itself.
        """
        return self.conformalize(X, y, **options)

    def use(self, made: Release | Predictor, agent: str | None = None) -> Self:
        """Predict with what a federation agreed on.

        Parameters
        ----------
        made : Release or Predictor
            The release, or the predictor of this site; kept as ``predictor_``.
        agent : str, optional
            Which agent of the release this is; needed where it has several.

        Returns
        -------
        object
            The adapter itself.

        Raises
        ------
        InputError
            If it is of another score, rule or order of classes, or the agent is not of the release;
            the adapter then stays as it was.
        """
        if isinstance(made, Release):
            if agent is None and len(made.round.agents) != 1:
                raise InputError(f"say which agent this is, one of: {named(made.round.agents)}")
            made = made.predictor(agent or made.round.agents[0])
        elif agent is not None:
            raise InputError("is of a release; a predictor is of one site", field="agent")
        of_score = ("conformity_score", made.score_object, self._score)
        for field, wanted, got in (of_score, ("rule", made.rule, self.rule)):
            if got != wanted:
                raise InputError(f"must be the release's, {wanted!r}, got {got!r}", field)
        self._check_classes(made)
        self.predictor_ = made
        return self

    @property
    def _score(self) -> Any:
        return self._default if self.conformity_score is None else self.conformity_score

    def _check_classes(self, made: Predictor) -> None:
        """Refuse a predictor of other classes than the estimator's."""

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
        return self._outputs("predict", X)

    @property
    def n_features_in_(self) -> int:
        """Number of features that the estimator was fitted with."""
        return int(self.estimator.n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "predictor_")

    def _outputs(self, what: str, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Call the estimator; where it is not fitted, say so with the likely reason."""
        try:
            return np.asarray(getattr(self.estimator, what)(X))
        except NotFittedError:
            raise NotReadyError(
                f"the estimator {type(self.estimator).__name__} is not fitted: fit it on training "
                "data first. clone, cross_val_score and GridSearchCV forget what it learned unless "
                "it is wrapped: FrozenEstimator(model)"
            ) from None

    @property
    def _ready(self) -> Predictor:
        if not hasattr(self, "predictor_"):
            raise NotReadyError("no threshold yet: call conformalize(X, y), or use(release, agent)")
        return self.predictor_


def _one_column(y: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return y as one column, with scikit-learn's warning where it had two axes."""
    return np.asarray(column_or_1d(y, warn=True))


def _numbers(y: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return true values; text is named as scikit-learn names it."""
    given = _one_column(y)
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError("y must hold numbers. Unknown label type: text or objects") from None


def _has_probabilities(adapter: Any) -> bool:
    """Whether the estimator gives probabilities; the error of one that does not is its own."""
    getattr(adapter.estimator, "predict_proba")  # noqa: B009  # raises what hasattr would hide
    return True


class ConformalClassifier(ClassifierMixin, _Conformal):  # type: ignore[misc]  # untyped
    """A fitted classifier whose predictions are sets of labels.

    Parameters
    ----------
    estimator : object
        Fitted, with ``predict_proba`` and ``classes_``; in ``FrozenEstimator`` where clones must
        stay fitted.
    conformity_score : LabelScore, optional
        Randomised APS by default.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set.
    key : str, optional
        Key of the uniforms of a randomised score.
    alpha : float, optional
        Miscoverage level of `conformalize`.
    """

    _default = APS()

    def __init__(
        self,
        estimator: Any,
        conformity_score: LabelScore | None = None,
        rule: Rule = "leq",
        key: str = "",
        alpha: float = 0.1,
    ) -> None:
        self.estimator = estimator
        self.conformity_score = conformity_score
        self.rule = rule
        self.key = key
        self.alpha = alpha

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The estimator's classes, in the order of the columns of sets."""
        return np.asarray(self.estimator.classes_)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the estimator's own probabilities.

        Parameters
        ----------
        X : array_like
            Inputs.

        Returns
        -------
        ndarray, shape (n, C)
            One row for each input.
        """
        return self._outputs("predict_proba", X)

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
        probs = self._outputs("predict_proba", X)
        data = Outputs(probs, self._labels(y), ids, groups=groups, classes=self._names())
        return scored(self._score, self.key, data)

    def predict_set(
        self,
        X: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> LabelSets:
        """Return a set of labels for each row; columns follow ``estimator.classes_``.

        Classes that are text name the labels of the sets.

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
        probs = self._outputs("predict_proba", X)
        ids = row_ids(probs) if ids is None else ids
        sets = self._ready.predict_set(probs, ids=ids, groups=groups)
        return LabelSets(sets.mask, self._names())

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Return the coverage: the share of rows whose set holds their label.

        It should lie near 1 - alpha; a larger one is not better. The accuracy is that of the
        estimator.

        Parameters
        ----------
        X, y : array_like
            Test points that were used neither for training nor for calibration.

        Returns
        -------
        float
            Between 0 and 1.

        Raises
        ------
        InputError
            If thresholds are by group: it takes no groups. Measure what `predict_set` returns.
        """
        return float(self.predict_set(X).cover(self._labels(y)).mean())

    def _labels(self, y: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the place of each class among the estimator's."""
        given = _one_column(y)
        if given.size and (kind := type_of_target(given)) not in ("binary", "multiclass"):
            raise InputError(f"y must hold the estimator's classes. Unknown label type: {kind}")
        positions = {name: position for position, name in enumerate(self.classes_.tolist())}
        labels = [positions.get(name, -1) for name in given.tolist()]
        if -1 in labels:
            raise InputError("y holds a class that the estimator was not trained on")
        return np.array(labels, dtype=np.int64)

    def _names(self) -> tuple[str, ...]:
        """Return the names of the classes, where they are text that a round can carry."""
        classes = self.classes_
        if classes.dtype.kind not in "UO" or not all(isinstance(name, str) for name in classes):
            return ()
        try:
            return as_classes(classes.tolist())
        except InputError:
            return ()

    def _check_classes(self, made: Predictor) -> None:
        if not hasattr(self.estimator, "classes_"):
            raise NotReadyError("fit the estimator first: its classes must be those of the release")
        if (names := self._names()) and made.classes:
            check_same_classes(names, made.classes)
        elif made.n_classes not in (None, len(self.classes_)):
            raise InputError(
                f"the release is of {made.n_classes} classes, the estimator has "
                f"{len(self.classes_)}"
            )


class ConformalRegressor(RegressorMixin, _Conformal):  # type: ignore[misc]  # untyped
    """A fitted regressor whose predictions are intervals.

    Parameters
    ----------
    estimator : object
        Fitted, with ``predict`` giving what the score needs: shape (n,), or (n, 2) for scores of
        two outputs; in ``FrozenEstimator`` where clones must stay fitted.
    conformity_score : IntervalScore, optional
        Absolute residual by default.
    alpha : float, optional
        Miscoverage level of `conformalize`.
    """

    _default = AbsoluteResidual()

    def __init__(
        self, estimator: Any, conformity_score: IntervalScore | None = None, alpha: float = 0.1
    ) -> None:
        self.estimator = estimator
        self.conformity_score = conformity_score
        self.alpha = alpha

    def calibration(
        self, X: npt.ArrayLike, y: npt.ArrayLike, *, groups: npt.ArrayLike | None = None
    ) -> Calibration:
        """Score calibration points, for a federated round; they stay here.

        Parameters
        ----------
        X, y : array_like
            Points that the estimator was not trained on.
        groups : array_like, shape (n,), optional
            Group of each point, for a round by group.

        Returns
        -------
        Calibration
            Scores and groups.
        """
        data = Outputs(self._outputs("predict", X), _numbers(y), groups=groups)
        return scored(self._score, "", data)

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
        return self._ready.predict_interval(self._outputs("predict", X), groups=groups)

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Return the coverage: the share of rows whose interval holds their value.

        It should lie near 1 - alpha; a larger one is not better. R^2 is that of the estimator.

        Parameters
        ----------
        X, y : array_like
            Test points that were used neither for training nor for calibration.

        Returns
        -------
        float
            Between 0 and 1.

        Raises
        ------
        InputError
            If thresholds are by group: it takes no groups. Measure what `predict_interval` returns.
        """
        return float(self.predict_interval(X).cover(_numbers(y)).mean())
