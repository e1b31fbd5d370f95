"""Crossings of long rows by a bracket search on sixteen-lane vectors, with a retry queue.

A *pivot* is a height: one pass over a row says how many labels lie above it, and their mass. If
they fit the threshold, the crossing lies at or below the pivot, otherwise above it. The *bracket*
of a row is a pair of pivots around its crossing. How many of the labels between them fit is settled
where bounds on their mass agree: the largest k of them weigh at least their share of the mass
between, and at most what the others leave. Mostly no further pass is needed.

A random part u counts as a part of a label: of the last label that fits, all but ``1 - u`` (called
``rest``) must fit. So k labels weigh as much as ``k - rest`` do, in the same bounds, and a pivot is
judged by bounds on the least label above it. Without a random part, ``rest`` is 0. A threshold of
each row shifts all limits of that row.

1. The first pass over a row tries four pivots, which follow where earlier rows crossed, and checks
   the row. Sixteen rows are passed over one after the other, sixteen labels at a time; then their
   sums are added up together, and the search takes its next step for all sixteen, a lane for each.
2. Rows that this does not settle go to the retry queue with their bracket. When sixteen have come
   together, each is passed over again with two pivots of its own.
3. A row that is settled is written out; one that does not settle is left undecided, with size -1,
   for an exact loop.

Sums are rounded, in float32 or float64, and are compared with some slack that covers the rounding.
Where slack prevents a decision, the labels above the pivot are summed exactly. `ScratchLayout` says
where everything is kept.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, nan
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fedwqcp._validation import Floats, Labels, Probabilities
from fedwqcp.kernels import LANES, PIVOTS, QUEUE, SCRATCH, STATE, Crossings, Integers
from fedwqcp.kernels.numba import SURE, Bool, Int, jit, jit_inline
from fedwqcp.kernels.numpy import Limits, RandomPart
from fedwqcp.kernels.vectors import (
    bit_or,
    broadcast,
    convert_like,
    floor,
    full_like,
    gather,
    lane_index,
    load,
    logical_not,
    masked_load,
    movemask,
    partial_sums,
    pointer,
    popcount,
    read,
    reduce_add,
    reduce_max,
    round_fixed,
    row_sums,
    select,
    sign_bit,
    store,
    to_int64,
    trailing_zeros,
    truncate,
    write,
)

Vector: TypeAlias = Any
Pointer: TypeAlias = Any

START = (0.5, 0.8, 1.25, 2.0)
"""The first pivots of the first rows, in mean probabilities."""

PART = 16 * LANES
"""So many labels are summed before they are added to others: less is lost by rounding."""

MAX_PASSES = 16.0
"""After so many retries, a row is left undecided."""

AT_HAND, IDS = QUEUE, QUEUE + LANES
"""Row numbers: those in the retry queue come first, then those of sixteen fresh rows."""

NEXT_UPPER, NEXT_LOWER, PASSES, SLACK = 6, 7, 8, 9
"""Places in a row's state; the bracket comes before them."""

EXACT = 2.0**-29
"""float32 up to this may be equal in fixed point."""

CACHED = 64
"""For so many thresholds the limits are kept as the loop takes them."""

NO_ROWS = np.empty(0, np.int64)
NO_MASSES = np.empty((3, 0))


def first_pivots(n_classes: int) -> Floats:
    """Return where to begin; `cross` moves the pivots to where rows cross."""
    return np.array(START) / n_classes


def cross(
    probs: Probabilities,
    labels: Labels,
    limits: Limits,
    random: RandomPart,
    out: Crossings,
    pivots: Floats,
    dtype: Any,
) -> Integers:
    """Fill in crossings of contiguous rows, masses apart, by sums of one type of floats.

    Where each row has a threshold of its own, it comes with the random part, and the limits count
    for nothing. Return which rows are undecided.
    """
    out = out._replace(masses=NO_MASSES)
    scratch, ids = np.zeros(SCRATCH.end, dtype), np.zeros(IDS, np.int64)
    scratch[:PIVOTS] = pivots
    u, penalties, q, by_row = random
    q = np.where(q < 0, -1.0, q)  # no score is negative; float32 would round some thresholds to 0
    q.flags.writeable = False
    shared = not by_row
    given = long_limits(limits, dtype, u.size > 0) if shared else own_limits(penalties, q, dtype)
    if u.size:
        given = given._replace(exact=np.array(penalties))
    undecided = cross_rows(probs, labels, given, (u, q), out, (scratch, ids))
    pivots[:] = scratch[:PIVOTS]  # whichever thread comes last: any pivots will do
    return np.flatnonzero(out.sizes < 0) if undecided else NO_ROWS


class LongLimits(NamedTuple):
    """What a threshold allows, for a search in one type of floats."""

    at: Any
    """Shape (C + 3,): what the n most probable labels may weigh, for n from 0 on; less the
    threshold, where each row has its own."""
    slack: Any
    """How far a rounded sum may be off."""
    uniform: bool
    """Whether all limits but the first and the last are one number."""
    least: Any
    """Up to this, labels may be in another order than in fixed point."""
    exact: Floats
    """The limits as float64; with a random part the penalties, by which scores are computed."""
    own: bool = False
    """Whether each row has a threshold of its own."""


