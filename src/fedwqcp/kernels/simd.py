"""Loops on sixteen-lane vectors: ranks of true labels, short rows, interval ends.

A long row is read sixteen numbers at a time. A short row would leave most lanes empty, so each lane
takes a row of its own: sixteen rows are transposed in registers. `bracket` finds the crossings of
long rows. These are the passes where a plain loop was slower when it was tried; all others are in
`numba`.

Bits of floats without a sign are in the order of the numbers, so rows are compared as uint32, and a
sign or a NaN shows as a number above `WHOLE`. Sums in float64 of float32 above `EXACT` are exact,
as `numba` says; rows for which that is not enough go to its exact loops.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import LANES, Crossings, Integers, Ranked
from fedwqcp.kernels.numba import (
    EXACT,
    SURE,
    WHOLE,
    Bool,
    Int,
    count_from,
    jit,
    jit_inline,
    rank_some,
    write_ends,
)
from fedwqcp.kernels.numpy import Limits, RandomPart
from fedwqcp.kernels.vectors import (
    as_float32,
    as_float64,
    as_int64,
    as_uint32,
    broadcast,
    even_lanes,
    fma,
    lane_index,
    load,
    logical_not,
    mask_to_int32,
    mask_to_uint32,
    masked_load,
    movemask,
    odd_lanes,
    pointer,
    popcount,
    read,
    reduce_add,
    reduce_max_uint32,
    select,
    sort_descending,
    store,
    stream,
    to_float32,
    to_float64,
    to_int64,
    trailing_zeros,
    transpose,
    write,
)

Vector: TypeAlias = Any

# Where the true label stands, in long rows of float32 ---------------------------------------------


@jit_inline
def rank_row(
    row: tuple[Any, Int, Int], tail: Vector, is_before: tuple[Any, Int], own: Any
) -> tuple[Any, Int, Any, Any]:
    """Return mass before a label, its rank, the bits of the largest, and the sum in float32.

    A row is a pointer, where it begins and how long it is. ``is_before`` points to 1 for each label
    before this one and 0 from it on: added to the bits of a number, it puts ties in order.
    """
    rows, at, C = row
    key, full = as_uint32(broadcast(own)), C // LANES * LANES
    before, total, top, rank = broadcast(0.0), broadcast(np.float32(0)), key, np.int64(1)
    for j in range(0, full, LANES):
        x = load(rows, at + j)
        ahead = (as_uint32(x) + load(is_before[0], is_before[1] + j)) > key
        before = before + select(ahead, to_float64(x), broadcast(0.0))
        total = total + x
        top = select(as_uint32(x) > top, as_uint32(x), top)
        rank += popcount(ahead)
    if full < C:
        x = masked_load(rows, at + full, tail)
        ahead = (as_uint32(x) + load(is_before[0], is_before[1] + full)) > key
        before = before + select(ahead, to_float64(x), broadcast(0.0))
        total = total + x
        top = select(as_uint32(x) > top, as_uint32(x), top)
        rank += popcount(ahead)
    return reduce_add(before), rank, reduce_max_uint32(top), reduce_add(total)


@jit
def rank_labels(
    probs: Probabilities, labels: Labels, out: Ranked, is_before: npt.NDArray[np.uint32]
) -> Bool:
    """Fill in where the label of each contiguous row of float32 stands.

    ``is_before`` is 1 as many times as there are labels, then 0 as often and sixteen times more.
    """
    befores, uptos, ranks, tops = out
    C, valid = probs.shape[1], True
    rows, steps = pointer(probs), pointer(is_before)
    tail = lane_index() < broadcast(np.int32(C % LANES))
    for i in range(len(labels)):
        y = labels[i]
        own = read(rows, i * C + y)
        before, rank, top, total = rank_row((rows, i * C, C), tail, (steps, C - y), own)
        if np.float32(own).view(np.uint32) <= EXACT or top > WHOLE or not abs(total - 1) < SURE:
            valid &= rank_some(i, i + 1, probs, labels, out)
            continue
        uptos[i] = 1.0 if rank == C else min(before + np.float64(own), 1.0)
        if befores.size:
            befores[i] = min(before, 1.0)
        if tops.size:
            tops[i] = np.float64(np.uint32(top).view(np.float32))
        if ranks.size:
            ranks[i] = rank
    return valid


# Short rows of float32: sixteen of them at a time, a lane for each --------------------------------

OWN, LABEL, SCRATCH_LENGTH = 0, LANES, 2 * LANES
"""Where in the scratch buffer one number of each of sixteen rows begins, and their labels; and its
length."""

Scratch: TypeAlias = tuple[Probabilities, tuple[int, ...]]
"""The buffer, and a tuple as long as a row: the compiler must know the length."""


@jit_inline
def grouped_rows(n: Int, C: Int) -> Int:
    """Return how many of n short rows come in groups of which all lanes can be read.

    Sixteen numbers of every row are read, beyond a row of fewer: the last rows are left.
    """
    return max((n * C - LANES) // C + 1, 0) // LANES * LANES


@jit_inline
def sum_is_sure(total: Vector, near: Any) -> Vector:
    """Tell which sums are near enough to 1."""
    one = np.float32(1)
    return (total < broadcast(np.float32(one + near))) & (total > broadcast(np.float32(one - near)))


@jit_inline
def rank_columns(scratch: Any, columns: Any) -> tuple[Vector, Vector, Vector, Vector]:
    """Return mass before the labels, their rank, the largest, and whether that is surely exact."""
    label, key = as_uint32(load(scratch, LABEL)), as_uint32(load(scratch, OWN))
    before, total = broadcast(0.0), broadcast(np.float32(0))
    top, rank = key, broadcast(np.int32(1))
    for j in range(len(columns)):
        x = columns[j]
        bits = as_uint32(x)
        ahead = (bits + mask_to_uint32(broadcast(np.uint32(j)) < label)) > key
        before = before + select(ahead, to_float64(x), broadcast(0.0))
        total = total + x
        top = select(bits > top, bits, top)
        rank = rank + mask_to_int32(ahead)
    sure = (broadcast(EXACT) < key) & (top <= broadcast(WHOLE))
    return before, rank, top, sure & sum_is_sure(total, np.float32(SURE))


@jit
def rank_labels_short(probs: Probabilities, labels: Labels, out: Ranked, scratch: Scratch) -> Bool:
    """Do what `rank_labels` does, for short rows."""
    buffer, classes = scratch
    C, flat = len(classes), probs.reshape(-1)
    rows, lanes = pointer(flat), pointer(buffer)
    befores, uptos, ranks, tops = out
    to_before, to_upto = pointer(befores), pointer(uptos)
    to_rank, to_top = pointer(ranks), pointer(tops)
    bits, one = buffer.view(np.uint32), broadcast(1.0)
    valid, grouped = True, grouped_rows(len(labels), C)
    for i in range(0, grouped, LANES):
        for k in range(LANES):
            y = np.uint32(labels[i + k])
            bits[LABEL + k] = y
            buffer[OWN + k] = flat[np.uint64((i + k) * C) + y]
        before, rank, top, sure = rank_columns(lanes, transpose(rows, i * C, classes))
        if movemask(logical_not(sure)):
            valid &= rank_some(i, i + LANES, probs, labels, out)
        else:
            after = before + to_float64(load(lanes, OWN))
            after = select(rank == broadcast(np.int32(C)), one, select(after < one, after, one))
            store(to_upto, i, after)
            if befores.size:
                store(to_before, i, select(before < one, before, one))
            if tops.size:
                store(to_top, i, to_float64(as_float32(top)))
            if ranks.size:
                store(to_rank, i, to_int64(rank))
    return valid & rank_some(grouped, len(labels), probs, labels, out)


@jit
def count_from_short(
    probs: Probabilities,
    labels: Labels,
    limits: Any,
    out: tuple[Bools, Integers],
    scratch: Scratch,
) -> Bool:
    """Do what `numba.count_from` does, for short contiguous rows of float32."""
    buffer, classes = scratch
    least, by_row, by_label = limits
    C, n = len(classes), len(probs)
    rows, lanes, covered, counts = pointer(probs), pointer(buffer), pointer(out[0]), pointer(out[1])
    numbers, wrong, grouped = pointer(least), np.uint64(0), grouped_rows(n, C)
    for i in range(0, grouped, LANES):
        for k in range(LANES):
            buffer[OWN + k] = read(rows, (i + k) * C + labels[i + k])
        columns = transpose(rows, i * C, classes)
        total, top = broadcast(np.float32(0)), broadcast(np.uint32(0))
        found = broadcast(np.int32(0))
        if by_label:
            for k in range(LANES):
                buffer[LABEL + k] = read(numbers, labels[i + k])
            for j in range(C):
                found = found + mask_to_int32(columns[j] >= broadcast(read(numbers, j)))
            low = load(lanes, LABEL)
        else:
            low = load(numbers, i * by_row)
            for j in range(C):
                found = found + mask_to_int32(columns[j] >= low)
        for j in range(C):
            x = columns[j]
            total, top = total + x, select(as_uint32(x) > top, as_uint32(x), top)
        sure = sum_is_sure(total, np.float32(SURE)) & (top <= broadcast(WHOLE))
        wrong |= movemask(logical_not(sure))
        store(counts, i, to_int64(found))
        store(covered, i, load(lanes, OWN) >= low)
    end = (out[0][grouped:], out[1][grouped:])
    others = (least[grouped * by_row :], by_row, by_label)
    rest = count_from(probs[grouped:], labels[grouped:], others, end)
    return rest & (wrong == 0)


class ShortLimits(NamedTuple):
    """What a threshold allows, for short rows."""

    surely: Any
    """A sum in float32 up to this is surely within, rounding included."""
    maybe: Any
    """A sum beyond this is surely not."""
    near: Any
    """How near to 1 the sum of a row must be."""


NEAR = np.float32(2.0**-20)
"""With a random part, rows whose sums are this near to 1 are decided: so much less or more weighs a
label that is capped at mass 1, or ranked last."""


@lru_cache(maxsize=64)
def short_limits(limits: Limits, randomized: bool) -> ShortLimits:
    """Return the limits as `cross_short` takes them."""
    at, n_classes = limits.reals(randomized), len(limits.at) - 1
    slack = (n_classes + 4) * UNIT  # a sum of so many float32 errs by less
    if randomized:
        slack += 4 * UNIT + float(NEAR)
    surely, maybe = (at - slack).astype(np.float32), (at + slack).astype(np.float32)
    return ShortLimits(surely, maybe, NEAR if randomized else np.float32(SURE))


@lru_cache(maxsize=16)
def no_limits(n_classes: int) -> ShortLimits:
    """Return what `cross_short` takes where each row has its threshold."""
    none = np.zeros(n_classes + 1, np.float32)
    return ShortLimits(none, none, np.float32(SURE))


class ShortScores(NamedTuple):
    """What scores of short rows are made of, beside their masses."""

    u: Floats
    """Shape (n,), or (0,) where nothing is random."""
    penalties: Any
    """Shape (C + 1,), float32; or (0,) where limits decide."""
    q: Floats
    """Thresholds of shape (n,), unless limits decide."""
    most: float
    """No score is larger."""


UNIT = 2.0**-24
"""A sum in float32 of at most 1 loses less than this each time."""

LISTED = 256
"""So many undecided rows are listed as they are met; where there are more, sizes are searched."""

NO_PENALTIES = np.empty(0, np.float32)

NOTHING = np.uint32(2**32 - 1)
"""More than the bits of any number."""


@jit_inline
def limits_of_rows(q: Vector, off: Vector, slack: float, most: float) -> tuple[Vector, Vector]:
    """Return up to where a score surely is within a row's threshold, and from where beyond.

    ``off`` is what sums may lack of 1; for each unit of the threshold and once more, rounding takes
    less than the slack.
    """
    near, one, zero = to_float32(q), broadcast(np.float32(1)), broadcast(np.float32(0))
    far = off + select(near < zero, one - near, one + near) * broadcast(np.float32(slack))
    fit, none = q >= broadcast(most), broadcast(np.float32(inf))
    return select(fit, none, near - far), select(fit, none, near + far)


@jit_inline
def add_label(
    j: Int, x: Vector, following: Vector, where: tuple[Vector, Vector], seen: Any
) -> tuple[Vector, Vector, Vector, Vector]:
    """Count one label of sixteen rows where it surely fits, or may fit.

    Return how many do and may, the bits of the least that fits and of the one that follows it.
    """
    n, most, least, beyond = seen
    rank, (fits, may) = broadcast(np.int32(j + 1)), where
    n, most = select(fits, rank, n), select(may, rank, most)
    return n, most, select(fits, x, least), select(fits, following, beyond)


@jit_inline
def count_masses(columns: Any, u: Vector, limits: tuple[Any, Any]) -> tuple[Any, Vector]:
    """Count the labels within the limits of their ranks; return what was seen, and the sums.

    Columns are sorted; behind those of all labels comes one that no label has.
    """
    surely, maybe = limits
    mass, none = broadcast(np.float32(0)), broadcast(np.int32(0))
    seen = none, none, broadcast(NOTHING), columns[0]
    for j in range(len(columns) - 1):
        score = fma(u, as_float32(columns[j]), mass)
        mass = mass + as_float32(columns[j])
        low, high = broadcast(read(surely, j + 1)), broadcast(read(maybe, j + 1))
        seen = add_label(j, columns[j], columns[j + 1], (score <= low, score <= high), seen)
    return seen, mass


@jit_inline
def count_scores(
    columns: Any, u: Vector, penalties: Any, q: Vector, most: float
) -> tuple[Any, Vector]:
    """Count the labels whose scores are within a threshold; return what `count_masses` does."""
    mass, none, C = broadcast(np.float32(0)), broadcast(np.int32(0)), len(columns) - 1
    one, total = broadcast(np.float32(1)), mass
    for j in range(C):
        total = total + as_float32(columns[j])
    off = select(total < one, one - total, total - one)
    low, high = limits_of_rows(q, off, (2 * C + 16) * UNIT, most)
    seen = none, none, broadcast(NOTHING), columns[0]
    for j in range(C):
        score = fma(u, as_float32(columns[j]), mass) + broadcast(read(penalties, j + 1))
        mass = mass + as_float32(columns[j])
        seen = add_label(j, columns[j], columns[j + 1], (score <= low, score <= high), seen)
    return seen, total


@jit_inline
def list_rows(first: Int, left: Int, listed: Any, n: Int) -> Int:
    """List those of sixteen rows whose bits are set behind n others, as far as there is room."""
    while left:
        if n < LISTED:
            write(listed, n, first + trailing_zeros(left))
        n += 1
        left &= left - np.uint64(1)
    return n


@jit
def cross_short(
    probs: Probabilities,
    labels: Labels,
    limits: ShortLimits,
    scores: ShortScores,
    out: tuple[Integers, Labels, Bools, Bools],
    listed: Integers,
    scratch: Scratch,
) -> Int:
    """Fill in `Crossings` of contiguous rows, masses apart; return how many rows are undecided.

    Each lane sorts its row in registers. Undecided rows have size -1: those that are not surely
    probabilities, where rounding may matter, or where equals lie on both sides of the crossing, and
    the last few; the first LISTED of them are listed, in an array of as many.
    """
    buffer, classes = scratch
    C, n = len(classes), len(probs)
    sizes, label, covered, mask = out
    rows, lanes, side = pointer(probs), pointer(buffer), pointer(buffer.view(np.uint32))
    to_sizes, to_covered, to_mask = pointer(sizes), pointer(covered), pointer(mask)
    bounds = pointer(limits.surely), pointer(limits.maybe)
    u = broadcast(np.float32(1))
    to_list = pointer(listed)
    flat, every = pointer(probs.view(np.uint32)), broadcast(np.int32(C))
    undecided, behind = np.int64(0), broadcast(np.uint32(NOTHING - 1))
    grouped = grouped_rows(n, C)
    for i in range(0, grouped, LANES):
        columns = (*sort_descending(transpose(flat, i * C, classes)), behind)
        if scores.u.size:
            u = to_float32(load(pointer(scores.u), i))
        if scores.penalties.size:
            q = load(pointer(scores.q), i)
            seen, total = count_scores(columns, u, pointer(scores.penalties), q, scores.most)
        else:
            seen, total = count_masses(columns, u, bounds)
        found, most, least, beyond = seen
        tied = (least == beyond) | ((least <= broadcast(EXACT)) & (found < every))
        sure = (columns[0] <= broadcast(WHOLE)) & sum_is_sure(total, limits.near)
        sure = sure & (found == most) & logical_not(tied)
        if labels.size:
            for k in range(LANES):
                buffer[OWN + k] = read(rows, (i + k) * C + labels[i + k])
            store(to_covered, i, as_uint32(load(lanes, OWN)) >= least)
        if mask.size:
            store(side, OWN, least)
            for k in range(LANES):  # writes beyond the row what the next row overwrites
                one = load(flat, (i + k) * C)
                store(to_mask, (i + k) * C, one >= broadcast(read(side, OWN + k)))
        if label.size:
            sure = sure & ((beyond > broadcast(EXACT)) | (found == every))
            store(side, OWN, beyond)
            for k in range(LANES):
                same = load(flat, (i + k) * C) == broadcast(read(side, OWN + k))
                here = movemask(same & (lane_index() < every))
                label[i + k] = trailing_zeros(here) if here else -1
        store(to_sizes, i, to_int64(select(sure, found, broadcast(np.int32(-1)))))
        undecided = list_rows(i, movemask(logical_not(sure)), to_list, undecided)
    for row in range(grouped, n):
        sizes[row] = -1
        undecided = list_rows(row, np.uint64(1), to_list, undecided)
    return undecided


def cross(
    probs: Probabilities,
    labels: Labels,
    limits: Limits,
    random: RandomPart,
    out: Crossings,
    scratch: Scratch,
) -> Integers:
    """Fill in crossings of short contiguous rows, masses apart; return which are undecided."""
    u, penalties, q, by_row = random
    if by_row:
        own = no_limits(probs.shape[1])
        scores = ShortScores(u, penalties.astype(np.float32), q, 1 + float(penalties[-1]))
    else:
        own, scores = short_limits(limits, u.size > 0), ShortScores(u, NO_PENALTIES, q, inf)
    listed = np.empty(LISTED, np.int64)
    given = own, scores, out[1:], listed, scratch
    undecided = cross_short(probs, labels, *given)
    return listed[:undecided] if undecided <= LISTED else np.flatnonzero(out.sizes < 0)


# Both ends of prediction intervals ----------------------------------------------------------------
#
# The numbers are those of `numba.interval_ends`. Large outputs are written past the cache: what is
# not read soon need not be fetched into it first.

LEAST = 5e-324
"""The float that is nearest to 0."""


@jit_inline
def next_to(y: Vector, up: Bool) -> Vector:
    """Return the next floats above, or below."""
    step, least = (np.int64(1), LEAST) if up else (np.int64(-1), -LEAST)
    bits = as_int64(y)
    moved = bits + select(bits < broadcast(np.int64(0)), broadcast(-step), broadcast(step))
    return select(y == broadcast(0.0), broadcast(least), as_float64(moved))


@jit_inline
def lower_end(base: Vector, q: Vector) -> Vector:
    """Return ``base - q``, raised to the next float where it is farther from the base than q."""
    y = base - q
    return select((base - y) > q, next_to(y, True), y)


@jit_inline
def upper_end(base: Vector, q: Vector) -> Vector:
    """Return ``base + q``, lowered to the next float where it is farther from the base than q."""
    y = base + q
    return select((y - base) > q, next_to(y, False), y)


@jit_inline
def store_ends(out: tuple[Any, Any], i: Int, past_cache: Bool, ends: tuple[Vector, Vector]) -> None:
    """Write both ends of sixteen intervals."""
    if past_cache:
        stream(out[0], i, ends[0])
        stream(out[1], i, ends[1])
    else:
        store(out[0], i, ends[0])
        store(out[1], i, ends[1])


@jit
def ends_of_one(
    f: Floats, q: tuple[float, float], out: tuple[Floats, Floats], past_cache: Bool
) -> Bool:
    """Fill in both ends of every interval around one estimate; tell whether all are finite."""
    to, down, up = (pointer(out[0]), pointer(out[1])), broadcast(q[0]), broadcast(q[1])
    estimates, zero = pointer(f), broadcast(0.0)
    full, finite = len(f) // LANES * LANES, zero < broadcast(1.0)
    for i in range(0, full, LANES):
        x = load(estimates, i)
        finite = finite & ((x - x) == zero)
        store_ends(to, i, past_cache, (lower_end(x, down), upper_end(x, up)))
    rest = True
    for i in range(full, len(f)):
        rest &= write_ends(f[i], f[i], q, i, out)
    return rest & (movemask(logical_not(finite)) == 0)


@jit
def ends_of_pairs(
    flat: Floats, q: tuple[float, float], out: tuple[Floats, Floats], past_cache: Bool
) -> Bool:
    """Do so around two estimates of a row, in whatever order they come."""
    to, down, up = (pointer(out[0]), pointer(out[1])), broadcast(q[0]), broadcast(q[1])
    estimates, zero, n = pointer(flat), broadcast(0.0), len(out[0])
    full, finite = n // LANES * LANES, zero < broadcast(1.0)
    for i in range(0, full, LANES):
        x, y = load(estimates, 2 * i), load(estimates, 2 * i + LANES)
        finite = finite & ((x - x) == zero) & ((y - y) == zero)
        a, b = even_lanes(x, y), odd_lanes(x, y)
        least, most = select(a < b, a, b), select(a < b, b, a)
        store_ends(to, i, past_cache, (lower_end(least, down), upper_end(most, up)))
    rest = True
    for i in range(full, n):
        rest &= write_ends(flat[2 * i], flat[2 * i + 1], q, i, out)
    return rest & (movemask(logical_not(finite)) == 0)
