"""Tables of a TOML file as frozen dataclasses; an unknown key is refused with the nearest one."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from fedwqcp.errors import InputError

T = TypeVar("T")


def build(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return a dataclass made of a table.

    Parameters
    ----------
    kind : type
        The dataclass; a field that is a tuple of dataclasses takes an array of tables.
    table : mapping
        What the file holds.
    where : str
        File and table, for errors.

    Returns
    -------
    dataclass
        The object.

    Raises
    ------
    InputError
        If a key is unknown or missing, or the dataclass refuses a value.
    """
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    for key in table:
        if key not in fields:
            raise InputError(f"{where}: unknown key {key!r}{nearest(key, fields)}")
    for name, own in fields.items():
        if name not in table and own.default is own.default_factory:
            raise InputError(f"{where}: {name} is missing")
    values = {key: _value(hints[key], value, f"{where}: {key}") for key, value in table.items()}
    try:
        return kind(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error: the nearest known name, and all of them.

    Parameters
    ----------
    name : str
        What came.
    known : iterable of str
        What could have come.

    Returns
    -------
    str
        Text that begins with a semicolon.
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return (f"; did you mean {near[0]!r}?" if near else "") + f"; known: {', '.join(names)}"


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds such as ``0-9`` or ``0,2,5-7``.

    Parameters
    ----------
    text : str
        Numbers and ranges with commas.

    Returns
    -------
    tuple of int
        The seeds.

    Raises
    ------
    InputError
        If the text is of another form.

    Examples
    --------
    >>> parse_seeds("0,2,5-7")
    (0, 2, 5, 6, 7)
    """
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not (low.isdecimal() and (high.isdecimal() if dash else True)):
            raise InputError(f"seeds are written like 0-9 or 0,2,5-7, got {text!r}")
        found += range(int(low), int(high or low) + 1)
    return tuple(found)


def _value(kind: Any, value: Any, where: str) -> Any:
    """Turn a value of TOML into what a field takes."""
    parts = get_args(kind)
    if get_origin(kind) is tuple and dataclasses.is_dataclass(parts[0]):
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise InputError(f"{where}: must be an array of tables")
        return tuple(
            build(parts[0], item, f"{where} {item.get('name', at)!r}")  # type: ignore[arg-type]  # a type
            for at, item in enumerate(value)
        )
    if kind == tuple[int, ...] and isinstance(value, str):
        return parse_seeds(value)
    return _frozen(value, whole=kind is not float)


def _frozen(value: Any, *, whole: bool = True) -> Any:
    """Turn lists into tuples, and a whole number into a float where one is wanted."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in value.items()}
    return float(value) if isinstance(value, int) and not whole else value
