"""Which path serves which input, and on how many threads. What `scores` calls.

numpy serves small inputs, and others until compiling pays (``compilation.py``). All paths give the
same numbers, so this file is about speed alone. A compiled loop checks rows as it reads them; it
returns False where it is not sure that all are probabilities, and then numpy's full check decides
and words the error. Loops get read-only views, so that one compilation serves every array.

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
Thresholds by row take the same paths; numpy decides what `bracket.cross` leaves. Thresholds by
label go to ``own_thresholds.py``, and those by row of long rows in SAPS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import (
    Bools,
    Floats,
    Labels,
    Probabilities,
    as_floats,
    as_probabilities,
)
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.kernels import LANES, Crossings, Integers, Ranked, Sets, selection
from fedwqcp.kernels.compilation import (
    FEW,
    Loops,
    always,
    in_turns,
    loops,
    times,
    wanted_backend,
    wanted_threads,
)
from fedwqcp.kernels.numpy import (
    NOT_RANDOM,
    ONE,
    SHORT,
    Limits,
    RandomPart,
    blocks,
    cross_by_order,
    cross_by_value,
    mask_by_label,
    network,
    of_labels,
    surely_probabilities,
)
from fedwqcp.kernels.numpy import count_from as numpy_count_from
from fedwqcp.kernels.numpy import rank_labels as numpy_rank_labels

SHARED = 2**24
"""Inputs below this many numbers stay on one thread: a pool costs more than it saves."""

PARTS = 4
"""How many parts of an input a thread takes, if all are equally fast."""

SHORT_SIMD = 15
"""Rows of up to so many float32 are transposed; 16 fill a vector alone."""

LONG = 2**13
"""Rows of up to so many float32 are checked by their sum in float32."""

LARGEST = 2.0**64
"""Larger penalties, with thresholds by label or row, are left to numpy: float32 would overflow."""

ROWS = 2**14
"""Ranks of so many rows are kept at a time; they stay in cache."""

COPIED = 2**17
"""So many numbers of rows that do not follow each other are copied at a time."""

PAST_CACHE = 2**18
"""So many intervals leave no room in a cache for what comes next, and are written past it."""


# numba and threads --------------------------------------------------------------------------------


def threads() -> int:
    """Return how many threads a large input may use: FEDWQCP_THREADS, or 1; no more than cores."""
    return min(wanted_threads(), os.cpu_count() or 1)


def over_rows(rows: slice, size: int, work: Callable[[slice], bool]) -> bool:
    """Work on some rows of so many numbers, in parts on several threads where they are very many.

    Return whether ``work`` returned True for all of them.
    """
    n = rows.stop - rows.start
    # A first call, of FEW rows, stays on its thread, which holds the lock of compilations.
    workers = min(threads(), n // FEW) if size >= SHARED else 1
    if workers <= 1:
        return bool(work(rows))
    from concurrent.futures import ThreadPoolExecutor

    parts = min(workers * PARTS, n)
    edges = [rows.start + n * part // parts // LANES * LANES for part in range(parts)]
    edges.append(rows.stop)
    with ThreadPoolExecutor(workers) as pool:
        return all(list(pool.map(work, map(slice, edges[:-1], edges[1:]))))


G = TypeVar("G", bound=np.generic)


def _read_only(array: npt.NDArray[G]) -> npt.NDArray[G]:
    """Return a view that cannot be written to: a loop is compiled once for all arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


def _contiguous(array: npt.NDArray[G]) -> npt.NDArray[G]:
    """Return the same rows, one after the other in memory."""
    return _read_only(np.ascontiguousarray(array))


def _kind(loop: str, probs: npt.NDArray[Any], n_classes: int | None = None) -> str:
    """Name what one compilation of a loop serves: a type, a number of classes."""
    of_type = f"{loop} {probs.dtype.type.__name__}"
    return f"{of_type} {n_classes}" if n_classes else of_type


