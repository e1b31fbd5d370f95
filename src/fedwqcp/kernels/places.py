"""Scores by where one label of each row stands: one pass over the rows, checks included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels, Probabilities
from fedwqcp.kernels import compiled, ranked
from fedwqcp.kernels.checks import check
from fedwqcp.kernels.ranked import Ranked

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
    loops = compiled.kernels(probs.size)
    if loops is not None:
        count, views = _loop(loops, probs)

        def work(rows: slice) -> bool:
            room = [np.empty(ROWS, kind) for kind in (float, float, float, np.int64)]
            for some in _parts(rows):
                out = tuple(one[: some.stop - some.start] for one in room)
                if not count(*(view[some] for view in views), labels[some], out):
                    return False
                before, upto, top, rank = out
                scores[some] = formula(Ranked(before, upto, rank, top), some)
            return True

        if compiled.over_rows(n, probs.size, work):
            return scores
    check(probs)
    for some in _parts(slice(0, n)):
        scores[some] = formula(ranked.of_labels(probs[some], labels[some]), some)
    return scores


def _parts(rows: slice) -> Iterator[slice]:
    """Cut rows into parts of at most ROWS."""
    for start in range(rows.start, rows.stop, ROWS):
        yield slice(start, min(start + ROWS, rows.stop))


def _loop(
    loops: ModuleType, probs: Probabilities
) -> tuple[Callable[..., bool], tuple[npt.NDArray[Any], ...]]:
    """Return the compiled loop that is made for such rows, and the rows as it takes them."""
    n_classes = probs.shape[1]
    if probs.dtype != np.float32 or n_classes > WIDE:
        return loops.places, (probs,)
    if n_classes > FEW or not probs.flags.c_contiguous:
        return loops.places_single, (probs,)
    return loops.places_of_few, (in_pairs(probs), probs)


def in_pairs(probs: Probabilities) -> npt.NDArray[np.uint64]:
    """Return rows of float32 two labels at a time, as the bits of one integer.

    Parameters
    ----------
    probs : Probabilities, shape (n, C)
        Rows that lie one after the other.

    Returns
    -------
    ndarray, shape (n, C // 2)
        The same memory; the last of an odd number of labels is left out.
    """
    n, n_classes = probs.shape
    steps = (4 * n_classes, 8)
    return np.ndarray((n, n_classes // 2), np.uint64, probs.data, strides=steps)
