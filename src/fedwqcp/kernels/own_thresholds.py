"""Sets where labels, or rows, have thresholds of their own: every label is bounded, few are scored.

Long rows with one threshold each are searched for their crossing instead (``bracket.py``), unless
the largest probability leads (SAPS).

With one threshold for each label a set is not the first few labels of its row, so there is no
crossing to look for. Still few labels need their rank. One pass over a row with four pivots gives
the number and the mass of the labels above each. A label between two pivots ranks behind all labels
above the upper one and before all that are not above the lower one: that bounds its score. Labels
of bins whose bounds lie on both sides of a threshold are ranked among each other, by comparison if
they are few (`PAIRS`), otherwise by sorting. Where a score is too close to its threshold for
float32, the label gets its exact rank (`numba.rank_row`).

Rows of at most 15 labels are compared label by label instead, sixteen rows side by side.

Bounds are sums in float32 with slack for rounding, so float64 is read as float32 here; exact ranks
are taken from the numbers as given. Scores are those of `numpy.RandomPart`, without a random part
with u = 1: rounding does not change the order of sums, so the results are those of numpy.
"""

from __future__ import annotations

from itertools import accumulate
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import LANES, PIVOTS, Integers, Sets
from fedwqcp.kernels.bracket import Row
from fedwqcp.kernels.numba import SURE, Bool, Int, jit, jit_inline, jit_part, rank_row
from fedwqcp.kernels.simd import grouped_rows
from fedwqcp.kernels.vectors import (
    as_uint32,
    bit_or,
    broadcast,
    compress,
    lane_index,
    load,
    logical_not,
    mask_to_uint32,
    masked_load,
    movemask,
    pointer,
    popcount,
    read,
    reduce_add,
    reduce_max,
    select,
    sign_bit,
    store,
    to_float32,
    to_int64,
    trailing_zeros,
    transpose,
    truncate,
    write,
)

Vector: TypeAlias = Any
Pointer: TypeAlias = Any
Singles: TypeAlias = npt.NDArray[np.float32]

UNIT = 2.0**-24
"""A sum in float32 of at most 1 loses less than this each time."""

LEAST = 2.0**-28
"""No pivot lies below: down to here, labels are in the same order as in fixed point."""

NEVER = np.float32(-1)
"""A threshold below this lets nothing in."""

PAIRS = 128
"""Up to so many listed labels are compared with each other; more are sorted."""

BUCKETS = 1024

OPEN = 0.06
"""For this share of the rows, labels beyond the first or the last pivot may need to be ranked."""

LEARN = 16
"""After so many rows the first pivots move to where rows need them."""


class Thresholds(NamedTuple):
    """One threshold for each label or each row, and what scores are made of."""

    exact: Floats
    """The thresholds, shape (C,) or (n,)."""
    low: Singles
    """A bound up to this is surely within; shape (C,), or (0,) where rows have thresholds."""
    high: Singles
    """A bound above this is surely beyond."""
    by_row: bool
    u: Floats
    """Shape (n,); 1 where nothing is random."""
    penalties: Floats
    """Shape (C + 1,): the score at ranks 0 to C where all masses are 0."""
    by_top: bool
    span: tuple[Any, Any]
    """The least and the largest threshold, less and more what rounding may take."""
    slack: float
    """What rounding may take of a threshold and penalties, for each unit of it and once more."""
    most: float
    """No score is larger."""
    line: tuple[Any, Any]
    """Ranks that are free of a penalty, and what each other rank adds, as bounds take it."""

    def of(self, rows: slice | Integers) -> Thresholds:
        """Return those of some rows."""
        if not self.by_row:
            return self._replace(u=self.u[rows])
        return self._replace(exact=self.exact[rows], u=self.u[rows])


