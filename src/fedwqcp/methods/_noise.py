"""Noise for differential privacy, and the private threshold that is drawn with it.

All noise of this package is drawn here.

The private threshold is the exponential mechanism on binned scores. Scores are rounded up to one of
m edges. Edge e is drawn with probability proportional to
exp(-rate * max((1 - q) #{s < e}, q #{s > e})), q being a raised level. One sample replaced by
another raises one count by at most 1 and lowers the other by at most 1, so the exponents move
within an interval of length rate * ((1 - q) + q): the draw is rate-private. It and the noise on a
size are drawn with integers: sums of floating-point noise betray their rounding; here every
probability is a ratio of whole numbers, within a factor of 1 + 1e-39 of what it stands for.

Why no library: the proof of coverage needs the probabilities above, of a cost with an unequal price
below and above. OpenDP's quantile scores candidates in another way, adds a compiled library to what
an agent must trust, and draws from OpenSSL, so that these probabilities could not be tested with a
seeded generator. The draw here is a few lines of integers; tests compare it with its distribution.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import accumulate
from math import ceil, inf, log, sqrt

import numpy as np
import numpy.typing as npt
from numpy.random import Generator as Random

from fedwqcp._validation import Floats
from fedwqcp.quantile import Scores, counts_up_to
from fedwqcp.stored import StoredScores

_PRECISION = Context(prec=60)
"""Digits of costs and their exponentials."""

_FLOOR = Decimal("1e-40")
_UNIT = Decimal("1e80")
"""The least weight of a draw beside the largest, and the number that makes weights integers."""

_REACH = 60
"""Where a draw of noise begins again: what lies beyond has the probability exp(-60)."""


@dataclass(frozen=True)
class Mechanism:
    """The distribution of a private threshold, given the counts of binned scores."""

    level: float  # q, from 1/2 to 1
    rate: float  # what the draw spends, at most epsilon

    def draw(self, counts: npt.NDArray[np.int64], rng: Random) -> int:
        """Draw an edge: an integer below the sum of integer weights, without floating point."""
        sums = list(accumulate(self.weights(counts)))
        return bisect_right(sums, integer_below(sums[-1], rng))

    def weights(self, counts: npt.NDArray[np.int64]) -> list[int]:
        """Return integers in proportion to the probabilities of the edges: exp(-cost).

        Costs beyond the least by more than log(1e40) count as that: if all costs move by amounts
        within an interval, so do the capped ones, and a privacy proof that rests on the interval
        stands. From the least cost on they only grow to either side, so that each weight is the one
        before times a factor: an exponential for each edge would take seconds at many levels.
        """
        below, above = (side.tolist() for side in _sides(counts))
        q = Fraction(self.level)
        turn = bisect_left(
            range(len(below)), True, key=lambda edge: (1 - q) * below[edge] >= q * above[edge]
        )
        with localcontext(_PRECISION):
            level, rate = Decimal(self.level), Decimal(self.rate)
            sides = [(rate * level, above[:turn][::-1]), (rate * (1 - level), below[turn:])]
            least = min(unit * side[0] for unit, side in sides if side)
            left, right = (list(_falling(unit, side, least)) for unit, side in sides)
        return left[::-1] + right


def mechanism(
    n: int, alpha: float, *, epsilon: float, bins: int, gamma: float, failure: float
) -> Mechanism | None:
    """Return the mechanism whose threshold covers a new point with probability 1 - alpha.

    With probability 1 - failure the drawn edge has at least (n + 1)(1 - alpha)/(1 - gamma alpha)
    scores at or below it, whatever the data: one with fewer costs n q (q - needed), which is
    log(m / failure) / epsilon, more than the cheapest. None where no level up to 1 does it.
    ``failure`` is gamma alpha, or what the noise on the size leaves of it; n may be too low a size.
    """
    if n < 1:
        return None
    needed = (n + 1) * (1 - alpha) / (n * (1 - gamma * alpha))
    noise = (log(bins) - log(failure)) / (epsilon * n)
    q = (needed + sqrt(needed**2 + 4 * noise)) / 2  # q = needed + noise / q
    return None if q > 1 else Mechanism(q, epsilon)


def edges_of(bins: int, bounds: tuple[float, ...] | None) -> Floats:
    """Return the edges that scores are rounded up to.

    m of them, increasing; a stated range ends with +inf, else they lie in (0, 1].
    """
    if bounds is None:
        return np.arange(1, bins + 1) / bins
    return np.append(np.linspace(bounds[0], bounds[1], bins)[1:], inf)


def count_bins(scores: Scores, edges: Floats) -> npt.NDArray[np.int64]:
    """Return how many scores are rounded up to each edge; those beyond count at the last.

    Shapes: scores (n,), edges (m,) -> (m,).
    """
    if isinstance(scores, StoredScores):
        return np.diff([0, *counts_up_to(scores, edges[:-1]), len(scores)])
    return np.bincount(np.searchsorted(edges[:-1], scores), minlength=len(edges)).astype(np.int64)


def noised_size(n: int, epsilon: float, rng: Random) -> int:
    """Add two-sided geometric noise to a size, P(k) proportional to exp(-epsilon |k|)."""
    return max(0, n + _geometric(epsilon, rng) - _geometric(epsilon, rng))


def size_margin(epsilon: float, failure: float) -> int:
    """Return what the noise on a size exceeds with at most the probability ``failure``."""
    return ceil(-log(failure) / epsilon)


def _falling(unit: Decimal, counts: Sequence[int], least: Decimal) -> Iterator[int]:
    """Yield the weights of costs unit * count, for counts that never fall."""
    if not counts:
        return
    weight, factors = (least - unit * counts[0]).exp(), dict[int, Decimal]()
    for step in np.diff(counts, prepend=counts[0]).tolist():
        if step not in factors:
            factors[step] = (-unit * step).exp()
        weight *= factors[step]
        yield int(max(weight, _FLOOR) * _UNIT)


def integer_below(end: int, rng: Random) -> int:
    """Return an integer from 0 to end - 1, all equally likely."""
    bits = (end - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        number = int.from_bytes(rng.bytes(size)) >> (8 * size - bits)
        if number < end:
            return number


def _geometric(epsilon: float, rng: Random) -> int:
    """Draw k, P(k) proportional to exp(-epsilon k), reach by reach: it is memoryless."""
    reach, passed = ceil(_REACH / epsilon), 0
    while True:
        with localcontext(_PRECISION):
            uniform = Decimal(integer_below(2**256, rng) + 1) / 2**256
            steps = int(-uniform.ln() / Decimal(epsilon))
        if steps < reach:
            return passed + steps
        passed += reach


def _sides(counts: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return how many scores lie below each edge, and how many above."""
    upto = np.cumsum(counts)
    return upto - counts, upto[-1] - upto
