"""Scores, sets and coverage of rows that come in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score, row_ids, uniforms
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.streaming.sources import Batch, as_batch

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Evaluation:
    """What the sets of a stream of labelled rows say.

    Parameters
    ----------
    rate : Rate
        Coverage with its exact interval.
    mean_size : float
        Mean number of labels, or mean length; NaN without rows.
    empty : int
        How many sets are empty, or of length 0.
    """

    rate: Rate
    mean_size: float
    empty: int


@dataclass(frozen=True)
class _Scores:
    """Scores of rows that can be read again, as often as their source can."""

    source: Iterable[object]
    score: Score
    key: str
    progress: Progress | None

    def __iter__(self) -> Iterator[Floats]:
        for first, batch in _counted(self.source, self.progress):
            if batch.labels is None:
                raise InputError("calibration needs labels beside the outputs")
            with _from_row(first):
                if isinstance(self.score, LabelScore):
                    u = _uniforms(self.score, batch, self.key)
                    found = self.score.of(batch.values, batch.labels, u=u)
                else:
                    found = _interval(self.score).of(batch.values, batch.labels)
            yield found


def scores_of(
    source: Iterable[object], score: Score, *, key: str = "", progress: Progress | None = None
) -> Iterable[Floats]:
    """Give the scores of labelled rows, batch by batch.

    Uniforms of a randomised score are keyed by the rows' ids as text, or by their content where
    they have none, as agents of a federated round draw them: the id 7 draws what
    ``uniforms(key, ["7"])`` gives.

    Parameters
    ----------
    source : iterable
        Batches of outputs and labels: `Arrays`, `NpyFiles`, `ParquetFile`, a PyTorch DataLoader
        of CPU tensors, or anything that gives tuples of outputs, labels and ids.
    score : Score
        Of labels or of intervals.
    key : str, optional
        Key of the uniforms.
    progress : callable, optional
        Called after each batch with the number of rows so far.

    Returns
    -------
    iterable of Floats
        Scores of each batch, for `conformal_quantiles`, `Tail`, `RankSketch` or `Calibration`. It
        can be read again if the source can.

    Raises
    ------
    InputError
        If labels are missing, or outputs do not fit the score; raised while it is read.
    """
    found = _Scores(source, score, key, progress)
    return iter(found) if isinstance(source, Iterator) else found


def predict(
    source: Iterable[object],
    score: Score,
    threshold: npt.ArrayLike,
    *,
    rule: Rule = "leq",
    key: str = "",
    progress: Progress | None = None,
) -> Iterator[LabelSets | Intervals]:
    """Give the prediction sets of rows, batch by batch.

    Parameters
    ----------
    source : iterable
        Batches of outputs, as for `scores_of`; labels are not needed.
    score : Score
        Of labels or of intervals.
    threshold : array_like
        Shape () for one threshold, or one for each label or column.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set of labels.
    key : str, optional
        Key of the uniforms.
    progress : callable, optional
        Called after each batch with the number of rows so far.

    Yields
    ------
    LabelSets or Intervals
        Sets of one batch.
    """
    for first, batch in _counted(source, progress):
        sets: LabelSets | Intervals
        with _from_row(first):
            if isinstance(score, LabelScore):
                u = _uniforms(score, batch, key)
                sets = score.invert(batch.values, threshold, rule, u)
            else:
                sets = _interval(score).invert(batch.values, threshold)
        yield sets


def evaluate(
    source: Iterable[object],
    score: Score,
    threshold: npt.ArrayLike,
    *,
    rule: Rule = "leq",
    key: str = "",
    progress: Progress | None = None,
) -> Evaluation:
    """Return coverage and size of the sets of labelled rows; no set is kept.

    Parameters
    ----------
    source : iterable
        Batches of outputs and labels, as for `scores_of`.
    score : Score
        Of labels or of intervals.
    threshold : array_like
        Shape () for one threshold, or one for each label or column.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set of labels.
    key : str, optional
        Key of the uniforms.
    progress : callable, optional
        Called after each batch with the number of rows so far.

    Returns
    -------
    Evaluation
        Counts and means over all rows.

    Raises
    ------
    InputError
        If labels are missing, or outputs do not fit the score.
    """
    n = hits = empty = 0
    total = 0.0
    for first, batch in _counted(source, progress):
        if batch.labels is None:
            raise InputError("coverage needs labels beside the outputs")
        with _from_row(first):
            if isinstance(score, LabelScore):
                u = _uniforms(score, batch, key)
                covered, found = score.measure(batch.values, batch.labels, threshold, rule, u)
                sizes = found.astype(np.float64)
            else:
                sets = _interval(score).invert(batch.values, threshold)
                covered, sizes = sets.cover(batch.labels), sets.sizes()
        n, hits = n + len(covered), hits + int(covered.sum())
        total, empty = total + float(sizes.sum()), empty + int((sizes == 0).sum())
    return Evaluation(Rate(n=n, hits=hits), total / n if n else float("nan"), empty)


def _counted(source: Iterable[object], progress: Progress | None) -> Iterator[tuple[int, Batch]]:
    """Give the batches and where each begins, and say after each how far it went."""
    rows = 0
    for item in source:
        batch = as_batch(item)
        yield rows, batch
        rows += len(np.asarray(batch.values))
        if progress is not None:
            progress(rows)


@contextmanager
def _from_row(first: int) -> Iterator[None]:
    """Say where a batch began when something is wrong with it."""
    try:
        yield
    except InputError as error:
        if first == 0:
            raise
        raise InputError(f"in the batch that begins with row {first}: {error}") from None


def _interval(score: Score) -> IntervalScore:
    """Refuse a score that is the caller's own."""
    if not isinstance(score, IntervalScore):
        raise InputError(f"{score!r} is the caller's own: its scores are not made here")
    return score


def _uniforms(score: LabelScore, batch: Batch, key: str) -> Floats | None:
    """Return the uniforms of a randomised score: keyed by id, or by the row's content."""
    if not score.randomized:
        return None
    if batch.ids is None:
        return uniforms(key, row_ids(batch.values))
    return uniforms(key, np.asarray(batch.ids).astype(np.str_))