def thresholds(q: Floats, u: Floats, penalties: Floats, by_top: bool) -> Thresholds:
    """Return thresholds of shape (C,) or (n, 1) as the loops take them."""
    exact = np.ascontiguousarray(q.reshape(-1))
    line, most = _line(penalties), 1 + float(penalties[-1])  # no score is larger
    most = most if penalties[-1] == 0 else most * (1 + 2.0**-40)
    ranks = np.arange(1, len(penalties))
    bent = np.abs(penalties[1:] - line[1] * np.maximum(ranks - line[0], 0)).max()
    slack, by_row, span = 16 * UNIT + float(bent), q.ndim == 2, (np.inf, -np.inf)
    low = high = np.empty(0, np.float32)  # those of rows are found where they are used
    if not by_row:
        far, all_fit = slack * (1 + np.abs(exact)), exact >= most
        far[np.isinf(exact)] = 0
        low, high = (exact - far).astype(np.float32), (exact + far).astype(np.float32)
        low[all_fit] = high[all_fit] = np.inf
        some = (exact >= -1) & ~all_fit
        span = low[some].min(initial=np.inf), high[some].max(initial=-np.inf)
    return Thresholds(
        exact,
        low,
        high,
        by_row,
        u,
        penalties,
        by_top,
        (np.float32(span[0]), np.float32(span[1])),
        slack,
        most,
        (np.float32(line[0]), np.float32(line[1])),
    )


def _line(penalties: Floats) -> tuple[int, float]:
    """Return how many ranks have no penalty, and what each of the others adds."""
    free, last = int(np.count_nonzero(penalties[1:] <= 0)), len(penalties) - 1
    return free, float(penalties[-1]) / (last - free) if free < last else 0.0


@jit_part
def is_within(
    row: Probabilities, y: Int, q: Any, u: Any, rule: tuple[Floats, Bool]
) -> tuple[Bool, Bool]:
    """Tell whether the score of a label is within a threshold, exactly; and validity of the row."""
    penalties, by_top = rule
    one = np.int64(2**52)
    mass, own, rank, top, valid = rank_row(row, y)
    if by_top:
        most = min(top, one) * 2.0**-52
        score = u * most if rank == 1 else most + (rank - 2 + u) * penalties[2]
        return score <= q, valid
    before = min(mass, one) * 2.0**-52
    upto = 1.0 if rank == row.size else min(mass + own, one) * 2.0**-52
    return (before + u * (upto - before)) + penalties[rank] <= q, valid


@jit_part
def score_row(i: Int, probs: Probabilities, labels: Labels, given: Thresholds, out: Sets) -> Bool:
    """Fill in one row by the exact scores of its labels."""
    rule, valid, size = (given.penalties, given.by_top), True, np.int64(0)
    for j in range(probs.shape[1]):
        q = given.exact[i if given.by_row else j]
        within, valid = is_within(probs[i], j, q, given.u[i], rule)
        size += within
        if out.mask.size:
            out.mask[i, j] = within
        if labels.size and labels[i] == j:
            out.covered[i] = within
    out.sizes[i] = size
    return valid


class ScoreTerms(NamedTuple):
    """What scores of sixteen labels are made of, beside mass and rank."""

    u: Vector
    top: Vector
    step: Vector
    """What a rank adds where the largest probability leads."""
    free: Vector
    each: Vector
    """`Thresholds.line`."""
    by_top: Bool
    ranked: Bool
    """Whether ranks count."""


@jit_inline
def terms_of(given: Thresholds, u: Vector, top: Vector) -> ScoreTerms:
    """Return the terms of rows, or of one row."""
    free, each = given.line
    step = broadcast(np.float32(given.penalties[2]))
    ranked = given.by_top | (each > 0)
    return ScoreTerms(u, top, step, broadcast(free), broadcast(each), given.by_top, ranked)


@jit_inline
def judge(
    label: tuple[Vector, Vector, Vector],
    terms: ScoreTerms,
    limits: tuple[Vector, Vector],
    off: Vector,
) -> tuple[Vector, Vector]:
    """Return where labels are surely within their limits, and where surely beyond.

    A label is its probability, the mass before it and its rank. Among the smallest, ranks in fixed
    point may be others: such labels are beyond if they would be without a penalty.
    """
    x, mass, rank = label
    one, zero = broadcast(np.float32(1)), broadcast(np.float32(0))
    if terms.by_top:
        least = terms.top + terms.u * terms.step  # of all but the first
        later = terms.top + (rank - one - one + terms.u) * terms.step
        score = select(rank == one, terms.u * terms.top, later)
    else:
        least, more = mass + terms.u * x, rank - terms.free
        score = least + select(more > zero, more * terms.each, zero)
    within, beyond = (score + off) <= limits[0], (score - off) > limits[1]
    if terms.ranked:
        small = x <= broadcast(np.float32(LEAST))
        within = within & logical_not(small)
        beyond = (beyond & logical_not(small)) | (small & ((least - off) > limits[1]))
    return within, beyond


