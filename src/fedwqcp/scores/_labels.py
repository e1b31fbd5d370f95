"""Scores of class probabilities and a label."""

from __future__ import annotations

from abc import abstractmethod
from math import inf
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
from fedwqcp.kernels import ranked
from fedwqcp.kernels.ranked import Ranked
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
        p = as_probabilities(probs)
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
        p = as_probabilities(probs)
        v = self._uniforms(u, len(p))
        q = as_threshold(threshold, p.shape)
        mask = self._of_every_label(p, v) <= q
        if rule == "leq_top1":
            mask |= self._top(p)
        elif rule == "until":
            mask |= self._before_crossing(p, q)
        elif rule != "leq":
            raise InputError(f"rule must be one of {', '.join(get_args(Rule))}, got {rule!r}")
        return LabelSets(mask)

    @abstractmethod
    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        """Score every label of checked probabilities."""

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        """Score one label per row of checked probabilities."""
        return np.take_along_axis(self._of_every_label(p, u), y[:, None], axis=1)[:, 0]

    def _before_crossing(self, p: Probabilities, q: Floats) -> Bools:
        """Tell which labels come before or at the one that reaches the threshold."""
        del p, q  # only ranked scores read labels in order
        raise InputError(
            f"rule 'until' reads labels in order and does not fit {type(self).__name__}; "
            "use 'leq' or 'leq_top1'"
        )

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


class RankedScore(LabelScore):
    """A score that is a formula of where the label stands in its row."""

    @abstractmethod
    def _formula(self, place: Ranked, u: Floats | float) -> Floats:
        """Return the score of labels at these places; u = 1 where nothing is random."""

    def _places(self, p: Probabilities) -> Ranked:
        """Return where every label stands."""
        return ranked.of_every_label(p)

    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        return self._formula(self._places(p), 1.0 if u is None else u[:, None])

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        return self._formula(ranked.of_labels(p, y), 1.0 if u is None else u)

    def _before_crossing(self, p: Probabilities, q: Floats) -> Bools:
        place = self._places(p)
        return np.asarray((self._formula(place.previous(), 1.0) < q) | (place.rank == 1))

    def _top(self, p: Probabilities) -> Bools:
        return np.asarray(self._places(p).rank == 1)


def check_penalty(penalty: float) -> None:
    """Refuse a penalty on ranks that is not a number of at least 0.

    Parameters
    ----------
    penalty : float
        What each rank adds to a score.

    Raises
    ------
    InputError
        If it is negative, infinite, NaN or no number.
    """
    if isinstance(penalty, bool) or not isinstance(penalty, int | float) or not 0 <= penalty < inf:
        raise InputError(f"penalty must be a finite number of at least 0, got {penalty!r}")
