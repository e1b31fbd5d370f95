"""How dataclasses of ours and the types that msgspec reads correspond."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from fedwqcp.errors import InputError
from fedwqcp.wire.payload import Outcome, Payload, Question, Summary

Kinds: TypeAlias = tuple[type[Payload], ...]
"""The kinds of payload that may occur in a message."""

Builder: TypeAlias = Callable[[Any], Any]
"""Turns what msgspec read into an object of ours."""


_AS_THEY_ARE = frozenset({str, int, bool})
"""Types that JSON knows."""


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
    if thing is None or type(thing) in _AS_THEY_ARE:
        return thing
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
        cls: Any = type(thing)
        fields = {name: plain(getattr(thing, name)) for name in _names(cls)}
        for name in _optional(cls):
            if not fields[name]:
                del fields[name]
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


class _NoKind(msgspec.Struct, tag_field="kind", tag="-"):
    """Never sent: msgspec asks for the kind only where there are several to choose from."""


@lru_cache(maxsize=256)
def _cached(cls: Any, kinds: Kinds) -> Any:
    """Build each type once."""
    if cls is float:
        return _union(float, Literal["inf"])
    if cls in (Summary, Question, Outcome):
        found = [wire_type(kind, kinds) for kind in kinds if issubclass(kind, cls)]
        return _union(*found, _NoKind, None) if found else None
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


def builder(cls: Any, kinds: Kinds) -> Builder:
    """Return what turns a value that msgspec read into an object of ours, with its invariants.

    Parameters
    ----------
    cls : type
        What it becomes; the value is what `wire_type` of the same class read.
    kinds : tuple of type
        The kinds of payload that may occur in it.

    Returns
    -------
    callable
        From the value to an instance of the class; made once, since a server reads many messages.
    """
    return _made(cls, kinds)


@lru_cache(maxsize=256)
def _made(cls: Any, kinds: Kinds) -> Builder:
    """Make each builder once."""
    origin, parts = get_origin(cls), get_args(cls)
    if origin in (Union, types.UnionType):
        return _builder_of_members(parts, kinds)
    if cls in (Summary, Question, Outcome):
        tagged = {kind.kind: builder(kind, kinds) for kind in kinds if issubclass(kind, cls)}

        def of_kind(read: Any) -> Any:
            """Build what the kind stands for."""
            if isinstance(read, _NoKind):
                raise InputError("must be one that the round's method sends", field="kind")
            return None if read is None else tagged[read.__struct_config__.tag](read)

        return of_kind
    if dataclasses.is_dataclass(cls):
        return _builder_of_fields(cls, kinds)
    if origin is tuple and parts[0] is float:  # long lists of numbers are most of a long message
        return lambda values: tuple(
            [inf if v == "inf" else v for v in values] if "inf" in values else values
        )
    if origin is tuple:
        part = builder(parts[0], kinds)
        return lambda values: tuple([part(value) for value in values])
    if origin is dict:
        part = builder(parts[1], kinds)
        return lambda values: {key: part(value) for key, value in values.items()}
    if isinstance(cls, type) and issubclass(cls, Enum):
        return cls
    if cls is float:
        return lambda value: inf if value == "inf" else value
    return _as_it_is


def _builder_of_fields(cls: Any, kinds: Kinds) -> Builder:
    """Return what builds a dataclass; fields that msgspec read as they are go in unchanged."""
    hints = _hints(cls)
    if len(hints) < 2:  # attrgetter then gives no tuple
        builders = {name: builder(hint, kinds) for name, hint in hints.items()}
        return lambda read: cls(*[part(getattr(read, name)) for name, part in builders.items()])
    fields = attrgetter(*hints)
    changed = [
        (at, part)
        for at, part in enumerate(builder(hint, kinds) for hint in hints.values())
        if part is not _as_it_is
    ]

    def make(read: Any) -> Any:
        values = list(fields(read))
        for at, part in changed:
            values[at] = part(values[at])
        return cls(*values)

    return make


def _builder_of_members(members: tuple[Any, ...], kinds: Kinds) -> Builder:
    """Return what builds the member of a union that a value belongs to."""
    builders = {member: builder(member, kinds) for member in members}
    for kind in kinds:  # the shortest way for what is read most often
        if any(member in (Summary, Question, Outcome) for member in members):
            builders[wire_type(kind, kinds)] = builder(kind, kinds)
    of_struct = next((builders[m] for m in members if _is_struct(m)), _as_it_is)
    of_tuple = next((builders[m] for m in members if get_origin(m) is tuple), _as_it_is)
    number = builder(float, kinds)

    def make(value: Any) -> Any:
        if (known := builders.get(type(value))) is not None:
            return known(value)
        if isinstance(value, msgspec.Struct):
            return of_struct(value)
        return of_tuple(value) if isinstance(value, tuple) else number(value)

    return make


def _is_struct(cls: Any) -> bool:
    """Tell whether msgspec reads a type as a struct."""
    return dataclasses.is_dataclass(cls) or cls in (Summary, Question, Outcome)


def _as_it_is(value: Any) -> Any:
    """Return what needs no building: text, whole numbers, truth values and None."""
    return value


def _struct(cls: Any, kinds: Kinds) -> Any:
    """Return the strict struct with the fields of a dataclass."""
    optional = _optional(cls)
    fields: list[Any] = [
        (name, wire_type(hint, kinds), *([optional[name]] if name in optional else []))
        for name, hint in _hints(cls).items()
    ]
    tag = cls.kind if issubclass(cls, Payload) else None
    return msgspec.defstruct(
        cls.__name__,
        fields,
        forbid_unknown_fields=True,
        omit_defaults=True,  # so that what `encode` wrote reads back to the same bytes
        tag_field=tag and "kind",
        tag=tag,
    )


@lru_cache(maxsize=256)
def _names(cls: Any) -> tuple[str, ...]:
    """Return the names of a dataclass's fields."""
    return tuple(f.name for f in dataclasses.fields(cls))


@lru_cache(maxsize=256)
def _optional(cls: Any) -> dict[str, Any]:
    """Return the fields that may be left out, with their value then."""
    found = (f for f in dataclasses.fields(cls) if f.metadata.get("optional"))
    return {f.name: "" if f.default == "" else msgspec.field(default_factory=dict) for f in found}


def _union(*members: Any) -> Any:
    """Return the union of types that are known only at run time."""
    return Union[members]  # noqa: UP007


@lru_cache(maxsize=256)
def _hints(cls: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}