@lru_cache(maxsize=CACHED)
def long_limits(limits: Limits, dtype: type[np.floating[Any]], randomized: bool) -> LongLimits:
    """Return the limits as a search in one type of floats needs them."""
    n_classes = len(limits.at) - 1
    exact = np.append(limits.reals(randomized), [-np.inf] * 2)  # `settle` asks for two more labels
    at, first = exact.astype(dtype), int(np.argmax(exact < np.inf))
    if first > 1 and exact[first + 1] >= 0:
        # Beyond mass 1 any limit will do: a line of finite ones tells where limits will be passed.
        rise = (exact[first] - exact[first + 1]) * (first - np.arange(1, first))
        at[1:first] = np.maximum(exact[first] + rise, 1) + 4 * SURE
    uniform = bool((at[1 : n_classes + randomized] == at[1]).all())
    slack = _slack(n_classes, dtype) * (5 if randomized else 1)
    return LongLimits(at, dtype(slack), uniform, _least(dtype), exact)


def own_limits(penalties: Floats, q: Floats, dtype: type[np.floating[Any]]) -> LongLimits:
    """Return the same where each row has a threshold of its own.

    Threshold, penalty and their difference are rounded. Labels fit only where no penalty is larger
    than the threshold, so that takes less than four units of it.
    """
    at = np.concatenate([[np.inf], -penalties[1:], [-np.inf] * 2]).astype(dtype)
    slack = 5 * _slack(len(penalties) - 1, dtype) + 4 * np.finfo(dtype).eps * np.abs(q).max(
        initial=0
    )
    return LongLimits(at, dtype(slack), not penalties.any(), _least(dtype), penalties, True)


def _least(dtype: type[np.floating[Any]]) -> Any:
    """Return up to where labels may be in another order than in fixed point."""
    return dtype(EXACT if dtype == np.float32 else 0)


def _slack(n_classes: int, dtype: type[np.floating[Any]]) -> float:
    """Return how far a rounded sum may be off; with a random part it is five times as much.

    Up to PART / LANES labels are added in each lane, then such parts, then lanes (four times) and
    what is left of the row: each time, less than a unit of a sum of at most 1 is lost. What
    `settle` computes from sums loses less than seven more. With a random part, `judge` subtracts a
    part of the difference of two sums, and all that is rounded once more.
    """
    unit = float(np.finfo(dtype).eps) / 2
    added = min(n_classes, PART) / 16 + n_classes / PART + 16
    return added * 1.02 * unit + n_classes * 2.0**-52


# The search, one step for sixteen rows ------------------------------------------------------------


class Pivot(NamedTuple):
    """A height for each of sixteen rows, how many labels lie above it, and their mass."""

    height: Vector
    count: Vector
    mass: Vector


class Bracket(NamedTuple):
    """Two pivots around the crossing: labels above the upper one fit, above the lower do not."""

    upper: Pivot
    lower: Pivot


class Bounds(NamedTuple):
    """`LongLimits` inside the loop: a pointer to the limits, and what is added to them (the one
    limit, or a row's threshold); and of each row, how far its sums may be off, and 1 - u."""

    at: Pointer
    uniform: Bool
    limit: Vector
    slack: Vector
    rest: Vector


WIDTH = 0.07
"""How far from the likely crossing a pivot is, in labels for each that lies between, and half a
label more."""

STEEP = 5.0
"""At most so many times the lower end is the upper, as far as the next pivots are concerned."""


@jit_inline
def of_rows(search: Search, scratch: Pointer, slack: Vector) -> Bounds:
    """Return the bounds of the rows at hand."""
    bounds, limit = search.bounds, search.bounds.limit
    if search.rows.own_limits:
        limit = limit + load(scratch, SCRATCH.limit)
    return Bounds(bounds.at, bounds.uniform, limit, slack, load(scratch, SCRATCH.rest))


@jit_inline
def allowed(n: Vector, C: Vector, bounds: Bounds) -> Vector:
    """Return how much the n most probable labels may weigh; C never fit.

    With a random part all labels may fit, and C is one more than there are.
    """
    if bounds.uniform:
        some = select(n < C, bounds.limit, full_like(C, -inf))
        return select(n > full_like(C, 0.0), some, full_like(C, inf))
    return gather(bounds.at, truncate(n)) + bounds.limit


@jit_inline
def select_pivot(where: Vector, yes: Pivot, no: Pivot) -> Pivot:
    """Return one pivot where a mask is true, and another elsewhere."""
    return Pivot(
        select(where, yes.height, no.height),
        select(where, yes.count, no.count),
        select(where, yes.mass, no.mass),
    )


@jit_inline
def judge(
    pivot: Pivot, above: Pivot, rows: Vector, C: Vector, bounds: Bounds
) -> tuple[Vector, Vector]:
    """Return where the labels above a pivot fit, and where they do not; neither where unsure.

    The least of them lies above the pivot, and weighs at least what the others that do not lie
    above another pivot leave of their mass. It is at most their mean.
    """
    most, rest = allowed(pivot.count, C, bounds), bounds.rest
    more, weight = pivot.count - above.count, pivot.mass - above.mass
    least = weight - (more - full_like(more, 1.0)) * above.height
    least = select(least > pivot.height, least, pivot.height)
    fits = rows & ((pivot.mass + bounds.slack - rest * least) <= most)
    passes = ((pivot.mass - most - bounds.slack) * more) > (rest * weight)
    return fits, rows & passes & (more > full_like(more, 0.0))


@jit_inline
def tighten(bracket: Bracket, pivot: Pivot, verdict: tuple[Vector, Vector]) -> Bracket:
    """Make a pivot the upper end of rows where it fits, and the lower end where it does not."""
    fits = verdict[0] & (pivot.height < bracket.upper.height)
    passes = verdict[1] & (pivot.height > bracket.lower.height)
    return Bracket(
        select_pivot(fits, pivot, bracket.upper), select_pivot(passes, pivot, bracket.lower)
    )


