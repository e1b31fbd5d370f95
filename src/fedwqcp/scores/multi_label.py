"""Rows with several labels at once: the model gives each label a probability of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, as_floats, as_indicators
from fedwqcp.errors import InputError
from fedwqcp.scores._base import Score, as_threshold
from fedwqcp.sets import LabelSets


@dataclass(frozen=True)
class MultiLabel(Score):
    """One minus the probability of each label, where a row may have none, one or many.

    A row has a score V_l = 1 - p_l for each label l, and a weight for each: 1/m for the m labels
    that are there, 0 for the others. The set {l : V_l <= threshold} grows with the threshold, and
    the weight of the scores above it is the row's false-negative rate, the share of its labels that
    the set misses; 0 in a row without labels. A method that controls a risk keeps its mean low.

    References
    ----------
    Angelopoulos, Bates, Fisch, Lei, Schuster (2024), arXiv:2208.02814.

    Examples
    --------
    >>> score = MultiLabel()
    >>> score.of_every_label([[0.75, 0.5, 0.25]])
    array([[0.25, 0.5 , 0.75]])
    >>> score.weights([[1, 0, 1]])
    array([[0.5, 0. , 0.5]])
    >>> score.invert([[0.75, 0.5, 0.25]], 0.5)[0]
    (0, 1)
    """

    losses: ClassVar[bool] = True

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # the range is the same for any number of labels
        return 0.0, 1.0

    def of_every_label(self, probs: npt.ArrayLike) -> Floats:
        """Return the score of every label, shape (n, L).

        Parameters
        ----------
        probs : array_like, shape (n, L)
            Probability of each label by itself, from 0 to 1, as a sigmoid gives it; rows need not
            sum to 1.

        Returns
        -------
        Floats
            The scores.

        Raises
        ------
        InputError
            If a value is no probability.
        """
        p = as_floats(probs, "probabilities", (None, None))
        if p.size and not (p.min() >= 0 and p.max() <= 1):
            raise InputError(
                "probabilities must lie between 0 and 1; pass sigmoid outputs, not logits"
            )
        return np.asarray(1.0 - p)

    def weights(self, labels: npt.ArrayLike) -> Floats:
        """Return how much of a row's loss each label carries, shape (n, L).

        Parameters
        ----------
        labels : array_like, shape (n, L)
            1 where the label is there, 0 where it is not.

        Returns
        -------
        Floats
            1/m for each of the row's m labels, 0 for the others.

        Raises
        ------
        InputError
            If an entry is neither 0 nor 1.
        """
        there = as_indicators(labels, (None, None))
        return np.asarray(there / np.maximum(1, there.sum(axis=1, keepdims=True)))

    def invert(self, probs: npt.ArrayLike, threshold: npt.ArrayLike) -> LabelSets:
        """Return the sets {l : 1 - p_l <= threshold}.

        Parameters
        ----------
        probs : array_like, shape (n, L)
            Probability of each label.
        threshold : array_like
            Shape () for one threshold, (n, 1) for one per row.

        Returns
        -------
        LabelSets
            One set per row.
        """
        scores = self.of_every_label(probs)
        return LabelSets(scores <= as_threshold(threshold, scores.shape))
