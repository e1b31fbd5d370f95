"""Scores of class probabilities and a label."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import (
    Bools,
    Floats,
    Labels,
    Probabilities,
    as_labels,
    as_probabilities,
    as_uniforms,
)
from fedwqcp.errors import InputError
from fedwqcp.kernels import Integers
from fedwqcp.kernels.dispatch import check
from fedwqcp.kernels.numpy import blocks
from fedwqcp.scores._base import Score, as_threshold
from fedwqcp.sets import LabelSets

Rule: TypeAlias = Literal["leq", "leq_top1", "until"]
"""How a threshold becomes a set of labels.

``leq``: the labels with V <= q. ``leq_top1``: these and the most probable label. ``until``: labels
in order until their score, random part left out, first reaches q, the crossing label and all of
``leq`` included; never empty.
"""


class LabelScore(Score):
    """A score of class probabilities and a label."""

    def of(
        self, probs: npt.ArrayLike, labels: npt.ArrayLike, u: npt.ArrayLike | None = None
    ) -> Floats:
        """Return the score of one label per row, shape (n,).

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        labels : array_like, shape (n,)
            Labels from 0 to C - 1.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score, as `uniforms` gives them.

        Returns
        -------
        Floats
            The scores.
        """
        p = as_probabilities(probs, checked=False)
        y = as_labels(labels, len(p), p.shape[1])
        return self._of_labels(p, y, self._uniforms(u, len(p)))

    def of_every_label(self, probs: npt.ArrayLike, u: npt.ArrayLike | None = None) -> Floats:
        """Return the score of every label, shape (n, C).

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score; one serves all labels of a row.

        Returns
        -------
        Floats
            The scores.
        """
        p = as_probabilities(probs)
        return self._of_every_label(p, self._uniforms(u, len(p)))

    def invert(
        self,
        probs: npt.ArrayLike,
        threshold: npt.ArrayLike,
        rule: Rule = "leq",
        u: npt.ArrayLike | None = None,
    ) -> LabelSets:
        """Return the prediction sets {y : V(x, y) <= threshold}.

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        threshold : array_like
            Shape () for one threshold, (C,) for one per label, (n, 1) for one per row.
        rule : {"leq", "leq_top1", "until"}, optional
            How the threshold becomes a set; see `Rule`.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score.

        Returns
        -------
        LabelSets
            One set per row.
        """
        p = as_probabilities(probs, checked=False)
        v = self._uniforms(u, len(p))
        q = as_threshold(threshold, p.shape)
        return LabelSets(self._mask(p, q, self.fitting(rule), v))

    def measure(
        self,
        probs: npt.ArrayLike,
        labels: npt.ArrayLike,
        threshold: npt.ArrayLike,
        rule: Rule = "leq",
        u: npt.ArrayLike | None = None,
    ) -> tuple[Bools, Integers]:
        """Return which sets hold their label, and how large they are, without building them.

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        labels : array_like, shape (n,)
            The true labels.
        threshold : array_like
            As `invert` takes it.
        rule : {"leq", "leq_top1", "until"}, optional
            How the threshold becomes a set; see `Rule`.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score.

        Returns
        -------
        tuple of Bools and Integers, each of shape (n,)
            What `LabelSets.cover` and `LabelSets.sizes` give for the sets of `invert`.
        """
        p = as_probabilities(probs, checked=False)
        y = as_labels(labels, len(p), p.shape[1])
        v = self._uniforms(u, len(p))
        q = as_threshold(threshold, p.shape)
        return self._measure(p, y, q, self.fitting(rule), v)

    @abstractmethod
    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        """Score every label of checked probabilities."""

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        """Check probabilities and score one label per row."""
        check(p)
        found = np.empty(len(p))
        for rows in blocks(*p.shape):
            scores = self._of_every_label(p[rows], None if u is None else u[rows])
            found[rows] = np.take_along_axis(scores, y[rows, None], axis=1)[:, 0]
        return found

    def _mask(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        """Check probabilities and mark the labels of each set."""
        check(p)
        mask = np.empty(p.shape, np.bool_)
        for rows in blocks(*p.shape):
            mask[rows] = self._block(
                p[rows], _of_rows(q, rows), rule, None if u is None else u[rows]
            )
        return mask

    def _measure(
        self, p: Probabilities, y: Labels, q: Floats, rule: Rule, u: Floats | None
    ) -> tuple[Bools, Integers]:
        """Check probabilities, and look at the sets of a block of rows at a time."""
        check(p)
        covered, sizes = np.empty(len(p), np.bool_), np.empty(len(p), np.int64)
        for rows in blocks(*p.shape):
            part = None if u is None else u[rows]
            sets = LabelSets(self._block(p[rows], _of_rows(q, rows), rule, part))
            covered[rows], sizes[rows] = sets.cover(y[rows]), sets.sizes()
        return covered, sizes

    def _block(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        """Mark the labels of each set by scoring every label."""
        mask = self._of_every_label(p, u) <= q
        return mask | self._top(p) if rule == "leq_top1" else mask

    def fitting(self, rule: Rule) -> Rule:
        """Refuse a rule that is unknown or does not fit.

        Parameters
        ----------
        rule : str
            How a threshold becomes a set of labels.

        Returns
        -------
        str
            The same.

        Raises
        ------
        InputError
            Naming the rules that fit.
        """
        if rule not in get_args(Rule):
            raise InputError(f"rule must be one of {', '.join(get_args(Rule))}, got {rule!r}")
        if rule == "until":
            raise InputError(
                f"rule 'until' reads labels in order and does not fit {type(self).__name__}; "
                "use 'leq' or 'leq_top1'"
            )
        return rule

    def _top(self, p: Probabilities) -> Bools:
        """Mark the most probable label of each row, the first of equals."""
        return np.asarray(p.argmax(axis=1)[:, None] == np.arange(p.shape[1]))

    def _uniforms(self, u: npt.ArrayLike | None, n: int) -> Floats | None:
        """Check that u came exactly where it is needed."""
        if not self.randomized:
            if u is not None:
                raise InputError(f"{self!r} is not randomised: leave u out")
            return None
        if u is None:
            raise InputError(
                f"{self!r} is randomised and needs one uniform per row: "
                "pass u=uniforms(key, ids), or use randomized=False"
            )
        return as_uniforms(u, n)


def _of_rows(q: Floats, rows: slice) -> Floats:
    """Return the thresholds of some rows."""
    return q[rows] if q.ndim == 2 and len(q) > 1 else q
