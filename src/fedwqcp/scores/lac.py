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
        return np.maximum(0.0, 1.0 - p.astype(np.float64))

    def _mask(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        if q.ndim == 0 or rule != "leq":
            return super()._mask(p, q, rule, u)
        dispatch.check(p)
        return p >= _least_of(q, p.dtype == np.float32)

    def _block(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        del u  # nothing is random
        mask = p >= _least_of(q, p.dtype == np.float32)
        return mask | self._top(p) if rule == "leq_top1" else mask

    def _measure(
        self, p: Probabilities, y: Labels, q: Floats, rule: Rule, u: Floats | None
    ) -> tuple[Bools, Integers]:
        by_label = q.shape == (p.shape[1],) and rule == "leq"
        if q.ndim and not by_label and q.shape != (len(p), 1):
            return super()._measure(p, y, q, rule, u)
        covered, sizes = dispatch.count_from(p, y, _least_of(q, p.dtype == np.float32))
        if rule == "leq_top1":
            empty = np.flatnonzero(sizes == 0)
            covered[empty] = p[empty].argmax(axis=1) == y[empty]
            sizes[empty] = 1
        return covered, sizes

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        dispatch.check(p)
        return self._of_every_label(np.take_along_axis(p, y[:, None], axis=1), u)[:, 0]


def _least_of(q: Floats, single: bool) -> npt.NDArray[np.floating[Any]]:
    """Return the least probability for each of some thresholds, as `_least` does for one."""
    if q.ndim == 0:
        return np.asarray(_least(float(q), single))
    kind: Any = np.float32 if single else np.float64
    bits: Any = np.int32 if single else np.int64
    guess = (1 - np.clip(q, 0, 1)).astype(kind).view(bits)  # mostly off by one float at most
    low, high = np.maximum(guess - bits(2), bits(-1)), guess + bits(1)
    near = _scores_within(high, kind, q) & ~_scores_within(low, kind, q)
    for _ in range(2):
        inside = _scores_within(low + bits(1), kind, q)
        low = np.where(inside, low, low + bits(1))
    least: npt.NDArray[np.floating[Any]] = (low + bits(1)).view(kind)
    outside = (q < 0) | (q >= 1)
    least[outside] = np.where(q[outside] < 0, np.inf, 0)
    far = ~(near | outside)
    least[far] = [_least(float(one), single) for one in q[far]]
    return least


def _scores_within(bits: npt.NDArray[Any], kind: type, q: Floats) -> Bools:
    """Tell which probabilities, given as bits, have a score within the thresholds; -1 has none."""
    within: Bools = (1.0 - bits.view(kind).astype(np.float64) <= q) & (q < 1)
    return within


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