@jit_inline
def is_narrower(bracket: Bracket, before: Bracket) -> Vector:
    """Tell of which rows an end of the bracket has moved."""
    return (bracket.upper.height < before.upper.height) | (
        bracket.lower.height > before.lower.height
    )


@jit_inline
def has_fewer(bracket: Bracket, before: Bracket) -> Vector:
    """Tell of which rows fewer labels lie in the bracket."""
    return (bracket.lower.count - bracket.upper.count) < (before.lower.count - before.upper.count)


@jit_inline
def clip(x: Vector, least: Vector, most: Vector) -> Vector:
    """Return numbers, raised to the least or lowered to the most; the least where NaN."""
    x = select(x > least, x, least)
    return select(x < most, x, most)


@jit_inline
def settle(bracket: Bracket, C: Vector, bounds: Bounds) -> tuple[Vector, Vector, Vector]:
    """Return how many labels between two pivots fit, where that is sure, and about how many.

    With k labels of mass w between heights `low` and `high`: any j of them weigh at most j * high
    and at most w - (k - j) * low; the j largest weigh at least j * low and at least w * j / k. The
    same holds where only a part of the least of them is weighed, and j is not whole.
    """
    (high, n, mass), (low, n_low, mass_low) = bracket
    zero, one, slack = full_like(C, 0.0), full_like(C, 1.0), bounds.slack
    low = select(low > zero, low, zero)  # the first one lies below all labels
    between, weight = n_low - n, mass_low - mass
    first, second = allowed(n + one, C, bounds), allowed(n + one + one, C, bounds)
    fall = first - second  # limits of some scores fall from one rank to the next
    fall = select(fall < one, fall, zero)
    about = (first - mass + fall) * between + bounds.rest * weight
    about = about / (weight + fall * between)
    k = floor(about)
    k = clip(k, zero, between - one)
    left = allowed(n + k, C, bounds) - mass - slack
    left_next = allowed(n + k + one, C, bounds) - mass + slack
    part = k - bounds.rest
    # k + 1 labels are too many ...
    full = ((k + one) == between) | (((part + one) * low) > left_next)
    full = full | (((part + one) * weight) > (left_next * between))
    # ... and k are not
    others = weight - (between - part) * low
    most = select(part * high < others, part * high, others)
    return k, full & ((k == zero) | (most <= left)), about


@jit_inline
def place_pivots(
    bracket: Bracket, k: Vector, about: Vector, settled: Vector
) -> tuple[Vector, Vector]:
    """Return the next two pivots, around the crossing as if labels were evenly spaced.

    Where it is settled that k labels fit, they aim around the gap behind the k-th.
    """
    (high, n, _), (low, n_low, _) = bracket
    between, half, zero = n_low - n, full_like(about, 0.5), full_like(about, 0.0)
    low = select(low > zero, low, zero)
    width = half + full_like(about, WIDTH) * between
    first = select(settled, k, about - width)
    second = select(settled, k + half + half, about + width)
    near = low * full_like(low, STEEP)
    high = select((low > zero) & (high > near), near, high)
    step, last = (high - low) / between, between - half
    upper, lower = (
        high - step * clip(first, half, last),
        high - step * clip(second, half, last),
    )
    return select(upper > zero, upper, zero), select(lower > zero, lower, zero)  # despite rounding


# Passes over rows ---------------------------------------------------------------------------------


class Rows(NamedTuple):
    """The probabilities, how many a row has, which lanes its last vector uses; the true labels, the
    random parts, and one threshold or one for each row."""

    probs: Pointer
    C: Int
    tail: Vector
    labels: Pointer
    labelled: Bool
    u: Pointer
    randomized: Bool
    q: Pointer
    own_limits: Bool


class Row(NamedTuple):
    """One of them."""

    probs: Pointer
    start: Int
    C: Int
    tail: Vector


class Above(NamedTuple):
    """Labels above a pivot: their mass, a partial sum in each lane, and their number."""

    mass: Vector
    count: Int


class FirstPass(NamedTuple):
    """Labels above each of four pivots, the mass of the row, and the signs of its numbers."""

    a: Above
    b: Above
    c: Above
    d: Above
    total: Vector
    signs: Vector


@jit_inline
def row_of(rows: Rows, i: Int) -> Row:
    """Return one of the rows."""
    return Row(rows.probs, i * rows.C, rows.C, rows.tail)


@jit_inline
def keep_own(rows: Rows, n: Int, scratch: Pointer, i: Int) -> None:
    """Keep the probability of the true label of row n, while it is in cache, 1 - u, its limit."""
    if rows.labelled:
        write(scratch, SCRATCH.own + i, read(rows.probs, n * rows.C + read(rows.labels, n)))
    if rows.randomized:
        write(scratch, SCRATCH.rest + i, 1.0 - read(rows.u, n))
    if rows.own_limits:
        write(scratch, SCRATCH.limit + i, read(rows.q, n))


@jit_inline
def read_vector(probs: Pointer, at: Int, kind: Vector) -> Vector:
    """Return sixteen numbers in fixed point, as floats of some type."""
    return round_fixed(convert_like(load(probs, at), kind))


@jit_inline
def read_tail(probs: Pointer, at: Int, mask: Vector, kind: Vector) -> Vector:
    """Return some of them, and 0 for the others, which is above no pivot: none is negative."""
    return round_fixed(convert_like(masked_load(probs, at, mask), kind))


