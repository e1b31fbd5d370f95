"""Records as lines of JSON: each is a frozen dataclass that says its version."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from math import inf, isnan
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from fedwqcp.errors import InputError, RecordError

R = TypeVar("R")


def check_types(record: Any) -> None:
    """Refuse a record with a value of a kind that its field does not take.

    Parameters
    ----------
    record : dataclass
        The record.

    Raises
    ------
    InputError
        If a value is of another kind; truth values are no numbers, and NaN is none either.
    """
    for name, kind in _hints(record.__class__).items():
        value = getattr(record, name)
        if not _fits(value, kind):
            raise InputError(f"{name}: must be {_words(kind)}, got {value!r}")


def to_line(record: Any) -> str:
    """Return a record as one line of JSON.

    Parameters
    ----------
    record : dataclass
        The record.

    Returns
    -------
    str
        With the end of the line.
    """
    return json.dumps(_plain(dataclasses.asdict(record))) + "\n"


def from_line(line: str, kind: type[R], version: int, where: str) -> R:
    """Read one line.

    Parameters
    ----------
    line : str
        What `to_line` wrote.
    kind : type
        The dataclass, with a field ``version``.
    version : int
        The version that this software reads.
    where : str
        File and line, for errors.

    Returns
    -------
    dataclass
        The record.

    Raises
    ------
    RecordError
        If the line is damaged, or of another version. A field that has a default may be missing:
        the line is older than the field.
    """
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise RecordError(f"{where}: must be one JSON object") from None
    if not isinstance(values, dict):
        raise RecordError(f"{where}: must be one JSON object")
    if values.get("version") != version:
        raise RecordError(
            f"{where}: this software reads version {version}, the record has version "
            f"{values.get('version')!r}; run the experiment again"
        )
    own = dataclasses.fields(kind)  # type: ignore[arg-type]  # all are dataclasses
    needed = {f.name for f in own if f.default is dataclasses.MISSING}
    if wrong := sorted((needed - values.keys()) | (values.keys() - {f.name for f in own})):
        raise RecordError(f"{where}: missing or unknown: {', '.join(wrong)}")
    try:
        return kind(**_lively(values))
    except InputError as error:
        raise RecordError(f"{where}: {error}") from error


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """Return what the fields of a dataclass take."""
    return get_type_hints(kind)


def _plain(value: Any) -> Any:
    """Write infinities as JSON can hold them."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and abs(value) == inf else value


def _lively(value: Any) -> Any:
    """Undo `_plain`."""
    if isinstance(value, dict):
        return {key: _lively(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_lively(item) for item in value)
    return float(value) if value in ("inf", "-inf") else value


def _fits(value: object, kind: Any) -> bool:
    """Tell whether a value is of a kind."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, parts[1]) for item in value.values())
    if parts:
        return any(_fits(value, part) for part in parts)
    if kind is float:
        return isinstance(value, float) and not isnan(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _words(kind: Any) -> str:
    """Name a kind in an error."""
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