# Long rows: pivots, and the labels between them ---------------------------------------------------


class BinLayout(NamedTuple):
    """Where each part of the scratch buffer begins. A bin lies between two pivots."""

    heights: int
    """Heights of the pivots."""
    masses: int
    """Mass of the labels above each, and of all."""
    counts: int
    """Their number."""
    below: int
    """For each bin, a lower bound on the score of its labels, without their own part."""
    above: int
    """For each bin, an upper bound, with their own mass."""
    end: int
    """The length of the buffer."""


BINS = BinLayout(*accumulate((0, PIVOTS, PIVOTS + 1, PIVOTS + 1, PIVOTS + 1, PIVOTS + 1)))


@jit_inline
def count_above(x: Vector, height: Vector, seen: tuple[Vector, Int]) -> tuple[Vector, Int]:
    """Add the labels above a height to those seen before."""
    above = x > height
    return select(above, seen[0] + x, seen[0]), seen[1] + popcount(above)


@jit_inline
def keep_count(scratch: Pointer, k: Int, seen: tuple[Vector, Int]) -> None:
    """Write down number and mass above one pivot."""
    write(scratch, BINS.masses + k, reduce_add(seen[0]))
    write(scratch, BINS.counts + k, seen[1])


@jit_inline
def first_pass(row: Row, scratch: Pointer) -> tuple[Any, Any, Bool]:
    """Write down number and mass above four pivots; return sum, largest, whether none is signed."""
    probs, at, C, tail = row
    h = (
        broadcast(read(scratch, BINS.heights)),
        broadcast(read(scratch, BINS.heights + 1)),
        broadcast(read(scratch, BINS.heights + 2)),
        broadcast(read(scratch, BINS.heights + 3)),
    )
    zero, none = broadcast(np.float32(0)), np.int64(0)
    a, b, c, d = (zero, none), (zero, none), (zero, none), (zero, none)
    total, top, signs = zero, zero, zero
    full = C // LANES * LANES
    for j in range(0, full, LANES):
        x = load(probs, at + j)
        a, b = count_above(x, h[0], a), count_above(x, h[1], b)
        c, d = count_above(x, h[2], c), count_above(x, h[3], d)
        total, signs, top = total + x, bit_or(signs, x), select(x > top, x, top)
    if full < C:
        x = masked_load(probs, at + full, tail)
        a, b = count_above(x, h[0], a), count_above(x, h[1], b)
        c, d = count_above(x, h[2], c), count_above(x, h[3], d)
        total, signs, top = total + x, bit_or(signs, x), select(x > top, x, top)
    keep_count(scratch, 0, a)
    keep_count(scratch, 1, b)
    keep_count(scratch, 2, c)
    keep_count(scratch, 3, d)
    return reduce_add(total), reduce_max(top), movemask(sign_bit(signs)) == 0


@jit_inline
def bound(scratch: Pointer, C: Int, u: float, slack: float, top: float, rule: Any) -> None:
    """Write down what the scores of labels between two pivots are at least and at most."""
    penalties, by_top = rule
    mass, n = 0.0, np.int64(0)
    for k in range(PIVOTS + 1):
        mass_low = np.float64(read(scratch, BINS.masses + k))
        n_low = np.int64(read(scratch, BINS.counts + k))
        if by_top:
            step = penalties[2]
            low = u * top if n == 0 else top + (n - 1 + u) * step
            high = u * top if n_low <= 1 else top + (n_low - 2 + u) * step
        else:
            low, high = mass + penalties[min(n + 1, C)], mass_low + penalties[n_low]
        write(scratch, BINS.below + k, low - slack)
        write(scratch, BINS.above + k, high + slack)
        mass, n = mass_low, n_low


@jit_part
def spread_heights(scratch: Any, most: float, least: float) -> None:
    """Place the pivots evenly, as logarithms go, from the largest to the least."""
    ratio = np.exp(np.log(least / most) / (PIVOTS - 1))
    height = most
    for k in range(PIVOTS):
        scratch[BINS.heights + k] = max(height, LEAST)
        height *= ratio


