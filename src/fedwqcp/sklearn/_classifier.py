"""Classifiers whose predictions are sets of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods import Calibration
from fedwqcp.scores import LabelScore, Rule, row_ids, uniforms
from fedwqcp.scores.aps import APS
from fedwqcp.sets import LabelSets
from fedwqcp.sklearn._adapter import Conformal


class ConformalClassifier(Conformal):
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
