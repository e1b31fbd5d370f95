"""Rows whose labels have arrived, as batches: from arrays, tables, JSON lines and JSON arrays.

A row holds one of: ``covered`` (0 or 1); ``labels``, the set as ``agent predict`` writes it, and
``label``; ``lower``, ``upper`` and ``y``; or counts, ``n`` and ``hits``, of a ``class`` if it is
named. ``label`` may stand beside ``covered``, ``group`` (or ``group:sex`` and others) beside all
but counts, and ``agent`` beside all. Two of these in one file, or a column twice, are refused:
nothing says which one counts.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import isfinite, isnan
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._io import parse_json, unescaped
from fedwqcp._validation import Bools, Floats, Labels, Texts, as_class_labels, as_labels, first_of
from fedwqcp.errors import InputError
from fedwqcp.groups import as_groups, columns_of

Columns: TypeAlias = dict[str, list[Any]]
"""A table: the cells of each column."""


_KINDS = ("n", "covered", "labels", "lower")
"""Columns that tell what a row holds."""


_NO_KIND = "rows must have one of: covered; labels and label; lower, upper and y; n and hits"


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


@contextmanager
def rows_from_one() -> Iterator[None]:
    """Count rows from 1 in errors, as people count the lines of a table below its header."""
    try:
        yield
    except InputError as error:
        raise error.from_row_one() from None


@rows_from_one()
def read_batches(
    data: bytes, agent: str | None = None, sets: bytes | None = None
) -> dict[str, CoverageBatch]:
    """Return the rows of a file, by agent.

    Parameters
    ----------
    data : bytes
        A CSV table with a header line, JSON lines, or one JSON array of objects.
    agent : str, optional
        Whose rows they are, where they do not say so themselves.
    sets : bytes, optional
        A table of sets, as ``agent predict`` writes it; rows then hold ``id`` and ``label`` (or
        ``y``).

    Returns
    -------
    dict of str to CoverageBatch
        One batch for each agent.

    Raises
    ------
    InputError
        If the file cannot be read, or a row lacks what must be there; the error names the row by
        its number and tells nothing of what it holds.
    """
    table = _columns(data, "rows", _KINDS if sets is None else ("id",))
    if not (n := len(next(iter(table.values()), ()))):
        return {}
    if sets is not None:
        table = _joined(table, _columns(sets, "sets", ("id",)))
    agents = table.get("agent", [agent] * n)
    for row, name in enumerate(agents):
        if not name:
            raise InputError("must name its agent, in a column 'agent' or for all rows", row=row)
        if name != (agent or name):
            raise InputError("must be of the one agent that is named for all rows", row=row)
    batch, of = _batch(table), np.array(agents, dtype=np.str_)
    return {name: batch.take(of == name) for name in dict.fromkeys(map(str, agents))}


@rows_from_one()
def read_column(data: bytes, name: str) -> list[float]:
    """Return one column of a table, as numbers.

    Parameters
    ----------
    data : bytes
        As of `read_batches`.
    name : str
        The column; ``size`` is also the length of an interval.

    Returns
    -------
    list of float
        One for each row.

    Raises
    ------
    InputError
        If the file cannot be read, or a row lacks the number.
    """
    table = _columns(data, "rows", (name,))
    if name == "size" and "lower" in table and "size" not in table:
        ends = zip(_numbers(table, "lower"), _numbers(table, "upper"), strict=True)
        return [upper - lower for lower, upper in ends]
    return _numbers(table, name) if any(table.values()) else []


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


def _batch(table: Columns) -> CoverageBatch:
    """Return the rows of all agents as one batch."""
    kinds = [kind for kind in _KINDS if kind in table]
    if not kinds:
        alone = "; id and label need --sets" if {"label", "y"} & table.keys() else ""
        raise InputError(f"{_NO_KIND}{alone}")
    if len(kinds) > 1:
        raise InputError(f"{_NO_KIND}; these and their sets have {' and '.join(kinds)}")
    if "n" in table:
        classes = _numbers(table, "class") if "class" in table else None
        return batch_of_counts(_numbers(table, "n"), _numbers(table, "hits"), classes)
    widths = labels = None
    if "covered" in table:
        hits: Sequence[float] = _numbers(table, "covered")
        labels = _numbers(table, "label") if "label" in table else None
    elif "labels" in table:
        labels = _numbers(table, "label")
        sets = [_set(held, row) for row, held in enumerate(table["labels"])]
        hits = [label in held for label, held in zip(labels, sets, strict=True)]
        widths = [len(held) for held in sets]
    else:
        rows = [*zip(*(_numbers(table, name) for name in ("lower", "y", "upper")), strict=True)]
        hits = [lower <= y <= upper for lower, y, upper in rows]
        widths = [upper - lower for lower, _, upper in rows]
    batch = batch_of_rows(hits, labels, _groups(table))
    return batch if widths is None else replace(batch, widths=np.array(widths, dtype=np.float64))


def _groups(table: Columns) -> Any:
    """Return the groups of a table, as `Outputs` takes them."""
    kinds = {name: cells for name, cells in table.items() if name.startswith("group:")}
    if "group" in table:
        return columns_of(table["group"])
    return {name.removeprefix("group:"): cells for name, cells in kinds.items()} or None


def _columns(data: bytes, what: str, known: Sequence[str]) -> Columns:
    """Read a table, JSON lines or a JSON array; one without rows must name its columns."""
    try:
        text = data.decode("utf-8-sig")
        if text.lstrip()[:1] in ("{", "["):
            names, rows = _of_json(text)
        else:
            names, *rows = [
                line for line in csv.reader(io.StringIO(text), strict=True) if line
            ] or [[]]
    except InputError as error:
        raise error.within(what) from None
    except (UnicodeDecodeError, ValueError, csv.Error, RecursionError):
        raise InputError(
            f"{what} must be a CSV table with a header line, or JSON lines, or one JSON array"
        ) from None
    if len(set(names)) < len(names):
        raise InputError("each column name may occur once", field=what)
    if names and not rows and not set(names) & set(known):
        raise InputError(
            f"the first line must name the columns, one of: {', '.join(known)}", field=what
        )
    for number, row in enumerate(rows):
        if len(row) != len(names) or None in row:
            raise InputError("must have a value for every column, no more", field=what, row=number)
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}


def _of_json(text: str) -> tuple[list[str], list[list[Any]]]:
    """Return names and rows of objects; what has other names is a row of no length."""
    lines = [text] if text.lstrip().startswith("[") else text.splitlines()
    parsed = [parse_json(line) for line in lines if line.strip()]
    records = parsed[0] if isinstance(parsed[0], list) else parsed
    first = records[0] if records else {}
    names = list(first) if isinstance(first, dict) else ["?"]
    known = [isinstance(record, dict) and record.keys() == set(names) for record in records]
    return names, [
        [record[name] for name in names] if same else []
        for record, same in zip(records, known, strict=True)
    ]


def _joined(rows: Columns, sets: Columns) -> Columns:
    """Give each labelled row its set, by id; classes by name become numbers."""
    if "id" not in sets:
        raise InputError("sets must have a column 'id', which names the labelled rows")
    if "id" not in rows:
        raise InputError("rows must have a column 'id', with the ids of the sets; these have none")
    sets = {unescaped(name): [*map(_as_was, cells)] for name, cells in sets.items()}
    if names := _class_names(sets):
        held = zip(*(sets[name] for name in names), strict=True)
        labels = [[place for place, cell in enumerate(row) if cell == "1"] for row in held]
        sets = {"id": sets["id"], "labels": labels}
        rows = rows | {"label": _class_labels(rows.get("label", [""] * len(rows["id"])), names)}
    elif not {"labels", "lower"} & sets.keys():
        raise InputError(
            "sets must be the table that `agent predict` wrote, with columns id and labels, or id, "
            "lower and upper"
        )
    positions = {str(name): position for position, name in enumerate(sets["id"])}
    if len(positions) < len(sets["id"]):
        raise InputError("sets: each row must have an id of its own")
    places = [positions.get(str(name), -1) for name in rows["id"]]
    if -1 in places:
        raise InputError(
            "must have an id that names one of the sets: are these the sets of the same rows?",
            row=places.index(-1),
        )
    if len(set(places)) < len(places):
        raise InputError("an id must name one row; some ids are repeated")
    joined = {name: [cells[place] for place in places] for name, cells in sets.items()}
    for name in joined.keys() & rows.keys():
        if [*map(str, joined[name])] != [*map(str, rows[name])]:
            raise InputError(
                f"rows must say the same as their sets in {name}: leave it to the sets, rows hold "
                "id and label (or y)"
            )
    return joined | rows


def _as_was(cell: Any) -> Any:
    """Return a cell of sets as it was before a spreadsheet was kept from running it."""
    return unescaped(cell) if isinstance(cell, str) else cell


def _class_names(sets: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the classes of sets with names: the columns behind ``labels``, with 1 if in it."""
    names = list(sets)
    names = names[names.index("labels") + 1 :] if "labels" in names else []
    cells = zip(*(sets[name] for name in names), strict=True)
    written = [
        "; ".join(name for name, cell in zip(names, row, strict=True) if cell == "1")
        for row in cells
    ]
    return names if names and written == sets["labels"] else []


