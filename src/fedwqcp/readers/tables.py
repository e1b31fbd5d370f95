"""Model outputs in tables: what each column is, by its name."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp._io import opened
from fedwqcp._validation import (
    check_same_classes,
    listed,
    named,
    unchecked,
)
from fedwqcp.errors import InputError
from fedwqcp.outputs import ROWS, Outputs, in_file
from fedwqcp.scores import softmax

Cells: TypeAlias = Sequence[Any] | npt.NDArray[Any]
"""A column of a table; an array only of numbers."""


OUTPUT_BYTES = 2**34
"""Largest file of a site's own outputs. Messages of others are limited far below."""


_MEANING = re.compile(r"id|label|y|group(:.+)?|prediction|sigma|lower|upper|[pzxy](0|[1-9]\d{0,5})")
"""Columns of a table that are no names of classes, where the classes are not known."""


_MEANT = {
    "id": re.compile(
        r"ids?|\w+[ _-]ids?|(patient|row|case|customer|client|subject|person|study)(ids?)?|pid|mrn",
        re.I,
    ),
    "label": re.compile(
        r"labels?|(true|y)[ _-]?(label|true)|y_?true|target|truth|outcome|diagnosis|dx", re.I
    ),
    "group": re.compile(r"groups?", re.I),
}
"""Names that people give to the columns of ids, labels and groups; only the keys are read."""


_PREFIX = r"(?:p|prob|proba|probability|score|class)"


_MEANT_P = re.compile(rf"{_PREFIX}[ _-]?(\d+)", re.I)


_REGRESSION = (("prediction", "sigma"), ("lower", "upper"), ("prediction",))
"""Columns of a regressor's outputs."""


_RESERVED = ("id", "label", "y", "group")


def from_csv(path: Path, classes: tuple[str, ...] | None) -> Outputs:
    """Read a table whole."""
    with opened(path, OUTPUT_BYTES):  # refuses larger files
        return next(csv_parts(path, classes, None))


def csv_parts(
    path: Path, classes: tuple[str, ...] | None, rows: int | None, start: int = 0
) -> Iterator[Outputs]:
    """Read a table so many rows at a time, from a row on; a whole one may be empty."""
    try:
        with opened(path) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            lines = csv.reader(text)
            header = _header(path, next(lines, None), classes)
            first = 2 + sum(1 for _ in islice(lines, start))
            while (body := list(islice(lines, rows))) or rows is None:
                yield _part(path, header, body, classes, first)
                if rows is None:
                    return
                first += len(body)
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} must be a CSV table in UTF-8") from None