@jit_inline
def open_bins(scratch: Pointer, span: tuple[Any, Any]) -> tuple[Int, Int]:
    """Return the first bin some of whose labels may be beyond, and the last that may be within."""
    first, last = np.int64(0), np.int64(PIVOTS)
    while first <= PIVOTS and read(scratch, BINS.above + first) <= span[0]:
        first += 1
    while last >= first and read(scratch, BINS.below + last) > span[1]:
        last -= 1
    return first, last


@jit_inline
def limits_of_row(q: float, slack: float, most: float) -> tuple[Any, Any]:
    """Return up to where a bound surely is within a row's threshold, and from where beyond."""
    far = slack * (1 + abs(q))
    if q >= most:
        return np.float32(inf), np.float32(inf)
    return np.float32(q - far), np.float32(q + far)


class Lists(NamedTuple):
    """Labels that are looked at: their probabilities, thresholds and which they are."""

    x: Pointer
    q: Pointer
    label: Pointer


@jit_inline
def list_some(j: Int, fresh: Vector, work: Any, n: tuple[Int, Int]) -> tuple[Int, Int]:
    """List those of sixteen labels that lie in the open bins; mark those above as within."""
    row, ends, q, by_row, to, listed = work
    x = load(row.probs, row.start + j)
    marked = x > ends[0]
    some = fresh & (x > ends[1]) & logical_not(marked)
    if not by_row:  # a label without a limit is in, and one that nothing fits is not
        limit = load(q, j)
        marked = (marked & (limit >= broadcast(NEVER))) | (limit == broadcast(np.float32(inf)))
        compress(listed.q, n[0], limit, some)
    store(to[0], to[1] + j, marked)
    compress(listed.x, n[0], x, some)
    compress(listed.label, n[0], lane_index() + broadcast(np.int32(j)), some)
    return n[0] + popcount(some), n[1] + popcount(fresh & marked & logical_not(some))


@jit_inline
def list_labels(work: Any) -> tuple[Int, Int]:
    """List the labels of a row in the open bins; return how many, and how many others are in."""
    C, n = work[0].C, (np.int64(0), np.int64(0))
    every = lane_index() >= broadcast(np.int32(0))
    last = (C - 1) // LANES * LANES  # the last vector repeats labels, if the row ends within it
    for j in range(0, last, LANES):
        n = list_some(j, every, work, n)
    rest = lane_index() >= broadcast(np.int32(LANES - (C - last)))
    return list_some(C - LANES, rest, work, n)


@jit_inline
def place_listed(x: Vector, at: Vector, listed: Pointer, n: Int) -> tuple[Vector, Vector]:
    """Return mass and number of the listed labels before sixteen of them, given their places."""
    key, mass, count = as_uint32(x), broadcast(np.float32(0)), broadcast(np.float32(0))
    place, one = broadcast(np.int32(0)), broadcast(np.float32(1))
    for k in range(n):
        other = broadcast(read(listed, k))
        ahead = (as_uint32(other) + mask_to_uint32(place < at)) > key
        mass, count = select(ahead, mass + other, mass), select(ahead, count + one, count)
        place = place + broadcast(np.int32(1))
    return mass, count


@jit_inline
def equals_listed(x: Vector, listed: Pointer, n: Int) -> Vector:
    """Tell which of sixteen listed labels equal another one."""
    zero, one = broadcast(np.float32(0)), broadcast(np.float32(1))
    found = zero
    for k in range(n):
        found = select(broadcast(read(listed, k)) == x, found + one, found)
    return found > one


@jit_inline
def bits_of(x: Any) -> Int:
    """Return the bits of a float32, which are in the order of the numbers."""
    return np.int64(np.float32(x).view(np.int32))


@jit_part
def sort_listed(m: Int, near: Singles, room: Integers) -> None:
    """Put the places of listed labels in order of their probability: in buckets, then within."""
    most, least = near[0], near[0]
    for k in range(m):
        most, least = max(most, near[k]), min(least, near[k])
    top, low, shift = bits_of(most), bits_of(max(least, np.float32(LEAST))), np.int64(0)
    while (top - low) >> shift >= BUCKETS - 1:
        shift += 1
    ends = np.zeros(BUCKETS + 1, np.int64)
    for k in range(m):
        ends[min((top - bits_of(near[k])) >> shift, BUCKETS - 1) + 1] += 1
    for k in range(BUCKETS):
        ends[k + 1] += ends[k]
    for k in range(m):
        bucket = min((top - bits_of(near[k])) >> shift, BUCKETS - 1)
        room[ends[bucket]] = k
        ends[bucket] += 1
    for k in range(1, m):
        place, at = room[k], k
        while at > 0 and near[room[at - 1]] < near[place]:
            room[at] = room[at - 1]
            at -= 1
        room[at] = place