@jit_inline
def add_above(x: Vector, pivot: Vector, seen: Above) -> Above:
    """Add the labels above a pivot to those seen before."""
    above = x > pivot
    return Above(select(above, seen.mass + x, seen.mass), seen.count + popcount(above))


@jit_inline
def add_first(given: Vector, pivots: Any, seen: FirstPass) -> FirstPass:
    """Add sixteen numbers, as given, to what the first pass has seen."""
    x = round_fixed(given)
    return FirstPass(
        add_above(x, pivots[0], seen.a),
        add_above(x, pivots[1], seen.b),
        add_above(x, pivots[2], seen.c),
        add_above(x, pivots[3], seen.d),
        seen.total + x,
        bit_or(seen.signs, given),  # fixed point may lose a sign
    )


@jit_inline
def without_mass(seen: Above, zero: Vector) -> Above:
    """Return the count alone, to begin another part."""
    return Above(zero, seen.count)


@jit_inline
def with_mass(seen: Above, before: Above) -> Above:
    """Return a part, with the mass of the parts before it."""
    return Above(seen.mass + before.mass, seen.count)


@jit_inline
def first_pass(row: Row, scratch: Pointer, i: Int) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Return masses above the first pivots, and of the whole row: NaN if there is a sign in it.

    Counts are written down as those of row i of sixteen.
    """
    probs, at, C, tail = row
    first = SCRATCH.pivots
    pivots = (
        broadcast(read(scratch, first)),
        broadcast(read(scratch, first + 1)),
        broadcast(read(scratch, first + 2)),
        broadcast(read(scratch, first + 3)),
    )
    zero, full = full_like(pivots[0], 0.0), C // LANES * LANES
    none = Above(zero, np.int64(0))
    seen = FirstPass(none, none, none, none, zero, zero)
    for begin in range(0, full, PART):
        before = seen
        seen = FirstPass(
            without_mass(seen.a, zero),
            without_mass(seen.b, zero),
            without_mass(seen.c, zero),
            without_mass(seen.d, zero),
            zero,
            seen.signs,
        )
        for j in range(begin, min(begin + PART, full), LANES):
            seen = add_first(convert_like(load(probs, at + j), zero), pivots, seen)
        seen = FirstPass(
            with_mass(seen.a, before.a),
            with_mass(seen.b, before.b),
            with_mass(seen.c, before.c),
            with_mass(seen.d, before.d),
            seen.total + before.total,
            seen.signs,
        )
    if full < C:
        seen = add_first(convert_like(masked_load(probs, at + full, tail), zero), pivots, seen)
    write(scratch, SCRATCH.counts + i, seen.a.count)
    write(scratch, SCRATCH.counts + LANES + i, seen.b.count)
    write(scratch, SCRATCH.counts + 2 * LANES + i, seen.c.count)
    write(scratch, SCRATCH.counts + 3 * LANES + i, seen.d.count)
    total = select(sign_bit(seen.signs), full_like(zero, nan), seen.total)
    return seen.a.mass, seen.b.mass, seen.c.mass, seen.d.mass, total


@jit_inline
def keep_sums(
    scratch: Pointer, at: Int, i: Int, four: tuple[Vector, Vector, Vector, Vector]
) -> None:
    """Keep partial sums of four rows, from row i on."""
    store(scratch, at + 4 * i, partial_sums(four[0], four[1], four[2], four[3]))


@jit_inline
def first_of(
    rows: Rows, scratch: Pointer, n: Int, i: Int
) -> tuple[Vector, Vector, Vector, Vector, Vector]:
    """Pass over row n, which is row i of sixteen."""
    masses = first_pass(row_of(rows, n), scratch, i)
    keep_own(rows, n, scratch, i)
    return masses


@jit_inline
def first_passes(rows: Rows, scratch: Pointer, ids: Pointer) -> None:
    """Pass over the sixteen fresh rows."""
    sums = SCRATCH.sums
    for i in range(0, LANES, 4):
        a = first_of(rows, scratch, read(ids, AT_HAND + i), i)
        b = first_of(rows, scratch, read(ids, AT_HAND + i + 1), i + 1)
        c = first_of(rows, scratch, read(ids, AT_HAND + i + 2), i + 2)
        d = first_of(rows, scratch, read(ids, AT_HAND + i + 3), i + 3)
        keep_sums(scratch, sums, i, (a[0], b[0], c[0], d[0]))
        keep_sums(scratch, sums + 4 * LANES, i, (a[1], b[1], c[1], d[1]))
        keep_sums(scratch, sums + 8 * LANES, i, (a[2], b[2], c[2], d[2]))
        keep_sums(scratch, sums + 12 * LANES, i, (a[3], b[3], c[3], d[3]))
        keep_sums(scratch, SCRATCH.totals, i, (a[4], b[4], c[4], d[4]))


@jit_inline
def next_pass(pair: tuple[Row, Row], heights: Any, scratch: Pointer, i: Int) -> Any:
    """Return masses above two pivots of each of two rows: side by side, neither waits for memory.

    Counts are written down as those of rows i and i + 1 of sixteen.
    """
    (probs, at, C, tail), (_, to, _, _) = pair
    high, low = broadcast(heights[0]), broadcast(heights[1])
    top, bottom = broadcast(heights[2]), broadcast(heights[3])
    zero, full = full_like(high, 0.0), C // LANES * LANES
    none = Above(zero, np.int64(0))
    a, b, c, d = none, none, none, none
    for begin in range(0, full, PART):
        before = a, b, c, d
        a, b = without_mass(a, zero), without_mass(b, zero)
        c, d = without_mass(c, zero), without_mass(d, zero)
        for j in range(begin, min(begin + PART, full), LANES):
            x, y = read_vector(probs, at + j, zero), read_vector(probs, to + j, zero)
            a, b = add_above(x, high, a), add_above(x, low, b)
            c, d = add_above(y, top, c), add_above(y, bottom, d)
        a, b = with_mass(a, before[0]), with_mass(b, before[1])
        c, d = with_mass(c, before[2]), with_mass(d, before[3])
    if full < C:
        x = read_tail(probs, at + full, tail, zero)
        y = read_tail(probs, to + full, tail, zero)
        a, b = add_above(x, high, a), add_above(x, low, b)
        c, d = add_above(y, top, c), add_above(y, bottom, d)
    write(scratch, SCRATCH.counts + i, a.count)
    write(scratch, SCRATCH.counts + LANES + i, b.count)
    write(scratch, SCRATCH.counts + i + 1, c.count)
    write(scratch, SCRATCH.counts + LANES + i + 1, d.count)
    return a.mass, b.mass, c.mass, d.mass


@jit_inline
def pivot_at(height: Vector, scratch: Pointer, k: Int) -> Pivot:
    """Return pivot k of the last pass over sixteen rows."""
    count = load(scratch, SCRATCH.counts + LANES * k)
    return Pivot(height, count, row_sums(scratch, SCRATCH.sums + 4 * LANES * k))


@jit_inline
def first_bracket(scratch: Pointer, C: Vector, bounds: Bounds, rows: Vector) -> Bracket:
    """Return the bracket of every row after the first pass."""
    zero = full_like(C, 0.0)
    bracket = Bracket(
        Pivot(full_like(C, 2.0), zero, zero),
        Pivot(full_like(C, -1.0), C, row_sums(scratch, SCRATCH.totals)),
    )
    above = bracket.upper
    for i in range(PIVOTS):  # from the highest on
        k = PIVOTS - 1 - i
        pivot = pivot_at(broadcast(read(scratch, SCRATCH.pivots + k)), scratch, k)
        bracket = tighten(bracket, pivot, judge(pivot, above, rows, C, bounds))
        above = select_pivot(pivot.count > above.count, pivot, above)
    return bracket


SHARES = (0.05, 0.35, 0.65, 0.95)
"""Which part of the rows should cross below each of the first pivots."""

RATES = (0.6, 0.2, 0.2, 0.6)
"""How fast the first pivots follow, where they are far apart; outer ones learn from fewer rows."""

SLOWEST = 0.2
"""At least this part of it, where they are not."""

LOWEST = 2.0**-29
"""The first pivots stay from here to 1, from where they can always come back."""


@jit_inline
def move_pivots(scratch: Pointer, high: Vector) -> None:
    """Move the first pivots to where the last rows crossed: a step towards each one's quantile."""
    apart = read(scratch, SCRATCH.pivots + PIVOTS - 1) / read(scratch, SCRATCH.pivots) - 1
    rate = min(max(apart, SLOWEST), 1.0)
    for k in range(PIVOTS):
        height = read(scratch, SCRATCH.pivots + k)
        share = popcount(high <= broadcast(height)) / LANES
        moved = height * (1 + rate * RATES[k] * (SHARES[k] - share))
        write(scratch, SCRATCH.pivots + k, min(max(moved, LOWEST), 1.0))


