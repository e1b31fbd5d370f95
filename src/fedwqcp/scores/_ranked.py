"""Scores that are a formula of where a label stands in its row."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from math import inf
from typing import Literal, TypeAlias, get_args

import numpy as np

from fedwqcp.arrays import Bools, Floats, Labels, Probabilities
from fedwqcp.errors import InputError
from fedwqcp.kernels import Integers, Ranked, dispatch
from fedwqcp.kernels.dispatch import Crossing
from fedwqcp.kernels.numpy import Limits, limits_of, rank_every_label
from fedwqcp.scores._labels import LabelScore, Rule

Leads: TypeAlias = Literal["mass", "top"]
"""What a score with u = 1 grows with, beside the rank: the mass up to the label, or the largest
probability of the row."""


RULES = get_args(Rule)


class RankedScore(LabelScore):
    """A score that is a formula of where the label stands in its row."""

    @property
    def _leads(self) -> Leads | None:
        """What decides which labels come before the threshold; None if all must be scored."""
        return "mass"

    @abstractmethod
    def _formula(self, place: Ranked, u: Floats | float) -> Floats:
        """Return the score of labels at these places; u = 1 where nothing is random."""

    def _places(self, p: Probabilities) -> Ranked:
        """Return where every label stands."""
        return rank_every_label(p)

    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        return self._formula(self._places(p), 1.0 if u is None else u[:, None])

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        if self._leads is None:
            return super()._of_labels(p, y, u)
        return dispatch.score_labels(
            p, y, lambda place, rows: self._formula(place, 1.0 if u is None else u[rows])
        )

    def _mask(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        if q.ndim or self._leads is None:
            return super()._mask(p, q, rule, u)
        limit = _limits(self, float(q), p.shape[1])
        if u is None and rule == "leq":
            return dispatch.mask_within(p, limit)
        found = dispatch.find_crossings(p, limit, masked=True)
        assert found.mask is not None  # it was asked for
        rows = np.flatnonzero(self._lets_in(found, float(q), rule, u))
        found.mask[rows, found.label[rows]] = True
        return found.mask

    def _measure(
        self, p: Probabilities, y: Labels, q: Floats, rule: Rule, u: Floats | None
    ) -> tuple[Bools, Integers]:
        if q.ndim or self._leads is None:
            return super()._measure(p, y, q, rule, u)
        limit = _limits(self, float(q), p.shape[1])
        if u is None and rule == "leq":
            return dispatch.count_within(p, limit, y)
        found = dispatch.find_crossings(p, limit, labels=y)
        assert found.covered is not None  # labels were given
        more = self._lets_in(found, float(q), rule, u)
        return found.covered | (more & (found.label == y)), found.place.rank - 1 + more

    def _lets_in(self, found: Crossing, q: float, rule: Rule, u: Floats | None) -> Bools:
        """Tell where the first label beyond its limit belongs to the set after all."""
        place, more = found.place, np.zeros(len(found.label), np.bool_)
        if u is not None:
            more |= self._formula(place, u) <= q
        if rule != "leq":
            more |= place.rank == 1
        if rule == "until":
            more |= self._formula(place.previous(), 1.0) < q
        return more & (found.label >= 0)

    def _block(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        mask = super()._block(p, q, rule, u)
        if rule == "until":
            place = self._places(p)
            mask |= (self._formula(place.previous(), 1.0) < q) | (place.rank == 1)
        return mask

    def fitting(self, rule: Rule) -> Rule:
        return rule if rule in RULES else super().fitting(rule)

    def _top(self, p: Probabilities) -> Bools:
        return np.asarray(self._places(p).rank == 1)


@lru_cache(maxsize=64)
def _limits(score: RankedScore, q: float, n_classes: int) -> Limits:
    """Return what one threshold allows at each rank, by the score's own formula."""
    ranks = np.arange(1, n_classes + 1)

    def scores(mass: Integers) -> Floats:
        m = np.ldexp(mass.astype(np.float64), -52)
        return score._formula(Ranked(m, m, ranks, m), 1.0)

    guess = np.nan_to_num(q - scores(np.zeros_like(ranks)))
    return limits_of(lambda mass: scores(mass) <= q, guess, score._leads == "top")


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