@jit_part
def score_sorted(
    i: Int,
    m: Int,
    probs: Probabilities,
    given: Thresholds,
    start: tuple[float, float, float, float],
    lists: tuple[Singles, npt.NDArray[np.int32], Integers],
    marks: tuple[Bools, Int],
) -> tuple[Int, Bool]:
    """Mark which of many listed labels are within; return how many, and validity of the row."""
    near, which, order = lists
    mass, rank, top, off = start
    exact, penalties, by_top, by_row = given.exact, given.penalties, given.by_top, given.by_row
    rule, u, size, valid = (penalties, by_top), given.u[i], np.int64(0), True
    sort_listed(m, near, order)
    ranked, step, slack = by_top | (given.line[1] > 0), penalties[2], given.slack
    marked, first = marks
    rounded = probs.itemsize > near.itemsize
    for k in range(m):
        x, y = np.float64(near[order[k]]), np.int64(which[order[k]])
        rank += 1
        if by_top:
            least = top + u * step
            score = u * top if rank == 1 else top + (rank - 2 + u) * step
        else:
            least = mass + u * x
            score = least + penalties[np.int64(rank)]
        mass += x
        q = exact[i if by_row else y]
        far = off + slack * (1 + abs(q))
        within, beyond = score + far <= q, score - far > q
        if ranked and x <= LEAST:
            within, beyond = False, least - far > q
        if rounded and (
            (k > 0 and near[order[k - 1]] == x) or (k + 1 < m and near[order[k + 1]] == x)
        ):
            within, beyond = False, False
        if not (within | beyond):
            within, good = is_within(probs[i], y, q, u, rule)
            valid &= good
        size += within
        marked[first + y] = within
    return size, valid


@jit_inline
def score_pairs(
    m: Int, start: tuple[Any, Any], terms: ScoreTerms, limits: tuple[Bool, Any, Any, Any], work: Any
) -> tuple[Int, Int]:
    """Mark which of a few listed labels are surely within; keep the places of those in doubt.

    Return how many there are of each.
    """
    listed, (to_marks, at), doubts, rounded = work
    by_row, low, wide, off = limits
    size, doubtful, one = np.int64(0), np.int64(0), broadcast(np.float32(1))
    for v in range(0, m, LANES):
        x, places = load(listed.x, v), lane_index() + broadcast(np.int32(v))
        present = places < broadcast(np.int32(m))
        mass, count = place_listed(x, places, listed.x, m)
        label = x, broadcast(start[0]) + mass, broadcast(start[1]) + count + one
        q = broadcast(low) if by_row else load(listed.q, v)
        within, beyond = judge(label, terms, (q, q + broadcast(wide)), broadcast(off))
        if rounded:  # equals in float32 need not be equal
            alone = logical_not(equals_listed(x, listed.x, m))
            within, beyond = within & alone, beyond & alone
        within = within & present
        size += popcount(within)
        flags = movemask(within)
        while flags:
            write(to_marks, at + read(listed.label, v + trailing_zeros(flags)), True)
            flags &= flags - np.uint64(1)
        flags = movemask(present & logical_not(within | beyond))
        while flags:
            write(doubts, doubtful, v + trailing_zeros(flags))
            flags &= flags - np.uint64(1)
            doubtful += 1
    return size, doubtful


@jit_part
def move_heights(scratch: Any, early: Int, late: Int) -> None:
    """Move the pivots to where rows need them."""
    last = np.float64(scratch[BINS.heights + PIVOTS - 1]) * 2.0 ** (OPEN - late / LEARN)
    first = np.float64(scratch[BINS.heights]) * 2.0 ** (early / LEARN - OPEN)
    last = min(max(last, LEAST), 0.5)
    spread_heights(scratch, min(max(first, last), 1.0), last)


class Open(NamedTuple):
    """The open bins of a row: their upper and lower end, and mass and number of labels above."""

    high: Any
    low: Any
    mass: Any
    count: Any


