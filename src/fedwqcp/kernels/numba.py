"""Compiled loops in plain Python: exact for every input, and where vectors would not be faster.

They check rows on the way and return whether all of them surely are probabilities; where not, the
caller lets the full check decide. Nothing imports this module before numba is wanted.

A probability below 1 in fixed point is what the fraction of the float ``1 + p`` holds: adding 1
rounds p to a multiple of 2^-52, half to even. A float32 above `EXACT` is such a multiple already,
and sums of multiples of 2^-52 below 2 are exact in float64, whatever their order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from fedwqcp._validation import Bools, Floats, Labels, Probabilities
from fedwqcp.kernels import Crossings, Integers, Ranked
from fedwqcp.kernels.compilation import stamp

F = TypeVar("F", bound=Callable[..., object])

Int: TypeAlias = Any
"""An integer of 64 bits inside a loop: numba's, or numpy's where the loop runs as Python."""

Bool: TypeAlias = Any
"""A truth value of either kind."""


# Compiling ----------------------------------------------------------------------------------------
#
# A loop is made of dozens of small functions. By itself, numba optimises each of them and makes
# machine code of it, though only the loop is called; that took most of the compile time. Here the
# parts are only translated, and optimised once, as parts of their loop.


class Part(JITCodeLibrary):
    """The code of a function that only loops call: all that it needs is linked into the loop."""

    inlined = False

    def add_linking_library(self, library: Any) -> None:
        """Remember another part with all its parts, which come before those that call them."""
        library._ensure_finalized()
        parts = library._linking_libraries if isinstance(library, Part) else []
        for one in (*parts, library):
            if one not in self._linking_libraries:
                self._linking_libraries.append(one)

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave to the loop what is inlined there; what is not gets its loops vectorised."""
        if self.inlined:
            ll_module.data_layout = self._codegen._data_layout
        else:
            whole: Any = super()
            whole._optimize_functions(ll_module)

    def finalize(self) -> None:
        """Make no machine code."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        """Return no address."""
        return 0

    @property
    def codegen(self) -> Any:
        """Return what numba asks to keep the globals of the function: there are none."""
        return self

    def set_env(self, name: str, env: object) -> None:
        """Keep nothing."""


class Loop(Part):
    """The code of a loop, with that of all its parts."""

    codegen = JITCodeLibrary.codegen
    get_pointer_to_function = JITCodeLibrary.get_pointer_to_function

    def finalize(self) -> None:
        """Link the parts, callers first: LLVM drops what nothing calls yet."""
        self._linking_libraries.reverse()
        whole: Any = super(Part, self)
        whole.finalize()


class LoopCompiler(Compiler):
    """numba's compiler, with a library of our own."""

    library: type[Part] = Loop

    def define_pipelines(self) -> Any:
        """Return numba's passes."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.inlined = bool(state.flags.forceinline)
        state.library.enable_object_caching()
        numbas: Any = super()
        return numbas.define_pipelines()


class PartCompiler(LoopCompiler):
    """The same for parts, without what they have no use for."""

    library = Part
    unused = frozenset(
        {
            "with_lifting",
            "inline_closure_likes",
            "rewrite_semantic_constants",
            "dead_branch_prune",
            "Rewrite dynamic raises",
            "make_function_op_code_to_jit_function",
            "inline_inlinables",
            "find_literally",
            "literal_unroll",
            "LiteralPropagation",
            "inline_overloads",
            "nopython_rewrites",
            "nopython_supported_feature_validation",
            "dump_parfor_diagnostics",
        }
    )
    """Passes for closures, generators, array expressions and the like: a tenth of the time."""

    def define_pipelines(self) -> Any:
        """Return numba's passes but for some."""
        pipelines = super().define_pipelines()
        for one in pipelines:
            one.passes = [each for each in one.passes if each[0].name() not in self.unused]
            one.finalize()
        return pipelines


def jit(function: F) -> F:
    """Compile when first called, for each type and layout; without Python's lock; kept on disk."""
    return _compiled(function, False)


def jit_part(function: F, **given: Any) -> F:
    """Compile as part of the loops that call it: nothing to keep, nothing that Python calls."""
    flags: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **given}
    compiler = njit(nogil=True, error_model="numpy", pipeline_class=PartCompiler, **flags)
    return cast(F, compiler(function))


