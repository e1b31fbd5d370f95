"""Passes over arrays of model outputs, as fast as the machine can read them.

Nothing outside ``fedwqcp`` calls it; users meet it through scores and quantiles.

**What is computed.** Ranked scores (APS, RAPS, SAPS) are formulas of where a label stands in its
row: its rank, and the mass of the labels ranked before it (`Ranked`). Calibration needs that of the
true label; a prediction set needs every label whose score is within a threshold. With u = 1 scores
do not fall from one rank to the next, so a set is the first few labels of the row, up to the one
that first passes the threshold: the *crossing*. A threshold becomes one limit on the mass for each
rank (`numpy.Limits`), and a set is found without scoring every label.

With u < 1 a set is the first few labels as well: the score of a label, ``before + u p + penalty``,
is never above that of the next one, whose ``before`` is ``before + p``. So every loop takes one u
per row and counts the labels that fit; without a random part u is 1. Quick loops bound the scores;
exact ones compute them in the order of operations of `numpy.RandomPart`.

**Why all paths agree to the last bit.** A probability is rounded once to a multiple of 2^-52. Sums
of such numbers up to 2 are exact, as int64 and as float64, in any order; ties go to the smaller
index. So who counts is a matter of speed alone. Vector code also uses rounded sums, to *bound* a
mass; it decides only where the bound leaves no doubt and hands other rows to an exact loop.

=====================  ============================================================================
file                   what it holds
=====================  ============================================================================
``numpy.py``           the reference: ranks, limits, crossings by sorting, intervals
``selection.py``       order statistics, plain and weighted, without sorting
``compilation.py``     when to compile: numpy serves until it has cost as much time
``dispatch.py``        which path serves which input, on how many threads; what `scores` calls
``numba.py``           compiled loops in plain Python: exact for every input
``vectors.py``         sixteen-lane vectors: a numba type and its instructions
``simd.py``            loops on vectors: ranks of true labels, short rows, interval ends
``bracket.py``         crossings of long rows by a bracket search on vectors, with a retry queue
``own_thresholds.py``  sets where labels or rows have thresholds of their own
``torch.py``           the same passes on tensors, in plain torch or by ``triton.py``
``triton.py``          the same passes on a CUDA device, one read of the input
=====================  ============================================================================

A file that works with a package has the package's name. Importing it imports numpy alone;
numba, torch and Triton are imported when first used.

**Buffers.** Loops allocate nothing per row and return little: they fill arrays that the caller
made. `Ranked` and `Crossings` name them; an array that is not wanted has no rows, and a loop asks
for its size. The bracket search works in one scratch buffer, laid out by `ScratchLayout`.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels

Integers: TypeAlias = npt.NDArray[np.int64]

LANES = 16
"""Numbers in a vector. LLVM splits them where a processor has narrower registers."""


class Ranked(NamedTuple):
    """Where labels stand in their rows; arrays of one shape, (n,) or (n, C).

    Labels are ordered by decreasing probability, ties by smaller index. Masses are capped at 1, and
    the mass up to the label ranked last is exactly 1.
    """

    before: Floats
    """Mass of the labels ranked strictly before (rho)."""
    upto: Floats
    """The same with the label's own mass."""
    rank: Integers
    """1-based rank o(y)."""
    top: Floats
    """Largest probability of the row, shape (n,) or (n, 1)."""

    def of(self, rows: slice) -> Ranked:
        """Return views of some rows."""
        return Ranked(self.before[rows], self.upto[rows], self.rank[rows], self.top[rows])

    def previous(self) -> Ranked:
        """Return the place one rank before; rank 0 and mass 0 for the most probable label."""
        return Ranked(self.before, self.before, self.rank - 1, self.top)