# The retry queue ----------------------------------------------------------------------------------


class Queue(NamedTuple):
    """The scratch buffer, and the numbers of the rows in the queue and at hand."""

    scratch: Pointer
    ids: Pointer


@jit_inline
def clear_queue(queue: Queue, C: Int) -> None:
    """Point unused slots at row 0 with bracket [0, C], so idle lanes read valid memory."""
    for i in range(QUEUE):
        write(queue.ids, i, 0)
        write(queue.scratch, SCRATCH.queue + QUEUE + i, 0)
        write(queue.scratch, SCRATCH.queue + 4 * QUEUE + i, C)


@jit_inline
def write_state(
    scratch: Pointer, bracket: Bracket, heights: tuple[Vector, Vector], passes: Vector
) -> None:
    """Write down the state of the rows at hand."""
    state = SCRATCH.state
    store(scratch, state, bracket.upper.height)
    store(scratch, state + LANES, bracket.upper.count)
    store(scratch, state + 2 * LANES, bracket.upper.mass)
    store(scratch, state + 3 * LANES, bracket.lower.height)
    store(scratch, state + 4 * LANES, bracket.lower.count)
    store(scratch, state + 5 * LANES, bracket.lower.mass)
    store(scratch, state + NEXT_UPPER * LANES, heights[0])
    store(scratch, state + NEXT_LOWER * LANES, heights[1])
    store(scratch, state + PASSES * LANES, passes)


@jit_inline
def enqueue(queue: Queue, at: Int, ids_at: Int, rows: Int) -> Int:
    """Copy the state of some of the rows at hand, bits of ``rows``, to the queue from ``at`` on.

    Return how long the queue is then.
    """
    while rows:
        i = trailing_zeros(rows)
        rows &= rows - np.uint64(1)
        for k in range(STATE):
            state = read(queue.scratch, SCRATCH.state + LANES * k + i)
            write(queue.scratch, SCRATCH.queue + QUEUE * k + at, state)
        write(queue.ids, at, read(queue.ids, ids_at + i))
        at += 1
    return at


