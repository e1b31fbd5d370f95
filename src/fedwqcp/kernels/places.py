"""Scores by where one label of each row stands: one pass over the rows, checks included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.kernels import compiled, ranked
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.ranked import Ranked, blocks

WIDE = 2**13
"""Rows of up to so many float32 are sound if their sum in float32 says so."""

FEW = 15
"""Rows of up to so many float32 are looked at side by side; 16 fill a register alone."""

ROWS = 2**14
"""Places of so many rows are kept at a time; they stay in cache."""


def scored(
    probs: Probabilities, labels: Labels, formula: Callable[[Ranked, slice], Floats]
) -> Floats:
    """Check probabilities and score one label of each row by where it stands.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    labels : Labels, shape (n,)
        Checked labels.
    formula : callable
        Given where the labels of some rows stand, and which rows, their scores. The places are
        written over after it returns.

    Returns
    -------
    Floats, shape (n,)
        The scores.

    Raises
    ------
    InputError
        If a row is not one of probabilities.
    """
    n, scores = len(probs), np.empty(len(probs))
    if (loops := compiled.kernels(probs.size)) is not None:
        loop = _loop(loops, probs)

        def work(rows: slice) -> bool:
            before, top, rank = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS, np.int64)
            for some in _parts(rows):
                m = some.stop - some.start
                place = Ranked(before[:m], scores[some], rank[:m], top[:m])
                if not loop(some, labels[some], place):
                    return False
                scores[some] = formula(place, some)
            return True

        if compiled.over_rows(n, probs.size, work):
            return scores
    check(probs)
    for some in _parts(slice(0, n)):
        scores[some] = formula(ranked.of_labels(probs[some], labels[some]), some)
    return scores


def masses(probs: Probabilities, labels: Labels) -> Floats:
    """Check probabilities and return the mass up to one label of each row.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Of the right type and shape.
    labels : Labels, shape (n,)
        Checked labels.

    Returns
    -------
    Floats, shape (n,)
        With the label's own mass.

    Raises
    ------
    InputError
        If a row is not one of probabilities.
    """
    upto = np.empty(len(probs))
    if (loops := compiled.kernels(probs.size)) is not None:
        loop = _loop(loops, probs)
        none, no_rank = np.empty(0), np.empty(0, np.int64)

        def work(rows: slice) -> bool:
            return loop(rows, labels[rows], Ranked(none, upto[rows], no_rank, none))

        if compiled.over_rows(len(probs), probs.size, work):
            return upto
    return scored(probs, labels, lambda place, _: place.upto)


def fill(loops: ModuleType, probs: Probabilities, labels: Labels, masses: Floats) -> None:
    """Write where one label of each row stands.

    Parameters
    ----------
    loops : module
        The compiled loops.
    probs : Probabilities, shape (n, C)
        Sound rows.
    labels : Labels, shape (n,)
        Labels.
    masses : Floats, shape (3, n)
        Takes the mass before the label, the mass up to it, and the largest of the row.
    """
    before, upto, top = masses
    place = Ranked(before, upto, np.empty(0, np.int64), top)
    _loop(loops, probs)(slice(0, len(probs)), labels, place)


def _parts(rows: slice) -> Iterator[slice]:
    """Cut rows into parts of at most ROWS."""
    for start in range(rows.start, rows.stop, ROWS):
        yield slice(start, min(start + ROWS, rows.stop))


def _loop(loops: ModuleType, probs: Probabilities) -> Callable[[slice, Labels, Ranked], bool]:
    """Return the compiled loop that is made for such rows; it writes places and checks the rows."""
    n_classes = probs.shape[1]
    single = probs.dtype == np.float32 and n_classes <= WIDE

    def find(some: Probabilities, labels: Labels, out: tuple[npt.NDArray[Any], ...]) -> bool:
        if not single:
            return bool(loops.places(some, labels, out))
        if n_classes > FEW:
            return bool(loops.places_single(some, labels, out, smaller(n_classes)))
        scratch = np.empty(loops.ROOM, np.float32), (0,) * n_classes
        return bool(loops.places_of_few(some, labels, out, scratch))

    def work(rows: slice, labels: Labels, out: Ranked) -> bool:
        some, found = probs[rows], (out.before, out.upto, out.top, out.rank)
        if not single or some.flags.c_contiguous:
            return find(some, labels, found)
        return all(  # rows that do not follow each other are copied, a few at a time
            find(np.ascontiguousarray(some[part]), labels[part], tuple(x[part] for x in found))
            for part in blocks(len(some), n_classes)
        )

    return work


@lru_cache(maxsize=8)
def smaller(n_classes: int) -> npt.NDArray[np.uint32]:
    """Return a row of 1 for every label and of 0 behind them.

    Parameters
    ----------
    n_classes : int
        How many labels.

    Returns
    -------
    ndarray, shape (2 C + 16,)
        From place C - y on, it is 1 for the labels smaller than y and 0 for the others.
    """
    row = np.zeros(2 * n_classes + 16, np.uint32)
    row[:n_classes] = 1
    row.flags.writeable = False
    return row
