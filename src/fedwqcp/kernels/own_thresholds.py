"""Sets where labels, or rows, have thresholds of their own: every label is bounded, few are scored.

Rows with one threshold each are searched for their crossing instead (``simd.py``, ``bracket.py``),
unless they are long and the largest probability leads (SAPS).

With one threshold for each label a set is not the first few labels of its row, so there is no
crossing to look for. Still few labels need their rank. One pass over a row lists the labels of a
*band* of probabilities, and sums those above it: these are within every threshold, labels below the
band are beyond, and where sums show that this is not so, the row is read again with a wider band.
The band follows what earlier rows needed. Listed labels are compared with each other if they are
few (`PAIRS`). Otherwise they are put into buckets by probability: a label comes after all labels of
earlier buckets and before all of later ones, which bounds its score. Labels still in doubt are
compared with all others, or all are sorted if there are many. Where a score is too close to its
threshold for float32, the label gets its exact rank (`numba.rank_row`).

Rows of at most 15 labels are compared label by label instead, sixteen rows side by side.

Bounds are sums in float32 with slack for rounding, so float64 is read as float32 here; exact ranks
are taken from the numbers as given. Scores are those of `numpy.RandomPart`, without a random part
with u = 1: rounding does not change the order of sums, so the results are those of numpy.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import LANES, Integers, Sets
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
    expand,
    floor,
    lane_index,
    last_lane,
    load,
    logical_not,
    lookup,
    movemask,
    pointer,
    popcount,
    prefix_sums,
    read,
    reduce_add,
    reduce_max,
    round_single,
    select,
    sign_bit,
    store,
    table,
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
"""No band ends below: down to here, labels are in the same order as in fixed point."""

NEVER = np.float32(-1)
"""A threshold below this lets nothing in."""

PAIRS = 48
"""Up to so many listed labels are compared with each other; more are put into buckets."""

BUCKETS = 64
"""As many as `lookup` serves."""

MANY = 192
"""Where more labels of a row are in doubt after that, all that are listed are sorted."""

SORT_BUCKETS = 1024

OPEN = 0.03
"""For about this share of the rows, either end of the band may miss."""

WIDENED = 4
"""So often each end of a band is moved by a factor of 2 before all labels are listed."""

EXACT = 8
"""Where more labels than so many a row need their exact rank, numpy is faster: it sorts rows."""

FIRST = 64
"""For so many rows, every row moves the band."""

LEARN = 16
"""Then it moves after so many."""


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
    constant: bool
    """Whether there are labels that every set has, or none."""
    most_exact: int
    """Up to so many labels a row, on average, may get their exact rank."""

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
    slack, by_row, span, constant = 16 * UNIT + float(bent), q.ndim == 2, (np.inf, -np.inf), False
    low = high = np.empty(0, np.float32)  # those of rows are found where they are used
    if not by_row:
        far, all_fit = slack * (1 + np.abs(exact)), exact >= most
        far[np.isinf(exact)] = 0
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there
            low, high = (exact - far).astype(np.float32), (exact + far).astype(np.float32)
        low[all_fit] = high[all_fit] = np.inf
        some = (exact >= -1) & ~all_fit
        constant = not some.all()
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
        constant,
        EXACT,
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
        least = mass + terms.u * x
        score = least
        if terms.ranked:
            more = rank - terms.free
            score = least + select(more > zero, more * terms.each, zero)
    within, beyond = (score + off) <= limits[0], (score - off) > limits[1]
    if terms.ranked:
        small = x <= broadcast(np.float32(LEAST))
        within = within & logical_not(small)
        beyond = (beyond & logical_not(small)) | (small & ((least - off) > limits[1]))
    return within, beyond


# Long rows: a band of labels in doubt -------------------------------------------------------------


class Band(NamedTuple):
    """Two heights: labels above are within every threshold, labels not above the lower are not."""

    high: Any
    low: Any


class Lists(NamedTuple):
    """The labels in the band, in the order of the row: probabilities, thresholds, verdicts."""

    x: Pointer
    q: Pointer
    within: Pointer
    doubts: Pointer
    """Places of those that are in doubt."""


class Listed(NamedTuple):
    """What one pass over a row finds."""

    m: Int
    """How many labels lie in the band."""
    above: Int
    """How many lie above it."""
    mass: Any
    """Their mass."""
    inside: Any
    """The mass in the band."""
    total: Any
    """The mass of the row."""
    valid: Bool
    """Whether the row surely is one of probabilities."""


class Memory(NamedTuple):
    """What `score_long` works in, made by `allocate`: a compiled loop takes long to learn that."""

    x: Singles
    q: Singles
    within: Bools
    doubts: npt.NDArray[np.int32]
    """The lists, as `Lists` has them; sorting puts its order where the doubts were."""
    bucket: npt.NDArray[np.int32]
    masses: Singles
    counts: Singles
    """The buckets, as `Buckets` has them."""
    ends: Integers
    """Where the buckets end by which labels are sorted."""
    marks: Bools
    """Which labels of a row are within, where no mask is wanted."""

    @classmethod
    def allocate(cls, n_classes: int) -> Memory:
        """Allocate for rows of so many labels; lists are read and written sixteen at a time."""
        n = n_classes + LANES
        return cls(
            x=np.zeros(n, np.float32),
            q=np.zeros(n, np.float32),
            within=np.zeros(n, np.bool_),
            doubts=np.zeros(n, np.int32),
            bucket=np.zeros(n, np.int32),
            masses=np.zeros(BUCKETS + LANES, np.float32),
            counts=np.zeros(BUCKETS + LANES, np.float32),
            ends=np.zeros(SORT_BUCKETS + 1, np.int64),
            marks=np.zeros(n_classes, np.bool_),
        )


@jit_inline
def round_row(probs: Pointer, start: Int, row: Pointer, C: Int) -> Bool:
    """Write a row as float32, float64 by way of fixed point; tell whether none is signed.

    So what is equal in fixed point is equal here too, and no two labels change their order.
    """
    x = load(probs, start + C - LANES)
    signs = x
    store(row, C - LANES, round_single(x))
    for j in range(0, C - LANES, LANES):
        x = load(probs, start + j)
        signs = bit_or(signs, x)
        store(row, j, round_single(x))
    return movemask(sign_bit(signs)) == 0


@jit_inline
def list_some(
    j: Int, fresh: Vector, work: Any, seen: tuple[Vector, Vector, Vector, Int, Int]
) -> tuple[Vector, Vector, Vector, Int, Int]:
    """List those of sixteen labels that lie in the band, and add to the sums."""
    row, high, low, q, by_row, lists = work
    mass, total, signs, n, m = seen
    x = load(row.probs, row.start + j)
    above, signs = fresh & (x > high), bit_or(signs, x)
    inside = fresh & (x > low) & logical_not(above)
    compress(lists.x, m, x, inside)
    if not by_row:
        compress(lists.q, m, load(q, j), inside)
    mass, total = select(above, mass + x, mass), select(fresh, total + x, total)
    return mass, total, signs, n + popcount(above), m + popcount(inside)


@jit_inline
def last_vector(C: Int) -> tuple[Int, Vector]:
    """Return where the last vector of a row begins, and which of its last 16 labels lie in it."""
    last = (C - 1) // LANES * LANES
    return last, lane_index() >= broadcast(np.int32(LANES - (C - last)))


@jit_inline
def list_labels(row: Row, band: Band, q: Pointer, by_row: Bool, lists: Lists) -> Listed:
    """List the labels of a row in the band; zeros follow."""
    zero, none, every = broadcast(np.float32(0)), np.int64(0), lane_index() >= lane_index()
    work = row, broadcast(band.high), broadcast(band.low), q, by_row, lists
    (last, rest), seen = last_vector(row.C), (zero, zero, zero, none, none)
    for j in range(0, last, LANES):
        seen = list_some(j, every, work, seen)
    mass, total, signs, n, m = list_some(row.C - LANES, rest, work, seen)
    store(lists.x, m, zero)
    inside = zero
    for v in range(0, m, LANES):
        inside = inside + load(lists.x, v)
    whole = reduce_add(total)
    valid = movemask(sign_bit(signs)) == 0 and abs(whole - np.float32(1)) < SURE
    return Listed(m, n, reduce_add(mass), reduce_add(inside), whole, valid)


@jit_part
def find_top(row: Row) -> Any:
    """Return the largest probability of a row."""
    top = load(row.probs, row.start + row.C - LANES)
    for j in range(0, row.C - LANES, LANES):
        x = load(row.probs, row.start + j)
        top = select(x > top, x, top)
    return reduce_max(top)


@jit_inline
def misses(
    found: Listed, C: Int, u: float, top: float, off: float, rule: Any, span: tuple[Any, Any]
) -> tuple[Bool, Bool]:
    """Tell whether a label above the band may be beyond its threshold, or one below within."""
    penalties, by_top = rule
    n, n_low, mass = found.above, found.above + found.m, np.float64(found.mass)
    if by_top:
        most = u * top if n <= 1 else top + (n - 2 + u) * penalties[2]
        least = u * top if n_low == 0 else top + (n_low - 1 + u) * penalties[2]
    else:
        most = mass + penalties[n]
        least = mass + np.float64(found.inside) + penalties[min(n_low + 1, C)]
    return (n > 0) & (most + off > span[0]), (n_low < C) & (least - off <= span[1])


@jit_inline
def widen(band: Band, missed: tuple[Bool, Bool], attempt: Int) -> Band:
    """Move the ends that lie too low or too high; in the end all labels are listed."""
    high, low, least = band.high, band.low, np.float32(LEAST)
    if missed[0]:
        high = high * np.float32(2) if attempt < WIDENED else np.float32(2)
    if missed[1] and low > least:
        low = max(low * np.float32(0.5), least) if attempt < WIDENED else least
    elif missed[1]:
        low = np.float32(-1)
    return Band(high, low)


@jit_inline
def narrow(band: Band, missed: tuple[Bool, Bool]) -> Band:
    """Move the ends that did not miss closer together, for the next of the first rows."""
    low = max(band.low, np.float32(LEAST)) * np.float32(1.0 if missed[1] else 1.25)
    high = min(band.high, np.float32(1)) * np.float32(1.0 if missed[0] else 0.8)
    low = min(low, np.float32(0.5))
    return Band(max(high, low), low)


@jit_inline
def learn(band: Band, missed: tuple[Int, Int]) -> Band:
    """Move the ends to where rows need them."""
    high = np.float64(band.high) * 2.0 ** (missed[0] / LEARN - OPEN)
    low = min(max(np.float64(band.low) * 2.0 ** (OPEN - missed[1] / LEARN), LEAST), 0.5)
    return Band(np.float32(min(max(high, low), 1.0)), np.float32(low))


@jit_inline
def limits_of_row(q: Any, slack: float, most: float) -> tuple[Any, Any]:
    """Return up to where a bound surely is within a row's threshold, and from where beyond."""
    far = slack * (1 + abs(q))
    if q >= most:
        return np.float32(inf), np.float32(inf)
    return np.float32(q - far), np.float32(q + far)