@jit_inline
def next_of(rows: Rows, queue: Queue, at: Int, i: Int) -> Any:
    """Pass over two rows of the queue, which are rows i and i + 1 of sixteen."""
    scratch, ids = queue
    n, m = read(ids, at), read(ids, at + 1)
    upper, lower = SCRATCH.queue + NEXT_UPPER * QUEUE + at, SCRATCH.queue + NEXT_LOWER * QUEUE + at
    heights = (
        read(scratch, upper),
        read(scratch, lower),
        read(scratch, upper + 1),
        read(scratch, lower + 1),
    )
    masses = next_pass((row_of(rows, n), row_of(rows, m)), heights, scratch, i)
    keep_own(rows, n, scratch, i)
    keep_own(rows, m, scratch, i + 1)
    return masses


@jit_inline
def next_passes(rows: Rows, queue: Queue, at: Int) -> None:
    """Pass over sixteen rows of the queue with two pivots each."""
    for i in range(0, LANES, 4):
        a, b = next_of(rows, queue, at + i, i), next_of(rows, queue, at + i + 2, i + 2)
        keep_sums(queue.scratch, SCRATCH.sums, i, (a[0], a[2], b[0], b[2]))
        keep_sums(queue.scratch, SCRATCH.sums + 4 * LANES, i, (a[1], a[3], b[1], b[3]))


@jit_inline
def exact_mass(row: Row, height: Any) -> tuple[Any, Any]:
    """Return the mass above a height, and the least label there: 2 if there is none.

    Sums of fixed point are exact in float64.
    """
    probs, at, C, tail = row
    pivot, found, full = broadcast(np.float64(height)), broadcast(0.0), C // LANES * LANES
    most = broadcast(-2.0)  # of the numbers with their signs turned
    for j in range(0, full, LANES):
        x = read_vector(probs, at + j, pivot)
        found = select(x > pivot, found + x, found)
        turned = broadcast(0.0) - x
        most = select((x > pivot) & (turned > most), turned, most)
    if full < C:
        x = read_tail(probs, at + full, tail, pivot)
        found = select(x > pivot, found + x, found)
        turned = broadcast(0.0) - x
        most = select((x > pivot) & (turned > most), turned, most)
    return reduce_add(found), -reduce_max(most)


@jit_inline
def exact_excess(rows: Rows, n: Int, height: Any, count: Int, exact: Pointer) -> Any:
    """Return by how much the labels of row n above a height pass their limit.

    With a random part, that is the score of the last of them less the threshold.
    """
    mass, least = exact_mass(row_of(rows, n), height)
    if not rows.randomized:
        return mass - read(exact, count)
    if count == 0:
        return -1.0
    before = min(mass - least, 1.0)
    upto = 1.0 if count == rows.C else min(mass, 1.0)
    score = before + read(rows.u, n) * (upto - before) + read(exact, count)
    return score - read(rows.q, n if rows.own_limits else 0)


@jit_inline
def write_excess(rows: Rows, queue: Queue, at: Int, which: Int, exact: Pointer) -> None:
    """Write down which of some of sixteen rows pass their limits at both pivots: 1, others -1."""
    scratch, ids = queue
    while which:
        i = trailing_zeros(which)
        which &= which - np.uint64(1)
        n = read(ids, at + i)
        for k in range(2):
            count = np.int64(read(scratch, SCRATCH.counts + LANES * k + i))
            height = read(scratch, SCRATCH.queue + (NEXT_UPPER + k) * QUEUE + at + i)
            excess = exact_excess(rows, n, height, count, exact)
            sign = 1.0 if excess > 0 else -1.0  # float32 would round the smallest to 0
            write(scratch, SCRATCH.excess + LANES * k + i, sign)


# One step of the search, and what is written in the end -------------------------------------------


class Requested(NamedTuple):
    """Whether coverage, masks and crossing labels are requested."""

    covered: Bool
    mask: Bool
    label: Bool


class OutputArrays(NamedTuple):
    """Pointers to the arrays of `Crossings`, masses apart."""

    sizes: Pointer
    label: Pointer
    covered: Pointer
    mask: Pointer


class Search(NamedTuple):
    """All that stays the same from step to step."""

    rows: Rows
    out: OutputArrays
    requested: Requested
    C: Vector
    bounds: Bounds
    least: Any
    exact: Pointer


class SearchStep(NamedTuple):
    """What is known of sixteen rows after a pass."""

    bracket: Bracket
    present: Vector
    """Lanes that have a row."""
    valid: Vector
    """Those whose row surely is one of probabilities."""
    passes: Vector
    bounds: Bounds
    """Those of these rows."""


class Verdict(NamedTuple):
    """What follows from it."""

    retry: Vector
    """Rows that need another pass."""
    sizes: Vector
    """How many labels fit; -1 where undecided."""
    inside: Vector
    """Rows whose true label surely is one of them."""
    near: Vector
    """Rows whose true label lies within the bracket: its rank must be counted."""


@jit_inline
def first_step(search: Search, queue: Queue, first: Int, n: Int) -> SearchStep:
    """Pass over the next sixteen of n rows."""
    scratch, ids = queue
    for i in range(LANES):
        at = min(first + i, n - 1)
        write(ids, AT_HAND + i, at)
    present = lane_index() < broadcast(np.int32(min(n - first, LANES)))
    first_passes(search.rows, scratch, ids)
    total = row_sums(scratch, SCRATCH.totals)
    valid = present & (total > full_like(total, 1 - SURE)) & (total < full_like(total, 1 + SURE))
    bounds = search.bounds
    if search.rows.randomized:  # what a label lacks that is capped at mass 1, or ranked last
        off = total - full_like(total, 1.0)
        off = select(off < full_like(off, 0.0), full_like(off, 0.0) - off, off)
        bounds = of_rows(search, scratch, bounds.slack + off)
    bracket = first_bracket(scratch, search.C, bounds, valid)
    move_pivots(scratch, bracket.upper.height)
    return SearchStep(bracket, present, valid, full_like(search.C, 0.0), bounds)


