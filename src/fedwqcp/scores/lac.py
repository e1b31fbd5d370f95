"""LAC: one minus the probability of the label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

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
        return np.maximum(0.0, 1.0 - p.astype(np.float64))

    def _block(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        if q.ndim:
            return super()._block(p, q, rule, u)
        mask = p >= _least(float(q), p.dtype == np.float32)
        return mask | self._top(p) if rule == "leq_top1" else mask

    def _measure(
        self, p: Probabilities, y: Labels, q: Floats, rule: Rule, u: Floats | None
    ) -> tuple[Bools, Integers]:
        if q.ndim:
            return super()._measure(p, y, q, rule, u)
        least = _least(float(q), p.dtype == np.float32)
        covered, sizes = dispatch.count_from(p, y, least)
        if rule == "leq_top1":
            empty = np.flatnonzero(sizes == 0)
            covered[empty] = p[empty].argmax(axis=1) == y[empty]
            sizes[empty] = 1
        return covered, sizes

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        dispatch.check(p)
        return self._of_every_label(np.take_along_axis(p, y[:, None], axis=1), u)[:, 0]


@lru_cache(maxsize=64)
def _least(q: float, single: bool) -> np.floating[Any]:
    """Return the least probability, float32 or not, whose score is within q; +inf if none is."""
    kind, bits = (np.float32, np.int32) if single else (np.float64, np.int64)
    if not 0 <= q < 1:
        return kind(0 if q >= 1 else np.inf)
    low, high = (
        0,
        int(kind(1).view(bits)),
    )  # bits are in the order of numbers; 0 scores 1, 1 scores 0
    while high - low > 1:
        middle = (low + high) // 2
        inside = 1.0 - float(bits(middle).view(kind)) <= q
        low, high = (low, middle) if inside else (middle, high)
    return kind(bits(high).view(kind))
