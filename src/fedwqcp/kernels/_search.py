"""Compiled loops that count the labels within a threshold, without their order: one row each.

A cut at any height says how many labels of a row stand above it, and how much they weigh. Of two
cuts around the crossing, the labels above the higher surely fit, and those above the lower surely
do not. How many of those between fit is settled where bounds on their weight agree: the largest of
them weigh at least their share, and at most what the others leave.

Sixteen rows take each step of this together, a lane for each. Sums are rounded, and compared with
some slack: a row that this does not settle stays open. `_cuts` weighs the labels.
"""

from __future__ import annotations

from math import inf
from typing import Any, TypeAlias

from fedwqcp.kernels._jit import Truth, jit_inline
from fedwqcp.kernels.lanes import choose, floor, gather, like, negate, truncated

Lanes: TypeAlias = Any

Cut: TypeAlias = tuple[Lanes, Lanes, Lanes]
"""Heights, and how many labels stand above, and how much they weigh."""

Limits: TypeAlias = tuple[Any, Truth, Lanes, Lanes]
"""Where the limits begin, and whether one holds for all numbers of labels but 0 and all; that one;
and how far rounded sums may be off."""

Goal: TypeAlias = tuple[Lanes, Limits, Any, Any]
"""How many labels there are, their limits, up to which number labels may stand in another order
than their fixed point, and where the exact limits are."""

WIDTH = 0.07
"""How far from the likely crossing a cut is, in labels for each that lies between, and half a label
more."""

STEEP = 5.0
"""At most so many times the lower end is the higher, as far as the next cuts are concerned."""


@jit_inline
def allowed(n: Lanes, C: Lanes, limits: Limits) -> Lanes:
    """Return how much the n most probable labels may weigh; all C never fit."""
    at, one, limit, _ = limits
    if one:
        some = choose(n < C, limit, like(C, -inf))
        return choose(n > like(C, 0.0), some, like(C, inf))
    return gather(at, truncated(n))


@jit_inline
def choose_cut(where: Lanes, yes: Cut, no: Cut) -> Cut:
    """Return one cut where a mask is true, and another elsewhere."""
    return (
        choose(where, yes[0], no[0]),
        choose(where, yes[1], no[1]),
        choose(where, yes[2], no[2]),
    )


@jit_inline
def judged(cut: Cut, still: Lanes, C: Lanes, limits: Limits) -> tuple[Lanes, Lanes]:
    """Return where the labels above a cut fit, and where they do not; neither, if slack decides."""
    _, n, mass = cut
    most, slack = allowed(n, C, limits), limits[3]
    return still & ((mass + slack) <= most), still & (mass > (most + slack))


@jit_inline
def take(cut: Cut, ends: tuple[Cut, Cut], verdict: tuple[Lanes, Lanes]) -> tuple[Cut, Cut]:
    """Make a cut the higher end of rows where it fits, and the lower end where it does not."""
    upper, lower = ends
    fits, passes = verdict
    fits, passes = fits & (cut[0] < upper[0]), passes & (cut[0] > lower[0])
    return choose_cut(fits, cut, upper), choose_cut(passes, cut, lower)


@jit_inline
def bounded(x: Lanes, least: Lanes, most: Lanes) -> Lanes:
    """Return numbers, raised to the least or lowered to the most; the least if not numbers."""
    x = choose(x > least, x, least)
    return choose(x < most, x, most)


@jit_inline
def settle(ends: tuple[Cut, Cut], C: Lanes, limits: Limits) -> tuple[Lanes, Lanes, Lanes]:
    """Return how many labels between two cuts fit, where that is sure, and about how many."""
    (high, n, mass), (low, n_low, mass_low) = ends
    zero, one, slack = like(C, 0.0), like(C, 1.0), limits[3]
    low = choose(low > zero, low, zero)  # the first one lies below all labels
    between, weight = n_low - n, mass_low - mass
    first, second = allowed(n + one, C, limits), allowed(n + one + one, C, limits)
    fall = first - second  # limits of some scores fall from one rank to the next
    fall = choose(fall < one, fall, zero)
    about = (first - mass + fall) * between / (weight + fall * between)
    k = floor(about)
    k = bounded(k, zero, between - one)
    left = allowed(n + k, C, limits) - mass - slack
    left_next = allowed(n + k + one, C, limits) - mass + slack
    full = ((k + one) == between) | (((k + one) * low) > left_next)
    full = full | (((k + one) * weight) > (left_next * between))
    others = weight - (between - k) * low
    most = choose(k * high < others, k * high, others)
    return k, full & ((k == zero) | (most <= left)), about


@jit_inline
def aim(ends: tuple[Cut, Cut], k: Lanes, about: Lanes, known: Lanes) -> tuple[Lanes, Lanes]:
    """Return two more heights around the crossing, as if labels were evenly spaced.

    Where it is known that k labels fit, they aim around the room behind the k-th.
    """
    (high, n, _), (low, n_low, _) = ends
    between, half, zero = n_low - n, like(about, 0.5), like(about, 0.0)
    low = choose(low > zero, low, zero)
    wide = half + like(about, WIDTH) * between
    first = choose(known, k, about - wide)
    second = choose(known, k + half + half, about + wide)
    near = low * like(low, STEEP)
    high = choose((low > zero) & (high > near), near, high)
    step, last = (high - low) / between, between - half
    upper, lower = (
        high - step * bounded(first, half, last),
        high - step * bounded(second, half, last),
    )
    return choose(upper > zero, upper, zero), choose(lower > zero, lower, zero)  # despite rounding


@jit_inline
def still_open(settled: Lanes, k: Lanes, marked: Truth) -> Lanes:
    """Return which rows need another cut; to mark labels, one must stand right behind the last."""
    if marked:
        return negate(settled & (k == like(k, 0.0)))
    return negate(settled)
