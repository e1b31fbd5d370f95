"""Prediction sets: what a threshold turns a model's output into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from fedwqcp._io import to_csv
from fedwqcp._validation import (
    Bools,
    Floats,
    as_class_labels,
    as_classes,
    as_floats,
    as_labels,
    checked,
)
from fedwqcp.errors import InputError, MissingExtraError

_SHOWN = 10
"""Most sizes of sets, labels of a set and rows that are printed."""


def _first_rows(rows: Iterable[str]) -> list[str]:
    """Return the first rows, and a mark where there are more."""
    first = list(islice(rows, _SHOWN + 1))
    lines = [f"row {index}: {text}" for index, text in enumerate(first[:_SHOWN])]
    return [*lines, "..."] if len(first) > _SHOWN else lines


@dataclass(frozen=True, eq=False)
class LabelSets:
    """One set of labels for each row.

    Parameters
    ----------
    mask : Bools, shape (n, C)
        True where the label belongs to the row's set.
    classes : sequence of str, optional
        Names of the classes, in the order of the columns.

    Notes
    -----
    ``sets[row]`` holds numbers of columns, also where the classes have names, so that
    ``label in sets[row]`` and indexing with it always work; ``sets.names(row)`` and ``print(sets)``
    give the names. ``sets[:10]`` and ``sets[mask]`` are sets again.

    Examples
    --------
    >>> sets = LabelSets(np.array([[True, False, True]]), ["melanoma", "nevus", "other"])
    >>> sets[0], sets.names(0), bool(sets.cover(["other"])[0])
    ((0, 2), ('melanoma', 'other'), True)
    """

    mask: Bools
    classes: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.classes):
            object.__setattr__(self, "classes", as_classes(self.classes))
            if len(self.classes) != self.mask.shape[1]:
                raise InputError(
                    f"must be {self.mask.shape[1]}, one for each column, got {len(self.classes)}",
                    field="classes",
                )

    def __len__(self) -> int:
        return len(self.mask)

    @overload
    def __getitem__(self, row: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, row: slice | npt.NDArray[Any]) -> LabelSets: ...

    def __getitem__(self, row: int | slice | npt.NDArray[Any]) -> tuple[int, ...] | LabelSets:
        """Return the labels of one row as numbers of columns; or the sets of several rows."""
        if isinstance(row, int | np.integer):
            return tuple(int(label) for label in np.flatnonzero(self.mask[row]))
        return LabelSets(self.mask[row], self.classes)

    def __repr__(self) -> str:
        return f"LabelSets(n={len(self)}, classes={self.mask.shape[1]})"

    def __str__(self) -> str:
        sizes, of = self.sizes(), f"of {self.mask.shape[1]} possible labels"
        if not len(self):
            return f"no sets, {of}"
        lines = [f"{len(self)} set{'s' * (len(self) > 1)}, {of}; mean size {sizes.mean():.4g}"]
        values, counts = np.unique(sizes, return_counts=True)
        if len(values) <= _SHOWN:
            wide = max(len(str(values.max())), len(str(counts.max())))
            for what, row in (("size", values), ("sets", counts)):
                lines.append(what + "".join(f"  {number:>{wide}}" for number in row))
        else:
            middle, empty = np.median(sizes), np.count_nonzero(self.empty())
            lines.append(f"sizes {values[0]} to {values[-1]}, median {middle:g}; {empty} empty")
        return "\n".join([*lines, *_first_rows(self._words(row) for row in range(len(self)))])

    def _words(self, row: int) -> str:
        names = self.names(row)
        more = f" ... ({len(names)} labels)" if len(names) > _SHOWN else ""
        between = ", " if self.classes else " "  # names may hold spaces
        return (between.join(names[:_SHOWN]) or "(empty)") + more

    def names(self, row: int) -> tuple[str, ...]:
        """Return the classes of one row by name; by number where they have no names.

        Parameters
        ----------
        row : int
            Which row.

        Returns
        -------
        tuple of str
            In the order of the columns.
        """
        return tuple(self.classes[label] if self.classes else str(label) for label in self[row])

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the number of labels in each set, shape (n,).

        Returns
        -------
        ndarray of int64
            From 0 to C.
        """
        return np.asarray(np.count_nonzero(self.mask, axis=1), dtype=np.int64)

    def empty(self) -> Bools:
        """Return whether each set holds no label, shape (n,).

        Returns
        -------
        Bools
            True where empty; such a set covers nothing.
        """
        return np.asarray(~self.mask.any(axis=1))

    def cover(self, labels: npt.ArrayLike) -> Bools:
        """Return whether each set holds its label, shape (n,).

        Parameters
        ----------
        labels : array_like, shape (n,)
            The true labels: numbers, or names where the classes have names.

        Returns
        -------
        Bools
            True where covered.
        """
        n, n_classes = self.mask.shape
        return self.mask[
            np.arange(n), as_labels(as_class_labels(labels, self.classes), n, n_classes)
        ]

    def to_frame(self, ids: npt.ArrayLike | None = None) -> Any:
        """Return a pandas table with a row for each set.

        Parameters
        ----------
        ids : array_like, shape (n,), optional
            Its index; by default rows are counted from 0.

        Returns
        -------
        pandas.DataFrame
            Columns ``size`` and ``labels``, a tuple of names (or numbers, without names).

        Raises
        ------
        MissingExtraError
            If the extra ``pandas`` is not installed.
        """
        names = self.classes or range(self.mask.shape[1])
        labels = [tuple(compress(names, row)) for row in self.mask.tolist()]
        return _frame({"size": self.sizes(), "labels": labels}, ids)


