"""A copy with other fields, of a dataclass or of a message."""

import dataclasses
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def replace(thing: T, /, **fields: Any) -> T:
    """Return the same with other fields."""
    if isinstance(thing, msgspec.Struct):
        return msgspec.structs.replace(thing, **fields)
    return dataclasses.replace(thing, **fields)  # type: ignore[type-var]  # all others are