@jit_inline
def find_open(scratch: Any, span: tuple[Any, Any]) -> Open:
    """Return between which heights labels may be within their thresholds, or beyond."""
    first, last = open_bins(pointer(scratch), span)
    high = scratch[BINS.heights + first - 1] if first > 0 else np.float32(2)
    high = np.float32(-1) if first > PIVOTS else high
    low = scratch[BINS.heights + last] if last < PIVOTS else np.float32(-1)
    low = high if first > last else low
    count = scratch[BINS.counts + first - 1] if first > 0 else np.float32(0)
    return Open(high, low, scratch[BINS.masses + first - 1] if first > 0 else np.float32(0), count)


@jit
def score_long(
    probs: Probabilities, quick: Singles, labels: Labels, given: Thresholds, out: Sets
) -> Bool:
    """Fill in the sets of contiguous rows of at least sixteen labels.

    ``quick`` holds the same numbers in float32. Return whether all rows surely are probabilities.
    """
    n, C = probs.shape
    mask, covered, sizes = out
    exact, by_row, us, rule = given.exact, given.by_row, given.u, (given.penalties, given.by_top)
    marks = mask.reshape(-1) if mask.size else np.empty(C, np.bool_)
    near, own = np.zeros(C + LANES, np.float32), np.zeros(C + LANES, np.float32)
    which, room, scratch = (
        np.zeros(C + LANES, np.int32),
        np.empty(C, np.int64),
        np.zeros(BINS.end, np.float32),
    )
    to_scratch, listed = pointer(scratch), Lists(pointer(near), pointer(own), pointer(which))
    spread_heights(scratch, 4.0 / C, 0.25 / C)
    tail = lane_index() < broadcast(np.int32(C % LANES))
    masked, labelled, rounded = mask.size > 0, labels.size > 0, probs.itemsize > quick.itemsize
    early, late, valid = np.int64(0), np.int64(0), True
    for i in range(n):
        row, at, u = Row(pointer(quick), i * C, C, tail), i * C if masked else 0, us[i]
        mass, top, unsigned = first_pass(row, to_scratch)
        if not (unsigned and abs(mass - np.float32(1)) < SURE):
            return False
        write(to_scratch, BINS.masses + PIVOTS, mass)
        write(to_scratch, BINS.counts + PIVOTS, C)
        off = (C / LANES + 24.0) * UNIT + C * LEAST + abs(np.float64(mass) - 1)
        bound(to_scratch, C, u, off, np.float64(top), rule)
        span = limits_of_row(exact[i], given.slack, given.most) if by_row else given.span
        early += scratch[BINS.above] > span[0]
        late += scratch[BINS.below + PIVOTS] <= span[1]
        found, target = find_open(scratch, span), (pointer(marks), at)
        ends = broadcast(found.high), broadcast(found.low)
        m, size = list_labels((row, ends, pointer(given.low), by_row, target, listed))
        doubtful = np.int64(0)
        if m > PAIRS:
            start = (np.float64(found.mass), np.float64(found.count), np.float64(top), off)
            more, good = score_sorted(i, m, probs, given, start, (near, which, room), (marks, at))
            valid &= good
        else:
            largest = abs(exact[i]) if by_row else max(abs(span[0]), abs(span[1]))
            wide = np.float32(3 * given.slack * (1 + largest))
            terms = terms_of(given, broadcast(np.float32(u)), broadcast(top))
            work = (listed, target, pointer(room), rounded)
            limits = (by_row, span[0], wide, np.float32(off))
            more, doubtful = score_pairs(m, (found.mass, found.count), terms, limits, work)
        size += more
        for k in range(doubtful):
            y = np.int64(which[room[k]])
            marks[at + y], good = is_within(probs[i], y, exact[i if by_row else y], u, rule)
            valid &= good
            size += marks[at + y]
        sizes[i] = size
        if labelled:
            covered[i] = marks[at + labels[i]]
        if (i + 1) % LEARN == 0:
            move_heights(scratch, early, late)
            early, late = np.int64(0), np.int64(0)
    return valid


# Short rows: every label beside every other, sixteen rows at a time -------------------------------


@jit_inline
def place_column(columns: Any, j: Int) -> tuple[Vector, Vector]:
    """Return mass before one label of sixteen rows, and its rank."""
    zero, one = broadcast(np.float32(0)), broadcast(np.float32(1))
    key, mass, rank = as_uint32(columns[j]), zero, one
    for k in range(len(columns)):
        if k < j:  # noqa: SIM108 as one expression it takes longer
            ahead = as_uint32(columns[k]) >= key
        else:
            ahead = as_uint32(columns[k]) > key
        mass, rank = select(ahead, mass + columns[k], mass), select(ahead, rank + one, rank)
    return mass, rank