class ListLimits(NamedTuple):
    """What the listed labels of a row are judged by."""

    by_row: Bool
    low: Any
    """From where the threshold of the row is in doubt, if it has one."""
    wide: Any
    """How wide a threshold is in doubt."""
    off: Any
    """How far sums may be off."""
    rounded: Bool
    """Whether float64 was rounded: equals in float32 need not be equal."""
    mass: Any
    count: Any
    """Mass and number of the labels above the band."""


@jit_inline
def limits_of_list(
    given: Thresholds, i: Int, span: tuple[Any, Any], off: float, rounded: Bool, found: Listed
) -> ListLimits:
    """Return the limits of one row."""
    largest = abs(given.exact[i]) if given.by_row else max(abs(span[0]), abs(span[1]))
    wide, above = np.float32(3 * given.slack * (1 + largest)), np.float32(found.above)
    return ListLimits(given.by_row, span[0], wide, np.float32(off), rounded, found.mass, above)


@jit_inline
def keep_some(
    v: Int, m: Int, decided: tuple[Vector, Vector], lists: Lists, n: tuple[Int, Int]
) -> tuple[Int, Int]:
    """Write down which of sixteen listed labels are within, and the places of those in doubt.

    Return how many there are of each, added to n.
    """
    within, beyond = decided
    place = lane_index() + broadcast(np.int32(v))
    present = place < broadcast(np.int32(m))
    within, unsure = within & present, present & logical_not(within | beyond)
    store(lists.within, v, within)
    compress(lists.doubts, n[1], place, unsure)
    return n[0] + popcount(within), n[1] + popcount(unsure)


