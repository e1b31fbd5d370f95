"""Rows whose labels have arrived, as batches: from arrays and tables.

A row holds one of: ``covered`` (0 or 1); ``labels``, the set as ``agent predict`` writes it, and
``label``; ``lower``, ``upper`` and ``y``; or counts, ``n`` and ``hits``, of a ``class`` if it is
named. ``label`` may stand beside ``covered``, ``group`` (or ``group:sex`` and others) beside all
but counts, and ``agent`` beside all. Two of these in one file, or a column twice, are refused:
nothing says which one counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean

import numpy as np
import numpy.typing as npt

from fedwqcp._io import unescaped
from fedwqcp._validation import Bools, Floats, Labels, Texts, as_class_labels, as_labels, first_of
from fedwqcp.errors import InputError
from fedwqcp.groups import as_groups
from fedwqcp.readers.tables import Cells, read_groups, read_labels, read_numbers, read_table

_KINDS: Mapping[str, tuple[str, ...]] = {
    "n": ("hits",),
    "covered": (),
    "labels": ("label",),
    "lower": ("upper", "y"),
}
"""Columns that tell what a row holds, each with those beside it."""


_NAME_AGENT = ("pass agent=, or give a column 'agent'", "pass --agent, or give a column 'agent'")


_NO_KIND = "there must be one of: covered; labels and label; lower, upper and y; n and hits"


@dataclass(frozen=True, eq=False)
class CoverageBatch:
    """Hits and misses in steps: one row each, or several of which only counts are known.

    Parameters
    ----------
    sizes, hits : Labels, shape (k,)
        Rows of each step and how many were covered.
    classes : Labels, shape (k,), optional
        The class of each step, where labels are known.
    groups : Texts, shape (k,) or (k, g), optional
        The groups of each step.
    widths : Floats, shape (k,), optional
        The size of each set, where it is known.
    ordered : bool, optional
        Whether steps are in the order of arrival; counts of classes are not.
    """

    sizes: Labels
    hits: Labels
    classes: Labels | None = None
    groups: Texts | None = None
    widths: Floats | None = None
    ordered: bool = True

    def __repr__(self) -> str:
        return f"CoverageBatch(n={int(self.sizes.sum())})"

    @property
    def size(self) -> float | None:
        """Mean size of the sets, where it is known and finite."""
        size = None if self.widths is None else fmean(self.widths)
        return size if size is not None and isfinite(size) else None

    @property
    def steps(self) -> tuple[Labels, Labels]:
        """Rows and hits in the order of arrival; where that is not known, in one step."""
        if self.ordered:
            return self.sizes, self.hits
        return self.sizes.sum(keepdims=True), self.hits.sum(keepdims=True)

    def take(self, rows: Bools) -> CoverageBatch:
        """Return some of the steps.

        Parameters
        ----------
        rows : Bools, shape (k,)
            Which.

        Returns
        -------
        CoverageBatch
            These, as they were.
        """
        parts = ("sizes", "hits", "classes", "groups", "widths")
        there = {name: part for name in parts if (part := getattr(self, name)) is not None}
        return replace(self, **{name: part[rows] for name, part in there.items()})


def read_batches(
    data: bytes,
    agent: str | None = None,
    sets: bytes | None = None,
    names: tuple[str, str] = ("rows", "sets"),
) -> dict[str, CoverageBatch]:
    """Return the rows of a file, by agent.

    Parameters
    ----------
    data : bytes
        A CSV table with a header line.
    agent : str, optional
        Whose rows they are, where they do not say so themselves.
    sets : bytes, optional
        A table of sets, as ``agent predict`` writes it; rows then hold ``id`` and ``label`` (or
        ``y``).
    names : tuple of str, optional
        What errors call the two tables, such as the names of their files.

    Returns
    -------
    dict of str to CoverageBatch
        One batch for each agent that has rows.

    Raises
    ------
    InputError
        If the file cannot be read, or a row lacks what must be there; the error names the row by
        its number and tells nothing of what it holds.
    """
    if not data.strip():
        return {}
    of_rows = names[0]
    with _lines_of(of_rows):
        table = read_table(data)
    if sets is not None:
        table = _joined(table, sets, names)
    with _lines_of(of_rows):
        batch = _batch(table)
        agents = table.get("agent", [agent] * len(batch.sizes))
        for row, name in enumerate(agents):
            if not name:
                raise InputError("its agent must be named", row=row, cure=_NAME_AGENT)
            if name != (agent or name):
                raise InputError("its agent must be the one that is named for all", row=row)
    by_row = np.array(agents, dtype=np.str_)
    found = {name: batch.take(by_row == name) for name in dict.fromkeys(map(str, agents))}
    return {name: rows for name, rows in found.items() if rows.sizes.any()}


def read_column(data: bytes, name: str, file: str = "rows") -> Floats:
    """Return one column of a table, as numbers.

    Parameters
    ----------
    data : bytes
        As of `read_batches`.
    name : str
        The column; ``size`` is also the length of an interval.
    file : str, optional
        What errors call the table.

    Returns
    -------
    Floats, shape (n,)
        One for each row.

    Raises
    ------
    InputError
        If the file cannot be read, or a row lacks the number.
    """
    with _lines_of(file):
        table = read_table(data)
        if name == "size" and "lower" in table and "size" not in table:
            return np.asarray(read_numbers(table, "upper") - read_numbers(table, "lower"))
        _check_columns(table, name)
        return read_numbers(table, name)


def batch_of_rows(
    covered: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
) -> CoverageBatch:
    """Return rows that are known one by one: 1 where the set held the label, else 0."""
    hits = _whole(covered, "covered", highest=1)
    if hits.ndim != 1:
        raise InputError(f"covered must be one flat array, got shape {hits.shape}")
    classes = None if labels is None else _whole(labels, "labels")
    if classes is not None and classes.shape != hits.shape:
        raise InputError(f"labels must be one for each of the {len(hits)} rows, got {classes.size}")
    of = None if groups is None else as_groups(groups, len(hits))
    return CoverageBatch(np.ones(len(hits), dtype=np.int64), hits, classes, of)


def batch_of_counts(
    n: npt.ArrayLike, hits: npt.ArrayLike, classes: npt.ArrayLike | None = None
) -> CoverageBatch:
    """Return rows of which only counts are known."""
    sizes, covered = np.atleast_1d(_whole(n, "n")), np.atleast_1d(_whole(hits, "hits"))
    of = None if classes is None else np.atleast_1d(_whole(classes, "classes"))
    if sizes.ndim != 1 or not sizes.shape == covered.shape == (sizes if of is None else of).shape:
        raise InputError("n, hits and classes must be of one length")
    if (bad := first_of(covered > sizes)) is not None:
        raise InputError("hits must be at most n", row=bad)
    return CoverageBatch(sizes, covered, of, ordered=of is None)


@contextmanager
def _lines_of(what: str) -> Iterator[None]:
    """Let errors name the table and the line."""
    try:
        yield
    except InputError as error:
        raise error.at_line(2).within(what) from None


def _check_columns(table: Mapping[str, Cells], *names: str) -> None:
    if missing := [name for name in names if name not in table]:
        raise InputError(f"there must be a column {missing[0]!r}")


def _batch(table: Mapping[str, Cells]) -> CoverageBatch:
    """Return the rows of all agents as one batch."""
    kinds = [kind for kind in _KINDS if kind in table]
    if len(kinds) != 1:
        came = f"; these and their sets have {' and '.join(kinds)}" if kinds else ""
        alone = "; id and label need --sets" if {"label", "y"} & table.keys() else ""
        raise InputError(f"{_NO_KIND}{came or alone}")
    _check_columns(table, *_KINDS[kinds[0]])
    widths, labels = None, read_numbers(table, "label") if "label" in table else None
    if "n" in table:
        classes = read_numbers(table, "class") if "class" in table else None
        return batch_of_counts(read_numbers(table, "n"), read_numbers(table, "hits"), classes)
    if "covered" in table:
        hits: npt.ArrayLike = read_numbers(table, "covered")
    elif labels is not None and "labels" in table:
        sets = [_set(held, row) for row, held in enumerate(table["labels"])]
        hits = [label in held for label, held in zip(labels, sets, strict=True)]
        widths = np.array([*map(len, sets)], dtype=np.float64)
    else:
        lower, y, upper = (read_numbers(table, name) for name in ("lower", "y", "upper"))
        missing = np.asarray(np.isnan([lower, y, upper]).any(axis=0))
        if (bad := first_of(missing)) is not None:
            raise InputError("lower, y and upper must be numbers", row=bad)
        hits, widths = (lower <= y) & (y <= upper), upper - lower
    return replace(batch_of_rows(hits, labels, read_groups(table)), widths=widths)


def _joined(rows: Mapping[str, Cells], data: bytes, tables: tuple[str, str]) -> dict[str, Cells]:
    """Give each labelled row its set, by id; classes by name become numbers."""
    with _lines_of(tables[1]):
        as_written = read_table(data)
        sets = {unescaped(name): [*map(unescaped, as_written[name])] for name in as_written}
        _check_columns(sets, "id")
        if len(positions := {name: row for row, name in enumerate(sets["id"])}) < len(sets["id"]):
            raise InputError("each row must have an id of its own")
        if not {"labels", "lower"} & sets.keys():
            raise InputError("the table must be one that `agent predict` wrote")
    with _lines_of(tables[0]):
        _check_columns(rows, "id")
        if names := _class_names(sets):
            _check_columns(rows, "label")
            held = zip(*(sets[name] for name in names), strict=True)
            numbers = [
                " ".join(str(k) for k, cell in enumerate(row) if cell == "1") for row in held
            ]
            labels = as_class_labels(read_labels(rows, "label", named=True), names)
            sets = {"id": sets["id"], "labels": numbers}
            rows = {**rows, "label": as_labels(labels, len(rows["id"]), len(names))}
        places = [positions.get(str(name), -1) for name in rows["id"]]
        if -1 in places:
            reason = f"its id must be in {tables[1]}: are these the sets of the same rows?"
            raise InputError(reason, row=places.index(-1))
        if len(set(places)) < len(places):
            raise InputError("an id must name one row; some ids are repeated")
        joined = {name: [cells[place] for place in places] for name, cells in sets.items()}
        for name in joined.keys() & rows.keys():
            if joined[name] != [*rows[name]]:
                raise InputError(f"{name} must be as in the sets, or left out: they hold it")
    return {**joined, **rows}


def _class_names(sets: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the classes of sets with names: the columns behind ``labels``, with 1 if in it."""
    names = list(sets)
    names = names[names.index("labels") + 1 :] if "labels" in names else []
    cells = zip(*(sets[name] for name in names), strict=True)
    written = [
        "; ".join(name for name, cell in zip(names, row, strict=True) if cell == "1")
        for row in cells
    ]
    return names if names and written == sets["labels"] else []


def _set(held: str, row: int) -> set[float]:
    """Return the labels of a set, which are separated by spaces."""
    try:
        return set(map(float, held.split()))
    except ValueError:
        raise InputError("labels must be a set of numbers", row=row) from None


def _whole(values: npt.ArrayLike, what: str, highest: int = 2**53) -> Labels:
    """Return whole numbers of at least 0."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{what} must be whole numbers") from None
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "biuf" or not (array == np.rint(array)).all():
        raise InputError(f"{what} must be whole numbers, got an array of {array.dtype}")
    outside = np.atleast_1d((array < 0) | (array > highest))
    if outside.any():
        bad = first_of(np.asarray(outside.reshape(len(outside), -1).any(axis=1)))
        raise InputError(f"{what} must be from 0 to {highest}", row=bad)
    return array.astype(np.int64)
