"""Model outputs in tables: what each column is, by its name."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf
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


def csv_parts(
    path: Path, classes: tuple[str, ...] | None, rows: int | None = None, start: int = 0
) -> Iterator[Outputs]:
    """Read a table so many rows at a time, from a row on; or whole, also where it is empty."""
    most = OUTPUT_BYTES if rows is None else inf
    with opened(path, most) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        lines = csv.reader(text)
        with in_file(path):
            try:
                header = _header(next(lines, None), classes)
                first = 2 + sum(1 for _ in islice(lines, start))
                while (body := list(islice(lines, rows))) or rows is None:
                    yield _part(header, body, classes, first)
                    if rows is None:
                        return
                    first += len(body)
            except (UnicodeDecodeError, csv.Error):
                raise InputError("the file must be a CSV table in UTF-8") from None


def read_table(data: bytes) -> dict[str, Cells]:
    """Read a table whole, by column; errors of its rows are to name the line, from 2."""
    try:
        lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        return _by_column(_header(next(lines, None), ()), list(lines), 2)
    except (UnicodeDecodeError, csv.Error):
        raise InputError("the file must be a CSV table in UTF-8") from None


def _header(header: list[str] | None, classes: tuple[str, ...] | None) -> list[str]:
    """Check the line of names."""
    if header is None:
        raise InputError("must begin with a line of column names, it is empty")
    for separator, called in ((";", "';'"), ("\t", "tabs")):
        if len(header) == 1 and separator in header[0]:
            raise InputError(
                f"columns must be separated by commas, got {called}: save the table with commas "
                "between columns and points in decimals"
            )
    meant = any(map(_MEANING.fullmatch, header)) or not set(header).isdisjoint(classes or ())
    if not meant and any(_is_number(name) and not name.strip().isdigit() for name in header):
        raise InputError(
            "line 1 must name the columns (p0, p1, ..., label, id), it holds numbers: add a line "
            "of names before the first row"
        )
    if len(set(header)) != len(header):
        raise InputError("each column name may occur once")
    return header


def _part(
    header: list[str], body: list[list[str]], classes: tuple[str, ...] | None, first_line: int
) -> Outputs:
    """Read some rows, of which errors name the line."""
    columns = _by_column(header, body, first_line)
    try:
        outputs = from_columns(columns, classes)
    except InputError as error:
        raise error.at_line(first_line) from None
    return unchecked(outputs, first_line=first_line)


def _by_column(header: list[str], body: list[list[str]], first_line: int) -> dict[str, Cells]:
    """Return the cells of each column; every row must have as many."""
    for number, row in enumerate(body, start=first_line):
        if len(row) != len(header):
            cure = "quote a text that contains a comma" if row else "remove blank lines"
            raise InputError(
                f"line {number} has {len(row)} fields, the header has {len(header)}; {cure}"
            )
    cells = zip(*body, strict=True) if body else [()] * len(header)
    return dict(zip(header, cells, strict=True))


def from_columns(columns: Mapping[str, Cells], classes: tuple[str, ...] | None) -> Outputs:
    """Sort the columns of a table into outputs, labels, ids and features."""
    columns = {unicodedata.normalize("NFC", name): values for name, values in columns.items()}
    of_regressor = (names for names in _REGRESSION if columns.keys() >= set(names))
    of_logits = _numbered("z", columns)
    names = _numbered("p", columns) or next(of_regressor, ()) or of_logits
    by_class = _class_columns(columns, classes)
    if classes and names and len(by_class) == len(classes):
        raise InputError(
            f"there are columns {names[0]}, {names[1]}, ... and columns named by class: keep one "
            "of the two"
        )
    if classes and by_class and not names:
        check_same_classes(by_class, classes)
        names = classes
    by_name = classes is None and not names and len(by_class) > 1
    if by_name:
        names = by_class
    if not names:
        choice = f"or one for each of {listed(classes)}, " if classes else ""
        if reserved := [name for name in classes or () if name in _RESERVED]:
            choice = f"(a class is named {reserved[0]!r}, as another column is) "
        raise InputError(  # other names may be a row of data: they are not shown
            f"there must be columns p0, p1, ... {choice}or prediction, or lower and upper, or "
            f"logits z0, z1, ...; got {len(columns)} columns of other names{_meant_by(columns)}"
        )
    check_meant(columns, "column", (*names, *by_class))
    values = _stacked(columns, names)
    if names == of_logits:
        values = softmax(values)
    labels = None
    if of_labels := _numbered("y", columns):
        labels = _whole(_stacked(columns, of_labels))
    if label := next((name for name in ("label", "y") if name in columns), None):
        labels = read_labels(columns, label, named=classes != ())
    of_features = _numbered("x", columns)
    return Outputs(
        values[:, 0] if len(names) == 1 else values,
        labels,
        _texts(columns, "id") if "id" in columns else None,
        features=_stacked(columns, of_features) if of_features else None,
        groups=read_groups(columns),
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


def read_numbers(columns: Mapping[str, Cells], name: str) -> npt.NDArray[Any]:
    """Read a column of numbers."""
    values, numbers = columns[name], []
    if isinstance(values, np.ndarray):
        return values
    for row, value in enumerate(values):
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            what = "this one holds something else"
            if name == "label":
                what += (
                    "; number the classes from 0, in the order of p0, p1, ..., or let the round "
                    "name its classes (classes in the roster), so that labels may be names"
                )
            what = _EMPTY if _is_empty(value) else what
            raise InputError(f"column {name!r} must hold numbers, {what}", row=row) from None
    return np.array(numbers, dtype=np.float64)


def _stacked(columns: Mapping[str, Cells], names: tuple[str, ...]) -> npt.NDArray[Any]:
    """Read several columns as numbers into rows."""
    read = [read_numbers(columns, name) for name in names]
    single = all(column.dtype == np.float32 for column in read)
    stacked = np.empty((len(read[0]), len(names)), np.float32 if single else np.float64)
    for start in range(0, len(stacked), ROWS):  # these stay in cache
        for k, column in enumerate(read):
            stacked[start : start + ROWS, k] = column[start : start + ROWS]
    return stacked


def _texts(columns: Mapping[str, Cells], name: str) -> npt.NDArray[Any]:
    """Read a column of ids, groups or labels as text."""
    values = columns[name]
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.str_)
    texts = []
    for row, value in enumerate(values):
        if value is None or value == "":
            raise InputError(f"column {name!r} must hold text or a number, {_EMPTY}", row=row)
        texts.append(str(value))
    return np.array(texts, dtype=np.str_)


def read_labels(columns: Mapping[str, Cells], name: str, *, named: bool) -> npt.NDArray[Any]:
    """Read a column of labels: numbers, or text where they may be names."""
    cells = columns[name]
    numeric = isinstance(cells, np.ndarray) or all(map(_is_number, cells))
    return _texts(columns, name) if named and not numeric else _whole(read_numbers(columns, name))


def read_groups(columns: Mapping[str, Cells]) -> Any:
    """Read the column of groups; or several, of ``group:sex`` names such as ``sex=female``."""
    single = [_texts(columns, "group").tolist()] if "group" in columns else []
    kinds = [name for name in columns if name.startswith("group:")]
    if not kinds:
        return single[0] if single else None
    cells = (["" if value is None else str(value) for value in columns[name]] for name in kinds)
    prefixed = [
        [f"{name.removeprefix('group:')}={cell}" if cell else "" for cell in column]
        for name, column in zip(kinds, cells, strict=True)
    ]
    return np.array([*single, *prefixed], dtype=np.str_).T


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
        and all(_is_number(value) or _is_empty(value) for value in values[:1])
    )


def check_meant(columns: Mapping[str, object], what: str, known: Sequence[str] = ()) -> None:
    """Refuse a column that is most likely of ids, labels or groups, and would be left unread."""
    others = columns.keys() - set(known)
    for wanted, pattern in _MEANT.items():
        if wanted in columns or (wanted == "label" and "y" in columns):
            continue
        near = next((c for c in columns if c in others and pattern.fullmatch(c)), None)
        if near is not None:
            raise InputError(
                f"{what} {near!r} would not be read: name it {wanted!r} if that is what it holds, "
                "or take it out"
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


_EMPTY = "this one is empty: fill the cell, or take the row out"


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def no_memory(path: Path | str) -> InputError:
    return InputError(f"{path} takes more memory than there is: give fewer rows")