def jit_inline(function: F) -> F:
    """Do so in place of every call; such functions own no memory, so no reference is counted."""
    return jit_part(function, forceinline=True, _nrt=False)


def jit_sums(function: F) -> F:
    """Compile, and let the compiler choose the order of sums of floats."""
    return _compiled(function, {"reassoc", "nsz"})


def _compiled(function: F, fastmath: set[str] | bool) -> F:
    """Compile with a cache on disk, or in memory where no folder can be written to."""
    given: Any = {"nogil": True, "error_model": "numpy", "pipeline_class": LoopCompiler}
    compiler = partial(njit, fastmath=fastmath, **given)
    try:
        loop: Any = compiler(cache=True)(function)
    except RuntimeError:  # there is no folder to keep it in
        return cast(F, compiler()(function))
    # numba looks at the age of the loop's own file, and parts of a loop lie in others.
    if (kept := getattr(getattr(loop, "_cache", None), "_cache_file", None)) is not None:
        kept._source_stamp = (kept._source_stamp, stamp())
    return cast(F, loop)


class _Listener(event.Listener):
    """Notes whether numba compiles something, rather than loading it, and tells so once."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell, self.compiled = tell, False

    def on_start(self, event: object) -> None:  # noqa: ARG002  # as numba calls it
        if not self.compiled and _listeners[-1] is self:
            self.compiled = True
            self.tell()

    def on_end(self, event: object) -> None:
        """Do nothing."""


_listeners: list[_Listener] = []


def first_call(first: Callable[[], object], tell: Callable[[], None]) -> bool:
    """Call a loop for the first time, and tell once if numba begins to compile it.

    Return whether it did. Loops that this call calls for their first time are for their own calls.
    """
    listener = _Listener(tell)
    _listeners.append(listener)
    try:
        with event.install_listener("numba:compile", listener):
            first()
    finally:
        _listeners.pop()
    return listener.compiled


def cache_folder() -> str | None:
    """Return where numba keeps compiled loops; None where no folder can be written to."""
    found: str | None = valid_rows.stats.cache_path  # type: ignore[attr-defined]
    return found


BASE = np.int64(0x3FF0000000000000)
"""The bits of 1.0."""

ONE = np.int64(2**52)
UNIT = 2.0**-52
EXACT = np.uint32(0x31000000)
"""The bits of 2^-29 as float32."""

WHOLE = np.uint32(0x3F800000)
"""The bits of 1 as float32."""

SURE = 4e-3
"""A row whose rounded sum is this near to 1 passes; the full check decides on the others."""

SURE_FIXED = np.int64(4e-3 * 2.0**52)


# Rows: are they probabilities, and where does a label stand? --------------------------------------


@jit_part
def fixed_point(x: Any) -> Int:
    """Return a probability in units of 2^-52."""
    return np.float64(np.float64(x) + 1.0).view(np.int64) - BASE


@jit_part
def round_fixed(x: Any) -> float:
    """Return a probability rounded to a multiple of 2^-52: sums of such are exact."""
    return (np.float64(x) + 1.0) - 1.0


@jit_sums
def valid_rows(probs: Probabilities) -> Bool:
    """Tell whether all rows are surely probabilities; float32 or float64."""
    for i in range(len(probs)):
        total, least = 0.0, True
        for j in range(probs.shape[1]):
            total += np.float64(probs[i, j])
            least &= probs[i, j] >= 0
        if not (least and abs(total - 1) < SURE):
            return False
    return True


@jit_sums
def count_from(
    probs: Probabilities, labels: Labels, limits: Any, out: tuple[Bools, Integers]
) -> Bool:
    """Count the probabilities of at least some number, and tell whether a label's is one.

    Of the limits, ``least[i * by_row + j * by_label]`` is the number of row i and label j.
    """
    least, by_row, by_label = limits
    covered, counts = out
    valid = True
    for i in range(len(probs)):
        total, good, n = probs[i, 0] - probs[i, 0], True, np.int32(0)
        low = least[i * by_row + labels[i] * by_label]
        covered[i] = probs[i, labels[i]] >= low
        if by_label:
            for j in range(probs.shape[1]):
                total += probs[i, j]
                good &= probs[i, j] >= 0
                n += np.int32(probs[i, j] >= least[j])
        else:
            for j in range(probs.shape[1]):
                total += probs[i, j]
                good &= probs[i, j] >= 0
                n += np.int32(probs[i, j] >= low)
        valid &= good & (abs(total - 1) < SURE)
        counts[i] = n
    return valid


@jit_inline
def rank_row(row: Probabilities, y: Int) -> tuple[Int, Int, Int, Int, Bool]:
    """Return mass before a label, its own, its rank, the largest mass, and validity of the row."""
    own = fixed_point(row[y])
    before, rank, top, total, valid = np.int64(0), np.int64(1), own, np.int64(0), True
    for j in range(row.size):
        p = fixed_point(row[j])
        valid &= (row[j] >= 0) & (p <= ONE)  # more than 1 is not in fixed point, nor is infinity
        ahead = (p > own) | ((p == own) & (j < y))  # no branch, so that it can be vectorised
        before += p if ahead else 0
        rank += ahead
        total += p
        top = max(top, p)
    return before, own, rank, top, valid & (abs(total - ONE) <= SURE_FIXED)


@jit_part
def rank_some(first: Int, end: Int, probs: Probabilities, labels: Labels, out: Ranked) -> Bool:
    """Fill in where the labels of some rows stand; of `out` only ``upto`` must have rows."""
    befores, uptos, ranks, tops = out  # taking an array out of a tuple in a loop slows it down
    valid, C = True, probs.shape[1]
    for i in range(first, end):
        before, own, rank, top, good = rank_row(probs[i], labels[i])
        uptos[i] = 1.0 if rank == C else min(before + own, ONE) * UNIT
        if befores.size:
            befores[i] = min(before, ONE) * UNIT
        if tops.size:
            tops[i] = min(top, ONE) * UNIT
        if ranks.size:
            ranks[i] = rank
        valid &= good
    return valid


@jit
def rank_labels(probs: Probabilities, labels: Labels, out: Ranked) -> Bool:
    """Fill in where the labels of all rows stand."""
    return rank_some(0, len(probs), probs, labels, out)


# Crossings of long rows: an exact bracket search, one row at a time -------------------------------
#
# A pivot divides a row into the labels above it and the others. One pass gives their number and
# mass, and so whether all of them fit. A few guessed pivots come close to the crossing, and the
# labels in between are read one after the other. All in int64. The bracket is a small array:

LOW, N_LOW, HIGH, N, MASS, MOST = range(6)
"""Lower pivot, whose labels do not fit, and their number; upper pivot, whose labels fit, their
number and mass; and how many labels may fit at all. In the end N labels come before the crossing,
of mass MASS."""

STEPS = 3
"""How many labels are read one by one rather than by another pivot."""

FAR = 2.0**53
"""Beyond any value."""

GUESSES = 5
"""How many pivots are guessed before the bracket is halved."""


@jit_part
def load_row(row: Probabilities, r: Integers, pivot: Int) -> tuple[Int, Int, Bool, Int, Int]:
    """Keep a row in fixed point; return its mass, largest, validity, and count and mass above."""
    total, top, valid, n, mass = np.int64(0), np.int64(0), True, np.int64(0), np.int64(0)
    for j in range(r.size):
        x = row[j]
        p = np.float64(np.float64(x) + 1.0).view(np.int64) - BASE
        valid &= (x >= 0) & (p <= ONE)
        total += p
        top = max(top, p)
        n += p > pivot
        mass += p if p > pivot else 0
        r[j] = p
    return total, top, valid & (abs(total - ONE) <= SURE_FIXED), n, mass


@jit_part
def count_above(r: Integers, pivot: Int) -> tuple[Int, Int]:
    """Return how many labels lie above a pivot, and their mass."""
    n, mass = np.int64(0), np.int64(0)
    for j in range(r.size):
        n += r[j] > pivot
        mass += r[j] if r[j] > pivot else 0
    return n, mass


@jit_part
def next_below(r: Integers, pivot: Int) -> tuple[Int, Int]:
    """Return the largest value below a pivot, and how many labels equal the pivot."""
    largest, equal = np.int64(-1), np.int64(0)
    for j in range(r.size):
        equal += r[j] == pivot
        p = r[j] if r[j] < pivot else np.int64(-1)
        largest = p if p > largest else largest
    return largest, equal


@jit_part
def label_of(r: Integers, value: Int, skip: Int) -> Int:
    """Return the first label of a value, or a later one."""
    first = np.int64(r.size)
    for j in range(r.size):
        first = min(first, np.int64(j) if r[j] == value else np.int64(r.size))
    while skip > 0:
        first += 1
        skip -= r[first] == value
    return first


@jit_part
def fits(mass: Int, n: Int, limits: Integers, most: Int) -> Bool:
    """Tell whether the n most probable labels, of a given mass, are within the threshold."""
    if n == 0 or n > most:
        return n == 0
    return (ONE if n == limits.size - 1 else min(mass, ONE)) <= limits[n]


@jit_part
def narrow(
    r: Integers, limits: Integers, bracket: Integers, start: tuple[Int, Int, Int, float]
) -> None:
    """Narrow the bracket around the crossing, from a pivot, its count and mass, and a slope."""
    pivot, n, mass, slope = start
    most = bracket[MOST]
    guesses = GUESSES if slope > 0 else 0
    while True:
        left = min(np.float64(limits[max(n, 1)] - mass) / np.float64(max(pivot, 1)), most - n)
        if fits(mass, n, limits, most):
            bracket[HIGH], bracket[N], bracket[MASS] = pivot, n, mass
            if left <= STEPS:
                return
        else:
            bracket[LOW], bracket[N_LOW] = pivot, n
        if bracket[N_LOW] - bracket[N] <= STEPS or bracket[HIGH] - bracket[LOW] <= 1:
            return
        move = slope * (left - 1)
        pivot = np.int64(pivot / (1 + move) if move > 0 else min(pivot * (1 - move), FAR))
        if guesses <= 0 or not bracket[LOW] < pivot < bracket[HIGH]:
            pivot = bracket[LOW] + (bracket[HIGH] - bracket[LOW]) // 2
        guesses -= 1
        n, mass = count_above(r, pivot)


@jit_part
def step_down(r: Integers, limits: Integers, bracket: Integers) -> tuple[Int, Int]:
    """Read on from the upper pivot; return the crossing value or -1, and its equals that fit."""
    most = bracket[MOST]
    value, _ = next_below(r, bracket[HIGH] + 1)
    for _ in range(2 * STEPS):
        n, mass = bracket[N], bracket[MASS]
        if not fits(mass + value, n + 1, limits, most):
            return value, np.int64(0)
        lower, equal = next_below(r, value)
        k = np.int64(1)
        while k < equal and fits(mass + (k + 1) * value, n + k + 1, limits, most):
            k += 1
        bracket[N] += k
        bracket[MASS] += k * value
        if k < equal:
            return value, k
        bracket[HIGH] = value - 1
        value = lower
    return np.int64(-1), np.int64(0)


@jit_part
def search(
    r: Integers, limits: Integers, bracket: Integers, start: tuple[Int, Int, Int, float]
) -> tuple[Int, Int]:
    """Return the value at which the row passes its limits, and how many of its equals still fit."""
    narrow(r, limits, bracket, start)
    while True:
        value, equal = step_down(r, limits, bracket)
        if value >= 0:
            return value, equal
        half = bracket[LOW] + (bracket[HIGH] - bracket[LOW]) // 2
        n, mass = count_above(r, half)
        narrow(r, limits, bracket, (half, n, mass, 0.0))


@jit_part
def learn_slope(slope: float, guess: Int, n: Int, bracket: Integers) -> float:
    """Return how much a pivot falls for each label that it lets in, as seen in the last rows."""
    moved = np.float64(bracket[N] - n)
    if abs(moved) < 4 or bracket[HIGH] < 1 or guess < 1:
        return slope
    ratio = guess / bracket[HIGH] if moved > 0 else bracket[HIGH] / guess
    seen = (ratio - 1) / abs(moved)
    return 0.9 * slope + 0.1 * seen if seen > 0 else slope


@jit_part
def most_by_top(top: Int, limits: Integers) -> Int:
    """Return how many ranks the largest probability lets in; limits fall with the rank."""
    low, high = np.int64(0), np.int64(limits.size - 1)
    while low < high:
        middle = (low + high + 1) // 2
        if min(top, ONE) <= limits[middle]:
            low = middle
        else:
            high = middle - 1
    return low


@jit_part
def cross_row(
    row: Probabilities,
    r: Integers,
    limits: tuple[Integers, Integers],
    bracket: Integers,
    learned: Floats,
) -> tuple[Bool, Int, Int, Int]:
    """Return validity, value and label of the crossing, or -1 and -1, and the largest mass.

    ``learned`` holds a guess of the pivot and how much it falls with each label; rows update it.
    """
    by_mass, by_top = limits
    C = r.size
    guess, slope = np.int64(learned[0]), learned[1]
    total, top, valid, n, mass = load_row(row, r, guess)
    start = (guess if n else top, n, mass, slope)
    bracket[LOW], bracket[N_LOW], bracket[HIGH], bracket[N], bracket[MASS] = -1, C, top, 0, 0
    bracket[MOST] = most_by_top(top, by_top) if by_top.size else C
    if not valid or fits(total, C, by_mass, bracket[MOST]):
        bracket[N], bracket[MASS] = C, ONE
        return valid, np.int64(-1), np.int64(-1), top
    value, equal = search(r, by_mass, bracket, start)
    learned[0] = max(value, np.int64(1))
    learned[1] = learn_slope(slope, start[0], start[1], bracket)
    return valid, value, label_of(r, value, equal), top


@jit
def cross_long_rows(
    probs: Probabilities, labels: Labels, limits: tuple[Integers, Integers], out: Crossings
) -> Bool:
    """Fill in the crossing of each row, given limits on the mass up to a label and on the top."""
    C, valid = probs.shape[1], True
    learned = np.array([2.0**52 / C, 1.0 / C])
    r, bracket = np.empty(C, np.int64), np.empty(6, np.int64)
    for i in range(len(probs)):
        valid &= cross_long_row(i, probs[i], labels, (limits, r, bracket, learned), out)
    return valid


@jit_part
def cross_long_row(
    i: Int,
    row: Probabilities,
    labels: Labels,
    work: tuple[Any, Integers, Integers, Floats],
    out: Crossings,
) -> Bool:
    """Fill in one row."""
    limits, r, bracket, learned = work
    masses, sizes, crossing, covered, mask = out
    valid, value, label, top = cross_row(row, r, limits, bracket, learned)
    n, before, C = bracket[N], bracket[MASS], row.size
    sizes[i] = n
    if crossing.size:
        crossing[i] = label
        masses[0, i] = min(before, ONE) * UNIT
        masses[1, i] = 1.0 if n >= C - 1 else min(before + value, ONE) * UNIT
        masses[2, i] = min(top, ONE) * UNIT
    if labels.size:
        covered[i] = r[labels[i]] > value - (labels[i] < label)
    for j in range(C if mask.size else 0):
        mask[i, j] = r[j] > value - (j < label)
    return valid


Random: TypeAlias = tuple[Floats, Floats, Floats]
"""The first fields of `RandomPart`."""

# Crossings of short rows: many rows are sorted side by side ---------------------------------------
#
# A sorting network compares the same places in every row, so the compiler sorts several rows with
# each instruction. Only values are sorted; afterwards labels are compared with the value at which
# their row crosses, and by index where equals lie on both sides of the crossing. Row k + 1 of
# `side` holds the k-th largest value of each of ROWS rows; row 0 holds 2, before all labels, row
# C + 1 holds -1, after all labels, and three more are room for one value of each row.

ROWS = 128


@jit_part
def transpose(probs: Probabilities, side: Probabilities) -> None:
    """Put rows side by side."""
    for j in range(probs.shape[1]):
        for i in range(len(probs)):
            side[j, i] = probs[i, j]


@jit_part
def sort_columns(side: Probabilities, network: Integers) -> None:
    """Sort every column, largest first."""
    for k in range(len(network)):
        a, b = network[k, 0], network[k, 1]
        for i in range(ROWS):
            x, y = side[a, i], side[b, i]
            side[a, i] = x if x > y else y
            side[b, i] = y if x > y else x


@jit_part
def count_fitting(
    side: Probabilities,
    limits: tuple[Floats, Bool],
    random: Random,
    room: tuple[Floats, Floats],
    n: Integers,
) -> Bool:
    """Count the leading labels of every column that fit; tell whether all columns are valid."""
    at, by_top = limits
    u, penalties, threshold = random
    C, (total, top) = len(side), room
    for i in range(ROWS):
        total[i], top[i], n[i] = 0.0, round_fixed(side[0, i]), 0
    for k in range(C):
        limit = at[k + 1]
        if penalties.size == 0 and by_top:
            for i in range(ROWS):
                total[i] += round_fixed(side[k, i])
                n[i] += top[i] <= limit
        elif penalties.size == 0:
            for i in range(ROWS):
                total[i] += round_fixed(side[k, i])
                n[i] += total[i] <= limit
        elif by_top:
            for i in range(ROWS):
                total[i] += round_fixed(side[k, i])
                most = min(top[i], 1.0)
                score = u[i] * most if k == 0 else most + (k - 1 + u[i]) * penalties[2]
                n[i] += score <= threshold[i]
        else:
            for i in range(ROWS):
                before = min(total[i], 1.0)
                total[i] += round_fixed(side[k, i])
                upto = 1.0 if k == C - 1 else min(total[i], 1.0)
                n[i] += (before + u[i] * (upto - before)) + penalties[k + 1] <= threshold[i]
    valid = True
    for i in range(ROWS):
        valid &= (abs(total[i] - 1) <= SURE) & (side[C - 1, i] >= 0)
    return valid


@jit_part
def crossing_label(row: Probabilities, value: float, n: Int) -> Int:
    """Return the label that n others come before, given its value."""
    skip = n
    for j in range(row.size):
        skip -= round_fixed(row[j]) > value
    for j in range(row.size):
        if round_fixed(row[j]) == value:
            if skip == 0:
                return np.int64(j)
            skip -= 1
    return np.int64(-1)


@jit_part
def write_row(
    i: Int, row: Probabilities, labels: Labels, order: tuple[Probabilities, Int], out: Crossings
) -> None:
    """Fill in one row by its labels, given its values in order and how many of them fit."""
    column, n = order
    masses, _, label, covered, mask = out
    value, C = round_fixed(column[n]), row.size
    at = crossing_label(row, value, n)
    if label.size:
        label[i] = at
        before = 0.0
        for k in range(n):
            before += round_fixed(column[k])
        masses[0, i] = 1.0 if n == C else min(before, 1.0)
        masses[1, i] = 1.0 if n >= C - 1 else min(before + round_fixed(column[n]), 1.0)
        masses[2, i] = min(round_fixed(column[0]), 1.0)
    if labels.size:
        p = round_fixed(row[labels[i]])
        covered[i] = (p > value) | ((p == value) & (labels[i] < at))
    for j in range(C if mask.size else 0):
        p = round_fixed(row[j])
        mask[i, j] = (p > value) | ((p == value) & (j < at))


@jit_part
def write_rows(
    probs: Probabilities, labels: Labels, order: tuple[Probabilities, Integers], out: Crossings
) -> None:
    """Fill in rows by their values, given in order, and those with equals around the crossing."""
    side, n = order
    _, sizes, label, covered, mask = out
    least, beyond, own = side[-3], side[-2], side[-1]
    for i in range(len(probs)):
        least[i] = side[n[i], i]
    for i in range(len(probs)):
        beyond[i] = side[n[i] + 1, i]
    for i in range(len(probs)):
        sizes[i] = n[i]
    for i in range(len(labels)):
        own[i] = probs[i, labels[i]]
    for i in range(len(labels)):
        covered[i] = own[i] >= least[i]
    for i in range(len(mask)):
        for j in range(mask.shape[1]):
            mask[i, j] = probs[i, j] >= least[i]
    singly = label.size > 0
    for i in range(len(probs)):
        singly |= round_fixed(least[i]) == round_fixed(beyond[i])
    for i in range(len(probs) if singly else 0):
        if label.size or round_fixed(least[i]) == round_fixed(beyond[i]):
            write_row(i, probs[i], labels, (side[1:-3, i], n[i]), out)


@jit
def cross_short_rows(
    probs: Probabilities,
    labels: Labels,
    limits: tuple[Floats, Bool],
    random: Random,
    out: Crossings,
    network: Integers,
) -> Bool:
    """Do what `cross_long_rows` does, for short rows; limits are floats, of which mass."""
    rows, C = probs.shape
    masses, sizes, label, covered, mask = out
    u, penalties, threshold = random
    some_u, some_q = np.ones(ROWS), np.full(ROWS, threshold[0])
    side = np.empty((C + 5, ROWS), probs.dtype)
    side[:], side[0], side[C + 1] = 1.0 / C, 2.0, -1.0
    n, room = np.empty(ROWS, np.int64), (np.empty(ROWS), np.empty(ROWS))
    valid = True
    for start in range(0, rows, ROWS):
        some = slice(start, min(start + ROWS, rows))
        transpose(probs[some], side[1:])
        sort_columns(side[1 : C + 1], network)
        for i in range(len(u[some])):
            some_u[i] = u[start + i]
        for i in range(len(threshold[some]) if threshold.size > 1 else 0):
            some_q[i] = threshold[start + i]
        random_part = (some_u, penalties, some_q)
        valid &= count_fitting(side[1 : C + 1], limits, random_part, room, n)
        part = Crossings(masses[:, some], sizes[some], label[some], covered[some], mask[some])
        write_rows(probs[some], labels[some], (side, n), part)
    return valid


# Regression: scores and interval ends, checks included --------------------------------------------
#
# The numbers are those of `distance` and `reach` in numpy; the moves by one unit in the last place
# are made on the bits of the float. All loops return whether all numbers were finite.


@jit_part
def next_up(x: float) -> float:
    """Return the next float above; x is not +inf."""
    bits = np.float64(x).view(np.int64)
    moved = bits + np.int64(1) if bits >= 0 else bits - np.int64(1)
    return np.int64(np.int64(1) if x == 0 else moved).view(np.float64)


@jit_part
def distance(base: float, y: float) -> float:
    """Return y - base, raised where base plus the rounded difference would fall short of y."""
    q = y - base
    return next_up(q) if base + q < y else q


@jit_part
def reach(base: float, q: float) -> float:
    """Return base + q, lowered where its distance from the base would pass q."""
    y = base + q
    return -next_up(-y) if y - base > q else y


@jit_part
def interval_score(a: float, b: float, y: float) -> float:
    """Return how far y lies outside two estimates, in whatever order they come."""
    below, above = distance(-(a if a < b else b), -y), distance(b if a < b else a, y)
    return below if below > above else above


@jit
def scores_of_one(f: Floats, y: Floats, out: Floats) -> Bool:
    """Score y by one estimate."""
    finite = True
    for i in range(len(y)):
        below, above = distance(-f[i], -y[i]), distance(f[i], y[i])
        out[i] = below if below > above else above
        finite &= (f[i] - f[i] == 0) & (y[i] - y[i] == 0)
    return finite


@jit
def scores_of_two(lo: Floats, hi: Floats, y: Floats, out: Floats) -> Bool:
    """Score y by two estimates."""
    finite = True
    for i in range(len(y)):
        out[i] = interval_score(lo[i], hi[i], y[i])
        finite &= (lo[i] - lo[i] == 0) & (hi[i] - hi[i] == 0) & (y[i] - y[i] == 0)
    return finite


@jit
def scores_of_pairs(flat: Floats, y: Floats, out: Floats) -> Bool:
    """Do the same where both estimates of a row lie side by side: one pointer, not two."""
    finite = True
    for i in range(len(y)):
        a, b = flat[2 * i], flat[2 * i + 1]
        out[i] = interval_score(a, b, y[i])
        finite &= (a - a == 0) & (b - b == 0) & (y[i] - y[i] == 0)
    return finite


@jit_part
def write_ends(
    a: float, b: float, q: tuple[float, float], i: Int, out: tuple[Floats, Floats]
) -> Bool:
    """Fill in both ends of one interval."""
    out[0][i] = -reach(-(a if a < b else b), q[0])
    out[1][i] = reach(b if a < b else a, q[1])
    return (a - a == 0) & (b - b == 0)


@jit
def interval_ends(
    lo: Floats, hi: Floats, q: tuple[float, float], out: tuple[Floats, Floats]
) -> Bool:
    """Fill in both ends of every interval, around two estimates that lie anywhere."""
    finite = True
    for i in range(len(lo)):
        finite &= write_ends(lo[i], hi[i], q, i, out)
    return finite


# Order statistics ---------------------------------------------------------------------------------

BLOCK = 64
"""Values that are compared together; most blocks hold nothing that is wanted."""


@jit
def count_below(values: Floats, low: float, high: float) -> tuple[Int, Int]:
    """Count the values below either of two."""
    below_low, below_high = np.int64(0), np.int64(0)
    for i in range(len(values)):
        below_low += values[i] < low
        below_high += values[i] < high
    return below_low, below_high


@jit
def keep_between(values: Floats, low: float, high: float, kept: Floats) -> None:
    """Keep the values from low on and below high; there is room for one more."""
    n = np.int64(0)
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        inside = np.int64(0)
        for i in range(len(block)):
            inside += (block[i] >= low) & (block[i] < high)
        for i in range(len(block) if inside else 0):
            kept[n] = block[i]  # stays only if the next one goes behind it
            n += (block[i] >= low) & (block[i] < high)