@jit_inline
def add_ahead(
    other: Vector, ahead: Vector, seen: tuple[Vector, Vector], ranked: Bool
) -> tuple[Vector, Vector]:
    """Add a label to mass and number of those ahead of sixteen others."""
    mass, count = seen
    if ranked:
        count = select(ahead, count + broadcast(np.float32(1)), count)
    return select(ahead, mass + other, mass), count


@jit_inline
def place_listed(
    v: Int, m: Int, x: Pointer, ranked: Bool, rounded: Bool
) -> tuple[Vector, Vector, Vector]:
    """Return mass and number of the listed labels ahead of sixteen of them, from place v on.

    And where others equal them, if numbers are rounded.
    """
    own, lane = load(x, v), lane_index()
    zero, one = broadcast(np.float32(0)), broadcast(np.float32(1))
    seen, equal = (zero, zero), zero
    for k in range(v):
        other = broadcast(read(x, k))
        seen = add_ahead(other, other >= own, seen, ranked)
    for k in range(v, min(v + LANES, m)):
        other = broadcast(read(x, k))
        first = (other > own) | ((other == own) & (lane > broadcast(np.int32(k - v))))
        seen = add_ahead(other, first, seen, ranked)
    for k in range(v + LANES, m):
        other = broadcast(read(x, k))
        seen = add_ahead(other, other > own, seen, ranked)
    for k in range(m if rounded else 0):
        equal = select(broadcast(read(x, k)) == own, equal + one, equal)
    return seen[0], seen[1], equal > one


