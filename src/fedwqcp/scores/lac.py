"""LAC: one minus the probability of the label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import Integers, dispatch
from fedwqcp.scores._base import LabelScore, Rule


@dataclass(frozen=True)
class LAC(LabelScore):
    """Least ambiguous sets: V(x, y) = 1 - p_y.

    The smallest sets on average for a given coverage; they are empty where no label is probable
    enough, and say little about hard inputs.

    References
    ----------
    Sadinle, Lei, Wasserman (2019), JASA 114. Also called THR.

    Examples
    --------
    >>> LAC().of([[0.75, 0.25]], [0])
    array([0.25])
    """

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # the range is the same for any number of classes
        return 0.0, 1.0

    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        del u  # nothing is random
        scores = np.subtract(1.0, p, dtype=np.float64)
        return np.maximum(0.0, scores, out=scores)

    def _mask(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        if rule != "leq" or not _is_one_each(p, q):
            return super()._mask(p, q, rule, u)
        return dispatch.lac_sets(p, None, _least_of(q, p.dtype == np.float32)).mask

    def _block(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        del u  # nothing is random
        mask = p >= _least_of(q, p.dtype == np.float32)
        return mask | self._top(p) if rule == "leq_top1" else mask

    def _measure(
        self, p: Probabilities, y: Labels, q: Floats, rule: Rule, u: Floats | None
    ) -> tuple[Bools, Integers]:
        if not _is_one_each(p, q) or (q.ndim == 1 and rule != "leq"):
            return super()._measure(p, y, q, rule, u)
        _, covered, sizes = dispatch.lac_sets(p, y, _least_of(q, p.dtype == np.float32))
        if rule == "leq_top1":
            empty = np.flatnonzero(sizes == 0)
            covered[empty] = p[empty].argmax(axis=1) == y[empty]
            sizes[empty] = 1
        return covered, sizes

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        del u  # nothing is random
        return dispatch.lac_scores(p, y)


def _is_one_each(p: Probabilities, q: Floats) -> bool:
    """Tell whether there is one threshold for all, for each label or for each row."""
    return q.ndim == 0 or q.shape in ((p.shape[1],), (len(p), 1))


def _least_of(q: Floats, single: bool) -> npt.NDArray[np.floating[Any]]:
    """Return the least probability, float32 or not, whose score is within each threshold.

    From 0.5 on, scores are multiples of 2^-53: the least one within q is 2^-54 below 1 - q, or the
    next float where that is rounded to another score than q. Below, 1 - p is exact.
    """
    if q.ndim == 0:
        return _least_of_one(float(q), single)
    least = np.asarray(1.0 - q - (q >= 0.5) * 2.0**-54)
    least = _next_where(1.0 - least > q, least)
    if single:
        near = np.asarray(least.astype(np.float32))
        least = _next_where(near < least, near)
    return np.where(q < 0, least.dtype.type(np.inf), least)


@lru_cache(maxsize=64)
def _least_of_one(q: float, single: bool) -> npt.NDArray[np.floating[Any]]:
    """Return `_least_of` one threshold; many calls have the same."""
    return np.asarray(_least_of(np.array([q]), single)[0])


def _next_where(some: Bools, x: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """Return floats, some of them replaced by the next larger one."""
    return (x.view(f"i{x.itemsize}") + some).view(x.dtype)