def _by_rows(
    probs: Probabilities, rows: slice, work: Callable[[Probabilities, slice], bool]
) -> bool:
    """Work on some rows; where they do not follow each other in memory, on copies of a few.

    So a loop is compiled for one layout. Return whether ``work`` returned True for all.
    """
    if probs.flags.c_contiguous:
        return work(probs[rows], rows)
    step = max(1, COPIED // probs.shape[1])
    parts = (slice(at, min(at + step, rows.stop)) for at in range(rows.start, rows.stop, step))
    return all(work(_contiguous(probs[some]), some) for some in parts)


def check(probs: Probabilities) -> None:
    """Refuse rows that are not probabilities, as `as_probabilities` words it."""
    probs = _read_only(probs)

    def compiled(loops: Loops, rows: slice) -> bool:
        def work(some: slice) -> bool:
            return _by_rows(probs, some, lambda p, _: bool(loops.numba.valid_rows(p)))

        return over_rows(rows, probs[rows].size, work)

    in_turns(
        _kind("valid", probs),
        len(probs),
        probs.size,
        compiled,
        lambda rows: _check_rows(probs, rows),
    )


def _check_rows(probs: Probabilities, rows: slice | Integers) -> None:
    """Refuse some rows; the error counts from the first row of all."""
    if not surely_probabilities(probs[rows]):
        try:
            as_probabilities(probs[rows])
        except InputError:
            as_probabilities(probs)
            raise


# Scores of true labels ----------------------------------------------------------------------------


def score_labels(
    probs: Probabilities, labels: Labels, formula: Callable[[Ranked, slice], Floats]
) -> Floats:
    """Check probabilities and score one label of each row by where it stands.

    ``formula`` is given where the labels of some rows stand, and which rows; these arrays are
    written over after it returns.
    """
    probs, labels, scores = _read_only(probs), _read_only(labels), np.empty(len(probs))

    def compiled(loops: Loops, rows: slice) -> bool:
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

        return over_rows(rows, probs[rows].size, work)

    def plain(rows: slice) -> None:
        _check_rows(probs, rows)
        for some in _parts(rows):
            scores[some] = formula(numpy_rank_labels(probs[some], labels[some]), some)

    in_turns(_rank_kind(probs), len(probs), probs.size, compiled, plain)
    return scores


def masses_upto(probs: Probabilities, labels: Labels) -> Floats:
    """Check probabilities and return the mass up to one label of each row, its own included."""
    probs, labels, upto = _read_only(probs), _read_only(labels), np.empty(len(probs))
    none, no_rank = np.empty(0), np.empty(0, np.int64)

    def compiled(loops: Loops, rows: slice) -> bool:
        rank = _rank_loop(loops, probs)

        def work(some: slice) -> bool:
            return rank(some, labels[some], Ranked(none, upto[some], no_rank, none))

        return over_rows(rows, probs[rows].size, work)

    def plain(rows: slice) -> None:
        _check_rows(probs, rows)
        upto[rows] = numpy_rank_labels(probs[rows], labels[rows]).upto

    in_turns(_rank_kind(probs), len(probs), probs.size, compiled, plain)
    return upto


def _parts(rows: slice) -> Iterator[slice]:
    """Yield rows in parts of at most ROWS."""
    for start in range(rows.start, rows.stop, ROWS):
        yield slice(start, min(start + ROWS, rows.stop))


def _is_single(probs: Probabilities) -> bool:
    """Tell whether rows are checked by their sum in float32."""
    return probs.dtype == np.float32 and probs.shape[1] <= LONG


def _rank_kind(probs: Probabilities) -> str:
    """Name the loop that finds ranks in such rows."""
    n_classes = probs.shape[1]
    if not _is_single(probs):
        return _kind("rank", probs)
    return f"rank vectors {n_classes if n_classes <= SHORT_SIMD else ''}".strip()


def _rank_loop(loops: Loops, probs: Probabilities) -> Callable[[slice, Labels, Ranked], bool]:
    """Return the loop that is made for such rows; given some of them, it fills in ranks."""
    n_classes, single = probs.shape[1], _is_single(probs)

    def find(some: Probabilities, labels: Labels, out: Ranked) -> bool:
        if not single:
            return bool(loops.numba.rank_labels(some, labels, out))
        if n_classes > SHORT_SIMD:
            return bool(loops.simd.rank_labels(some, labels, out, _is_before(n_classes)))
        return bool(loops.simd.rank_labels_short(some, labels, out, _scratch(loops, n_classes)))

    def work(rows: slice, labels: Labels, out: Ranked) -> bool:
        def some(p: Probabilities, part: slice) -> bool:
            at = slice(part.start - rows.start, part.stop - rows.start)
            return find(p, labels[at], out.of(at))

        return _by_rows(probs, rows, some)

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
    return np.empty(loops.simd.SCRATCH_LENGTH, np.float32), (0,) * n_classes


def count_from(
    probs: Probabilities, labels: Labels, least: npt.NDArray[np.floating[Any]]
) -> tuple[Bools, Integers]:
    """Check probabilities; return whether each label's is at least some number, and how many are.

    ``least`` has the type of the probabilities, and shape () for one number, (C,) for one per label
    or (n, 1) for one per row.
    """
    probs, labels = _read_only(probs), _read_only(labels)
    n, n_classes = probs.shape
    covered, counts = np.empty(n, np.bool_), np.empty(n, np.int64)
    short = probs.dtype == np.float32 and n_classes <= SHORT_SIMD
    by_row, by_label = least.ndim == 2, least.ndim == 1
    # The loops over sixteen lanes load as many numbers at once.
    flat = _contiguous(least.reshape(-1) if least.ndim else np.full(LANES, least))

    def compiled(loops: Loops, rows: slice) -> bool:
        def count(p: Probabilities, some: slice) -> bool:
            limits = flat[some] if by_row else flat, int(by_row), int(by_label)
            given = p, labels[some], limits, (covered[some], counts[some])
            if short:
                return bool(loops.simd.count_from_short(*given, _scratch(loops, n_classes)))
            return n_classes <= LONG and bool(loops.numba.count_from(*given))

        return over_rows(rows, probs[rows].size, lambda some: _by_rows(probs, some, count))

    def plain(rows: slice) -> None:
        _check_rows(probs, rows)
        p, y = probs[rows], labels[rows]
        counts[rows] = numpy_count_from(p, least[rows] if by_row else least)
        own = flat[rows] if by_row else flat[y] if by_label else least
        covered[rows] = of_labels(p, y) >= own

    kind = _kind("count", probs, n_classes if short else None)
    in_turns(kind, n, probs.size, compiled, plain)
    return covered, counts


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


def mask_within(probs: Probabilities, limits: Limits, random: RandomPart = NOT_RANDOM) -> Bools:
    """Check probabilities and mark the labels within the limits, shape (n, C)."""
    return _cross(probs, limits, None, True, placed=False, random=random).mask


def count_within(
    probs: Probabilities, limits: Limits, labels: Labels, random: RandomPart = NOT_RANDOM
) -> tuple[Bools, Integers]:
    """Check probabilities; return whether true labels are within the limits, and how many are."""
    out = _cross(probs, limits, labels, False, placed=False, random=random)
    return out.covered, out.sizes


def _cross(
    probs: Probabilities,
    limits: Limits,
    labels: Labels | None,
    masked: bool,
    *,
    placed: bool,
    random: RandomPart = NOT_RANDOM,
) -> Crossings:
    """Find the crossings, as much of them as is wanted."""
    n, n_classes = probs.shape
    out = Crossings.allocate(n, n_classes if masked else 0, placed, labels is not None)
    y = np.empty(0, np.int64) if labels is None else labels
    if limits.none and not placed:
        check(probs)
        out.sizes[:], out.covered[:], out.mask[:] = n_classes, True, True
        return out
    search = _Search(_read_only(probs), _read_only(y), limits, _for_loops(random), out)
    in_turns(search.kind, n, probs.size, search.compiled, search.plain)
    return out


def _for_loops(random: RandomPart) -> RandomPart:
    """Return the same in the layout for which loops are compiled."""
    u, penalties, q, by_row = random
    if not penalties.size:
        return random
    return RandomPart(_contiguous(u), _read_only(penalties), _contiguous(q), by_row)


Path: TypeAlias = Literal["exact", "short", "bracket"]


class _Search(NamedTuple):
    """The rows whose crossings are looked for, and where they are filled in."""

    probs: Probabilities
    labels: Labels
    limits: Limits
    random: RandomPart
    out: Crossings

    @property
    def path(self) -> Path:
        """Which loop finds crossings; "exact" where no quick one serves."""
        probs, limits = self.probs, self.limits
        n_classes = probs.shape[1]
        if limits.by_top or limits.none or n_classes > LONG:
            return "exact"
        if n_classes > SHORT:
            return "bracket"
        return "short" if n_classes <= SHORT_SIMD and probs.dtype == np.float32 else "exact"

    @property
    def kind(self) -> str:
        """What one compilation of it serves."""
        path = self.path
        if path == "exact":
            return _exact_kind(self.probs)
        if path == "short":
            return f"short {self.probs.shape[1]}"
        return f"bracket {self.probs.dtype}"

    def compiled(self, loops: Loops, rows: slice) -> bool:
        """Let the loop fill in some rows, and others what it leaves."""
        path, n_classes = self.path, self.probs.shape[1]
        # The bracket search moves its pivots to where rows cross.
        pivots = loops.bracket.first_pivots(n_classes) if path == "bracket" else None

        def work(some: slice) -> bool:
            return _by_rows(
                self.probs, some, lambda p, part: self._work(loops, p, part, path, pivots)
            )

        return over_rows(rows, (rows.stop - rows.start) * n_classes, work)

    def _work(
        self, loops: Loops, p: Probabilities, rows: slice, path: Path, pivots: Floats | None
    ) -> bool:
        """Fill in some rows that follow each other."""
        if len(p) == len(self.probs):
            y, part, random = self.labels, self.out, self.random
        else:
            y, part, random = self.labels[rows], self.out.of(rows), self.random.of(rows)
        if path == "exact":
            return _cross_exactly(loops, p, y, self.limits, random, part)
        if path == "short":
            scratch = _scratch(loops, p.shape[1])
            undecided = loops.simd.cross(p, y, self.limits, random, part, scratch)
        else:
            given = p, y, self.limits, random, part, pivots
            undecided = loops.bracket.cross(*given, p.dtype.type)
        if undecided.size:
            self._decide(rows.start + undecided, pivots)
        if part.label.size:  # quick loops leave the masses to one more pass
            self._fill_masses(rows)
        return True

    def plain(self, rows: slice) -> None:
        """Let numpy check and fill in some rows."""
        _check_rows(self.probs, rows)
        self._sort(self.probs[rows], self.labels[rows], self.random.of(rows), self.out.of(rows))

    def _sort(
        self, probs: Probabilities, labels: Labels, random: RandomPart, out: Crossings
    ) -> None:
        """Let numpy fill in some rows, block by block."""
        fill = cross_by_order if out.label.size else cross_by_value
        for block in blocks(len(probs), probs.shape[1]):
            fill(probs[block], labels[block], self.limits, random.of(block), out.of(block))

    def _decide(self, undecided: Integers, pivots: Floats | None) -> None:
        """Fill in the rows that a quick loop left, all but their masses.

        What sums of float32 do not settle is tried in float64, where there is much of it.
        """

        def again(loops: Loops, part: slice) -> bool:
            for some in self._copied(undecided[part]):
                y, out = self._copies(some)
                p = _contiguous(self.probs[some])
                random = _for_loops(self.random.of(some))
                left = loops.bracket.cross(p, y, self.limits, random, out, pivots, np.float64)
                self.out.put(some, out)
                self._decide_exactly(some[left])
            return True

        def exactly(part: slice) -> None:
            self._decide_exactly(undecided[part])

        if pivots is None or self.probs.dtype == np.float64:
            self._decide_exactly(undecided)
        else:
            size = undecided.size * self.probs.shape[1]
            in_turns("bracket again", undecided.size, size, again, exactly, rest=True)

    def _decide_exactly(self, undecided: Integers) -> None:
        """Fill in some rows by the exact loop, or by numpy if long rows have own thresholds."""

        def compiled(loops: Loops, part: slice) -> bool:
            valid = True
            for some in self._copied(undecided[part]):
                y, out = self._copies(some)
                p, random = _contiguous(self.probs[some]), _for_loops(self.random.of(some))
                valid &= _cross_exactly(loops, p, y, self.limits, random, out)
                self.out.put(some, out)
            return valid

        def plain(part: slice) -> None:
            some = undecided[part]
            _check_rows(self.probs, some)
            y, out = self._copies(some)
            self._sort(self.probs[some], y, self.random.of(some), out)
            self.out.put(some, out)

        n, n_classes = undecided.size, self.probs.shape[1]
        if self.random.by_row and n_classes > SHORT:
            plain(slice(0, n))
        else:
            in_turns(_exact_kind(self.probs), n, n * n_classes, compiled, plain, rest=True)

    def _copied(self, rows: Integers) -> Iterator[Integers]:
        """Yield row numbers, so many at a time as are copied together."""
        step = max(1, COPIED // self.probs.shape[1])
        for start in range(0, rows.size, step):
            yield rows[start : start + step]

    def _copies(self, some: Integers) -> tuple[Labels, Crossings]:
        """Return the labels of some rows, and room for what is found."""
        labels, out = self.labels, self.out
        y = _read_only(labels[some]) if labels.size else labels
        wanted = out.mask.shape[1], out.label.size > 0, labels.size > 0
        return y, Crossings.allocate(len(some), *wanted)

    def _fill_masses(self, rows: slice) -> None:
        """Fill in the masses at the crossing labels of some rows, which are found and checked."""
        part, probs = self.out.of(rows), self.probs[rows]
        before, upto, top = part.masses
        label, none = _read_only(part.label), np.empty(0, np.int64)

        def compiled(loops: Loops, some: slice) -> bool:
            out = Ranked(before[some], upto[some], none, top[some])
            return _rank_loop(loops, probs)(some, label[some], out) or True

        def plain(some: slice) -> None:
            found = numpy_rank_labels(probs[some], label[some])
            before[some], upto[some], top[some] = found.before, found.upto, found.top

        in_turns(_rank_kind(probs), len(probs), probs.size, compiled, plain)


def _exact_kind(probs: Probabilities) -> str:
    """Name the exact loop for such rows."""
    return _kind("exact long" if probs.shape[1] > SHORT else "exact short", probs)


def _cross_exactly(
    loops: Loops,
    probs: Probabilities,
    labels: Labels,
    limits: Limits,
    random: RandomPart,
    out: Crossings,
) -> bool:
    """Fill in any rows; return whether they are surely probabilities."""
    n, n_classes = probs.shape
    if n_classes <= SHORT:
        given = (limits.reals(), limits.by_top), tuple(random[:3]), out, network(n_classes)
        return bool(loops.numba.cross_short_rows(probs, labels, *given))
    if not random.u.size:
        return bool(loops.numba.cross_long_rows(probs, labels, limits.pair(), out))
    # The label at which the row passes its limits is found first; its random part decides on it.
    room = Crossings.allocate(n, 0, True, False)
    placed = out._replace(masses=room.masses, label=room.label)
    valid = bool(loops.numba.cross_long_rows(probs, labels, limits.pair(), placed))
    before, upto, top = placed.masses
    place = Ranked(before, upto, placed.sizes + 1, top)
    more = random.fits(place, limits.by_top) & (placed.label >= 0)
    placed.sizes[:] += more
    if out.covered.size:
        out.covered[:] |= more & (placed.label == labels)
    if out.mask.size:
        rows = np.flatnonzero(more)
        out.mask[rows, placed.label[rows]] = True
    return valid


def _as_float32(probs: Probabilities) -> npt.NDArray[np.float32]:
    """Return probabilities rounded to float32, float64 by way of fixed point.

    So what is equal in fixed point is equal here too, and no two labels change their order.
    """
    if probs.dtype == np.float64:
        probs = np.copysign((probs + 1.0) - 1.0, probs)  # a negative one must stay negative
    return probs.astype(np.float32, copy=False)


def within_each(
    probs: Probabilities, q: Floats, random: RandomPart, by_top: bool, labels: Labels | None = None
) -> Sets:
    """Check probabilities and find sets where each label, shape (C,), or row, (n, 1), has its q.

    Without true labels the sets are marked, otherwise coverage and sizes are found.
    """
    find = _within_rows if random.by_row else _within_labels
    return find(probs, q, random, by_top, labels)


def _within_labels(
    probs: Probabilities, q: Floats, random: RandomPart, by_top: bool, labels: Labels | None
) -> Sets:
    """Do so by the score of every label."""
    n, n_classes = probs.shape
    probs, y = _read_only(probs), _read_only(np.empty(0, np.int64) if labels is None else labels)
    mask = np.empty((n, n_classes) if labels is None else (0, 0), np.bool_)
    out = Sets(mask, np.empty(y.size, np.bool_), np.empty(n, np.int64))
    random = _for_loops(random)
    short, single = n_classes <= SHORT_SIMD, probs.dtype == np.float32
    step = max(LANES, COPIED // n_classes)

    def compiled(loops: Loops, rows: slice) -> bool:
        given = loops.own_thresholds.thresholds(_contiguous(q), random.u, random.penalties, by_top)

        def some(rows: slice) -> bool:
            p = _contiguous(probs[rows])
            rest = y[rows], given.of(rows), out.of(rows)
            if short:
                quick = _read_only(_as_float32(p))
                return bool(loops.own_thresholds.score_short(p, quick, *rest, (0,) * n_classes))
            quick = p if single else np.empty((1, n_classes), np.float32)
            memory = loops.own_thresholds.Memory.allocate(n_classes)
            return bool(loops.own_thresholds.score_long(p, quick, *rest, memory))

        def work(rows: slice) -> bool:
            if probs.flags.c_contiguous and (single or not short):
                return some(rows)
            starts = range(rows.start, rows.stop, step)  # copies of a few rows at a time
            return all(some(slice(at, min(at + step, rows.stop))) for at in starts)

        return n_classes <= LONG and over_rows(rows, probs[rows].size, work)

    def plain(rows: slice) -> None:
        _check_rows(probs, rows)
        for block in blocks(rows.stop - rows.start, n_classes):
            part = slice(rows.start + block.start, rows.start + block.stop)
            found, p = out.of(part), probs[part]
            if random.by_row:
                cut = Crossings(np.empty((3, 0)), found.sizes, y[:0], found.covered, found.mask)
                limits = Limits(np.empty(0, np.int64), by_top)
                cross_by_value(p, y[part], limits, random.of(part), cut)
                continue
            within = mask_by_label(p, q, random.of(part), by_top)
            found.sizes[:] = np.count_nonzero(within, axis=1)
            if labels is None:
                found.mask[:] = within
            else:
                found.covered[:] = within[np.arange(len(p)), y[part]]

    if random.penalties[-1] > LARGEST:
        plain(slice(0, n))
    else:
        in_turns(_kind("each", probs, n_classes if short else None), n, probs.size, compiled, plain)
    return out


def _within_rows(
    probs: Probabilities, q: Floats, random: RandomPart, by_top: bool, labels: Labels | None
) -> Sets:
    """Do so where each row has its threshold: a set is the first few labels of its row."""
    n_classes, all_fit = probs.shape[1], np.empty(0, np.int64)
    if n_classes > SHORT:
        # Rows whose threshold no score passes are searched with another one, which checks them.
        all_fit = np.flatnonzero(random.threshold >= 1 + random.penalties[-1])
        own = random.threshold.copy()
        own[all_fit] = 0.5
        q, random = own[:, None], random._replace(threshold=own)
    if n_classes <= (SHORT if by_top else LONG):
        found = _cross_rows(probs, random, by_top, labels)
    else:
        found = _within_labels(probs, q, random, by_top, labels)
    if all_fit.size:
        found.sizes[all_fit] = n_classes
        for filled in (found.mask, found.covered):
            if filled.size:
                filled[all_fit] = True
    return found


def _cross_rows(
    probs: Probabilities, random: RandomPart, by_top: bool, labels: Labels | None
) -> Sets:
    """Search each row for its crossing."""
    n, n_classes = probs.shape
    out = Crossings.allocate(n, n_classes if labels is None else 0, False, labels is not None)
    if n_classes > SHORT and not random.u.size:
        random = random._replace(u=np.ones(n))
    y = np.empty(0, np.int64) if labels is None else labels
    no_limits = Limits(np.zeros(n_classes + 1, np.int64), by_top)
    search = _Search(_read_only(probs), _read_only(y), no_limits, _for_loops(random), out)
    if random.penalties[-1] > LARGEST:
        search.plain(slice(0, n))
    else:
        in_turns(search.kind, n, probs.size, search.compiled, search.plain)
    return Sets(out.mask, out.covered, out.sizes)


# Intervals ----------------------------------------------------------------------------------------


def interval_scores(out: Floats, y: Floats, plain: Callable[[slice], Floats]) -> Floats:
    """Return how far y lies outside one estimate, shape (n,), or two in any order, shape (n, 2).

    ``plain`` checks some rows and scores them by numpy.
    """
    out, y, found = _read_only(out), _read_only(y), np.empty(len(out))

    def compiled(loops: Loops, rows: slice) -> bool:
        def work(some: slice) -> bool:
            part = out[some]
            if part.ndim == 1:
                return bool(loops.numba.scores_of_one(part, y[some], found[some]))
            if part.flags.c_contiguous:
                return bool(loops.numba.scores_of_pairs(part.reshape(-1), y[some], found[some]))
            return bool(loops.numba.scores_of_two(part[:, 0], part[:, 1], y[some], found[some]))

        return over_rows(rows, 2 * out[rows].size, work)

    def serve(rows: slice) -> None:
        found[rows] = plain(rows)

    in_turns(_interval_kind("scores", out, y), len(out), out.size, compiled, serve)
    return found


def interval_ends(
    out: Floats, q: tuple[float, float], plain: Callable[[slice], tuple[Floats, Floats]]
) -> tuple[Floats, Floats]:
    """Return intervals from q[0] below the lower estimate to q[1] above the upper.

    Estimates as in `interval_scores`; ``plain`` checks some rows and builds their intervals.
    """
    out, low, high = _read_only(out), np.empty(len(out)), np.empty(len(out))
    past_cache = len(out) >= PAST_CACHE and (low.ctypes.data | high.ctypes.data) % 16 == 0

    def compiled(loops: Loops, rows: slice) -> bool:
        def work(some: slice) -> bool:
            found = low[some], high[some]
            if not out.flags.c_contiguous:
                lo, hi = (out, out) if out.ndim == 1 else (out[:, 0], out[:, 1])
                return bool(loops.numba.interval_ends(lo[some], hi[some], q, found))
            loop = loops.simd.ends_of_one if out.ndim == 1 else loops.simd.ends_of_pairs
            aligned = past_cache and some.start % LANES == 0
            return bool(loop(out[some].reshape(-1), q, found, aligned))

        return over_rows(rows, 2 * out[rows].size, work)

    def serve(rows: slice) -> None:
        low[rows], high[rows] = plain(rows)

    in_turns(_interval_kind("ends", out), len(out), out.size, compiled, serve)
    return low, high


def _interval_kind(loop: str, *arrays: Floats) -> str:
    """Name the loop for such estimates."""
    layouts = ("contiguous" if array.flags.c_contiguous else "strided" for array in arrays)
    return f"interval {loop} {arrays[0].ndim} {' '.join(layouts)}"


# Compiling ahead ----------------------------------------------------------------------------------


def warm_up(classes: Sequence[int] = (2, 10, 100)) -> dict[str, float]:
    """Compile the loops ahead, so that no later call with these numbers of classes waits for it.

    Compiled loops are kept in numba's cache and are loaded by later processes: run it where an
    image is built or a site is set up. Where no folder can be written to, they serve this process
    alone.

    Parameters
    ----------
    classes : sequence of int
        Numbers of classes of your models. Up to 15 each has loops of its own; 30 stands for 16 to
        48, and 100 for all above.

    Returns
    -------
    dict
        Seconds that each loop took, by what it serves; loops that were ready before are left out.

    Raises
    ------
    InputError
        If a number of classes is below 2 or above 2^20, or with ``FEDWQCP_BACKEND=numpy``, which
        uses no compiled loop.
    MissingExtraError
        Without numba, which the extra ``fast`` brings.

    Examples
    --------
    >>> import fedwqcp as fw
    >>> seconds = fw.warm_up(classes=[10])  # doctest: +SKIP
    """
    sizes = as_floats(classes, "classes", (None,))
    for n_classes in sizes:
        if n_classes != int(n_classes) or not 2 <= n_classes <= 2**20:
            raise InputError(f"classes must be integers from 2 to 2**20, got {n_classes:g}")
    if wanted_backend() == "numpy":
        raise InputError("FEDWQCP_BACKEND=numpy uses no compiled loop: unset it to warm up")
    if loops() is None:
        raise MissingExtraError("compiling loops ahead", "fast")
    before = set(times())
    with always():
        for dtype in (np.float32, np.float64):
            for n_classes in map(int, sizes):
                _warm_up_rows(np.full((2 * LANES, n_classes), 1 / n_classes, dtype))
        for shape in ((2 * LANES,), (2 * LANES, 2)):
            _warm_up_intervals(np.zeros(shape))
        selection.order_statistic(np.arange(float(selection.LARGE)), 1)
    return {kind: took for kind, took in times().items() if kind not in before}


def _warm_up_rows(probs: Probabilities) -> None:
    """Call every loop for such rows once."""
    n, n_classes = probs.shape
    labels, at = np.zeros(n, np.int64), np.full(n_classes + 1, ONE // 2)
    check(probs)
    masses_upto(probs, labels)
    count_from(probs, labels, np.array(0.5, probs.dtype))
    for by_top in (False, True):
        out = Crossings.allocate(n, n_classes, True, True)
        limits = Limits(at, by_top)
        search = _Search(_read_only(probs), _read_only(labels), limits, NOT_RANDOM, out)
        in_turns(search.kind, n, probs.size, search.compiled, search.plain)
        pivots = np.array([0.1, 0.2, 0.3, 0.4]) if search.path == "bracket" else None
        search._decide(np.arange(n), pivots)
    q = np.full(n_classes, 0.5)
    within_each(probs, q, RandomPart(np.ones(n), np.zeros(n_classes + 1), q), False, labels)


def _warm_up_intervals(out: Floats) -> None:
    """Do so for such estimates."""
    interval_scores(out, np.zeros(len(out)), lambda rows: np.zeros(rows.stop - rows.start))
    interval_ends(out, (1.0, 1.0), lambda rows: (out[rows, ...], out[rows, ...]))