@jit_inline
def score_pairs(m: Int, terms: ScoreTerms, limits: ListLimits, lists: Lists) -> tuple[Int, Int]:
    """Compare each listed label with every other; return what `keep_some` does."""
    n, one, off = (np.int64(0), np.int64(0)), broadcast(np.float32(1)), broadcast(limits.off)
    for v in range(0, m, LANES):
        mass, count, equal = place_listed(v, m, lists.x, terms.ranked, limits.rounded)
        label = (
            load(lists.x, v),
            broadcast(limits.mass) + mass,
            broadcast(limits.count) + count + one,
        )
        q = broadcast(limits.low) if limits.by_row else load(lists.q, v)
        within, beyond = judge(label, terms, (q, q + broadcast(limits.wide)), off)
        alone = logical_not(equal)
        n = keep_some(v, m, (within & alone, beyond & alone), lists, n)
    return n


@jit_inline
def bits_of(x: Any) -> Int:
    """Return the bits of a float32, which are in the order of the numbers."""
    return np.int64(np.float32(x).view(np.int32))


class Buckets(NamedTuple):
    """Buckets of listed labels, in order of falling probability.

    ``mass`` and ``count`` have one number for each bucket from place LANES on: what it holds, and
    once `accumulate` was called, what all labels up to it do. The place before is that of the
    labels above the band.
    """

    of: Pointer
    """The bucket of each listed label."""
    mass: Pointer
    count: Pointer


@jit_inline
def accumulate(sums: Pointer, start: Any) -> None:
    """Turn what buckets hold into what all up to them do."""
    write(sums, LANES - 1, start)
    for b in range(LANES, LANES + BUCKETS, LANES):
        upto = prefix_sums(load(sums, b)) + broadcast(start)
        store(sums, b, upto)
        start = last_lane(upto)


