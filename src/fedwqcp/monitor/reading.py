"""Rows whose labels have arrived, as batches: from arrays, tables, JSON lines and JSON arrays.

A row holds one of: ``covered`` (0 or 1); ``labels``, the set as ``agent predict`` writes it, and
``label``; ``lower``, ``upper`` and ``y``; or counts, ``n`` and ``hits``, of a ``class`` if it is
named. ``label`` may stand beside ``covered``, ``group`` (or ``group:sex`` and others) beside all
but counts, and ``agent`` in every row or in none. Two of these in one row, or a column twice, are
refused: nothing says which one counts.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite, isnan
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._io import parse_json, unescaped
from fedwqcp._validation import Labels, Texts, as_class_labels, as_labels, first_of
from fedwqcp.errors import InputError
from fedwqcp.groups import as_groups, columns_of, group_places

_KINDS = ("n", "covered", "labels", "lower")
"""Columns that tell what a row holds."""


_NO_KIND = "rows must have one of: covered; labels and label; lower, upper and y; n and hits"


_NO_CLASSES = (np.zeros(0, dtype=np.int64),) * 3


@dataclass(frozen=True, eq=False)
class CoverageBatch:
    """Hits and misses in the order of arrival.

    Parameters
    ----------
    sizes, hits : Labels, shape (k,)
        Rows of each step and how many were covered. A step is one row, or several of which only
        counts are known.
    classes, class_sizes, class_hits : Labels, shape (m,), optional
        The same for each class; empty where labels are not known.
    size : float, optional
        Mean size of the sets, where it is known.
    groups : Texts, optional
        The groups of each row.
    """

    sizes: Labels
    hits: Labels
    classes: Labels
    class_sizes: Labels
    class_hits: Labels
    size: float | None = None
    groups: Texts | None = None

    def __repr__(self) -> str:
        return f"CoverageBatch(n={int(self.sizes.sum())})"

    def of_class(self, label: int) -> tuple[Labels, Labels]:
        """Return the steps of one class.

        Parameters
        ----------
        label : int
            The class.

        Returns
        -------
        tuple of Labels
            Rows and hits of each step.
        """
        rows = self.classes == label
        return self.class_sizes[rows], self.class_hits[rows]

    def by_group(self, known: Sequence[str]) -> CoverageBatch:
        """Return the batch with a step for each group of each row, in place of its class.

        Parameters
        ----------
        known : sequence of str
            The groups that are monitored.

        Returns
        -------
        CoverageBatch
            Its classes are places among the groups.

        Raises
        ------
        InputError
            If the groups of its rows are not given, or others.
        """
        if self.groups is None:
            raise InputError("must be given for each row", field="groups")
        try:
            places = group_places(self.groups, known).reshape(len(self.groups), -1)
        except InputError as error:
            raise error.from_row_one() from None
        row, column = np.nonzero(places >= 0)
        sizes, hits = self.sizes[row], self.hits[row]
        return replace(self, classes=places[row, column], class_sizes=sizes, class_hits=hits)


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
    rows = _rows(data, "rows", _KINDS if sets is None else ("id",))
    if sets is not None:
        rows = _joined(rows, [_as_was(row) for row in _rows(sets, "sets", ("id",))])
    by_agent: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        name = row.get("agent", agent)
        if not name:
            raise InputError(
                "must belong to one agent",
                row=number,
                cure=(
                    "name it in a column 'agent' of every row, or with agent=",
                    "name it in a column 'agent' of every row, or with --agent",
                ),
            ).from_row_one()
        if agent is not None and name != agent:
            raise InputError(
                "belongs to another agent: pass rows of this agent alone",
                row=number,
                cure=(
                    "or leave agent= out to read the rows of all",
                    "or leave --agent out to read the rows of all",
                ),
            ).from_row_one()
        by_agent.setdefault(str(name), []).append(number)
    batches = {}
    for name, places in by_agent.items():
        try:
            batches[name] = _batch([rows[number] for number in places])
        except InputError as error:
            if error.row is None:
                raise
            raise error.shifted(places[error.row] - error.row).from_row_one() from None
    return batches


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
    rows = _rows(data, "rows", (name,))
    if name == "size" and rows and "lower" in rows[0] and "size" not in rows[0]:
        ends = zip(_column(rows, "lower"), _column(rows, "upper"), strict=True)
        return [upper - lower for lower, upper in ends]
    try:
        return _column(rows, name)
    except InputError as error:
        raise error.from_row_one() from None


def batch_of_rows(
    covered: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    groups: npt.ArrayLike | None = None,
) -> CoverageBatch:
    """Return rows that are known one by one: 1 where the set held the label, else 0."""
    hits = _whole(covered, "covered", highest=1)
    if hits.ndim != 1:
        raise InputError(f"covered must be one flat array, got shape {hits.shape}")
    ones = np.ones(len(hits), dtype=np.int64)
    of = None if groups is None else as_groups(groups, len(hits))
    if labels is None:
        return CoverageBatch(ones, hits, *_NO_CLASSES, groups=of)
    classes = _whole(labels, "labels")
    if classes.shape != hits.shape:
        raise InputError(f"labels must be one for each of the {len(hits)} rows, got {classes.size}")
    return CoverageBatch(ones, hits, classes, ones, hits, groups=of)


def batch_of_counts(
    n: npt.ArrayLike, hits: npt.ArrayLike, classes: npt.ArrayLike | None = None
) -> CoverageBatch:
    """Return rows of which only counts are known."""
    sizes, covered = np.atleast_1d(_whole(n, "n")), np.atleast_1d(_whole(hits, "hits"))
    if sizes.ndim != 1 or sizes.shape != covered.shape:
        raise InputError(f"n and hits must be of one length, got {sizes.shape}, {covered.shape}")
    if (bad := first_of(covered > sizes)) is not None:
        raise InputError("hits must be at most n", row=bad).from_row_one()
    if classes is None:
        return CoverageBatch(sizes, covered, *_NO_CLASSES)
    of = np.atleast_1d(_whole(classes, "classes"))
    if of.shape != sizes.shape:
        raise InputError(f"classes must be one for each of the {len(sizes)} counts, got {of.size}")
    once = sizes.sum(keepdims=True), covered.sum(keepdims=True)
    return CoverageBatch(*once, of, sizes, covered)


def _batch(rows: Sequence[Mapping[str, Any]]) -> CoverageBatch:
    """Sort the rows of one agent into a batch."""
    if len(kinds := [kind for kind in _KINDS if any(kind in row for row in rows)]) > 1:
        raise InputError(
            f"{_NO_KIND}; these, with their sets where there are some, have {' and '.join(kinds)}"
        )
    kinds = [name for name in rows[0] if name.startswith("group:")]
    groups: Any = None
    if "group" in rows[0]:
        groups = columns_of([row.get("group", "") for row in rows])
    elif kinds:
        cells = {name: [row.get(name, "") for row in rows] for name in kinds}
        groups = {name.removeprefix("group:"): cells[name] for name in kinds}
    if "n" in rows[0]:
        n, hits = _column(rows, "n"), _column(rows, "hits")
        classes = _column(rows, "class") if "class" in rows[0] else None
        return batch_of_counts(n, hits, classes)
    if "covered" in rows[0]:
        covered = _column(rows, "covered")
        labels = _column(rows, "label") if "label" in rows[0] else None
        return batch_of_rows(covered, labels, groups)
    if "labels" in rows[0]:
        labels = _column(rows, "label")
        sets = [_set(row, number) for number, row in enumerate(rows)]
        hits = [label in labels_of for label, labels_of in zip(labels, sets, strict=True)]
        batch = batch_of_rows(hits, labels, groups)
        return replace(batch, size=fmean(map(len, sets)))
    if "lower" in rows[0]:
        y, lower, upper = (_column(rows, name) for name in ("y", "lower", "upper"))
        hits = [a <= v <= b for a, v, b in zip(lower, y, upper, strict=True)]
        batch = batch_of_rows(hits, groups=groups)
        size = fmean(b - a for a, b in zip(lower, upper, strict=True))
        return replace(batch, size=size if isfinite(size) else None)
    alone = "label" in rows[0] or "y" in rows[0]
    cure = (
        "rows of ids and labels need their sets: sets=",
        "rows of ids and labels need their sets: --sets FILE, which `agent predict` wrote",
    )
    raise InputError(_NO_KIND, cure=cure if alone else ("", ""))


def _rows(data: bytes, what: str, known: Sequence[str]) -> list[Mapping[str, Any]]:
    """Read a table, JSON lines or a JSON array."""
    try:
        text = data.decode("utf-8-sig")
        if text.lstrip().startswith("{"):
            rows = [parse_json(line) for line in text.splitlines() if line.strip()]
        elif text.lstrip().startswith("["):
            rows = parse_json(text)
        else:
            rows = _table(text, known)
    except InputError as error:
        raise error.within(what) from None
    except (UnicodeDecodeError, ValueError, csv.Error, RecursionError):
        raise InputError(
            f"{what} must be a CSV table with a header line, or JSON lines, or one JSON array"
        ) from None
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or None in row or None in row.values():
            reason = "must have a value for every column, no more"
            raise InputError(reason, field=what, row=number).from_row_one()
    return rows


def _table(text: str, known: Sequence[str]) -> list[Any]:
    """Read a table; one without rows must still begin with the names of its columns."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    header = reader.fieldnames or ()
    if len(set(header)) < len(header):
        raise InputError("each column name may occur once")
    rows = list(reader)
    if header and not rows and not set(header) & set(known):
        raise InputError(f"the first line must name the columns, one of: {', '.join(known)}")
    return rows