@jit_inline
def next_step(search: Search, queue: Queue, queued: Int) -> SearchStep:
    """Pass over the last rows of the queue, sixteen at most.

    What rounded sums do not decide is summed exactly. Where nothing changes even so, another pass
    would not change it either: this one counts as the last.
    """
    scratch, C = queue.scratch, search.C
    at = max(queued - LANES, 0)
    rows = lane_index() < broadcast(np.int32(queued - at))
    next_passes(search.rows, queue, at)
    here = SCRATCH.queue + at
    before = Bracket(
        Pivot(load(scratch, here), load(scratch, here + QUEUE), load(scratch, here + 2 * QUEUE)),
        Pivot(
            load(scratch, here + 3 * QUEUE),
            load(scratch, here + 4 * QUEUE),
            load(scratch, here + 5 * QUEUE),
        ),
    )
    upper = pivot_at(load(scratch, here + NEXT_UPPER * QUEUE), scratch, 0)
    lower = pivot_at(load(scratch, here + NEXT_LOWER * QUEUE), scratch, 1)
    bounds = of_rows(search, scratch, load(scratch, here + SLACK * QUEUE))
    first = judge(upper, before.upper, rows, C, bounds)
    second = judge(lower, upper, rows, C, bounds)
    bracket = tighten(tighten(before, upper, first), lower, second)
    judged = first[1] | second[0] | (first[0] & second[1])
    stuck = rows & logical_not(judged | has_fewer(bracket, before))
    stuck = stuck & (lower.height >= broadcast(search.least))
    if movemask(stuck):
        write_excess(search.rows, queue, at, movemask(stuck), search.exact)
        excess, zero = load(scratch, SCRATCH.excess), full_like(C, 0.0)
        bracket = tighten(bracket, upper, (stuck & (excess <= zero), stuck & (excess > zero)))
        excess = load(scratch, SCRATCH.excess + LANES)
        bracket = tighten(bracket, lower, (stuck & (excess <= zero), stuck & (excess > zero)))
    passes = load(scratch, here + PASSES * QUEUE)
    passes = select(is_narrower(bracket, before), passes, full_like(passes, MAX_PASSES))
    return SearchStep(bracket, rows, rows, passes, bounds)


@jit_inline
def decide(
    own: Vector, bracket: Bracket, least: Vector, requested: Requested
) -> tuple[Vector, Vector, Vector]:
    """Return which rows are sure, which true labels are in, and which lie within the bracket.

    Numbers up to ``least`` may be in another order than in fixed point.
    """
    high, low = bracket.upper.height, bracket.lower.height
    inside = own > high
    sure = low < high
    if requested.mask | requested.label:
        sure = sure & (high >= least)
    if requested.covered:
        sure = sure & ((own > least) | ((own <= low) & (low >= least)))
    return sure, inside, logical_not(inside) & (own > low)


@jit_inline
def conclude(search: Search, scratch: Pointer, step: SearchStep) -> Verdict:
    """Settle what can be, and write down the state of the rows for another pass."""
    requested, bracket = search.requested, step.bracket
    k, settled, about = settle(bracket, search.C, step.bounds)
    if requested.mask | requested.label:  # the upper pivot must lie right behind the last label
        open_rows = step.valid & logical_not(settled & (k == full_like(k, 0.0)))
    else:
        open_rows = step.valid & logical_not(settled)
    passes = step.passes + full_like(step.passes, 1.0)
    write_state(scratch, bracket, place_pivots(bracket, k, about, settled), passes)
    store(scratch, SCRATCH.state + SLACK * LANES, step.bounds.slack)
    own = round_fixed(load(scratch, SCRATCH.own))
    sure, inside, near = decide(own, bracket, broadcast(search.least), requested)
    sure = sure & step.valid & logical_not(open_rows)
    sizes = select(sure, bracket.upper.count + k, full_like(k, -1.0))
    store(scratch, SCRATCH.sizes, sizes)
    retry = open_rows & (step.passes < full_like(step.passes, MAX_PASSES))
    return Verdict(retry, sizes, inside, near & sure)


@jit_inline
def ranks_within(row: Row, y: Int, size: Int, kind: Vector) -> Bool:
    """Tell whether a label is one of the first few, by counting those before it."""
    probs, at, C, tail = row
    own = round_fixed(convert_like(broadcast(read(probs, at + y)), kind))
    above, n, full = np.int64(0), np.int64(0), C // LANES * LANES
    for j in range(0, full, LANES):
        x = read_vector(probs, at + j, kind)
        above, n = above + popcount(x > own), n + popcount(x >= own)
    if full < C:
        x = read_tail(probs, at + full, tail, kind)
        above, n = above + popcount(x > own), n + popcount(x >= own)
    if above < size < n:  # of equals, some fit: the first ones
        label = broadcast(np.int32(y))
        for j in range(0, min(y, full), LANES):
            earlier = (lane_index() + broadcast(np.int32(j))) < label
            above += popcount(earlier & (read_vector(probs, at + j, kind) == own))
        if y > full:
            earlier = (lane_index() + broadcast(np.int32(full))) < label
            above += popcount(earlier & (read_tail(probs, at + full, tail, kind) == own))
    return above < size


