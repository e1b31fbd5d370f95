"""Scores, sets and quantiles of whole arrays: numpy is the reference, one C++ file is the speed.

Nothing outside ``fedwqcp`` calls it; users meet it through scores and quantiles.

Ranked scores (APS, RAPS, SAPS) are formulas of where a label stands in its row: its rank, and the
mass of the labels ranked before it (`Ranked`). A probability is rounded once to a multiple of
2^-52. Sums of such numbers up to 2 are exact, as int64 and as float64, in any order; ties go to the
smaller index. So all paths agree to the last bit, and who counts is a matter of speed alone.

==================  ===============================================================================
file                what it holds
==================  ===============================================================================
``numpy.py``        the reference: ranks, sets by sorting, intervals
``_fast.cpp``       the same, compiled when the package is installed; optional
``dispatch.py``     compiled or numpy, on how many threads; what `scores` calls
``selection.py``    order statistics, plain and weighted
``triton_sets.py``  sets on a CUDA device
==================  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats

Integers: TypeAlias = npt.NDArray[np.int64]


class Ranked(NamedTuple):
    """Where labels stand in their rows; arrays that broadcast against each other.

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
    """Largest probability of the row."""

    def previous(self) -> Ranked:
        """Return the place one rank before; rank 0 and mass 0 for the most probable label."""
        return Ranked(self.before, self.before, self.rank - 1, self.top)


class KernelFormula(NamedTuple):
    """A score of places, twice: for numpy, and as the numbers that the compiled loops take."""

    of: Callable[[Ranked, Floats | float], Floats]
    """The score at some places, given u, or 1 where nothing is random; no rank lowers it."""
    penalties: Floats
    """Shape (C + 1,): the score at ranks 0 to C where all masses are 0 and u is 1."""
    by_top: bool
    """Whether it is ``u top`` at rank 1 and ``top + (rank - 2 + u) penalty`` from rank 2 on, rather
    than ``before + u (upto - before) + penalty(rank)``."""


class Given(NamedTuple):
    """What scores are compared with, and how that becomes a set."""

    q: Floats
    """Shape () for one threshold, (n, 1) by row, (C,) by label, or (n, C)."""
    rule: str

    @property
    def by_label(self) -> bool:
        """Whether labels of one row have different thresholds."""
        return self.q.ndim == 1 or (self.q.ndim == 2 and self.q.shape[1] > 1)


class Sets(NamedTuple):
    """Which labels are within their thresholds; an array that is not wanted has no rows."""

    mask: Bools
    """Shape (n, C)."""
    covered: Bools
    """Whether the true label is."""
    sizes: Integers

    @classmethod
    def allocate(cls, n: int, n_classes: int, labelled: bool) -> Sets:
        """Allocate sizes, and coverage where there are labels or else masks."""
        mask = np.empty((0, n_classes) if labelled else (n, n_classes), np.bool_)
        return cls(mask, np.empty(n if labelled else 0, np.bool_), np.empty(n, np.int64))
