"""Scores of the test points, computed once; every method then only compares thresholds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fedwqcp.arrays import Floats, as_labels
from fedwqcp.scores import IntervalScore, LabelScore, Rule
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp_lab.unit import Numbers


@dataclass(frozen=True)
class Measured:
    """What an agent's sets are on the test points.

    Parameters
    ----------
    n, hits : int
        Test points, and those whose set held the truth.
    size : float
        Mean number of labels or mean length.
    clipped, labels : float or None
        For ordinal labels: mean length within their range, and mean number of labels inside.
    worst_class : float or None
        For class labels: the smallest share of a class's points whose set held the truth.
    """

    n: int
    hits: int
    size: float
    clipped: float | None = None
    labels: float | None = None
    worst_class: float | None = None


class Board(ABC):
    """One agent's test points under one score."""

    def sets(self, threshold: float | Floats, rule: Rule) -> LabelSets | Intervals:
        """Return the sets of a threshold.

        Parameters
        ----------
        threshold : float or Floats
            One, or one for each label.
        rule : {"leq", "leq_top1", "until"}
            How it becomes a set of labels.

        Returns
        -------
        LabelSets or Intervals
            Exactly what ``score.invert`` gives.
        """
        return self._sets(threshold, rule)

    def measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Return coverage and size under a threshold.

        Parameters
        ----------
        threshold : float or Floats
            One, or one for each label.
        rule : {"leq", "leq_top1", "until"}
            How it becomes a set of labels.

        Returns
        -------
        Measured
            The figures.
        """
        return self._measure(threshold, rule)

    @abstractmethod
    def _sets(self, threshold: float | Floats, rule: Rule) -> LabelSets | Intervals:
        """Build the sets."""

    @abstractmethod
    def _measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Count hits and sizes."""


class LabelBoard(Board):
    """The scores of every label.

    Parameters
    ----------
    score : LabelScore
        The score.
    probs : ndarray, shape (n, C)
        Class probabilities.
    truth : ndarray, shape (n,)
        The true labels.
    u : Floats, shape (n,), or None
        Uniforms of a randomised score.
    """

    def __init__(self, score: LabelScore, probs: Numbers, truth: Numbers, u: Floats | None) -> None:
        n, n_classes = probs.shape
        self._score, self._probs, self._u = score, probs, u
        self._scores = score.of_every_label(probs, u)
        self._top = np.arange(n) * n_classes + probs.argmax(
            axis=1
        )  # of equals the first, as ranked
        self._labels = as_labels(truth, n, n_classes)
        self._truth = np.arange(n) * n_classes + self._labels
        self._counts = np.bincount(self._labels, minlength=n_classes)

    def _sets(self, threshold: float | Floats, rule: Rule) -> LabelSets:
        """Compare the scores, which are there, with the threshold."""
        if rule == "until":
            return self._score.invert(self._probs, threshold, rule, self._u)
        mask = self._scores <= threshold
        if rule == "leq_top1":
            mask.ravel()[self._top] = True
        return LabelSets(mask)

    def _measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Count labels and hits."""
        mask = self._sets(threshold, rule).mask
        hits = np.bincount(self._labels[mask.ravel()[self._truth]], minlength=len(self._counts))
        there = self._counts > 0
        return Measured(
            len(mask),
            int(hits.sum()),
            float(np.count_nonzero(mask) / len(mask)),
            worst_class=float((hits[there] / self._counts[there]).min()),
        )


class IntervalBoard(Board):
    """The predictions of a regressor.

    Parameters
    ----------
    score : IntervalScore
        The score.
    outputs : ndarray, shape (n,) or (n, 2)
        What the model puts out.
    truth : ndarray, shape (n,)
        The true values.
    ordinal : int or None
        How many ordinal labels the values are, counted from 0; None for real values.
    """

    def __init__(
        self, score: IntervalScore, outputs: Numbers, truth: Numbers, ordinal: int | None
    ) -> None:
        self._score = score
        self._outputs = outputs
        self._truth = truth
        self._ordinal = ordinal

    def _sets(self, threshold: float | Floats, rule: Rule) -> Intervals:
        """Build the intervals."""
        del rule  # an interval follows from its threshold alone
        return self._score.invert(self._outputs, threshold)

    def _measure(self, threshold: float | Floats, rule: Rule) -> Measured:
        """Count hits, and take lengths raw, clipped and as labels."""
        sets = self._sets(threshold, rule)
        clipped = labels = None
        if self._ordinal is not None:
            clipped = float(sets.clip(0, self._ordinal - 1).sizes().mean())
            labels = float(sets.labels(self._ordinal).sizes().mean())
        hits = int(np.count_nonzero(sets.cover(self._truth)))
        return Measured(len(sets), hits, float(sets.sizes().mean()), clipped, labels)
