"""An agent's model outputs: reading them from files, the random number of each row, and logits."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, ParamSpec, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from fedwqcp._io import exists, from_json, opened, read, to_json, write_atomic
from fedwqcp._validation import (
    Bools,
    Floats,
    as_array,
    as_class_labels,
    as_floats,
    as_labels,
    as_optional_classes,
    check_arguments,
    check_no_id_missing,
    check_same_classes,
    classifier_columns,
    listed,
    numbered,
    output_columns,
    unchecked,
)
from fedwqcp.errors import ClassesError, InputError, MissingExtraError, RecordError
from fedwqcp.federation.plan import Plan
from fedwqcp.scores import (
    LabelScore,
    fit_temperature,
    key_digest,
    row_ids,
    softmax,
    text_ids,
    uniforms,
)
from fedwqcp.scores._uniforms import uniforms_of_rows
from fedwqcp.wire.messages import Round

_Cells: TypeAlias = Sequence[Any] | npt.NDArray[Any]
"""A column of a table; an array only of numbers."""

_OUTPUT_BYTES = 2**34
"""Largest file of a site's own outputs. Messages of others are limited far below."""

ROWS = 2**10
"""So many rows of a table are put together at a time."""

_MEANING = re.compile(r"id|label|y|group|prediction|sigma|lower|upper|[pzxy](0|[1-9]\d{0,5})")
"""Columns of a table that are no names of classes, where the classes are not known."""
_MEANT = {
    "id": re.compile(
        r"ids?|(patient|row|case|subject|person|record|study)[ _-]?ids?|pid|mrn|patient|subject",
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
_MEANT_ARRAY = {
    "probs": re.compile("prob|softmax", re.I),
    "logits": re.compile("logit", re.I),
    "outputs": re.compile("pred|output|y_?hat", re.I),
}
"""Parts of names that people give to the array of outputs in an archive."""


@dataclass(frozen=True, eq=False, init=False)
class Outputs:
    """A model's outputs with labels, ids and groups; they stay with their agent.

    Parameters
    ----------
    values : array_like, shape (n, C), (n, 2) or (n,)
        Probabilities or logits, two numbers per row, or predictions.
    labels : array_like, shape (n,) or (n, L), optional
        Labels or true values; or which of L labels are there.
    ids : array_like, shape (n,), optional
        Ids of the rows, integers or text, for randomised scores; 7 and "7" are the same id.
    features : array_like, shape (n, d), optional
        Features of the inputs.
    groups : array_like, shape (n,), optional
        Group of each row: integers or text.
    first_line : int or None, optional
        Line of the first row where they come from a text file, for errors.
    logits : bool, optional
        Whether the values are logits, which only the command line reads; elsewhere pass
        ``fw.softmax(logits)``.
    classes : sequence of str, optional
        Names of the classes, in the order of the values' columns; labels may then be names.
    by_name : bool, optional
        Whether a table's columns were found by these names: then their order means nothing.

    Raises
    ------
    InputError
        If a part has another number of rows, an id is missing, or NumPy cannot read a part.

    Examples
    --------
    >>> Outputs([[0.2, 0.8], [0.5, 0.5]], labels=[1, 0], ids=["p1", "p2"])
    Outputs(2 rows x 2 columns; with labels, ids; without groups, classes, features)
    """

    values: npt.NDArray[Any]
    labels: npt.NDArray[Any] | None
    ids: npt.NDArray[Any] | None
    features: npt.NDArray[Any] | None
    groups: npt.NDArray[Any] | None
    first_line: int | None
    logits: bool
    classes: tuple[str, ...]
    by_name: bool
    _columns: ClassVar[tuple[str, ...]] = ()  # names of a table's columns, as pandas has them

    def __init__(
        self,
        values: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        ids: npt.ArrayLike | None = None,
        *,
        features: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        first_line: int | None = None,
        logits: bool = False,
        classes: Sequence[str] | None = None,
        by_name: bool = False,
    ) -> None:
        check_arguments(Outputs.__init__, locals())
        array = as_array(values, "outputs")
        if array.ndim not in (1, 2):
            came = f"shape {array.shape}" if array.ndim else "a single value"
            came = "None" if values is None else came
            raise InputError(
                f"outputs must be an array with one row for each input, (n, C) or (n,), got {came}"
            )
        names = as_optional_classes(classes)
        if by_name and not names:
            raise InputError("must name the columns that are found by name", field="classes")
        columns = array.shape[1] if array.ndim == 2 else 1
        if names and len(names) != columns:
            raise InputError(
                f"must be {columns}, one for each column of the outputs, got {len(names)}",
                field="classes",
            )
        table = tuple(str(name) for name in getattr(values, "columns", ()))  # of pandas, say
        if names and names != table and set(names) == set(table):
            raise ClassesError(
                f"must be in the order of the table's columns, {listed(table)}, got "
                f"{listed(names)}: pass table[classes]",
                field="classes",
            )
        fields: dict[str, Any] = {"values": array, "first_line": first_line, "logits": logits}
        fields |= {"classes": names, "by_name": by_name, "_columns": table}
        parts = {"labels": labels, "ids": ids, "features": features, "groups": groups}
        for what, given in parts.items():
            fields[what] = None
            if given is None:
                continue
            part = fields[what] = as_array(given, what)
            if part.ndim == 0:
                raise InputError(f"{what} must have one entry for each row, got a single value")
            if len(part) != len(array):
                one = array.ndim == 1 and len(part) == 1
                raise InputError(
                    f"{what} must have one entry for each of the {len(array)} rows, got {len(part)}"
                    + f"; outputs of a single input have shape (1, {len(array)})" * one
                )
            if not _share_index(values, given):
                raise InputError(
                    "must have the index of the outputs' table, got another: sort both alike, or "
                    "pass to_numpy() of both where rows correspond by position",
                    field=what,
                )
            if what == "ids":
                if part.ndim != 1:
                    raise InputError(f"ids must have shape ({len(part)},), got shape {part.shape}")
                check_no_id_missing(given)
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def take(self, rows: Bools) -> Outputs:
        """Return some of the rows; their lines in a file are kept only where all are taken."""
        if rows.all():
            return self
        parts = ("values", "labels", "ids", "features", "groups")
        there = {what: getattr(self, what) for what in parts if getattr(self, what) is not None}
        return unchecked(self, first_line=None, **{k: part[rows] for k, part in there.items()})

    def in_classes(self, agreed: tuple[str, ...]) -> Outputs:
        """Return the same outputs in a round's classes: its order, and labels as numbers.

        A table's columns are found by name. Outputs in another order, or of other classes, are
        refused; those that name no classes are taken to be in the round's order.
        """
        if self.by_name and not agreed:
            raise InputError(
                f"the outputs' columns are named {listed(self.classes)}, and the round names no "
                "classes: name them p0, p1, ..., or open a round with these classes"
            )
        found, names = self, self.classes
        if self.by_name and set(names) >= set(agreed):
            columns = [names.index(name) for name in agreed]
            values = self.values[:, columns]
            found = unchecked(self, values=values, classes=agreed, by_name=False, _columns=())
        elif names and agreed:
            check_same_classes(names, agreed)
        elif set(self._columns) == set(agreed):
            check_same_classes(self._columns, agreed)
        if found.labels is None:
            return found
        labels = as_class_labels(found.labels, agreed or names)
        return found if labels is found.labels else unchecked(found, labels=np.asarray(labels))

    def __repr__(self) -> str:
        columns = self.values.shape[1] if self.values.ndim == 2 else 1
        size = f"{len(self.values)} rows x {columns} {'logits' if self.logits else 'columns'}"
        parts = {name: getattr(self, name) is not None for name in ("labels", "ids", "groups")}
        parts |= {"classes": bool(self.classes), "features": self.features is not None}
        there = ", ".join(name for name, given in parts.items() if given)
        lacks = ", ".join(name for name, given in parts.items() if not given)
        said = [size, f"with {there}" if there else "", f"without {lacks}" if lacks else ""]
        return f"Outputs({'; '.join(filter(None, said))})"


def _share_index(table: object, part: object) -> bool:
    """Tell whether two tables of pandas have the same index; other arrays have none."""
    ours, theirs = getattr(table, "index", None), getattr(part, "index", None)
    both = hasattr(ours, "equals") and hasattr(theirs, "equals")
    return not both or bool(ours.equals(theirs))  # type: ignore[union-attr]


def load_outputs(
    path: Path, labels: Path | None = None, classes: tuple[str, ...] | None = ()
) -> Outputs:
    """Read model outputs from .npz, .npy, .csv or .parquet; labels may be in an .npy file.

    ``classes`` are those of the round, by which columns and labels may be named; None where the
    round is not known yet: `Outputs.in_classes` then puts them in its order.
    """
    match path.suffix:
        case ".npz":
            found = _from_npz(path)
        case ".npy":
            found = Outputs(_array(path))
        case ".csv":
            found = _from_csv(path, classes)
        case ".parquet":
            found = _from_parquet(path, classes)
        case _:
            raise InputError(
                f"outputs must be one of .npz, .npy, .csv, .parquet, got {path.name or path}"
            )
    if found.ids is not None and (again := found.ids.size - len(set(found.ids.tolist()))):
        first = np.unique(found.ids, return_index=True)[1]
        error = InputError(
            f"an id must name one row; {again} of the rows {'repeats' if again == 1 else 'repeat'} "
            "an earlier id, this one first",
            row=int(np.setdiff1d(np.arange(found.ids.size), first)[0]),
            cure=("give each row an id of its own",) * 2,
        ).within(str(path))
        raise error if found.first_line is None else error.at_line(found.first_line)
    if labels is not None:
        beside = _array(labels)
        with in_file(labels):
            found = replace(found, labels=beside)
    if classes is None:
        return found
    with in_file(path, labels):
        try:
            return found.in_classes(classes)
        except InputError as error:
            raise error if found.first_line is None else error.at_line(found.first_line) from None


@contextmanager
def in_file(path: Path, labels: Path | None = None) -> Iterator[None]:
    """Let errors name the file of outputs that they are about, and that of its labels."""
    try:
        yield
    except InputError as error:
        raise error.within(str(path) if labels is None else f"{path}, {labels}") from None


LABELS_BESIDE = (
    "pass Outputs(values, labels)",
    "give them in an .npy file (--labels, or --calibration-labels beside --calibration), in an "
    "array 'labels' of the .npz, or in a column 'label' or 'y' of the table",
)
"""Where labels are given, in Python and by files."""


class Temperature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an agent's logits become probabilities in one round; share 0 where it was not fitted."""

    round: str
    agent: str
    temperature: Annotated[float, Meta(gt=0)] = 1.0
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    fitted_on: int = 0
    version: Literal[1] = 1

    def __str__(self) -> str:
        if not self.share:
            return "logits at temperature 1"
        rows = f"{self.fitted_on} rows that are not calibrated on"
        return f"logits at temperature {self.temperature:.4g}, fitted on {rows}"


def for_calibration(
    round: Round, agent: str, outputs: Outputs, share: float | None, path: Path
) -> tuple[Outputs, Temperature | None]:
    """Return what an agent calibrates on, and the temperature that it must predict with.

    A temperature that is kept already, for the same round, stands: a later step of the round must
    be answered with it.
    """
    if not outputs.logits:
        if share is not None:
            raise InputError(
                "a temperature needs logits, the file holds none: write 'logits' (columns z0, z1, "
                "...); logarithms of probabilities will do where none is 0"
            )
        return outputs, None
    if not isinstance(Plan.of(round).score, LabelScore):
        raise InputError(f"score {round.score.name!r} does not read logits of classes")
    if exists(path):
        own = load_temperature(path, round, agent)
        if own.share:  # the id is all that the file knows of a round
            _check_not_private(round)
        rows = int(held_out(round, outputs, own.share).sum())
        if share not in (None, own.share) or rows != own.fitted_on:
            raise InputError(
                f"{path} was fitted on {own.fitted_on} rows, a share of {own.share:g}; to fit "
                "again, delete it and the answer, or choose another --temperature-file"
            )
    else:
        own = Temperature(round.id, agent)
        if share is not None:
            own = fitted(round, agent, outputs, share)
        write_atomic(path, to_json(own))
    return calibrated(round, outputs, own), own


def for_prediction(round: Round, agent: str, outputs: Outputs, path: Path) -> Temperature | None:
    """Return the temperature that an agent predicts with."""
    if outputs.logits and not exists(path):
        raise InputError(
            f"the outputs are logits, and {path}, which `agent calibrate` wrote when it read "
            "logits, is not there: name it with --temperature-file, or give probabilities"
        )
    if outputs.logits:
        return load_temperature(path, round, agent)
    kept = exists(path) and _parse(path).round == round.id
    if kept and load_temperature(path, round, agent).share:
        raise InputError(
            f"this agent calibrated on logits at the temperature in {path}: predict from logits too"
        )
    return None


def load_temperature(path: Path, round: Round, agent: str) -> Temperature:
    """Read an agent's temperature, as `for_calibration` wrote it in this round."""
    own = _parse(path)
    if (own.round, own.agent) != (round.id, agent):
        raise InputError(
            f"{path} is of round {own.round} and agent {own.agent!r}, not of round {round.id} and "
            f"agent {agent!r}: choose another --temperature-file"
        )
    return own


P = ParamSpec("P")
T = TypeVar("T")


def named_by_line(work: Callable[P, T]) -> Callable[P, T]:
    """Let the errors of a function that takes `Outputs` name the lines of their text file."""

    @wraps(work)
    def _named(*args: P.args, **options: P.kwargs) -> T:
        try:
            return work(*args, **options)
        except InputError as error:
            parts = (*args, *options.values())
            first = next((part.first_line for part in parts if isinstance(part, Outputs)), None)
            if first is None:
                raise
            raise error.at_line(first) from None

    return _named


@named_by_line
def fitted(round: Round, agent: str, outputs: Outputs, share: float) -> Temperature:
    """Fit a temperature on a share of an agent's rows."""
    if not 0 < share < 1:
        raise InputError(f"the share for the temperature must be between 0 and 1, got {share:g}")
    _check_not_private(round)
    if outputs.labels is None:
        raise InputError("calibration needs labels beside the outputs", cure=LABELS_BESIDE)
    logits = as_floats(outputs.values, "logits", (None, None))
    labels = as_labels(outputs.labels, *logits.shape)
    rows = held_out(round, outputs, share)
    found = fit_temperature(logits[rows], labels[rows])
    return Temperature(round.id, agent, found, share, int(rows.sum()))


@named_by_line
def held_out(round: Round, outputs: Outputs, share: float) -> Bools:
    """Tell which rows are held out: a keyed hash of the id decides; a larger share adds rows."""
    found: Bools = row_uniforms(f"temperature {round.key}", outputs) < share
    return found


def calibrated(round: Round, outputs: Outputs, own: Temperature) -> Outputs:
    """Return the rows that are calibrated on, as probabilities."""
    rest = ~held_out(round, outputs, own.share)
    return probabilities(outputs, own).take(rest)


@named_by_line
def probabilities(outputs: Outputs, own: Temperature) -> Outputs:
    """Return logits as probabilities; rows without ids get one made of their logits."""
    ids = row_ids(outputs.values) if outputs.ids is None else outputs.ids
    return replace(outputs, values=softmax(outputs.values, own.temperature), ids=ids, logits=False)


def row_uniforms(key: str, outputs: Outputs) -> Floats:
    """Return one number in [0, 1) for each row: a keyed hash of its id, or else of its content."""
    if outputs.ids is None:
        return uniforms(key, text_ids(row_ids(outputs.values)))
    return uniforms_of_rows(key_digest(key), outputs.values, outputs.ids)


def _numbers(path: Path, columns: Mapping[str, _Cells], name: str) -> npt.NDArray[Any]:
    values, found = columns[name], []
    if isinstance(values, np.ndarray):
        return values
    for row, value in enumerate(values):
        try:
            found.append(float(value))
        except (TypeError, ValueError):
            what = _missing(value) or "this one holds something else"
            if name == "label" and not _missing(value):
                what += (
                    "; number the classes from 0, in the order of p0, p1, ..., or let the round "
                    "name its classes (classes in the roster), so that labels may be names"
                )
            error = InputError(f"column {name!r} must hold numbers, {what}", row=row)
            raise error.within(str(path)) from None
    return np.array(found, dtype=np.float64)


def _stacked(
    path: Path, columns: Mapping[str, _Cells], names: tuple[str, ...]
) -> npt.NDArray[Any] | None:
    """Read several columns as numbers, if there are any, into rows."""
    if not names:
        return None
    read = [_numbers(path, columns, name) for name in names]
    single = all(column.dtype == np.float32 for column in read)
    found = np.empty((len(read[0]), len(names)), np.float32 if single else np.float64)
    for start in range(0, len(found), ROWS):  # these stay in cache
        for k, column in enumerate(read):
            found[start : start + ROWS, k] = column[start : start + ROWS]
    return found


def _texts(path: Path, columns: Mapping[str, _Cells], name: str) -> npt.NDArray[Any] | None:
    """Read a column of ids or groups as text, if it is there."""
    values = columns.get(name)
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        values = values.tolist()
    row = next((row for row, value in enumerate(values) if value is None or value == ""), None)
    if row is not None:
        what = {"id": "an id", "group": "a group"}.get(name, "a label")
        error = InputError(f"column {name!r} must hold {what}, {_missing('')}", row=row)
        raise error.within(str(path))
    return np.array([str(value) for value in values], dtype=np.str_)


def _whole(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return whole numbers as integers, so that class labels are labels."""
    is_whole = np.isfinite(values).all() and (values == np.rint(values)).all()
    fit = np.abs(values).max(initial=0) < 2**63  # larger values would change
    return values.astype(np.int64) if is_whole and fit else values


def _from_npz(path: Path) -> Outputs:
    """Read an archive of arrays, which names its own classes."""
    arrays = _load_numpy(path)
    if isinstance(arrays, np.ndarray):
        raise InputError(f"{path} must be an archive of arrays; rename a single array to .npy")
    kind = next((key for key in ("probs", "outputs", "logits") if key in arrays), None)
    if kind is None:
        known = ", ".join(sorted(arrays)) or "nothing"
        meant = next(
            (
                f"; did you mean {name!r} by {key!r}?"
                for name, pattern in _MEANT_ARRAY.items()
                for key in sorted(arrays)
                if pattern.search(key)
            ),
            "",
        )
        raise InputError(f"{path} must hold 'probs', 'outputs' or 'logits', got {known}{meant}")
    labels = next((arrays[key] for key in ("labels", "label", "y") if key in arrays), None)
    groups = arrays.get("groups", arrays.get("group"))
    ids, x = arrays.get("ids", arrays.get("id")), arrays.get("features")
    read = {"id": ids, "label": labels, "group": groups}
    _check_meant(path, {**arrays, **{n: a for n, a in read.items() if a is not None}}, "array")
    own = arrays.get("classes", np.empty(0, np.str_))
    if own.ndim != 1 or own.dtype.kind != "U":
        raise InputError(f"{path}: 'classes' must be a list of names, one for each column")
    names, logits = tuple(map(str, own)), kind == "logits"
    with in_file(path):
        return Outputs(
            arrays[kind], labels, ids, features=x, groups=groups, logits=logits, classes=names
        )


def _from_csv(path: Path, classes: tuple[str, ...] | None) -> Outputs:
    try:
        rows = list(csv.reader(io.StringIO(read(path, _OUTPUT_BYTES).decode("utf-8-sig"))))
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{path} must be a CSV table in UTF-8") from None
    if not rows:
        raise InputError(f"{path} must begin with a line of column names, it is empty")
    header, *body = rows
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
    for number, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise InputError(
                f"{path}, line {number} has {len(row)} fields, the header has {len(header)}; "
                + ("quote a text that contains a comma" if row else "remove blank lines")
            )
    columns = dict(
        zip(header, zip(*body, strict=True) if body else [()] * len(header), strict=True)
    )
    try:
        return replace(_from_columns(path, columns, classes), first_line=2)
    except InputError as error:
        raise error.at_line(2) from None


def _from_parquet(path: Path, classes: tuple[str, ...] | None) -> Outputs:
    try:
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading .parquet", "parquet") from None
    with opened(path, _OUTPUT_BYTES) as file:
        try:
            table = pyarrow.parquet.ParquetFile(file).read()
            columns = {name: _cells(table[name]) for name in table.column_names}
        except MemoryError:
            raise _no_memory(path) from None
        except Exception:  # whatever pyarrow raises on bytes that it did not write
            raise InputError(f"{path} must be a Parquet file; it cannot be read") from None
    return _from_columns(path, columns, classes)


def _no_memory(path: Path) -> InputError:
    return InputError(f"{path} takes more memory than there is: give fewer rows")


def _cells(column: Any) -> _Cells:
    """Return a column of a Parquet table: numbers as an array, others as they are in Python."""
    import pyarrow.types

    of_numbers = pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type)
    if of_numbers and not column.null_count:
        whole = column.chunk(0) if column.num_chunks == 1 else column  # one part is not copied
        cells: npt.NDArray[Any] = whole.to_numpy()
        return cells
    found: list[object] = column.to_pylist()
    return found


def _from_columns(
    path: Path, columns: Mapping[str, _Cells], classes: tuple[str, ...] | None
) -> Outputs:
    """Sort the columns of a table into outputs, labels, ids and features."""
    columns = {unicodedata.normalize("NFC", name): values for name, values in columns.items()}
    with in_file(path):
        names = output_columns(columns) or classifier_columns("z", columns)
        of_labels, of_features = numbered("y", columns), numbered("x", columns)
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
        got = f"{', '.join(columns)}{_meant_by(columns, classes)}"
        if not _are_names(columns, classes):  # a row of data, perhaps: it is not shown
            got = f"{len(columns)} columns of other names: does a line of names come first?"
        raise InputError(
            f"{path} must have columns p0, p1, ... {named}or prediction, or lower and upper, or "
            f"logits z0, z1, ...; got {got}"
        )
    _check_meant(path, columns, "column", (*names, *by_class))
    values = _stacked(path, columns, names)
    assert values is not None  # there are names
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
        groups=_texts(path, columns, "group"),
        logits=names[0] == "z0" and not by_class,
        classes=names if by_name or names == classes else (),
        by_name=by_name,
    )


_RESERVED = ("id", "label", "y", "group")


def _are_names(columns: Mapping[str, object], classes: tuple[str, ...] | None) -> bool:
    """Tell whether these surely are names of columns, and no row of data in their place."""
    one = "|".join(map(re.escape, classes or ())) or "(?!)"
    words = [*_MEANT.values(), re.compile(rf"{_PREFIX}[ _-]?({one})", re.I)]
    if any(map(_is_number, columns)) or not columns:
        return False
    if any(word.fullmatch(name) for word in words for name in columns):
        return True
    # A single one of these may be a patient's id, or label.
    return sum(bool(re.fullmatch(rf"{one}|{_MEANT_P.pattern}", c, re.I)) for c in columns) > 1


def _meant_by(columns: Mapping[str, _Cells], classes: tuple[str, ...] | None) -> str:
    """Say how columns that are not read are to be named; empty where none is near."""
    if meant := next((match for name in columns if (match := _MEANT_P.fullmatch(name))), None):
        return f"; did you mean 'p{int(meant[1])}' by {meant[0]!r}?"
    for name in classes or ():
        for column in columns:
            if re.fullmatch(rf"({_PREFIX}[ _-]?)?{re.escape(name)}", column, re.I):
                return (
                    f"; a column of a class has exactly its name: did you mean {name!r} by "
                    f"{column!r}?"
                )
    others = _class_columns(columns, None)
    if classes or len(others) < 2:
        return ""
    return (
        f"; columns named by class ({listed(others)}?) are read where the round names its classes: "
        "`classes = [...]` in the roster, or --classes of `server open`"
    )


def _check_meant(
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


def _class_columns(
    columns: Mapping[str, _Cells], classes: tuple[str, ...] | None
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


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]  # whatever it is
    except (TypeError, ValueError):
        return False
    return True


def _all_numbers(values: _Cells) -> bool:
    return isinstance(values, np.ndarray) or all(map(_is_number, values))


def _missing(value: object) -> str:
    """Say that a cell is empty, and what to do; empty for one that holds something."""
    empty = value is None or (isinstance(value, str) and not value.strip())
    return "this one is empty: fill the cell, or take the row out" if empty else ""


def _array(path: Path) -> npt.NDArray[Any]:
    array = _load_numpy(path)
    if isinstance(array, dict):
        cure = (
            "save the one that is meant as .npy" if path.suffix == ".npz" else "rename it to .npz"
        )
        raise InputError(f"{path} must hold one array; it is an archive of arrays: {cure}")
    return array


def _load_numpy(path: Path) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """Read a NumPy file, an array or an archive of arrays, without running any code in it."""
    where, name, arrays = f"{path}", "array", {}
    with opened(path, _OUTPUT_BYTES) as file:
        try:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                return found
            for name in found.files:
                where = f"{path}: array {name!r}"
                arrays[name] = found[name]
        except MemoryError:
            raise _no_memory(path) from None
        except Exception as error:  # NumPy raises many kinds on bytes that it did not write
            raise InputError(f"{where} {_why_unread(error, name)}") from None
    return arrays


def _why_unread(error: Exception, name: str) -> str:
    """Say why NumPy does not read an array: objects could run code, and text of pandas is one."""
    if "Object arrays" in str(error):
        save = f"{name}.astype(str) for text, or {name}.astype(int) for whole numbers"
        if name in ("probs", "outputs", "logits", "features"):
            save = f"{name}.astype(float)"
        elif name == "array":
            save += ", or array.astype(float) for others"
        return (
            "holds objects, which are not read; a column of pandas with text is of objects: save "
            f"{save}"
        )
    return "must be what NumPy saved; it cannot be read"


def _check_not_private(round: Round) -> None:
    """Refuse a fitted temperature in a private round."""
    if Plan.of(round).method.traits.private:
        raise InputError(
            f"{round.method.name!r} is private, and a temperature would reveal something about "
            "the rows that it was fitted on: leave it out, or fit it on public data"
        )


def _parse(path: Path) -> Temperature:
    """Read a temperature, of any agent and round."""
    own = from_json(read(path), Temperature)
    if own is None:
        raise RecordError(f"{path} is damaged, or of another version than 1")
    return own
