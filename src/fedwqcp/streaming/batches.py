"""Model outputs in batches (arrays, `.npy` maps, Parquet, loaders): scores, sets, coverage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Floats, output_columns
from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate
from fedwqcp.readers.parquet import opened_table
from fedwqcp.scores import IntervalScore, LabelScore, Rule, Score, row_ids, text_ids, uniforms
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.sets import Intervals, LabelSets

ROWS = 2**16
"""How many rows a batch has where nothing else decides."""


class Batch(NamedTuple):
    """Some rows of a model's outputs.

    Parameters
    ----------
    values : array_like, shape (b, C), (b, 2) or (b,)
        Probabilities, two numbers per row, or predictions.
    labels : array_like, shape (b,), optional
        Labels or true values.
    ids : array_like, shape (b,), optional
        Ids of the rows: integers or text.
    """

    values: npt.ArrayLike
    labels: npt.ArrayLike | None = None
    ids: npt.ArrayLike | None = None

    def __repr__(self) -> str:
        return f"Batch(shape={np.shape(self.values)})"


@dataclass(frozen=True, eq=False, repr=False)
class Arrays:
    """Arrays cut into batches; they can be read again and again.

    Parameters
    ----------
    values : ndarray
        Probabilities or predictions, one row each; a memory map is read batch by batch.
    labels, ids : ndarray, optional
        What belongs to the rows.
    rows : int, optional
        Rows of a batch.
    """

    values: npt.NDArray[Any]
    labels: npt.NDArray[Any] | None = None
    ids: npt.NDArray[Any] | None = None
    rows: int = ROWS

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InputError(f"rows must be at least 1, got {self.rows}")
        for what, part in (("labels", self.labels), ("ids", self.ids)):
            if part is not None and len(part) != len(self.values):
                raise InputError(
                    f"{what} must have one entry for each of the {len(self.values)} rows, "
                    f"got {len(part)}",
                    field=what,
                )

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.values.shape}, rows={self.rows})"

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, len(self.values), self.rows):
            at = slice(start, start + self.rows)
            labels = None if self.labels is None else self.labels[at]
            yield Batch(self.values[at], labels, None if self.ids is None else self.ids[at])


class NpyFiles(Arrays):
    """Outputs in ``.npy`` files, mapped into memory and never loaded as a whole.

    Parameters
    ----------
    values : Path
        The outputs.
    labels, ids : Path, optional
        What belongs to the rows, in files of their own.
    rows : int, optional
        Rows of a batch.

    Raises
    ------
    InputError
        If a file is no plain ``.npy``, or lengths differ.
    """

    def __init__(
        self, values: Path, labels: Path | None = None, ids: Path | None = None, rows: int = ROWS
    ) -> None:
        beside = [None if path is None else _mapped(path) for path in (labels, ids)]
        super().__init__(_mapped(values), beside[0], beside[1], rows)


@dataclass(frozen=True)
class ParquetFile:
    """A table in a Parquet file, read by row groups; columns are named as in every outputs file.

    Parameters
    ----------
    path : Path
        With columns ``p0, p1, ...``, or ``prediction``, ``prediction, sigma``, or
        ``lower, upper``; and where there are any ``label`` or ``y``, and ``id``.
    rows : int, optional
        Most rows of a batch.

    Raises
    ------
    MissingExtraError
        If pyarrow is not installed.
    InputError
        If the file cannot be read, or lacks what must be there.
    """

    path: Path
    rows: int = ROWS

    def __iter__(self) -> Iterator[Batch]:
        file = self._open()
        names = file.schema_arrow.names
        columns = output_columns(names)
        if not columns:
            raise InputError(
                f"{self.path} must have columns p0, p1, ... or prediction, or lower and upper; "
                f"got {', '.join(names)}"
            )
        label = next((name for name in ("label", "y") if name in names), None)
        wanted = [*columns, *([label] if label else []), *(["id"] if "id" in names else [])]
        for part in file.iter_batches(batch_size=self.rows, columns=wanted):
            values = np.stack([_numbers(part, name, self.path) for name in columns], axis=1)
            yield Batch(
                values[:, 0] if len(columns) == 1 else values,
                None if label is None else _numbers(part, label, self.path),
                np.array(part.column("id").to_pylist()) if "id" in names else None,
            )

    def __len__(self) -> int:
        return int(self._open().metadata.num_rows)

    def _open(self) -> Any:
        """Open the file; its rows are read later."""
        return opened_table(self.path, self.path)


def as_batch(item: object) -> Batch:
    """Return what a loader gave as a batch of arrays.

    A batch; a tuple or list of outputs, labels and ids as a PyTorch DataLoader gives it (the last
    two may be missing); or outputs alone.
    """
    parts = item if isinstance(item, tuple | list) else (item,)
    if not 1 <= len(parts) <= 3:
        raise InputError(f"a batch must be outputs, labels and ids, got {len(parts)} parts")
    values, labels, ids = (*parts, None, None)[:3]
    return Batch(
        np.asarray(values),
        None if labels is None else np.asarray(labels),
        None if ids is None else np.asarray(ids),
    )


def _mapped(path: Path) -> npt.NDArray[Any]:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} must be a .npy file; it does not exist") from None
    except (ValueError, OSError, EOFError):
        raise InputError(f"{path} must be a .npy file without objects; it cannot be read") from None
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path} must be a .npy file: an archive cannot be mapped into memory")
    return found


def _numbers(part: Any, name: str, path: Path) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = part.column(name).to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "fiu":
        raise InputError(f"{path}: column {name!r} must hold numbers in every row")
    return values


@dataclass(frozen=True)
class Evaluation:
    """Coverage and size of the sets of a stream of labelled rows.

    Parameters
    ----------
    rate : Rate
        Coverage with its exact interval.
    mean_size : float
        Mean number of labels, or mean length; NaN without rows.
    empty : int
        How many sets hold nothing; an interval of length 0 holds one value.
    """

    rate: Rate
    mean_size: float
    empty: int


@dataclass(frozen=True)
class _Scores:
    """Scores, batch by batch; they can be read again if their source can."""

    source: Iterable[object]
    score: Score
    key: str

    def __iter__(self) -> Iterator[Floats]:
        for first, batch in _batches(self.source):
            if batch.labels is None:
                raise InputError("calibration needs labels beside the outputs")
            with _from_row(first):
                if isinstance(self.score, LabelScore):
                    u = _uniforms(self.score, batch, self.key)
                    found = self.score.of(batch.values, batch.labels, u=u)
                else:
                    found = _interval(self.score).of(batch.values, batch.labels)
            yield found


def scores_of(source: Iterable[object], score: Score, *, key: str = "") -> Iterable[Floats]:
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

    Returns
    -------
    iterable of Floats
        Scores of each batch, for `conformal_quantiles` and `Tail`, or concatenated for
        `Calibration`. It can be read again if the source can.

    Raises
    ------
    InputError
        If labels are missing, or outputs do not fit the score; raised while it is read.
    """
    found = _Scores(source, score, key)
    return iter(found) if isinstance(source, Iterator) else found


