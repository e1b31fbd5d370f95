"""Noise for differential privacy, drawn with integers.

A sum of floating-point noise betrays its rounding; here every probability is a ratio of whole
numbers, within a factor of 1 + 1e-39 of what it stands for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from itertools import accumulate
from math import ceil, inf, log, sqrt
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import Generator as Random

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.wire.limits import BINS, EPSILON

PRECISION = Context(prec=60)
"""Digits of costs and their exponentials."""

_FLOOR = Decimal("1e-40")
_UNIT = Decimal("1e80")
_REACH = 60
"""Where a draw of noise begins again: what lies beyond has the probability exp(-60)."""


def draw_by_cost(costs: Sequence[Decimal], rng: Random) -> int:
    """Draw a position with probability proportional to exp(-cost).

    Costs beyond the least by more than log(1e40) count as that: if all costs move by amounts within
    an interval, so do the capped ones, and a privacy proof that rests on the interval stands.
    """
    least = min(costs)
    with localcontext(PRECISION):
        weights = [int(max((least - cost).exp(), _FLOOR) * _UNIT) for cost in costs]
    sums = list(accumulate(weights))
    return bisect_right(sums, integer_below(sums[-1], rng))


def noised_size(n: int, epsilon: float, rng: Random) -> int:
    """Add two-sided geometric noise to a size, P(k) proportional to exp(-epsilon |k|)."""
    return max(0, n + _geometric(epsilon, rng) - _geometric(epsilon, rng))


def _geometric(epsilon: float, rng: Random) -> int:
    """Draw k with probability proportional to exp(-epsilon k), in reaches: it has no memory."""
    reach, passed = ceil(_REACH / epsilon), 0
    while True:
        with localcontext(PRECISION):
            uniform = Decimal(integer_below(2**256, rng) + 1) / 2**256
            steps = int(-uniform.ln() / Decimal(epsilon))
        if steps < reach:
            return passed + steps
        passed += reach


def size_margin(epsilon: float, failure: float) -> int:
    """Return by how much a noised size passes the true one at most, but for a failure."""
    return ceil(log(1 / failure) / epsilon)


def integer_below(end: int, rng: Random) -> int:
    """Return an integer from 0 to end - 1, all equally likely."""
    bits = (end - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        found = int.from_bytes(rng.bytes(size)) >> (8 * size - bits)
        if found < end:
            return found


Form: TypeAlias = Literal["published", "tight"]
"""How far the level is raised: as in the source, or as little as the same proof allows."""


@dataclass(frozen=True)
class Mechanism:
    """The law of a private threshold, given the counts of binned scores.

    Parameters
    ----------
    level : float
        q, from 1/2 to 1.
    rate : float
        What the draw spends, at most epsilon.
    """

    level: float
    rate: float

    def law(self, counts: npt.NDArray[np.int64]) -> Floats:
        """Return the probability of each edge in floating point, for those who study it.

        Shapes: counts (m,) -> (m,).
        """
        below, above = _sides(counts)
        cost = self.rate * np.maximum((1 - self.level) * below, self.level * above)
        weights = np.exp(cost.min() - cost)
        return np.asarray(weights / weights.sum())

    def draw(self, counts: npt.NDArray[np.int64], rng: Random) -> int:
        """Draw an edge: an integer below the sum of integer weights, without floating point.

        Shapes: counts (m,).
        """
        below, above = (side.tolist() for side in _sides(counts))
        with localcontext(PRECISION):
            q, rate = Decimal(self.level), Decimal(self.rate)
            costs = [rate * max((1 - q) * b, q * a) for b, a in zip(below, above, strict=True)]
        return draw_by_cost(costs, rng)


def mechanism(
    n: int, alpha: float, *, epsilon: float, bins: int, gamma: float, form: Form, failure: float
) -> Mechanism | None:
    """Return the mechanism whose threshold covers a new point with probability 1 - alpha.

    With probability 1 - failure the drawn edge has at least (n + 1)(1 - alpha)/(1 - gamma alpha)
    scores at or below it, whatever the data.
    """
    if n < 1:
        return None
    needed = (n + 1) * (1 - alpha) / (n * (1 - gamma * alpha))
    noise = log(bins / failure) / (epsilon * n)
    if form == "tight":
        q = (needed + sqrt(needed**2 + 4 * noise)) / 2  # q = needed + noise / q
        return None if q > 1 else Mechanism(q, epsilon)
    q = needed + 2 * noise
    if q > 1:
        return None
    spread = 2 * q * (1 - q)  # near q = 1 the source's own rate would pass epsilon
    return Mechanism(q, epsilon if spread <= alpha else epsilon * alpha / spread)


def edges_of(bins: int, bounds: tuple[float, ...] | None) -> Floats:
    """Return the edges that scores are rounded up to.

    Shapes:  -> (m,).
    """
    if bounds is None:
        return np.arange(1, bins + 1) / bins
    return np.append(np.linspace(bounds[0], bounds[1], bins)[1:], inf)


def count_bins(scores: Floats, edges: Floats) -> npt.NDArray[np.int64]:
    """Return how many scores are rounded up to each edge.

    Shapes: scores (n,), edges (m,) -> (m,).
    """
    return np.bincount(np.searchsorted(edges, scores), minlength=len(edges)).astype(np.int64)


def check_epsilon(value: float, what: str) -> None:
    """Refuse an epsilon under which nothing would be private, or nothing useful."""
    EPSILON.number(value, what)


def check_private(
    epsilons: dict[str, float], bins: int, gamma: float, bounds: Sequence[float] | None
) -> None:
    """Refuse settings under which nothing would be private, or nothing proved."""
    for name, value in epsilons.items():
        check_epsilon(value, name)
    BINS.whole(bins, "bins")
    if not 0 < gamma < 1:
        raise InputError(f"gamma must be strictly between 0 and 1, got {gamma!r}")
    if bounds is not None and not (len(bounds) == 2 and -inf < bounds[0] < bounds[1] < inf):
        raise InputError(
            "bounds must be two finite numbers, the smaller first, chosen without looking at the "
            f"data, got {bounds!r}"
        )


def _sides(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many scores lie below each edge, and how many above."""
    upto = np.cumsum(counts)
    return upto - counts, upto[-1] - upto