def _header(path: Path, header: list[str] | None, classes: tuple[str, ...] | None) -> list[str]:
    """Check the line of names."""
    if header is None:
        raise InputError(f"{path} must begin with a line of column names, it is empty")
    for separator, called in ((";", "';'"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise InputError(
                f"{path}: columns must be separated by commas, got {called}: save the table with "
                "commas between columns and points in decimals"
            )
    meant = any(map(_MEANING.fullmatch, header)) or not set(header).isdisjoint(classes or ())
    if not meant and any(_is_number(name) and not name.strip().isdigit() for name in header):
        raise InputError(
            f"{path}: line 1 must name the columns (p0, p1, ..., label, id), it holds numbers: add "
            "a line of names before the first row"
        )
    if len(set(header)) != len(header):
        raise InputError(f"{path}: each column name may occur once")
    return header


def _part(
    path: Path,
    header: list[str],
    body: list[list[str]],
    classes: tuple[str, ...] | None,
    first_line: int,
) -> Outputs:
    """Read some rows, of which errors name the line."""
    for number, row in enumerate(body, start=first_line):
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {number} has {len(row)} fields, the header has {len(header)}; "
                + ("quote a text that contains a comma" if row else "remove blank lines")
            )
    columns = dict(
        zip(header, zip(*body, strict=True) if body else [()] * len(header), strict=True)
    )
    try:
        return unchecked(from_columns(path, columns, classes), first_line=first_line)
    except InputError as error:
        raise error.at_line(first_line) from None


def from_columns(
    path: Path, columns: Mapping[str, Cells], classes: tuple[str, ...] | None
) -> Outputs:
    """Sort the columns of a table into outputs, labels, ids and features."""
    columns = {unicodedata.normalize("NFC", name): values for name, values in columns.items()}
    with in_file(path):
        of_probs, of_logits = _numbered("p", columns), _numbered("z", columns)
        of_labels, of_features = _numbered("y", columns), _numbered("x", columns)
    of_regressor = (names for names in _REGRESSION if columns.keys() >= set(names))
    names = of_probs or next(of_regressor, ()) or of_logits
    by_class = _class_columns(columns, classes)
    if classes and names and len(by_class) == len(classes):
        raise InputError(
            f"{path} has columns {names[0]}, {names[1]}, ... and columns named by class: keep one "
            "of the two"
        )
    if classes and by_class and not names:
        with in_file(path):
            check_same_classes(by_class, classes)
        names = classes
    by_name = classes is None and not names and len(by_class) > 1
    if by_name:
        names = by_class
    if not names:
        named = f"or one for each of {listed(classes)}, " if classes else ""
        if reserved := [name for name in classes or () if name in _RESERVED]:
            named = f"(a class is named {reserved[0]!r}, as another column is) "
        raise InputError(  # other names may be a row of data: they are not shown
            f"{path} must have columns p0, p1, ... {named}or prediction, or lower and upper, or "
            f"logits z0, z1, ...; got {len(columns)} columns of other names{_meant_by(columns)}"
        )
    check_meant(path, columns, "column", (*names, *by_class))
    values = _stacked(path, columns, names)
    assert values is not None  # there are names
    if names[0] == "z0" and not by_class:
        with in_file(path):
            values = softmax(values)
    label = next((name for name in ("label", "y") if name in columns), None)
    labels = _stacked(path, columns, of_labels)
    labels = None if labels is None else _whole(labels)
    if label is not None and classes != () and not _all_numbers(columns[label]):
        labels = _texts(path, columns, label)
    elif label is not None:
        labels = _whole(_numbers(path, columns, label))
    return Outputs(
        values[:, 0] if len(names) == 1 else values,
        labels,
        _texts(path, columns, "id"),
        features=_stacked(path, columns, of_features),
        groups=_groups(path, columns),
        classes=names if by_name or names == classes else (),
        by_name=by_name,
    )


def _numbered(prefix: str, columns: Mapping[str, Cells]) -> tuple[str, ...]:
    """Return the columns p0, p1, ... in order; of probabilities and logits two or none."""
    matches = (re.fullmatch(prefix + r"(0|[1-9]\d{0,5})", name) for name in columns)
    numbers = sorted(int(match[1]) for match in matches if match)
    if prefix in "pz" and len(numbers) == 1:
        raise InputError(
            f"column {prefix}{numbers[0]} alone: a classifier has a column for each class, of two "
            "classes both"
        )
    if numbers != list(range(len(numbers))):
        came = named((f"{prefix}{number}" for number in numbers), 12)
        raise InputError(
            f"columns must be {prefix}0, {prefix}1, ... from 0 without a gap, got {came}"
        )
    return tuple(f"{prefix}{number}" for number in numbers)


def _numbers(path: Path, columns: Mapping[str, Cells], name: str) -> npt.NDArray[Any]:
    values, numbers = columns[name], []
    if isinstance(values, np.ndarray):
        return values
    for row, value in enumerate(values):
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            what = _missing(value) or "this one holds something else"
            if name == "label" and not _missing(value):
                what += (
                    "; number the classes from 0, in the order of p0, p1, ..., or let the round "
                    "name its classes (classes in the roster), so that labels may be names"
                )
            error = InputError(f"column {name!r} must hold numbers, {what}", row=row)
            raise error.within(str(path)) from None
    return np.array(numbers, dtype=np.float64)


def _stacked(
    path: Path, columns: Mapping[str, Cells], names: tuple[str, ...]
) -> npt.NDArray[Any] | None:
    """Read several columns as numbers, if there are any, into rows."""
    if not names:
        return None
    read = [_numbers(path, columns, name) for name in names]
    single = all(column.dtype == np.float32 for column in read)
    stacked = np.empty((len(read[0]), len(names)), np.float32 if single else np.float64)
    for start in range(0, len(stacked), ROWS):  # these stay in cache
        for k, column in enumerate(read):
            stacked[start : start + ROWS, k] = column[start : start + ROWS]
    return stacked


def _texts(path: Path, columns: Mapping[str, Cells], name: str) -> npt.NDArray[Any] | None:
    """Read a column of ids or groups as text, if it is there."""
    values = columns.get(name)
    if values is None:
        return None
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.str_)
    if isinstance(values, np.ndarray):
        values = values.tolist()
    row = next((row for row, value in enumerate(values) if value is None or value == ""), None)
    if row is not None:
        what = {"id": "an id", "group": "a group"}.get(name, "a label")
        error = InputError(f"column {name!r} must hold {what}, {_missing('')}", row=row)
        raise error.within(str(path))
    return np.array([str(value) for value in values], dtype=np.str_)