@dataclass(frozen=True, eq=False)
class Intervals:
    """One closed interval for each row; it is empty where ``lower > upper``.

    Parameters
    ----------
    lower, upper : Floats, shape (n,)
        The ends; infinite ends are allowed.
    """

    lower: Floats
    upper: Floats

    def __len__(self) -> int:
        return len(self.lower)

    @overload
    def __getitem__(self, row: int) -> tuple[float, float]: ...

    @overload
    def __getitem__(self, row: slice | npt.NDArray[Any]) -> Intervals: ...

    def __getitem__(self, row: int | slice | npt.NDArray[Any]) -> tuple[float, float] | Intervals:
        """Return the ends of one row, or the intervals of several rows."""
        if isinstance(row, int | np.integer):
            return float(self.lower[row]), float(self.upper[row])
        return Intervals(self.lower[row], self.upper[row])

    def __repr__(self) -> str:
        return f"Intervals(n={len(self)})"

    def __str__(self) -> str:
        if not len(self):
            return "no intervals"
        sizes = self.sizes()
        empty, endless = np.count_nonzero(self.empty()), np.count_nonzero(np.isinf(sizes))
        middle = f"length {sizes.mean():.4g} on average, median {np.median(sizes):.4g}"
        head = f"{len(self)} intervals, {middle}; {empty} empty, {endless} infinite"
        rows = (f"{low:.6g} to {high:.6g}" for low, high in map(self.__getitem__, range(len(self))))
        return "\n".join([head, *_first_rows(rows)])

    def sizes(self) -> Floats:
        """Return the length of each interval, shape (n,); an empty one has length 0.

        Returns
        -------
        Floats
            The lengths, +inf where an end is infinite.
        """
        with np.errstate(over="ignore"):  # a length beyond the largest float is +inf
            return np.maximum(0.0, self.upper - self.lower)

    def empty(self) -> Bools:
        """Return whether each interval holds no value, shape (n,).

        Returns
        -------
        Bools
            True where ``lower > upper``.
        """
        return np.asarray(self.lower > self.upper)

    def cover(self, y: npt.ArrayLike) -> Bools:
        """Return whether each interval holds its value, shape (n,).

        Parameters
        ----------
        y : array_like, shape (n,)
            The true values.

        Returns
        -------
        Bools
            True where covered.
        """
        values = as_floats(y, "y", (len(self),))
        return (self.lower <= values) & (values <= self.upper)

    @checked
    def clip(self, lowest: float, highest: float) -> Intervals:
        """Return the intervals cut to a known range of y.

        Parameters
        ----------
        lowest, highest : float
            The range of y.

        Returns
        -------
        Intervals
            Cut intervals; one that lies outside the range becomes empty.

        Raises
        ------
        InputError
            If the range is empty.
        """
        if not lowest <= highest:
            raise InputError(f"the range must not be empty, got {lowest} to {highest}")
        return Intervals(np.maximum(self.lower, lowest), np.minimum(self.upper, highest))

    @checked
    def labels(self, n_classes: int) -> LabelSets:
        """Return the integers from 0 to n_classes - 1 that each interval holds.

        Parameters
        ----------
        n_classes : int
            Number of ordinal labels.

        Returns
        -------
        LabelSets
            It covers an integer label exactly where the interval does.
        """
        if n_classes < 1:
            raise InputError(f"n_classes must be at least 1, got {n_classes}")
        label = np.arange(n_classes)
        return LabelSets((self.lower[:, None] <= label) & (label <= self.upper[:, None]))

    def to_frame(self, ids: npt.ArrayLike | None = None) -> Any:
        """Return a pandas table with a row for each interval.

        Parameters
        ----------
        ids : array_like, shape (n,), optional
            Its index; by default rows are counted from 0.

        Returns
        -------
        pandas.DataFrame
            Columns ``lower``, ``upper`` and ``size``.

        Raises
        ------
        MissingExtraError
            If the extra ``pandas`` is not installed.
        """
        return _frame({"lower": self.lower, "upper": self.upper, "size": self.sizes()}, ids)


