"""Noise for differential privacy, drawn with integers.

A sum of floating-point noise betrays its rounding; here every probability is a ratio of whole
numbers, within a factor of 1 + 1e-39 of what it stands for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from itertools import accumulate
from math import ceil, log

from numpy.random import Generator as Random

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

    Parameters
    ----------
    costs : sequence of Decimal
        At least one.
    rng : numpy.random.Generator
        Source of random bytes.

    Returns
    -------
    int
        The position.
    """
    least = min(costs)
    with localcontext(PRECISION):
        weights = [int(max((least - cost).exp(), _FLOOR) * _UNIT) for cost in costs]
    sums = list(accumulate(weights))
    return bisect_right(sums, integer_below(sums[-1], rng))


def noised_size(n: int, epsilon: float, rng: Random) -> int:
    """Return a sample size with two-sided geometric noise, P(k) proportional to exp(-epsilon |k|).

    Parameters
    ----------
    n : int
        The size.
    epsilon : float
        What it spends, if one sample is added or removed; the law is exact up to 80.
    rng : numpy.random.Generator
        Source of random bytes.

    Returns
    -------
    int
        At least 0.
    """
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
    """Return by how much a noised size passes the true one at most, but for a failure.

    Parameters
    ----------
    epsilon : float
        What the noise spends.
    failure : float
        Probability that it passes by more.

    Returns
    -------
    int
        The margin.
    """
    return ceil(log(1 / failure) / epsilon)


def integer_below(end: int, rng: Random) -> int:
    """Return an integer from 0 to end - 1, all equally likely.

    Parameters
    ----------
    end : int
        At least 1.
    rng : numpy.random.Generator
        Source of random bytes.

    Returns
    -------
    int
        The integer.
    """
    bits = (end - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        found = int.from_bytes(rng.bytes(size)) >> (8 * size - bits)
        if found < end:
            return found