class Crossings(NamedTuple):
    """The first label of each row that passes its limit, and what comes before it."""

    masses: Floats
    """Shape (3, n): mass before the crossing label, up to it, and of the most probable label; not
    filled in unless labels are."""
    sizes: Integers
    """How many labels come before it; -1 where a loop leaves the row undecided."""
    label: Labels
    """The crossing label; -1 where no label passes."""
    covered: Bools
    """Whether the true label comes before it."""
    mask: Bools
    """Shape (n, C): which labels come before it."""

    @classmethod
    def allocate(cls, n: int, n_classes: int, placed: bool, labelled: bool) -> Crossings:
        """Allocate what is wanted: a mask of n_classes columns, places, coverage; always sizes."""
        # One column more than is used: no slice is contiguous, so loops meet one layout only.
        return cls(
            np.empty((3, n + 1))[:, :-1] if placed else _NO_MASSES,
            np.empty(n, np.int64),
            np.empty(n, np.int64) if placed else _NO_LABELS,
            np.empty(n, np.bool_) if labelled else _NO_COVERED,
            np.empty((n, n_classes), np.bool_) if n_classes else _NO_MASK,
        )

    def of(self, rows: slice) -> Crossings:
        """Return views of some rows."""
        masses, sizes, label, covered, mask = self
        if label.size:
            masses = masses[:, rows]
        return Crossings(masses, sizes[rows], label[rows], covered[rows], mask[rows])

    def put(self, rows: Integers, part: Crossings) -> None:
        """Copy what was found for some rows, masses apart: these are filled in for all at once."""
        for whole, some in zip(self[1:], part[1:], strict=True):
            if whole.size:
                whole[rows] = some


_NO_MASSES = np.empty((3, 2))[:, :-1]
_NO_LABELS, _NO_COVERED = np.empty(0, np.int64), np.empty(0, np.bool_)
_NO_MASK = np.empty((0, 0), np.bool_)


class Sets(NamedTuple):
    """Which labels are within their thresholds; an array that is not wanted has no rows."""

    mask: Bools
    """Shape (n, C)."""
    covered: Bools
    """Whether the true label is."""
    sizes: Integers

    def of(self, rows: slice) -> Sets:
        """Return views of some rows."""
        return Sets(self.mask[rows], self.covered[rows], self.sizes[rows])


class ScratchLayout(NamedTuple):
    """Where each part of the bracket search's scratch buffer begins.

    The buffer is one array of floats, float32 or float64 as the search is; integers in it are
    floats without a fraction. "Rows at hand" are the sixteen that take a step together, one lane
    each: number i of a part of LANES numbers is that of row i.
    """

    pivots: int
    """The four first pivots, the same for all rows; they follow where earlier rows crossed."""
    own: int
    """Probability of the true label of each row at hand."""
    counts: int
    """For each of four pivots, how many labels of each row lie above it."""
    sums: int
    """For each of four pivots, the mass of these labels: four partial sums for each row."""
    totals: int
    """The mass of whole rows, in partial sums."""
    excess: int
    """For two pivots, whether the exact mass above them passes the limit: 1, otherwise -1."""
    rest: int
    """1 - u of each row at hand."""
    limit: int
    """Their thresholds, where each row has its own."""
    sizes: int
    """How many labels of each row fit; -1 where undecided."""
    state: int
    """For each row at hand ten numbers: its bracket (height, count and mass of the upper pivot,
    then of the lower one), the next two pivots to try, how many passes it has had, and how far its
    sums may be off."""
    queue: int
    """The same ten numbers of up to QUEUE rows that need another pass."""
    end: int
    """The length of the buffer."""


PIVOTS = 4
"""How many pivots the first pass over a row tries."""

STATE = 10
"""How many numbers the state of a row has."""

QUEUE = 2 * LANES
"""Places in the retry queue: from sixteen rows on it is served first, and a step adds sixteen."""

_LENGTHS = ScratchLayout(
    pivots=LANES,
    own=LANES,
    counts=PIVOTS * LANES,
    sums=PIVOTS * 4 * LANES,
    totals=4 * LANES,
    excess=2 * LANES,
    rest=LANES,
    limit=LANES,
    sizes=LANES,
    state=STATE * LANES,
    queue=STATE * QUEUE,
    end=0,
)
SCRATCH = ScratchLayout(0, *accumulate(_LENGTHS[:-1]))
