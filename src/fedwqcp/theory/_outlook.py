"""What summaries let one expect of an averaged threshold: misses, an outlier, a label shift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log, sqrt

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.quantile import weighted_quantile
from fedwqcp.theory._evidence import Evidence
from fedwqcp.wire.payload import LocalQuantile

FAR = log(4.0)
"""An agent is far off if its misses at the others' threshold are four times, or a fourth."""
SURE = 4.0
"""Standard deviations that count as chance."""


def misses(evidence: Evidence, own: Mapping[str, LocalQuantile], q: float) -> Floats | None:
    """Return which share of each agent's scores lies above q, under a reference law.

    Agent k has alpha of its scores above its own threshold q_k. Where the score has an upper bound
    b, they are taken to lie evenly up to it: alpha (b - q)/(b - q_k). Else the law is exponential:
    alpha^(q/q_k), which needs thresholds above 0; None where they are not.
    """
    alpha = evidence.alpha
    q_k = np.array([s.threshold for s in own.values()], dtype=np.float64)
    if evidence.bounds is not None and evidence.bounds[1] < inf:
        top = evidence.bounds[1]
        left = np.maximum(top - q_k, 1e-9 * max(1.0, abs(top)))
        return np.asarray(np.minimum(1.0, alpha * max(top - q, 0.0) / left))
    if not (q_k > 0).all():
        return None
    return np.asarray(alpha ** (max(q, 0.0) / q_k))


def excess(evidence: Evidence, own: Mapping[str, LocalQuantile]) -> tuple[float, float] | None:
    """Return by which factor the mean of thresholds misses more than alpha, and what is chance.

    The factor is sum_k (n_k / N) miss_k(q) / alpha at the mean q. Of like agents it is 1 but for
    the noise of their thresholds, about (M - 1)(1 - alpha)/(alpha N); twice that counts as chance.
    """
    n = np.array([s.n for s in own.values()], dtype=np.float64)
    q_k = np.array([s.threshold for s in own.values()])
    found = misses(evidence, own, float(n @ q_k / n.sum()))
    if found is None:
        return None
    chance = (len(own) - 1) * (1 - evidence.alpha) / (evidence.alpha * n.sum())
    return float(n @ found / n.sum()) / evidence.alpha, 2 * chance


def outlier(evidence: Evidence, own: Mapping[str, LocalQuantile], worst: float) -> str | None:
    """Return the one agent that is far from all others, where these agree among themselves.

    At least four others must agree: their own factor, less chance, is at most `worst`.
    """
    if len(own) < 5:
        return None
    thresholds, sizes = [s.threshold for s in own.values()], [s.n for s in own.values()]
    found = misses(evidence, own, float(weighted_quantile(thresholds, sizes, 0.5)))
    if found is None:
        return None
    n = np.array(sizes, dtype=np.float64)
    noise = SURE * np.sqrt((1 - evidence.alpha) / (evidence.alpha * n))
    off = np.abs(np.log(np.maximum(found, 1e-300) / evidence.alpha)) - noise
    name = list(own)[int(np.argmax(off))]
    others = {other: s for other, s in own.items() if other != name}
    rest = excess(evidence, others)
    if rest is None or off.max() <= FAR or rest[0] - rest[1] > worst:
        return None
    return name


def label_shift(counts: Sequence[Sequence[int]]) -> float | None:
    """Return how far label laws lie from their mixture if that is no chance, else None.

    Pearson's chi-squared of the table, against its mean plus four standard deviations; then the
    size-weighted mean total variation.
    """
    table = np.array([row for row in counts if sum(row)], dtype=np.float64)
    table = table[:, table.sum(axis=0) > 0]
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom < 1:
        return None
    n = table.sum(axis=1, keepdims=True)
    expected = n * table.sum(axis=0) / table.sum()
    statistic = ((table - expected) ** 2 / expected).sum()
    if statistic <= freedom + SURE * sqrt(2 * freedom):
        return None
    return float(np.abs(table - expected).sum() / 2 / table.sum())