@jit_inline
def fill_buckets(
    m: Int, band: Band, limits: ListLimits, ranked: Bool, buckets: Buckets, lists: Lists
) -> None:
    """Put listed labels into buckets that are even in the bits of a float32: nearly in its log."""
    lowest = max(band.low, np.float32(LEAST))  # what is smaller goes into the last one
    top, bottom = bits_of(min(band.high, np.float32(1.5))), bits_of(lowest)
    scale = broadcast(np.float32(BUCKETS / max(top - bottom, 1)))
    least, last = broadcast(lowest), broadcast(np.float32(BUCKETS - 1))
    for v in range(0, m, LANES):
        x = load(lists.x, v)
        depth = broadcast(np.uint32(top)) - as_uint32(select(x > least, x, least))
        bucket = uint_to_float32(depth) * scale
        store(buckets.of, v, truncate(select(bucket < last, bucket, last)))
    for b in range(LANES, LANES + BUCKETS, LANES):
        store(buckets.mass, b, broadcast(np.float32(0)))
        store(buckets.count, b, broadcast(np.float32(0)))
    for k in range(m):
        at = LANES + np.int64(read(buckets.of, k))
        write(buckets.mass, at, read(buckets.mass, at) + read(lists.x, k))
    for k in range(m if ranked else 0):
        at = LANES + np.int64(read(buckets.of, k))
        write(buckets.count, at, read(buckets.count, at) + np.float32(1))
    accumulate(buckets.mass, limits.mass)
    if ranked:
        accumulate(buckets.count, limits.count)


class Upto(NamedTuple):
    """What all labels before each bucket hold, and what they hold with those of the bucket."""

    before: Any
    after: Any


@jit_inline
def score_buckets(
    m: Int, terms: ScoreTerms, limits: ListLimits, buckets: Buckets, lists: Lists
) -> tuple[Int, Int]:
    """Bound the scores of listed labels; return what `keep_some` does.

    A label comes after all labels of earlier buckets, and at most after all others of its own.
    """
    n, one = (np.int64(0), np.int64(0)), broadcast(np.float32(1))
    first, last, off = one, one, broadcast(limits.off + np.float32(m * UNIT))
    masses = Upto(table(buckets.mass, LANES - 1), table(buckets.mass, LANES))
    counts = Upto(table(buckets.count, LANES - 1), table(buckets.count, LANES))
    for v in range(0, m, LANES):
        x, at = load(lists.x, v), load(buckets.of, v)
        if terms.ranked:
            first = lookup(counts.before, buckets.count, LANES - 1, at) + one
            last = lookup(counts.after, buckets.count, LANES, at)
        q = broadcast(limits.low) if limits.by_row else load(lists.q, v)
        q = q, q + broadcast(limits.wide)
        latest = lookup(masses.after, buckets.mass, LANES, at) - x
        within, _ = judge((x, latest, last), terms, q, off)
        earliest = lookup(masses.before, buckets.mass, LANES - 1, at)
        _, beyond = judge((x, earliest, first), terms, q, off)
        n = keep_some(v, m, (within, beyond), lists, n)
    return n


@jit_inline
def score_listed(
    place: Int, m: Int, terms: ScoreTerms, limits: ListLimits, lists: Lists
) -> tuple[Bool, Bool]:
    """Compare one listed label with all others; tell whether it surely is within, or beyond."""
    own, x = place // LANES * LANES, broadcast(read(lists.x, place))
    other, mass, n, equal = load(lists.x, own), broadcast(np.float32(0)), np.int64(0), np.int64(0)
    ahead = (other == x) & (lane_index() < broadcast(np.int32(place - own)))  # ties: smaller index
    mass = select(ahead, other, mass)
    for v in range(0, own, LANES):
        other = load(lists.x, v)
        mass = select(other >= x, mass + other, mass)
    for v in range(own, m, LANES):
        other = load(lists.x, v)
        mass = select(other > x, mass + other, mass)
    if terms.ranked:
        n = popcount(ahead)
        for v in range(0, m, LANES):
            other = load(lists.x, v)
            n += popcount(other >= x) if v < own else popcount(other > x)
    for v in range(0, m if limits.rounded else 0, LANES):
        equal += popcount(load(lists.x, v) == x)
    if equal > 1:
        return False, False
    q = broadcast(limits.low if limits.by_row else read(lists.q, place))
    before = broadcast(limits.mass + reduce_add(mass))
    label = x, before, broadcast(np.float32(limits.count + n + 1))
    within, beyond = judge(label, terms, (q, q + broadcast(limits.wide)), broadcast(limits.off))
    return movemask(within) > 0, movemask(beyond) > 0


