"""Sets where labels, or rows, have thresholds of their own: every label is bounded, few are scored.

Rows with one threshold each are searched for their crossing instead (``simd.py``, ``bracket.py``),
unless they are long and the largest probability leads (SAPS).

With one threshold for each label a set is not the first few labels of its row, so there is no
crossing to look for. Still few labels need their rank. One pass over a row with four pivots gives
the number and the mass of the labels above each. A label between two pivots ranks behind all labels
above the upper one and before all that are not above the lower one: that bounds its score. Labels
of bins whose bounds lie on both sides of a threshold are listed. If they are few (`PAIRS`), each is
compared with every other. Otherwise they are put into buckets by probability, which bound scores as
bins do, but closer; labels still in doubt are compared with all others, or all are sorted if there
are many. Where a score is too close to its threshold for float32, the label gets its exact rank
(`numba.rank_row`).

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
from fedwqcp.kernels.simd import UNIT, grouped_rows
from fedwqcp.kernels.vectors import (
    any_equal,
    as_uint32,
    bit_or,
    broadcast,
    compress,
    count_ahead,
    floor,
    gather,
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
    uint_to_float32,
    write,
)

Vector: TypeAlias = Any
Pointer: TypeAlias = Any
Singles: TypeAlias = npt.NDArray[np.float32]

LEAST = 2.0**-28
"""No pivot lies below: down to here, labels are in the same order as in fixed point."""

NEVER = np.float32(-1)
"""A threshold below this lets nothing in."""

PAIRS = 48
"""Up to so many listed labels are compared with each other; more are put into buckets."""

BUCKETS = 128

MANY = 64
"""Where more labels of a row are in doubt after that, all that are listed are sorted."""

SORT_BUCKETS = 1024

OPEN = 0.03
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
    """Shape (n,), or (0,) where nothing is random, which means 1."""
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
        u = self.u[rows] if self.u.size else self.u
        return self._replace(u=u, exact=self.exact[rows] if self.by_row else self.exact)


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


@jit_inline
def u_of(given: Thresholds, i: Int) -> Any:
    """Return u of one row."""
    return given.u[i] if given.u.size else 1.0


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
    """Fill in one row by the exact scores of its labels, each of which has its threshold."""
    rule, u, valid, size = (given.penalties, given.by_top), u_of(given, i), True, np.int64(0)
    for j in range(probs.shape[1]):
        within, valid = is_within(probs[i], j, given.exact[j], u, rule)
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


@jit_part
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


@jit_inline
def limits_of_list(
    given: Thresholds, i: Int, span: tuple[Any, Any], off: float, rounded: Bool
) -> tuple[Bool, Any, Any, Any, Bool]:
    """Return what listed labels of a row are judged by.

    Whether all have one threshold, from where it is in doubt, how wide that is, how far sums may be
    off, and whether numbers are rounded.
    """
    largest = abs(given.exact[i]) if given.by_row else max(abs(span[0]), abs(span[1]))
    wide = np.float32(3 * given.slack * (1 + largest))
    return given.by_row, span[0], wide, np.float32(off), rounded


class Lists(NamedTuple):
    """The labels in open bins: their probabilities, thresholds and which they are."""

    x: Pointer
    q: Pointer
    label: Pointer


class Found(NamedTuple):
    """Where the set of a row goes."""

    marks: Pointer
    first: Int
    masked: Bool
    """Whether labels are marked, from the first place on."""
    own: Vector
    """The true label, sixteen times; -1 if it is not known."""
    within: Pointer
    """Which of the listed labels are within."""


class Memory(NamedTuple):
    """What `score_long` works in, made by `allocate`: a compiled loop takes long to learn that."""

    x: Singles
    q: Singles
    label: npt.NDArray[np.int32]
    """The lists, as `Lists` has them."""
    within: Bools
    bucket: npt.NDArray[np.int32]
    """Of listed labels, whether they are within, and their bucket."""
    doubts: Integers
    """Places of listed labels in doubt, or their order."""
    sums: Floats
    masses: Singles
    counts: Singles
    """The buckets, as `Buckets` has them."""
    ends: Integers
    """Where the buckets end by which labels are sorted."""
    bins: Singles
    """Laid out by `BinLayout`."""
    marks: Bools
    """Which labels of a row are within, where no mask is wanted."""

    @classmethod
    def allocate(cls, n_classes: int) -> Memory:
        """Allocate for rows of so many labels; lists are read and written sixteen at a time."""
        n = n_classes + LANES
        return cls(
            x=np.zeros(n, np.float32),
            q=np.zeros(n, np.float32),
            label=np.zeros(n, np.int32),
            within=np.zeros(n, np.bool_),
            bucket=np.zeros(n, np.int32),
            doubts=np.zeros(n_classes, np.int64),
            sums=np.zeros(BUCKETS + 1),
            masses=np.zeros(BUCKETS + 1, np.float32),
            counts=np.zeros(BUCKETS + 1, np.float32),
            ends=np.zeros(SORT_BUCKETS + 1, np.int64),
            bins=np.zeros(BINS.end, np.float32),
            marks=np.zeros(n_classes, np.bool_),
        )


@jit_inline
def list_some(j: Int, fresh: Vector, work: Any, n: tuple[Int, Int, Int]) -> tuple[Int, Int, Int]:
    """List those of sixteen labels that lie in the open bins; mark those above as within."""
    row, ends, q, by_row, found, listed = work
    x, label = load(row.probs, row.start + j), lane_index() + broadcast(np.int32(j))
    marked = x > ends[0]
    some = fresh & (x > ends[1]) & logical_not(marked)
    if not by_row:  # a label without a limit is in, and one that nothing fits is not
        limit = load(q, j)
        marked = (marked & (limit >= broadcast(NEVER))) | (limit == broadcast(np.float32(inf)))
        compress(listed.q, n[0], limit, some)
    if found.masked:
        store(found.marks, found.first + j, marked)
    compress(listed.x, n[0], x, some)
    compress(listed.label, n[0], label, some)
    others = fresh & marked & logical_not(some)
    hits = n[2] + popcount(others & (label == found.own))
    return n[0] + popcount(some), n[1] + popcount(others), hits


@jit_inline
def list_labels(work: Any) -> tuple[Int, Int, Int]:
    """List the labels of a row in the open bins.

    Return how many, how many others are in, and whether the true label is one of these.
    """
    C, n = work[0].C, (np.int64(0), np.int64(0), np.int64(0))
    every = lane_index() >= broadcast(np.int32(0))
    last = (C - 1) // LANES * LANES  # the last vector repeats labels, if the row ends within it
    for j in range(0, last, LANES):
        n = list_some(j, every, work, n)
    rest = lane_index() >= broadcast(np.int32(LANES - (C - last)))
    return list_some(C - LANES, rest, work, n)


@jit_inline
def keep_some(
    v: Int, decided: tuple[Vector, Vector], found: Found, work: Any, n: tuple[Int, Int, Int]
) -> tuple[Int, Int, Int]:
    """Write down which of sixteen listed labels are within, and the places of those in doubt.

    Return how many there are of each, added to n, and whether the true label is within.
    """
    listed, doubts, m = work
    within, beyond = decided
    present = (lane_index() + broadcast(np.int32(v))) < broadcast(np.int32(m))
    within, size, doubtful = within & present, n[0], n[1]
    hits = n[2] + popcount(within & (load(listed.label, v) == found.own))
    store(found.within, v, within)
    flags = movemask(present & logical_not(within | beyond))
    while flags:
        write(doubts, doubtful, v + trailing_zeros(flags))
        flags &= flags - np.uint64(1)
        doubtful += 1
    return size + popcount(within), doubtful, hits


@jit_inline
def place_listed(x: Vector, at: Vector, listed: Pointer, n: Int) -> tuple[Vector, Vector, Vector]:
    """Return mass and number of the listed labels before sixteen of them, given their places.

    And how many equal each, itself included.
    """
    zero, one = broadcast(np.float32(0)), broadcast(np.float32(1))
    key, mass, count, equal, place = as_uint32(x), zero, zero, zero, broadcast(np.int32(0))
    for k in range(n):
        other = broadcast(read(listed, k))
        ahead = (as_uint32(other) + mask_to_uint32(place < at)) > key
        mass, count = select(ahead, mass + other, mass), select(ahead, count + one, count)
        equal = select(other == x, equal + one, equal)
        place = place + broadcast(np.int32(1))
    return mass, count, equal


@jit_inline
def score_pairs(
    start: tuple[Any, Any], terms: ScoreTerms, limits: Any, found: Found, work: Any
) -> tuple[Int, Int, Int]:
    """Compare each listed label with every other; return what `keep_some` does."""
    listed, _, m = work
    by_row, low, wide, off, rounded = limits
    n, one = (np.int64(0), np.int64(0), np.int64(0)), broadcast(np.float32(1))
    for v in range(0, m, LANES):
        x = load(listed.x, v)
        mass, count, equal = place_listed(x, lane_index() + broadcast(np.int32(v)), listed.x, m)
        label = x, broadcast(start[0]) + mass, broadcast(start[1]) + count + one
        q = broadcast(low) if by_row else load(listed.q, v)
        within, beyond = judge(label, terms, (q, q + broadcast(wide)), broadcast(off))
        if rounded:  # equals in float32 need not be equal
            alone = equal <= one
            within, beyond = within & alone, beyond & alone
        n = keep_some(v, (within, beyond), found, work, n)
    return n


@jit_inline
def bits_of(x: Any) -> Int:
    """Return the bits of a float32, which are in the order of the numbers."""
    return np.int64(np.float32(x).view(np.int32))


class Buckets(NamedTuple):
    """Buckets of listed labels, in order of falling probability."""

    of: Pointer
    """The bucket of each listed label."""
    sums: Pointer
    """For each bucket 2 n + mass of its labels: one addition then counts and weighs."""
    mass: Pointer
    """Mass of all labels of the row before each bucket, and before what follows the last."""
    count: Pointer
    """Their number."""


@jit_inline
def fill_buckets(start: tuple[Any, Any], buckets: Buckets, work: Any) -> None:
    """Put listed labels into buckets; write down how many labels come before each, and their mass.

    The list is continued with its least number, which comes before none.
    """
    listed, _, m = work
    first = broadcast(read(listed.x, 0))
    store(listed.x, m, first)
    high, low = first, first
    for v in range(0, m, LANES):
        x = load(listed.x, v)
        high, low = select(x > high, x, high), select(x < low, x, low)
    zero = np.float32(0)  # as 0 - 0 the least is not -0, whose bits are large
    least = broadcast(zero - reduce_max(broadcast(zero) - low))
    store(listed.x, m, least)
    lowest = broadcast(np.float32(LEAST))  # what is smaller goes into the last bucket
    top, bottom = bits_of(max(reduce_max(high), LEAST)), bits_of(max(read(listed.x, m), LEAST))
    scale = broadcast(np.float32((BUCKETS - 1) / max(top - bottom, 1)))
    for v in range(0, m, LANES):
        x = load(listed.x, v)
        depth = broadcast(np.uint32(top)) - as_uint32(select(x > lowest, x, lowest))
        store(buckets.of, v, truncate(uint_to_float32(depth) * scale))
    for b in range(0, BUCKETS, LANES):
        store(buckets.sums, b, broadcast(0.0))
    for k in range(m):
        at = np.int64(read(buckets.of, k))
        write(buckets.sums, at, read(buckets.sums, at) + (2.0 + np.float64(read(listed.x, k))))
    total = 2.0 * np.float64(start[1]) + np.float64(start[0])
    for b in range(BUCKETS + 1):
        n = np.floor(0.5 * total)
        write(buckets.count, b, n)
        write(buckets.mass, b, total - 2.0 * n)
        total += read(buckets.sums, b)


@jit_inline
def score_buckets(
    terms: ScoreTerms, limits: Any, buckets: Buckets, found: Found, work: Any
) -> tuple[Int, Int, Int]:
    """Bound the scores of listed labels; return what `keep_some` does.

    A label comes after all labels of earlier buckets, and at most after all others of its own.
    """
    listed, _, m = work
    by_row, low, wide, off, _ = limits
    n, one = (np.int64(0), np.int64(0), np.int64(0)), broadcast(np.float32(1))
    first, last = one, one
    for v in range(0, m, LANES):
        x, at = load(listed.x, v), load(buckets.of, v)
        following = at + broadcast(np.int32(1))
        if terms.ranked:
            first, last = gather(buckets.count, at) + one, gather(buckets.count, following)
        q = broadcast(low) if by_row else load(listed.q, v)
        q = q, q + broadcast(wide)
        latest = x, gather(buckets.mass, following) - x, last
        within, _ = judge(latest, terms, q, broadcast(off))
        _, beyond = judge((x, gather(buckets.mass, at), first), terms, q, broadcast(off))
        n = keep_some(v, (within, beyond), found, work, n)
    return n


@jit_inline
def score_listed(
    k: Int, start: tuple[Any, Any], terms: ScoreTerms, limits: Any, work: Any
) -> tuple[Bool, Bool]:
    """Compare one listed label with all others; tell whether it surely is within, or beyond."""
    listed, _, m = work
    by_row, low, wide, off, rounded = limits
    x, place, places = broadcast(read(listed.x, k)), broadcast(np.int32(k)), lane_index()
    key, mass, n, equal = as_uint32(x), broadcast(np.float32(0)), np.int64(0), np.int64(0)
    for v in range(0, m, LANES):
        other = load(listed.x, v)
        ahead = (as_uint32(other) + mask_to_uint32(places < place)) > key
        mass, n = select(ahead, mass + other, mass), n + popcount(ahead)
        equal += popcount(other == x)
        places = places + broadcast(np.int32(LANES))
    if rounded and equal > 1:  # equals in float32 need not be equal
        return False, False
    q = broadcast(low if by_row else read(listed.q, k))
    label = x, broadcast(start[0] + reduce_add(mass)), broadcast(np.float32(start[1] + n + 1))
    within, beyond = judge(label, terms, (q, q + broadcast(wide)), broadcast(off))
    return movemask(within) > 0, movemask(beyond) > 0


@jit_part
def sort_listed(m: Int, near: Singles, room: Integers, ends: Integers) -> None:
    """Put the places of listed labels in order of their probability: in buckets, then within."""
    most, least = near[0], near[0]
    for k in range(m):
        most, least = max(most, near[k]), min(least, near[k])
    top, low, shift = bits_of(most), bits_of(max(least, np.float32(LEAST))), np.int64(0)
    while (top - low) >> shift >= SORT_BUCKETS - 1:
        shift += 1
    ends[:] = 0
    for k in range(m):
        ends[min((top - bits_of(near[k])) >> shift, SORT_BUCKETS - 1) + 1] += 1
    for k in range(SORT_BUCKETS):
        ends[k + 1] += ends[k]
    for k in range(m):
        bucket = min((top - bits_of(near[k])) >> shift, SORT_BUCKETS - 1)
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
    lists: tuple[Singles, npt.NDArray[np.int32], Integers, Integers],
    marks: tuple[Bools, Int, Int],
) -> tuple[Int, Int, Bool]:
    """Sort listed labels and mark which are within.

    Return how many, whether the true label is one of them, and validity of the row.
    """
    near, which, order, ends = lists
    mass, rank, top, off = start
    exact, penalties, by_top, by_row = given.exact, given.penalties, given.by_top, given.by_row
    rule, u, size, hits, valid = (penalties, by_top), u_of(given, i), np.int64(0), np.int64(0), True
    sort_listed(m, near, order, ends)
    ranked, step, slack = by_top | (given.line[1] > 0), penalties[2], given.slack
    marked, first, own = marks
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
        hits += within & (y == own)
        marked[first + y] = within
    return size, hits, valid


@jit_inline
def settle(
    i: Int,
    probs: Probabilities,
    given: Thresholds,
    start: tuple[Any, Any],
    terms: ScoreTerms,
    limits: Any,
    work: Any,
    rest: Any,
) -> tuple[Int, Int, Bool]:
    """Decide on listed labels that are in doubt, if need be by their exact scores.

    Return what `score_sorted` does.
    """
    (places, which, doubtful), (marked, first, own) = rest
    size, hits, valid, m = np.int64(0), np.int64(0), True, work[2]
    for k in range(doubtful):
        y, within, beyond = np.int64(which[places[k]]), False, False
        if m > PAIRS:  # up to so many were compared with each other before
            within, beyond = score_listed(places[k], start, terms, limits, work)
        if not (within | beyond):
            q, rule = given.exact[i if given.by_row else y], (given.penalties, given.by_top)
            within, good = is_within(probs[i], y, q, u_of(given, i), rule)
            valid &= good
        size, hits = size + within, hits + (within & (y == own))
        marked[first + y] = within
    return size, hits, valid


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


@jit_inline
def score_open(
    start: tuple[Any, Any],
    terms: ScoreTerms,
    limits: Any,
    buckets: Buckets,
    found: Found,
    work: Any,
) -> tuple[Int, Int, Int]:
    """Bound the scores of the labels in the open bins of a row; return what `keep_some` does."""
    listed, _, m = work
    if m <= PAIRS:
        n = score_pairs(start, terms, limits, found, work)
    else:
        fill_buckets(start, buckets, work)
        n = score_buckets(terms, limits, buckets, found, work)
    for k in range(m if found.masked else 0):
        write(found.marks, found.first + read(listed.label, k), read(found.within, k))
    return n


@jit
def score_long(
    probs: Probabilities,
    quick: Singles,
    labels: Labels,
    given: Thresholds,
    out: Sets,
    memory: Memory,
) -> Bool:
    """Fill in the sets of contiguous rows of at least sixteen labels.

    ``quick`` holds the same numbers in float32. Return whether all rows surely are probabilities.
    """
    n, C = probs.shape
    mask, covered, sizes = out
    exact, by_row, rule = given.exact, given.by_row, (given.penalties, given.by_top)
    marks = mask.reshape(-1) if mask.size else memory.marks
    near, which, room, scratch = memory.x, memory.label, memory.doubts, memory.bins
    listed = Lists(pointer(near), pointer(memory.q), pointer(which))
    buckets = Buckets(
        pointer(memory.bucket), pointer(memory.sums), pointer(memory.masses), pointer(memory.counts)
    )
    to_scratch = pointer(scratch)
    spread_heights(scratch, 4.0 / C, 0.25 / C)
    tail = lane_index() < broadcast(np.int32(C % LANES))
    masked, labelled, rounded = mask.size > 0, labels.size > 0, probs.itemsize > quick.itemsize
    early, late, valid = np.int64(0), np.int64(0), True
    for i in range(n):
        row, at, u = Row(pointer(quick), i * C, C, tail), i * C if masked else 0, u_of(given, i)
        mass, top, unsigned = first_pass(row, to_scratch)
        if not (unsigned and abs(mass - np.float32(1)) < SURE):
            return False
        write(to_scratch, BINS.masses + PIVOTS, mass)
        write(to_scratch, BINS.counts + PIVOTS, C)
        off = (C / LANES + 24.0) * UNIT + C * LEAST + abs(np.float64(mass) - 1)
        bound(to_scratch, C, u, off, np.float64(top), rule)
        span = limits_of_row(exact[i], given.slack, given.most) if by_row else given.span
        early, late = (
            early + (scratch[BINS.above] > span[0]),
            late + (scratch[BINS.below + PIVOTS] <= span[1]),
        )
        own_label = labels[i] if labelled else np.int64(-1)
        bins, is_own = find_open(scratch, span), broadcast(np.int32(own_label))
        found = Found(pointer(marks), at, masked, is_own, pointer(memory.within))
        ends = broadcast(bins.high), broadcast(bins.low)
        m, size, hits = list_labels((row, ends, pointer(given.low), by_row, found, listed))
        terms = terms_of(given, broadcast(np.float32(u)), broadcast(top))
        limits = limits_of_list(given, i, span, off, rounded)
        start, work = (bins.mass, bins.count), (listed, pointer(room), m)
        known = score_open(start, terms, limits, buckets, found, work)
        to = marks, at, own_label
        if known[1] > MANY:
            begin = (np.float64(bins.mass), np.float64(bins.count), np.float64(top), off)
            lists = near, which, room, memory.ends
            more = score_sorted(i, m, probs, given, begin, lists, to)
        else:
            rest = (room, which, known[1]), to
            more = settle(i, probs, given, start, terms, limits, work, rest)
            size, hits = size + known[0], hits + known[2]
        size, hits, valid = size + more[0], hits + more[1], valid & more[2]
        sizes[i] = size
        if labelled:
            covered[i] = hits > 0
        if (i + 1) % LEARN == 0:
            move_heights(scratch, early, late)
            early, late = np.int64(0), np.int64(0)
    return valid


# Short rows: every label beside every other, sixteen rows at a time -------------------------------


@jit_inline
def place_column(ahead: Vector) -> tuple[Vector, Vector]:
    """Return mass before one label of sixteen rows, and its rank, from what `count_ahead` found."""
    mass = uint_to_float32(ahead & broadcast(np.uint32((1 << 28) - 1)))
    n = floor(uint_to_float32(ahead) * broadcast(np.float32(2.0**-28)))
    return mass * broadcast(np.float32(2.0**-26)), n + broadcast(np.float32(1))


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


@jit
def score_short(
    probs: Probabilities,
    quick: Singles,
    labels: Labels,
    given: Thresholds,
    out: Sets,
    classes: tuple[int, ...],
) -> Bool:
    """Do what `score_long` does, for rows of as many labels as ``classes`` has, at most 15.

    Each label has its threshold.
    """
    n, C = probs.shape[0], len(classes)
    mask, covered, sizes = out
    rounded = probs.itemsize > quick.itemsize
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
        u = to_float32(load(pointer(given.u), i)) if given.u.size else one
        terms = terms_of(given, u, top)
        off = off + broadcast(np.float32((C + 24) * UNIT))
        found, size, ahead, unsure = none, zero, count_ahead(columns), zero > one
        if rounded:  # equals in float32 need not be equal
            unsure = any_equal(columns)
        for j in range(C):
            mass, rank = place_column(ahead[j])
            low = broadcast(read(pointer(given.low), j))
            high = broadcast(read(pointer(given.high), j))
            within, beyond = judge((columns[j], mass, rank), terms, (low, high), off)
            unsure = unsure | logical_not(within | beyond)
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