def _as_was(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of sets with its ids and names of classes as they were."""
    return {
        unescaped(key): unescaped(value) if isinstance(value, str) else value
        for key, value in row.items()
    }


def _joined(
    rows: Sequence[Mapping[str, Any]], sets: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Give each labelled row its set, by id; classes by name become numbers."""
    if not all("id" in row for row in sets):
        raise InputError("sets must have a column 'id', which names the labelled rows")
    positions = {name: number for number, name in enumerate(_class_names(sets))}
    if positions:
        sets = [
            {
                "id": row["id"],
                "labels": [positions[name] for name in positions if row.get(name) == "1"],
            }
            for row in sets
        ]
        labels = _class_labels(rows, tuple(positions))
        rows = [{**row, "label": label} for row, label in zip(rows, labels, strict=True)]
    elif sets and not {"labels", "lower"} & sets[0].keys():
        raise InputError(
            "sets must be the table that `agent predict` wrote, with columns id and labels, or id, "
            "lower and upper"
        )
    if rows and not any("id" in row for row in rows):
        raise InputError("rows must have a column 'id', with the ids of the sets; these have none")
    known = {str(row["id"]): row for row in sets}
    if len(known) < len(sets):
        raise InputError("sets: each row must have an id of its own")
    joined: list[Mapping[str, Any]] = []
    for number, row in enumerate(rows):
        known_set = known.get(str(row["id"])) if "id" in row else None
        if known_set is None:
            reason = (
                "must have an id that names one of the sets: are these the sets of the same rows?"
            )
            raise InputError(reason, row=number).from_row_one()
        both = known_set.keys() & row.keys()
        if differ := sorted(key for key in both if str(known_set[key]) != str(row[key])):
            raise InputError(
                f"must say the same as its set in {', '.join(differ)}: leave it to the sets, rows "
                "hold id and label (or y)",
                row=number,
            ).from_row_one()
        joined.append({**known_set, **row})
    if len({str(row["id"]) for row in rows}) < len(rows):
        raise InputError("an id must name one row; some ids are repeated")
    return joined


def _class_names(sets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the classes of sets with names: the columns behind ``labels``, with 1 if in it."""
    names = list(sets[0]) if sets else []
    names = names[names.index("labels") + 1 :] if "labels" in names else []
    for row in sets if names else ():
        if row.get("labels") != "; ".join(str(name) for name in names if row.get(name) == "1"):
            return []
    return names


def _class_labels(rows: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> list[int]:
    """Return the labels of rows, by name or all of them by number, as numbers of classes."""
    texts = ["" if row.get("label") is None else str(row["label"]) for row in rows]
    labels: npt.NDArray[Any] = np.array(texts, dtype=np.str_)
    if not set(texts) <= set(classes):
        with suppress(ValueError, OverflowError):  # names, or what is refused below
            numbers = labels.astype(np.float64)
            labels = numbers.astype(np.int64) if (numbers == np.rint(numbers)).all() else numbers
    try:
        checked = as_labels(as_class_labels(labels, classes), len(rows), len(classes))
    except InputError as error:
        raise error.from_row_one() from None
    return [int(label) for label in checked]


def _column(rows: Iterable[Mapping[str, Any]], name: str) -> list[float]:
    """Return one column as numbers."""
    numbers = []
    for number, row in enumerate(rows):
        value = row.get(name)
        try:
            if value is None or isinstance(value, list | dict):
                raise ValueError
            numbers.append(float(value))
            if isnan(numbers[-1]):  # an outcome that is missing is no miss
                raise ValueError
        except (ValueError, OverflowError):
            raise InputError(f"must have a number in {name!r}", row=number) from None
    return numbers


def _set(row: Mapping[str, Any], number: int) -> set[float]:
    """Return the labels of a set: text with spaces, or a list; a missing set is no empty one."""
    try:
        held = row["labels"]
        return {float(label) for label in (held.split() if isinstance(held, str) else held)}
    except (KeyError, TypeError, ValueError, OverflowError):
        raise InputError("must have a set of labels in 'labels'", row=number) from None


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
    if array.min() < 0 or array.max() > highest:
        limit = "at least 0" if array.min() < 0 else f"from 0 to {highest}"
        outside = np.atleast_1d((array < 0) | (array > highest))
        bad = first_of(np.asarray(outside.reshape(len(outside), -1).any(axis=1)))
        raise InputError(f"{what} must be {limit}", row=bad).from_row_one()
    return array.astype(np.int64)