def _frame(columns: dict[str, Any], ids: npt.ArrayLike | None) -> Any:
    """Return a table of pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError("to_frame", "pandas") from None
    return pd.DataFrame(columns, index=None if ids is None else pd.Index(ids, name="id"))


# The table of `agent predict` ---------------------------------------------------------------------

_ROWS = 2**14
"""Rows whose labels are written at a time."""


def as_csv(sets: LabelSets | Intervals, ids: npt.NDArray[Any] | None = None) -> str:
    """Write sets as a table with a line for each row; without ids, rows are counted from 0.

    Labels are written by number with spaces, or by name; named classes have a column of 0 and 1.
    """
    names = range(len(sets)) if ids is None else ids.tolist()
    if isinstance(sets, LabelSets):
        between = "; " if sets.classes else " "  # names may hold spaces
        rows: Iterable[list[object]] = (
            [name, len(labels), between.join(labels), *bits]
            for name, (labels, bits) in zip(names, _labels(sets), strict=True)
        )
        return to_csv(chain([["id", "size", "labels", *sets.classes]], rows))
    columns = (column.tolist() for column in (sets.sizes(), sets.lower, sets.upper))
    return to_csv(chain([["id", "size", "lower", "upper"]], zip(names, *columns, strict=True)))


def _labels(sets: LabelSets) -> Iterator[tuple[list[str], list[int]]]:
    """Yield the labels of each row by name, and its 0s and 1s where classes have names."""
    names = sets.classes or [str(label) for label in range(sets.mask.shape[1])]
    for start in range(0, len(sets), _ROWS):
        mask, end = sets.mask[start : start + _ROWS], 0
        labels = [names[label] for label in mask.nonzero()[1].tolist()]
        bits = mask.astype(int).tolist() if sets.classes else [[]] * len(mask)
        for size, row in zip(mask.sum(axis=1).tolist(), bits, strict=True):
            begin, end = end, end + size
            yield labels[begin:end], row