@jit_inline
def write_mask(row: Row, pivot: Vector, mask: Pointer) -> None:
    """Mark the labels of a row above a pivot; some twice, if the row does not end with sixteen."""
    probs, at, C, _ = row
    for j in range(0, C - LANES, LANES):
        store(mask, at + j, read_vector(probs, at + j, pivot) > pivot)
    store(mask, at + C - LANES, read_vector(probs, at + C - LANES, pivot) > pivot)


@jit_inline
def larger_below(x: Vector, pivot: Vector, found: Vector) -> Vector:
    """Return the larger of two numbers each, the first of which must not lie above a pivot."""
    return select((x <= pivot) & (x > found), x, found)


@jit_inline
def label_below(row: Row, pivot: Vector, least: Any) -> Int:
    """Return the label that comes next below a pivot; -1 where numbers do not tell their order."""
    probs, at, C, tail = row
    full, found = C // LANES * LANES, full_like(pivot, -1.0)
    for j in range(0, full, LANES):
        found = larger_below(read_vector(probs, at + j, pivot), pivot, found)
    if full < C:
        found = larger_below(read_tail(probs, at + full, tail, pivot), pivot, found)
    most = reduce_max(found)
    if not most > least:
        return np.int64(-1)
    for j in range(0, full, LANES):
        here = movemask(read_vector(probs, at + j, pivot) == broadcast(most))
        if here:
            return j + trailing_zeros(here)
    rest = movemask(read_tail(probs, at + full, tail, pivot) == broadcast(most))
    return full + trailing_zeros(rest)


@jit_inline
def write_results(search: Search, queue: Queue, at: Int, which: Int, verdict: Verdict) -> Int:
    """Write what was found of some of sixteen rows; return how many of them stay undecided."""
    rows, out, requested = search.rows, search.out, search.requested
    scratch, ids = queue
    inside, near, undecided = movemask(verdict.inside), movemask(verdict.near), np.int64(0)
    while which:
        i = trailing_zeros(which)
        which &= which - np.uint64(1)
        n, size = read(ids, at + i), np.int64(read(scratch, SCRATCH.sizes + i))
        pivot, row = broadcast(read(scratch, SCRATCH.state + i)), row_of(rows, n)
        bit = np.uint64(1) << np.uint64(i)
        if requested.covered:
            within = (inside & bit) != 0
            if (near & bit) != 0:
                within = ranks_within(row, read(rows.labels, n), size, pivot)
            write(out.covered, n, within)
        if requested.mask:
            write_mask(row, pivot, out.mask)
        if requested.label:
            label = label_below(row, pivot, search.least)
            write(out.label, n, label)
            size = size if label >= 0 else np.int64(-1)
        write(out.sizes, n, size)
        undecided += size < 0
    return undecided


@jit
def cross_rows(
    probs: Probabilities,
    labels: Labels,
    limits: LongLimits,
    random: tuple[Floats, Floats],
    out: Crossings,
    buffers: tuple[Any, Integers],
) -> Int:
    """Fill in crossings of contiguous rows; return how many rows are undecided, with size -1.

    With the random parts, or none, comes the threshold, or that of each row. The scratch buffer
    begins with the first pivots, and its type is that of the sums.
    """
    (n, C), (u, q) = probs.shape, random
    queue = Queue(pointer(buffers[0]), pointer(buffers[1]))
    clear_queue(queue, C)
    tail = lane_index() < broadcast(np.int32(C % LANES))
    requested = Requested(labels.size > 0, out.mask.size > 0, out.label.size > 0)
    outputs = OutputArrays(
        pointer(out.sizes), pointer(out.label), pointer(out.covered), pointer(out.mask)
    )
    at = pointer(limits.at)
    # How many labels surely do not fit: all of them, or one more where only a part of each counts.
    beyond = broadcast(buffers[0].dtype.type(C + (u.size > 0)))
    none = full_like(beyond, 0.0)
    limit = broadcast(read(at, 1)) if limits.uniform else none
    given = pointer(labels), labels.size > 0, pointer(u), u.size > 0, pointer(q), limits.own
    search = Search(
        Rows(pointer(probs), C, tail, *given),
        outputs,
        requested,
        beyond,
        Bounds(at, limits.uniform, limit, broadcast(limits.slack), none),
        limits.least,
        pointer(limits.exact),
    )
    # Sizes and coverage alone are stored as vectors.
    plain = requested.covered & (not requested.mask) & (not requested.label)
    first, queued, undecided = np.int64(0), np.int64(0), np.int64(0)
    while first < n or queued > 0:
        fresh = (first < n) & (queued < LANES)
        at_hand = AT_HAND if fresh else max(queued - LANES, 0)
        step = first_step(search, queue, first, n) if fresh else next_step(search, queue, queued)
        verdict = conclude(search, queue.scratch, step)
        done = step.present & logical_not(verdict.retry)
        if fresh & plain & (first + LANES <= n):
            store(outputs.sizes, first, to_int64(truncate(verdict.sizes)))
            store(outputs.covered, first, verdict.inside)
            undecided += popcount(done & (verdict.sizes < full_like(search.C, 0.0)))
            done = verdict.near
        undecided += write_results(search, queue, at_hand, movemask(done), verdict)
        queued = enqueue(queue, queued if fresh else at_hand, at_hand, movemask(verdict.retry))
        first += LANES if fresh else 0
    return undecided