@jit_part
def label_at(place: Int, row: Row, band: Band) -> Int:
    """Return which label is at a place of the list."""
    high, low, n, j = broadcast(band.high), broadcast(band.low), place, np.int64(0)
    last, rest = last_vector(row.C)
    x = load(row.probs, row.start)
    inside = (x > low) & logical_not(x > high)
    while j < last and n >= popcount(inside):
        n, j = n - popcount(inside), j + LANES
        x = load(row.probs, row.start + min(j, row.C - LANES))
        inside = (x > low) & logical_not(x > high)
    if j == last:
        j, inside = row.C - LANES, inside & rest
    flags = movemask(inside)
    for _ in range(n):
        flags &= flags - np.uint64(1)
    return j + trailing_zeros(flags)


@jit_inline
def place_of(x: Any, m: Int, lists: Lists) -> Int:
    """Return the place of a listed probability; -1 if it is there twice."""
    n, place, own = np.int64(0), np.int64(0), broadcast(x)
    for v in range(0, m, LANES):
        equal = movemask(load(lists.x, v) == own)
        if equal:
            n += 1 + ((equal & (equal - np.uint64(1))) > 0)
            place = v + trailing_zeros(equal)
    return place if n == 1 else np.int64(-1)


@jit_inline
def covers(
    i: Int,
    y: Int,
    m: Int,
    probs: Probabilities,
    given: Thresholds,
    row: Row,
    band: Band,
    lists: Lists,
) -> tuple[Bool, Bool]:
    """Tell whether the true label is within its threshold, once lists are; validity of the row."""
    x = read(row.probs, row.start + y)
    if given.constant and (given.low[y] < NEVER or given.low[y] == np.float32(inf)):
        return given.low[y] > 0, True
    if x > band.high or not x > band.low:
        return x > band.high, True
    place = place_of(x, m, lists)
    if place >= 0:
        return read(lists.within, place), True
    q, rule = given.exact[i if given.by_row else y], (given.penalties, given.by_top)
    return is_within(probs[i], y, q, u_of(given, i), rule)


@jit_part
def sort_listed(m: Int, near: Singles, order: npt.NDArray[np.int32], ends: Integers) -> None:
    """Put the places of listed labels in order of their probability: in buckets, then within."""
    most, least = near[0], near[0]
    for k in range(m):
        most, least = max(most, near[k]), min(least, near[k])
    top, low, shift = bits_of(most), bits_of(least), np.int64(0)
    while (top - low) >> shift >= SORT_BUCKETS:
        shift += 1
    ends[:] = 0
    for k in range(m):
        ends[((top - bits_of(near[k])) >> shift) + 1] += 1
    for k in range(SORT_BUCKETS):
        ends[k + 1] += ends[k]
    for k in range(m):
        bucket = (top - bits_of(near[k])) >> shift
        order[ends[bucket]] = k
        ends[bucket] += 1
    for k in range(1, m):
        place, at = order[k], k
        while at > 0 and near[order[at - 1]] < near[place]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = place


@jit_part
def score_exactly(
    i: Int, place: Int, probs: Probabilities, given: Thresholds, row: Row, band: Band
) -> tuple[Bool, Bool]:
    """Tell whether a listed label is within its threshold, exactly; and validity of the row."""
    y = label_at(place, row, band)
    q, rule = given.exact[i if given.by_row else y], (given.penalties, given.by_top)
    return is_within(probs[i], y, q, u_of(given, i), rule)