@jit_inline
def equals_column(columns: Any, j: Int) -> Vector:
    """Tell in which rows a label equals another one."""
    zero, one = broadcast(np.float32(0)), broadcast(np.float32(1))
    n = zero
    for k in range(len(columns)):
        n = select(columns[k] == columns[j], n + one, n)
    return n > one


@jit_inline
def check_columns(columns: Any) -> tuple[Vector, Vector, Bool]:
    """Return how far sums are from 1, the largest, and whether all rows are probabilities."""
    zero, one = broadcast(np.float32(0)), broadcast(np.float32(1))
    total, top, signs = zero, zero, zero
    for j in range(len(columns)):
        x = columns[j]
        total, signs, top = total + x, bit_or(signs, x), select(x > top, x, top)
    off = total - one
    off = select(off < zero, zero - off, off)
    wrong = sign_bit(signs) | logical_not(off < broadcast(np.float32(SURE)))
    return off, top, movemask(wrong) == 0


@jit_inline
def limits_of_rows(q: Vector, slack: float, most: float) -> tuple[Vector, Vector]:
    """Do what `limits_of_row` does for sixteen rows."""
    near, one, zero = to_float32(q), broadcast(np.float32(1)), broadcast(np.float32(0))
    far = select(near < zero, one - near, one + near) * broadcast(np.float32(slack))
    fit, none = q >= broadcast(most), broadcast(np.float32(inf))
    return select(fit, none, near - far), select(fit, none, near + far)


@jit
def score_short(
    probs: Probabilities,
    quick: Singles,
    labels: Labels,
    given: Thresholds,
    out: Sets,
    classes: tuple[int, ...],
) -> Bool:
    """Do what `score_long` does, for rows of as many labels as ``classes`` has, at most 15."""
    n, C = probs.shape[0], len(classes)
    mask, covered, sizes = out
    by_row, rounded = given.by_row, probs.itemsize > quick.itemsize
    bits, places = np.zeros(LANES, np.uint32), np.zeros(LANES, np.uint32)
    for j in range(LANES):
        places[j] = 1 << j
    none, one, zero = broadcast(np.uint32(0)), broadcast(np.float32(1)), broadcast(np.float32(0))
    grouped, valid = grouped_rows(n, C), True
    for i in range(0, grouped, LANES):
        columns = transpose(pointer(quick), i * C, classes)
        off, top, good = check_columns(columns)
        if not good:
            return False
        terms = terms_of(given, to_float32(load(pointer(given.u), i)), top)
        off = off + broadcast(np.float32((C + 24) * UNIT))
        low, high, found, size, unsure = zero, zero, none, zero, zero > one
        if by_row:
            q = load(pointer(given.exact), i)
            low, high = limits_of_rows(q, given.slack, given.most)
        for j in range(C):
            mass, rank = place_column(columns, j)
            if not by_row:
                low = broadcast(read(pointer(given.low), j))
                high = broadcast(read(pointer(given.high), j))
            within, beyond = judge((columns[j], mass, rank), terms, (low, high), off)
            unsure = unsure | logical_not(within | beyond)
            if rounded:  # equals in float32 need not be equal
                unsure = unsure | equals_column(columns, j)
            size = select(within, size + one, size)
            found = found + select(within, broadcast(np.uint32(1 << j)), none)
        store(pointer(bits), 0, found)
        store(pointer(sizes), i, to_int64(truncate(size)))
        for k in range(LANES if labels.size else 0):
            covered[i + k] = (bits[k] >> np.uint32(labels[i + k])) & np.uint32(1)
        for k in range(LANES if mask.size else 0):  # beyond the row, the next row overwrites it
            chosen = broadcast(bits[k]) & load(pointer(places), 0)
            store(pointer(mask), (i + k) * C, chosen > none)
        left = movemask(unsure)
        while left:
            valid &= score_row(i + trailing_zeros(left), probs, labels, given, out)
            left &= left - np.uint64(1)
    for i in range(grouped, n):
        valid &= score_row(i, probs, labels, given, out)
    return valid
