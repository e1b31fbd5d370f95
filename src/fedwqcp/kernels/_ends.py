"""Compiled loops over regressions that lie one after the other: both ends of every interval.

The numbers are those of `_spans`, sixteen at a time. Large outputs are written past the cache: what
is not read soon need not be fetched into it first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.kernels._jit import Truth, Whole, jit, jit_inline
from fedwqcp.kernels._spans import end_of_pair
from fedwqcp.kernels.lanes import (
    LANES,
    choose,
    evens,
    flags,
    load,
    long_bits,
    long_numbers,
    negate,
    odds,
    spread,
    start,
    store,
    stream,
)

LEAST = 5e-324
"""The float that is nearest to 0."""


@jit_inline
def next_to(y: Any, up: Truth) -> Any:
    """Return the next floats above, or below."""
    step, least = (np.int64(1), LEAST) if up else (np.int64(-1), -LEAST)
    bits = long_bits(y)
    moved = bits + choose(bits < spread(np.int64(0)), spread(-step), spread(step))
    return choose(y == spread(0.0), spread(least), long_numbers(moved))


@jit_inline
def lower(base: Any, q: Any) -> Any:
    """Return ``base - q``, raised to the next float where it is farther from the base than q."""
    y = base - q
    return choose((base - y) > q, next_to(y, True), y)


@jit_inline
def upper(base: Any, q: Any) -> Any:
    """Return ``base + q``, lowered to the next float where it is farther from the base than q."""
    y = base + q
    return choose((y - base) > q, next_to(y, False), y)


@jit_inline
def write(out: tuple[Any, Any], i: Whole, past_cache: Truth, ends: tuple[Any, Any]) -> None:
    """Write both ends of sixteen intervals."""
    if past_cache:
        stream(out[0], i, ends[0])
        stream(out[1], i, ends[1])
    else:
        store(out[0], i, ends[0])
        store(out[1], i, ends[1])


@jit
def ends_of_one(
    f: Floats, q: tuple[float, float], out: tuple[Floats, Floats], past_cache: Truth
) -> Truth:
    """Find both ends of every interval around one estimate; tell whether all are finite."""
    to, down, up = (start(out[0]), start(out[1])), spread(q[0]), spread(q[1])
    estimates, zero = start(f), spread(0.0)
    full, finite = len(f) // LANES * LANES, zero < spread(1.0)
    for i in range(0, full, LANES):
        x = load(estimates, i)
        finite = finite & ((x - x) == zero)
        write(to, i, past_cache, (lower(x, down), upper(x, up)))
    rest = True
    for i in range(full, len(f)):
        rest &= end_of_pair(f[i], f[i], q, i, out)
    return rest & (flags(negate(finite)) == 0)


@jit
def ends_of_pairs(
    flat: Floats, q: tuple[float, float], out: tuple[Floats, Floats], past_cache: Truth
) -> Truth:
    """Do so around two estimates of a row, in whatever order they come."""
    to, down, up = (start(out[0]), start(out[1])), spread(q[0]), spread(q[1])
    estimates, zero, n = start(flat), spread(0.0), len(out[0])
    full, finite = n // LANES * LANES, zero < spread(1.0)
    for i in range(0, full, LANES):
        x, y = load(estimates, 2 * i), load(estimates, 2 * i + LANES)
        finite = finite & ((x - x) == zero) & ((y - y) == zero)
        a, b = evens(x, y), odds(x, y)
        least, most = choose(a < b, a, b), choose(a < b, b, a)
        write(to, i, past_cache, (lower(least, down), upper(most, up)))
    rest = True
    for i in range(full, n):
        rest &= end_of_pair(flat[2 * i], flat[2 * i + 1], q, i, out)
    return rest & (flags(negate(finite)) == 0)
