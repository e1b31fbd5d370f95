"""How dataclasses of ours and the types that msgspec reads correspond."""

from __future__ import annotations

import dataclasses
import types
from enum import Enum
from functools import lru_cache
from math import inf
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from fedwqcp.errors import InputError
from fedwqcp.wire.payload import Outcome, Payload, Question, Summary

Kinds: TypeAlias = tuple[type[Payload], ...]
"""The kinds of payload that may occur in a message."""


def plain(thing: object) -> object:
    """Turn a message into what JSON knows.

    Parameters
    ----------
    thing : object
        A message or a part of it.

    Returns
    -------
    object
        Dictionaries, lists, numbers, text and None.

    Raises
    ------
    InputError
        If a number is NaN or -inf.
    """
    if isinstance(thing, float):
        if thing == inf:
            return "inf"
        if not -inf < thing < inf:
            raise InputError(f"only numbers and +inf can travel, got {thing}")
        return float(thing)
    if isinstance(thing, Enum):
        return thing.value
    if isinstance(thing, tuple):
        return [plain(part) for part in thing]
    if isinstance(thing, dict):
        return {key: plain(part) for key, part in thing.items()}
    if dataclasses.is_dataclass(thing):
        fields = {f.name: plain(getattr(thing, f.name)) for f in dataclasses.fields(thing)}
        return {"kind": thing.kind, **fields} if isinstance(thing, Payload) else fields
    return thing


def wire_type(cls: Any, kinds: Kinds) -> Any:
    """Return the msgspec type for a type of ours.

    Parameters
    ----------
    cls : type
        A dataclass of ours, or the type of one of its fields.
    kinds : tuple of type
        The kinds of payload that may occur in it.

    Returns
    -------
    type
        What msgspec reads strictly.
    """
    return _cached(cls, kinds)


@lru_cache(maxsize=256)
def _cached(cls: Any, kinds: Kinds) -> Any:
    """Build each type once."""
    if cls is float:
        return _union(float, Literal["inf"])
    if cls in (Summary, Question, Outcome):
        return _union(*(wire_type(kind, kinds) for kind in kinds if issubclass(kind, cls)), None)
    if dataclasses.is_dataclass(cls):
        return _struct(cls, kinds)
    origin, parts = get_origin(cls), get_args(cls)
    if origin is tuple:
        return tuple[(wire_type(parts[0], kinds), ...)]  # type: ignore[misc]  # built at run time
    if origin is dict:
        return dict[(str, wire_type(parts[1], kinds))]  # type: ignore[misc]  # built at run time
    if origin in (Union, types.UnionType):
        texts = str in parts  # "inf" is then a text like any other
        return _union(*(p if texts and p is float else wire_type(p, kinds) for p in parts))
    return cls


def build(value: Any, cls: Any, kinds: Kinds) -> Any:
    """Turn what msgspec read into an object of ours, running its invariants.

    Parameters
    ----------
    value : object
        What `wire_type` of the same class read.
    cls : type
        What it becomes.
    kinds : tuple of type
        The kinds of payload that may occur in it.

    Returns
    -------
    object
        An instance of the class.
    """
    origin = get_origin(cls)
    if origin in (Union, types.UnionType):
        cls = _member(value, get_args(cls))
        origin = get_origin(cls)
    if isinstance(value, msgspec.Struct):
        if cls in (Summary, Question, Outcome):
            tag = value.__struct_config__.tag
            cls = next(kind for kind in kinds if kind.kind == tag and issubclass(kind, cls))
        hints = _hints(cls)
        return cls(**{name: build(getattr(value, name), hints[name], kinds) for name in hints})
    if origin is tuple:
        part = get_args(cls)[0]
        if part is float:  # long lists of numbers are most of a long message
            return tuple(inf if v == "inf" else float(v) for v in value)
        return tuple(build(v, part, kinds) for v in value)
    if origin is dict:
        return {key: build(part, get_args(cls)[1], kinds) for key, part in value.items()}
    if isinstance(cls, type) and issubclass(cls, Enum):
        return cls(value)
    if cls is float:
        return inf if value == "inf" else float(value)
    return value


def _struct(cls: Any, kinds: Kinds) -> Any:
    """Return the strict struct with the fields of a dataclass."""
    fields = [(name, wire_type(hint, kinds)) for name, hint in _hints(cls).items()]
    tag = cls.kind if issubclass(cls, Payload) else None
    return msgspec.defstruct(
        cls.__name__, fields, forbid_unknown_fields=True, tag_field=tag and "kind", tag=tag
    )


def _union(*members: Any) -> Any:
    """Return the union of types that are known only at run time."""
    return Union[members]  # noqa: UP007


def _member(value: Any, members: tuple[Any, ...]) -> Any:
    """Return the member of a union that a value belongs to."""
    if isinstance(value, tuple):
        return next(member for member in members if get_origin(member) is tuple)
    if isinstance(value, msgspec.Struct):
        return next(
            member
            for member in members
            if dataclasses.is_dataclass(member) or member in (Summary, Question, Outcome)
        )
    if type(value) in members:
        return type(value)
    return float if value is not None else None


@lru_cache(maxsize=256)
def _hints(cls: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}
