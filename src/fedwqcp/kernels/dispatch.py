"""Which path serves which input, and on how many threads. What `scores` calls.

Nothing of numba is imported or compiled before it pays: below `SMALL` numbers, and until `LARGE`
have been seen in the process, numpy serves. All paths give the same numbers, so this file is about
speed alone. A compiled loop checks rows as it reads them; it returns False where it is not sure
that all are probabilities, and then numpy's full check decides and words the error.

=====================  =======================  =================================================
rows                   ranks of true labels     crossings (sets, sizes, coverage)
=====================  =======================  =================================================
small input, no numba  numpy.rank_labels        numpy.cross_by_value, numpy.cross_by_order
float32, C <= 15       simd.rank_labels_short   simd.cross, then numba.cross_short_rows
float32, C <= 48       simd.rank_labels         numba.cross_short_rows
float32, C <= 8192     simd.rank_labels         bracket.cross, then numba.cross_long_rows
float64, C <= 48       numba.rank_labels        numba.cross_short_rows
float64, C <= 8192     numba.rank_labels        bracket.cross, then numba.cross_long_rows
longer                 numba.rank_labels        numba.cross_long_rows
SAPS (limits by top)   as above                 numba.cross_short_rows or numba.cross_long_rows
=====================  =======================  =================================================

Where two loops are named, the first is quick and leaves some rows undecided; the second is exact.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels, Probabilities, as_probabilities
from fedwqcp.errors import InputError
from fedwqcp.kernels import LANES, Crossings, Integers, Ranked
from fedwqcp.kernels.numpy import (
    SHORT,
    Limits,
    blocks,
    cross_by_order,
    cross_by_value,
    network,
    surely_probabilities,
)
from fedwqcp.kernels.numpy import rank_labels as numpy_rank_labels

SMALL = 2**13
"""Inputs below this many numbers are left to numpy."""

LARGE = 2**20
"""So many numbers, in one input or in all so far, are worth the wait for numba."""

SHARED = 2**24
"""Inputs below this many numbers stay on one thread: a pool costs more than it saves."""

PARTS = 4
"""How many parts of an input a thread takes, if all are equally fast."""

SHORT_SIMD = 15
"""Rows of up to so many float32 are transposed; 16 fill a vector alone."""

LONG = 2**13
"""Rows of up to so many float32 are checked by their sum in float32."""

ROWS = 2**14
"""Ranks of so many rows are kept at a time; they stay in cache."""

COPIED = 2**17
"""So many numbers of rows that do not follow each other are copied at a time."""

PAST_CACHE = 2**18
"""So many intervals leave no room in a cache for what comes next, and are written past it."""


# numba and threads --------------------------------------------------------------------------------


class Loops(NamedTuple):
    """The modules of compiled loops."""

    numba: ModuleType
    simd: ModuleType
    bracket: ModuleType


_seen = [0]


def loops_for(size: int) -> Loops | None:
    """Return the compiled loops if an input of so many numbers should go to them, else None."""
    _check_threads()
    if size < SMALL:
        return None
    _seen[0] += size
    return _loops() if _seen[0] >= LARGE else None


@cache
def _loops() -> Loops | None:
    """Import the loops, once."""
    try:
        from fedwqcp.kernels import bracket, numba, simd
    except ImportError:  # numba is not installed, or not made for this numpy
        return None
    return Loops(numba, simd, bracket)


@cache
def _check_threads() -> None:
    """Refuse a wrong number of threads with the first input, whatever its size."""
    threads()


def threads() -> int:
    """Return how many threads a large input may use: FEDWQCP_THREADS, or 1; no more than cores."""
    text = os.environ.get("FEDWQCP_THREADS") or "1"
    if not text.isdecimal() or int(text) < 1:
        raise InputError(
            f"FEDWQCP_THREADS must be an integer of at least 1, or not set, got {text!r}"
        )
    return min(int(text), os.cpu_count() or 1)


def over_rows(n: int, size: int, work: Callable[[slice], bool]) -> bool:
    """Work on all n rows, in parts on several threads where they hold very many numbers.

    Return whether ``work`` returned True for all of them.
    """
    workers = min(threads(), n) if size >= SHARED else 1
    if workers == 1:
        return bool(work(slice(0, n)))
    parts = min(workers * PARTS, n)
    edges = [*(n * part // parts // LANES * LANES for part in range(parts)), n]
    with ThreadPoolExecutor(workers) as pool:
        return all(list(pool.map(work, map(slice, edges[:-1], edges[1:]))))


def check(probs: Probabilities) -> None:
    """Refuse rows that are not probabilities, as `as_probabilities` words it."""
    loops = loops_for(probs.size)
    if loops is None:
        valid = surely_probabilities(probs)
    else:
        valid = over_rows(
            len(probs), probs.size, lambda rows: bool(loops.numba.valid_rows(probs[rows]))
        )
    if not valid:
        as_probabilities(probs)


# Scores of true labels ----------------------------------------------------------------------------


def score_labels(
    probs: Probabilities, labels: Labels, formula: Callable[[Ranked, slice], Floats]
) -> Floats:
    """Check probabilities and score one label of each row by where it stands.

    ``formula`` is given where the labels of some rows stand, and which rows; these arrays are
    written over after it returns.
    """
    n, scores = len(probs), np.empty(len(probs))
    if (loops := loops_for(probs.size)) is not None:
        rank = _rank_loop(loops, probs)

        def work(rows: slice) -> bool:
            before, top, ranks = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS, np.int64)
            for some in _parts(rows):
                m = some.stop - some.start
                place = Ranked(before[:m], scores[some], ranks[:m], top[:m])
                if not rank(some, labels[some], place):
                    return False
                scores[some] = formula(place, some)
            return True

        if over_rows(n, probs.size, work):
            return scores
    check(probs)
    for some in _parts(slice(0, n)):
        scores[some] = formula(numpy_rank_labels(probs[some], labels[some]), some)
    return scores


def masses_upto(probs: Probabilities, labels: Labels) -> Floats:
    """Check probabilities and return the mass up to one label of each row, its own included."""
    upto = np.empty(len(probs))
    if (loops := loops_for(probs.size)) is not None:
        rank = _rank_loop(loops, probs)
        none, no_rank = np.empty(0), np.empty(0, np.int64)

        def work(rows: slice) -> bool:
            return rank(rows, labels[rows], Ranked(none, upto[rows], no_rank, none))

        if over_rows(len(probs), probs.size, work):
            return upto
    return score_labels(probs, labels, lambda place, _: place.upto)


def _parts(rows: slice) -> Iterator[slice]:
    """Yield rows in parts of at most ROWS."""
    for start in range(rows.start, rows.stop, ROWS):
        yield slice(start, min(start + ROWS, rows.stop))


def _rank_loop(loops: Loops, probs: Probabilities) -> Callable[[slice, Labels, Ranked], bool]:
    """Return the loop that is made for such rows; given some of them, it fills in ranks."""
    n_classes = probs.shape[1]
    single = probs.dtype == np.float32 and n_classes <= LONG

    def find(some: Probabilities, labels: Labels, out: Ranked) -> bool:
        if not single:
            return bool(loops.numba.rank_labels(some, labels, out))
        if n_classes > SHORT_SIMD:
            return bool(loops.simd.rank_labels(some, labels, out, _is_before(n_classes)))
        return bool(loops.simd.rank_labels_short(some, labels, out, _scratch(loops, n_classes)))

    def work(rows: slice, labels: Labels, out: Ranked) -> bool:
        some = probs[rows]
        if not single or some.flags.c_contiguous:
            return find(some, labels, out)
        return all(  # rows that do not follow each other are copied, a block at a time
            find(np.ascontiguousarray(some[part]), labels[part], out.of(part))
            for part in blocks(len(some), n_classes)
        )

    return work


@lru_cache(maxsize=8)
def _is_before(n_classes: int) -> npt.NDArray[np.uint32]:
    """Return 1 for every label and 0 behind them: from C - y on, 1 for the labels before y."""
    row = np.zeros(2 * n_classes + LANES, np.uint32)
    row[:n_classes] = 1
    row.flags.writeable = False
    return row


def _scratch(loops: Loops, n_classes: int) -> tuple[Probabilities, tuple[int, ...]]:
    """Return what loops over short rows work in; the tuple tells the compiler how short."""
    return np.empty(loops.simd.SCRATCH, np.float32), (0,) * n_classes


def count_from(
    probs: Probabilities, labels: Labels, least: np.floating[Any]
) -> tuple[Bools, Integers]:
    """Check probabilities; return whether each label's is at least some number, and how many are.

    ``least`` has the type of the probabilities.
    """
    n, n_classes = probs.shape
    out = np.empty(n, np.bool_), np.empty(n, np.int64)
    covered, counts = out
    loops = loops_for(probs.size) if n_classes <= LONG else None
    single = probs.dtype == np.float32 and probs.flags.c_contiguous

    def work(rows: slice) -> bool:
        assert loops is not None
        given = probs[rows], labels[rows], least, (covered[rows], counts[rows])
        if single and n_classes <= SHORT_SIMD:
            return bool(loops.simd.count_from_short(*given, _scratch(loops, n_classes)))
        return bool(loops.numba.count_from(*given))

    if loops is not None and over_rows(n, probs.size, work):
        return out
    check(probs)
    for rows in blocks(n, n_classes):
        counts[rows] = np.count_nonzero(probs[rows] >= least, axis=1)
    covered[:] = np.take_along_axis(probs, labels[:, None], axis=1)[:, 0] >= least
    return out


# Sets ---------------------------------------------------------------------------------------------


class Crossing(NamedTuple):
    """The first label of each row that passes its limit."""

    place: Ranked
    """Where it stands; rank C + 1 where no label passes."""
    label: Labels
    """Which it is; -1 where no label passes."""
    covered: Bools | None
    """Whether the true label comes before it; None without true labels."""
    mask: Bools | None
    """Shape (n, C), which labels come before it; None unless asked for."""


def find_crossings(
    probs: Probabilities, limits: Limits, labels: Labels | None = None, masked: bool = False
) -> Crossing:
    """Check probabilities and return the label at which each row passes its limits."""
    out = _cross(probs, limits, labels, masked, placed=True)
    before, upto, top = out.masses
    return Crossing(
        Ranked(before, upto, out.sizes + 1, top),
        out.label,
        None if labels is None else out.covered,
        out.mask if masked else None,
    )


def mask_within(probs: Probabilities, limits: Limits) -> Bools:
    """Check probabilities and mark the labels within the limits, shape (n, C)."""
    return _cross(probs, limits, None, True, placed=False).mask


def count_within(probs: Probabilities, limits: Limits, labels: Labels) -> tuple[Bools, Integers]:
    """Check probabilities; return whether true labels are within the limits, and how many are."""
    out = _cross(probs, limits, labels, False, placed=False)
    return out.covered, out.sizes


def _cross(
    probs: Probabilities, limits: Limits, labels: Labels | None, masked: bool, *, placed: bool
) -> Crossings:
    """Find the crossings, as much of them as is wanted."""
    n, n_classes = probs.shape
    out = Crossings.allocate(n, n_classes if masked else 0, placed, labels is not None)
    y = np.empty(0, np.int64) if labels is None else labels
    if limits.none and not placed:
        check(probs)
        out.sizes[:], out.covered[:], out.mask[:] = n_classes, True, True
        return out
    loops = loops_for(probs.size)
    if loops is None or not _cross_compiled(loops, probs, y, limits, out):
        check(probs)
        fill = cross_by_order if placed else cross_by_value
        for rows in blocks(n, n_classes):
            fill(probs[rows], y[rows], limits, out.of(rows))
    return out


Path: TypeAlias = Literal["exact", "short", "bracket"]


def _path(probs: Probabilities, limits: Limits) -> Path:
    """Return which loop finds crossings; "exact" where no quick one serves."""
    n_classes = probs.shape[1]
    if limits.by_top or limits.none or n_classes > LONG:
        return "exact"
    if n_classes > SHORT:
        return "bracket"
    single = probs.dtype == np.float32 and probs.flags.c_contiguous
    return "short" if n_classes <= SHORT_SIMD and single else "exact"


def _cross_compiled(
    loops: Loops, probs: Probabilities, labels: Labels, limits: Limits, out: Crossings
) -> bool:
    """Let compiled loops fill in all rows; return whether all are surely probabilities."""
    path, rank = _path(probs, limits), _rank_loop(loops, probs)
    pivots = loops.bracket.first_pivots(probs.shape[1])  # learned over all parts

    def work(rows: slice) -> bool:
        p, y, part = probs[rows], labels[rows], out.of(rows)
        if path == "exact":
            return _cross_exactly(loops, p, y, limits, part)
        if path == "short":
            undecided = loops.simd.cross(p, y, limits, part, _scratch(loops, p.shape[1]))
        else:
            undecided = _cross_long(loops, p, y, limits, part, pivots)
        if not _cross_undecided(loops, p, y, limits, part, undecided):
            return False
        if not part.label.size:
            return True
        before, upto, top = part.masses  # quick loops leave them to one more pass
        rank(rows, part.label, Ranked(before, upto, np.empty(0, np.int64), top))
        return True

    return over_rows(len(probs), probs.size, work)


def _cross_long(
    loops: Loops,
    probs: Probabilities,
    labels: Labels,
    limits: Limits,
    out: Crossings,
    pivots: Floats,
) -> Integers:
    """Let the bracket search fill in what it can; return which rows are undecided.

    Rows that do not follow each other are copied, some at a time.
    """
    if probs.flags.c_contiguous:
        found: Integers = loops.bracket.cross(probs, labels, limits, out, pivots, LARGE)
        return found
    undecided, step = [np.empty(0, np.int64)], max(1, COPIED // probs.shape[1])
    for start in range(0, len(probs), step):
        rows = slice(start, start + step)
        some = np.ascontiguousarray(probs[rows])
        found = loops.bracket.cross(some, labels[rows], limits, out.of(rows), pivots, LARGE)
        undecided.append(start + found)
    return np.concatenate(undecided)


def _cross_undecided(
    loops: Loops,
    probs: Probabilities,
    labels: Labels,
    limits: Limits,
    out: Crossings,
    rows: Integers,
) -> bool:
    """Fill in the rows that a quick loop left; return whether they are surely probabilities."""
    step = max(1, COPIED // probs.shape[1])
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        part = Crossings.allocate(len(some), out.mask.shape[1], out.label.size > 0, labels.size > 0)
        y = labels[some] if labels.size else labels
        if not _cross_exactly(loops, probs[some], y, limits, part):
            return False
        out.put(some, part)
    return True


def _cross_exactly(
    loops: Loops, probs: Probabilities, labels: Labels, limits: Limits, out: Crossings
) -> bool:
    """Fill in any rows; return whether they are surely probabilities."""
    n_classes = probs.shape[1]
    if n_classes > SHORT:
        return bool(loops.numba.cross_long_rows(probs, labels, limits.pair(), out))
    given = (limits.reals(), limits.by_top), out, network(n_classes)
    return bool(loops.numba.cross_short_rows(probs, labels, *given))


# Intervals ----------------------------------------------------------------------------------------


def interval_scores(out: Floats, y: Floats) -> Floats | None:
    """Return how far y lies outside one estimate, shape (n,), or two in any order, shape (n, 2).

    None for a small input, without numba, or if a number is not finite: then numpy serves.
    """
    loops = loops_for(out.size)
    if loops is None:
        return None
    found = np.empty(len(y))

    def work(rows: slice) -> bool:
        if out.ndim == 1:
            return bool(loops.numba.scores_of_one(out[rows], y[rows], found[rows]))
        some = out[rows]
        if some.flags.c_contiguous:
            return bool(loops.numba.scores_of_pairs(some.reshape(-1), y[rows], found[rows]))
        return bool(loops.numba.scores_of_two(some[:, 0], some[:, 1], y[rows], found[rows]))

    return found if over_rows(len(out), 2 * out.size, work) else None


def interval_ends(out: Floats, q: tuple[float, float]) -> tuple[Floats, Floats] | None:
    """Return intervals from q[0] below the lower estimate to q[1] above the upper.

    Estimates, and None, as in `interval_scores`.
    """
    loops = loops_for(out.size)
    if loops is None:
        return None
    low, high = np.empty(len(out)), np.empty(len(out))
    past_cache = len(out) >= PAST_CACHE and (low.ctypes.data | high.ctypes.data) % 16 == 0

    def work(rows: slice) -> bool:
        found = low[rows], high[rows]
        if not out.flags.c_contiguous:
            lo, hi = (out, out) if out.ndim == 1 else (out[:, 0], out[:, 1])
            return bool(loops.numba.interval_ends(lo[rows], hi[rows], q, found))
        loop = loops.simd.ends_of_one if out.ndim == 1 else loops.simd.ends_of_pairs
        return bool(loop(out[rows].reshape(-1), q, found, past_cache))

    return (low, high) if over_rows(len(out), 2 * out.size, work) else None