@jit_part
def score_sorted(
    i: Int,
    m: Int,
    probs: Probabilities,
    given: Thresholds,
    row: Row,
    band: Band,
    top: float,
    limits: ListLimits,
    memory: Memory,
) -> tuple[Int, Bool, Int]:
    """Sort listed labels and score them in order.

    Return how many are within, validity, and how many were scored exactly.
    """
    x_of, order = memory.x, memory.doubts
    sort_listed(m, x_of, order, memory.ends)
    mass, rank, off, wide = (
        np.float64(limits.mass),
        np.int64(limits.count),
        np.float64(limits.off),
        np.float64(limits.wide),
    )
    u, size, valid, step = u_of(given, i), np.int64(0), True, given.penalties[2]
    spent = np.int64(0)
    ranked = given.by_top | (given.line[1] > 0)
    for k in range(m):
        place = order[k]
        x, q = np.float64(x_of[place]), np.float64(limits.low)
        if not limits.by_row:
            q = np.float64(memory.q[place])
        rank += 1
        if given.by_top:
            least = top + u * step
            score = u * top if rank == 1 else top + (rank - 2 + u) * step
        else:
            least = mass + u * x
            score = least + given.penalties[rank]
        mass += x
        within, beyond = score + off <= q, score - off > q + wide
        if ranked and x <= LEAST:
            within, beyond = False, least - off > q + wide
        if limits.rounded and (
            (k > 0 and x_of[order[k - 1]] == x) or (k + 1 < m and x_of[order[k + 1]] == x)
        ):
            within, beyond = False, False
        if not (within | beyond):
            within, good = score_exactly(i, place, probs, given, row, band)
            valid, spent = valid & good, spent + 1
        size += within
        memory.within[place] = within
    return size, valid, spent


@jit_inline
def settle(
    i: Int,
    n: Int,
    m: Int,
    probs: Probabilities,
    given: Thresholds,
    row: Row,
    band: Band,
    terms: ScoreTerms,
    limits: ListLimits,
    lists: Lists,
) -> tuple[Int, Bool, Int]:
    """Decide on listed labels that are in doubt; return what `score_sorted` does."""
    size, valid, spent = np.int64(0), True, np.int64(0)
    for k in range(n):
        place, within, beyond = np.int64(read(lists.doubts, k)), False, False
        if m > PAIRS:  # up to so many were compared with each other before
            within, beyond = score_listed(place, m, terms, limits, lists)
        if not (within | beyond):
            within, good = score_exactly(i, place, probs, given, row, band)
            valid, spent = valid & good, spent + 1
        write(lists.within, place, within)
        size += within
    return size, valid, spent


@jit_inline
def mark_some(j: Int, fresh: Vector, place: Int, work: Any, n: Int) -> tuple[Int, Int]:
    """Mark those of sixteen labels that are within; verdicts on labels in the band follow a place.

    Return the place of the next one, and how many are marked, added to n.
    """
    row, high, low, q, by_row, within, marks, first = work
    x = load(row.probs, row.start + j)
    marked = x > high
    inside = fresh & (x > low) & logical_not(marked)
    if not by_row:  # a label without a limit is in, and one that nothing fits is not
        limit = load(q, j)
        marked = (marked & (limit >= broadcast(NEVER))) | (limit == broadcast(np.float32(inf)))
    marked = (marked & logical_not(inside)) | expand(within, place, inside)
    store(marks, first + j, marked)
    return place + popcount(inside), n + popcount(fresh & marked)


@jit_inline
def mark_labels(
    m: Int, row: Row, band: Band, given: Thresholds, lists: Lists, marks: tuple[Pointer, Int]
) -> Int:
    """Mark the labels of a row that are within, from a place on; return how many."""
    high, low, q = broadcast(band.high), broadcast(band.low), pointer(given.low)
    work = row, high, low, q, given.by_row, lists.within, marks[0], marks[1]
    every, (last, rest) = lane_index() >= lane_index(), last_vector(row.C)
    x = load(row.probs, row.start + row.C - LANES)
    inside = rest & (x > low) & logical_not(x > high)
    # The last vector comes first: what it has of the vector before is marked again.
    _, n = mark_some(row.C - LANES, rest, m - popcount(inside), work, np.int64(0))
    place = np.int64(0)
    for j in range(0, last, LANES):
        place, n = mark_some(j, every, place, work, n)
    return n