def predict(
    source: Iterable[object],
    score: Score,
    threshold: npt.ArrayLike,
    *,
    rule: Rule = "leq",
    key: str = "",
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

    Yields
    ------
    LabelSets or Intervals
        Sets of one batch.
    """
    for first, batch in _batches(source):
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

    Returns
    -------
    Evaluation
        Counts and means over all rows.

    Raises
    ------
    InputError
        If labels are missing, or outputs do not fit the score.
    """
    n = hits = without = 0
    total = 0.0
    for first, batch in _batches(source):
        if batch.labels is None:
            raise InputError("coverage needs labels beside the outputs")
        with _from_row(first):
            if isinstance(score, LabelScore):
                u = _uniforms(score, batch, key)
                covered, found = score.measure(batch.values, batch.labels, threshold, rule, u)
                sizes, empty = found.astype(np.float64), found == 0
            else:
                sets = _interval(score).invert(batch.values, threshold)
                covered, sizes, empty = sets.cover(batch.labels), sets.sizes(), sets.empty()
        n, hits = n + len(covered), hits + int(covered.sum())
        total, without = total + float(sizes.sum()), without + int(empty.sum())
    return Evaluation(Rate(n=n, hits=hits), total / n if n else float("nan"), without)


def _batches(source: Iterable[object]) -> Iterator[tuple[int, Batch]]:
    """Give each batch with the number of its first row."""
    rows = 0
    for item in source:
        batch = as_batch(item)
        yield rows, batch
        rows += len(np.asarray(batch.values))


@contextmanager
def _from_row(first: int) -> Iterator[None]:
    """Let an error name the row of the whole source, or else the first row of the batch."""
    try:
        yield
    except InputError as error:
        if first == 0:
            raise
        if error.row is not None:
            raise error.shifted(first) from None
        raise error.within(f"in the batch that begins with row {first}") from None


def _interval(score: Score) -> IntervalScore:
    """Refuse a score that is neither of one label nor of an interval."""
    if isinstance(score, MultiLabel):
        raise InputError(
            f"{score!r} is for rows of several labels, and a batch holds one for each: calibrate "
            "with Calibration(score.of_every_label(probs), weights=score.weights(labels)) and "
            "predict with score.invert"
        )
    if not isinstance(score, IntervalScore):
        raise InputError(f"{score!r} is the caller's own: its scores are not made here")
    return score


def _uniforms(score: LabelScore, batch: Batch, key: str) -> Floats | None:
    """Return the uniforms of a randomised score: keyed by id, or by the row's content."""
    if not score.randomized:
        return None
    ids = row_ids(batch.values) if batch.ids is None else batch.ids
    return uniforms(key, text_ids(ids))  # as `outputs.row_uniforms` draws them
