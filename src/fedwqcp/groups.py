"""Groups of people: names of each row, of one kind or of several that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import (
    OTHER_SPELLING,
    Bools,
    Floats,
    Labels,
    Texts,
    as_array,
    bare_name,
    first_of,
    is_missing,
)
from fedwqcp.errors import InputError

OTHERS = "others"
"""Rows that are in none of several overlapping groups form one of this name."""

_NAMES = (str, int, np.integer, np.bool_)


def columns_of(groups: Any) -> Any:
    """Return the groups of rows that may be in several as text, shape (n, k); others as given.

    A row is a set, list or tuple of names. Of a mapping or a table of pandas the columns are kinds
    of groups, and a name is ``sex=female``. Where a row has no further group stands "".
    """
    if isinstance(groups, Mapping) or (hasattr(groups, "columns") and hasattr(groups, "items")):
        named = [_of_kind(str(kind), column) for kind, column in groups.items()]
        if len({len(column) for column in named}) != 1:
            raise InputError("must be columns of one length", field="groups")
        return np.stack(named, axis=1)
    array = np.asarray(groups) if hasattr(groups, "dtype") else groups
    if isinstance(array, np.ndarray) and (array.dtype != object or array.ndim != 1):
        return groups if array.ndim < 2 else _texts(array)
    if isinstance(array, str | bytes) or not isinstance(array, Iterable):
        return groups
    rows = list(array)
    if not any(isinstance(row, set | frozenset | list | tuple) for row in rows):
        return groups
    sets = [sorted(_names(row, line)) for line, row in enumerate(rows)]
    width = max(1, *map(len, sets))
    return np.array([names + [""] * (width - len(names)) for names in sets], dtype=np.str_)


def as_groups(groups: npt.ArrayLike, n: int | None = None) -> Texts:
    """Return the groups of rows as text: shape (n,), or (n, k) where rows may be in several.

    Text, integers or truth values; 3 and "3" are one group.
    """
    array = as_array(columns_of(groups), "groups")
    if array.ndim not in (1, 2) or (n is not None and len(array) != n):
        wanted = "(n,)" if n is None else f"({n},)"
        raise InputError(f"groups must have shape {wanted}, one for each row, got {array.shape}")
    if array.ndim == 2:
        return _in_some(_texts(array))
    if array.dtype.kind == "O":  # a column of a table; a missing entry is no name
        wrong = np.array([not isinstance(value, _NAMES) for value in array], dtype=np.bool_)
        if (bad := first_of(wrong)) is not None:
            raise InputError("groups must be text or integers", row=bad)
    elif array.dtype.kind not in "Uiub" and array.size:
        raise InputError(f"groups must be text or integers, got an array of {array.dtype}")
    return array.astype(np.str_)


def group_places(groups: npt.ArrayLike, known: Sequence[str], n: int | None = None) -> Labels:
    """Return where the groups of each row stand among those that are known; -1 where none is."""
    texts = as_groups(groups, n)
    names, inverse = np.unique(texts, return_inverse=True)
    positions = {name: position for position, name in enumerate(known)}
    if texts.ndim == 2:
        positions[""] = -1
    of_names = np.array([positions.get(str(name), -2) for name in names], dtype=np.int64)
    places: Labels = of_names[inverse.reshape(texts.shape)]
    unknown = places == -2
    if (bad := first_of(unknown if unknown.ndim == 1 else unknown.any(axis=1))) is not None:
        wrong = str(np.atleast_1d(texts[bad])[np.atleast_1d(unknown[bad])][0])
        what = ": take rows of others out, or calibrate with a group for them"
        if wrong == OTHERS:
            what = f", this one is in none: name {OTHERS!r} in the round for such rows"
        elif bare_name(wrong) in map(bare_name, known):
            what = f", this one {OTHER_SPELLING}"
        raise InputError(f"the group must be one of {', '.join(known)}{what}", row=bad)
    return places


def in_group(groups: Texts, name: str) -> Bools:
    """Tell which rows are in a group."""
    inside = groups == name
    return inside if inside.ndim == 1 else np.asarray(inside.any(axis=1))


def group_names(groups: Texts) -> tuple[str, ...]:
    """Return the groups that occur, by name."""
    names = np.unique(groups).tolist()
    return tuple(name for name in names if name or groups.ndim == 1)


def most_groups(groups: Texts) -> int:
    """Return in how many groups a row is at most."""
    return 1 if groups.ndim == 1 else int((groups != "").sum(axis=1).max(initial=1))


def combinations(groups: Texts) -> Labels:
    """Return a number for each row, the same for rows of the same groups."""
    if groups.ndim == 1:
        return np.unique(groups, return_inverse=True)[1]
    ordered = np.sort(groups, axis=1)
    return np.unique(ordered, axis=0, return_inverse=True)[1].reshape(-1)


def largest(table: Floats, places: Labels) -> Floats:
    """Return the threshold of each row, the largest of its groups'; ``table`` has a row for each.

    Coverage within each group is then at least what its own threshold proves.
    """
    if places.ndim == 1:
        return np.asarray(table[places])
    none = np.full((1, table.shape[1]), -np.inf)  # which the place -1 finds
    return np.asarray(np.concatenate([table, none])[places].max(axis=1))


def _of_kind(kind: str, column: npt.ArrayLike) -> Texts:
    """Return names such as ``sex=female``; "" where the column has none."""
    array = np.asarray(column, dtype=object)
    if array.ndim != 1:
        raise InputError("must be flat columns", field="groups")
    names = _texts(array)
    return np.where(names == "", "", np.char.add(f"{kind}=", names))


def _texts(array: npt.NDArray[Any]) -> Texts:
    """Return names as text, "" where one is missing."""
    if array.dtype.kind in "Uiu":
        return array.astype(np.str_)
    if array.dtype != object:
        raise InputError(
            f"groups of several kinds must be text or integers, got an array of {array.dtype}: "
            "pass a set of names for each row, or a mapping of columns"
        )
    flat = ["" if is_missing(value) else value for value in array.flat]
    names = np.array([str(value) for value in flat], dtype=np.str_).reshape(array.shape)
    wrong = np.array([not isinstance(value, _NAMES) for value in flat], dtype=np.bool_)
    if (bad := first_of(wrong)) is not None:
        raise InputError("groups must be text or integers", row=bad * len(array) // array.size)
    return names


def _names(row: object, line: int) -> set[str]:
    """Return the names of one row."""
    names = row if isinstance(row, set | frozenset | list | tuple) else (row,)
    if not all(isinstance(name, _NAMES) for name in names):
        raise InputError("groups must be text or integers", row=line)
    return {str(name) for name in names} - {""}


def _in_some(groups: Texts) -> Texts:
    """Put rows of no group into one of their own."""
    none = (groups == "").all(axis=1)
    if not none.any():
        return groups
    width = np.zeros((len(groups), max(1, groups.shape[1])), f"U{len(OTHERS)}")
    filled = width if not groups.shape[1] else groups.astype(np.result_type(groups, width))
    filled[none, 0] = OTHERS
    return filled