def _groups(path: Path, columns: Mapping[str, Cells]) -> Any:
    """Read the column of groups; or several, of ``group:sex`` names such as ``sex=female``."""
    kinds = [name for name in columns if name.startswith("group:")]
    single = _texts(path, columns, "group")
    if not kinds:
        return single
    cells = (["" if value is None else str(value) for value in columns[name]] for name in kinds)
    named = [
        [f"{name.removeprefix('group:')}={cell}" if cell else "" for cell in column]
        for name, column in zip(kinds, cells, strict=True)
    ]
    return np.array([*([] if single is None else [single.tolist()]), *named], dtype=np.str_).T


def _whole(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers as integers, so that class labels are labels."""
    is_whole = np.isfinite(values).all() and (values == np.rint(values)).all()
    fit = np.abs(values).max(initial=0) < 2**63  # larger values would change
    return values.astype(np.int64) if is_whole and fit else values


def _class_columns(
    columns: Mapping[str, Cells], classes: tuple[str, ...] | None
) -> tuple[str, ...]:
    """Return the columns that are named by class.

    Those are the round's classes; where these are not known yet, the columns of numbers that have
    no other meaning.
    """
    if classes is not None:
        reserved = [name for name in classes if name in _RESERVED]
        clash = reserved and not (reserved == ["y"] and "label" in columns)
        return () if clash else tuple(name for name in classes if name in columns)
    return tuple(
        name
        for name, values in columns.items()
        if not _MEANING.fullmatch(name)
        and all(_is_number(value) or _missing(value) for value in values[:1])
    )


def check_meant(
    path: Path, columns: Mapping[str, object], what: str, known: Sequence[str] = ()
) -> None:
    """Refuse a column that is most likely of ids, labels or groups, and would be left unread."""
    others = columns.keys() - set(known)
    for wanted, pattern in _MEANT.items():
        if wanted in columns or (wanted == "label" and "y" in columns):
            continue
        near = next((c for c in columns if c in others and pattern.fullmatch(c)), None)
        if near is not None:
            raise InputError(
                f"{path}: {what} {near!r} would not be read: name it {wanted!r} if that is what it "
                "holds, or take it out"
            )


def _meant_by(columns: Mapping[str, Cells]) -> str:
    """Say how columns that are not read are to be named; one name alone may be a row of data."""
    near = [match for name in columns if (match := _MEANT_P.fullmatch(name))]
    if len(near) > 1:
        return f"; did you mean 'p{int(near[0][1])}' by {near[0][0]!r}?"
    return ": does a line of names come first, and does the roster name these classes?"


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError):
        return False
    return True


def _all_numbers(values: Cells) -> bool:
    return isinstance(values, np.ndarray) or all(map(_is_number, values))


def _missing(value: object) -> str:
    """Say that a cell is empty, and what to do; empty for one that holds something."""
    empty = value is None or (isinstance(value, str) and not value.strip())
    return "this one is empty: fill the cell, or take the row out" if empty else ""


def no_memory(path: Path | str) -> InputError:
    return InputError(f"{path} takes more memory than there is: give fewer rows")