@jit_inline
def find_band(
    i: Int, row: Row, top: float, usual: Band, given: Thresholds, lists: Lists
) -> tuple[Band, Listed, float, tuple[Any, Any], tuple[Bool, Bool]]:
    """List the labels on which thresholds decide.

    Return the band, what was found, how far sums may be off, between what the thresholds lie, and
    which end of the usual band missed.
    """
    span, C, u = given.span, row.C, u_of(given, i)
    if given.by_row:
        span = limits_of_row(given.exact[i], given.slack, given.most)
    q, rule = pointer(given.low), (given.penalties, given.by_top)
    band, attempt, first = usual, np.int64(0), (False, False)
    while True:
        found = list_labels(row, band, q, given.by_row, lists)
        off = (C / LANES + 24.0) * UNIT + C * LEAST + abs(np.float64(found.total) - 1)
        missed = misses(found, C, u, top, off, rule, span)
        first = missed if attempt == 0 else first
        if not (found.valid and (missed[0] | missed[1])):
            return band, found, off, span, first
        band, attempt = widen(band, missed, attempt), attempt + 1


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

    ``quick`` are the same float32, or room for one row of float64 as float32. Return whether all
    rows surely are probabilities; also False where too many labels need their exact rank.
    """
    n, C = probs.shape
    mask, covered, sizes = out
    masked, rounded = mask.size > 0, probs.itemsize > quick.itemsize
    marks = mask.reshape(-1) if masked else memory.marks
    lists = Lists(
        pointer(memory.x), pointer(memory.q), pointer(memory.within), pointer(memory.doubts)
    )
    buckets = Buckets(pointer(memory.bucket), pointer(memory.masses), pointer(memory.counts))
    tail = lane_index() < broadcast(np.int32(C % LANES))
    usual = Band(np.float32(4.0 / C), np.float32(max(0.25 / C, LEAST)))
    early, late, valid, spent = np.int64(0), np.int64(0), True, np.int64(0)
    for i in range(n):
        row, u = Row(pointer(quick), 0 if rounded else i * C, C, tail), u_of(given, i)
        if rounded and not round_row(pointer(probs), i * C, pointer(quick), C):
            return False
        top = find_top(row) if given.by_top else np.float32(0)
        band, found, off, span, missed = find_band(i, row, np.float64(top), usual, given, lists)
        if not found.valid:
            return False
        m = found.m
        terms = terms_of(given, broadcast(np.float32(u)), broadcast(top))
        limits = limits_of_list(given, i, span, off, rounded, found)
        if m <= PAIRS:
            within, doubtful = score_pairs(m, terms, limits, lists)
        else:
            fill_buckets(m, band, limits, terms.ranked, buckets, lists)
            within, doubtful = score_buckets(m, terms, limits, buckets, lists)
        if doubtful > MANY:
            within, good, more = score_sorted(
                i, m, probs, given, row, band, np.float64(top), limits, memory
            )
        else:
            settled, good, more = settle(
                i, doubtful, m, probs, given, row, band, terms, limits, lists
            )
            within += settled
        valid, spent = valid & good, spent + more
        if spent > given.most_exact * (i + LANES):
            return False
        sizes[i] = found.above + within
        if masked or given.constant:
            to = pointer(marks), i * C if masked else 0
            sizes[i] = mark_labels(m, row, band, given, lists, to)
        if labels.size:
            covered[i], good = covers(i, labels[i], m, probs, given, row, band, lists)
            valid &= good
        early, late = early + missed[0], late + missed[1]
        if i < FIRST:
            usual = narrow(band, missed)
        elif (i + 1) % LEARN == 0:
            usual, early, late = learn(usual, (early, late)), np.int64(0), np.int64(0)
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