def _class_labels(given: Sequence[Any], classes: Sequence[str]) -> list[int]:
    """Return the labels of rows, by name or all of them by number, as numbers of classes."""
    texts = [str(label) for label in given]
    labels: npt.NDArray[Any] = np.array(texts, dtype=np.str_)
    if not set(texts) <= set(classes):
        with suppress(ValueError, OverflowError):  # names, or what is refused below
            numbers = labels.astype(np.float64)
            labels = numbers.astype(np.int64) if (numbers == np.rint(numbers)).all() else numbers
    numbered = as_labels(as_class_labels(labels, classes), len(texts), len(classes))
    return [int(label) for label in numbered]


def _numbers(table: Columns, name: str) -> list[float]:
    """Return one column as numbers."""
    numbers = []
    for row, value in enumerate(table.get(name, [None])):
        try:
            if value is None or isinstance(value, list | dict):
                raise ValueError
            numbers.append(float(value))
            if isnan(numbers[-1]):  # an outcome that is missing is no miss
                raise ValueError
        except (ValueError, OverflowError):
            raise InputError(f"must have a number in {name!r}", row=row) from None
    return numbers


def _set(held: Any, row: int) -> set[float]:
    """Return the labels of a set: text with spaces, or a list."""
    try:
        return {float(label) for label in (held.split() if isinstance(held, str) else held)}
    except (TypeError, ValueError, OverflowError):
        raise InputError("must have a set of labels in 'labels'", row=row) from None


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
