"""Messages as bytes and back: strict, bounded, one canonical form."""

from __future__ import annotations

import dataclasses
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from hashlib import blake2b, sha256
from math import inf, isfinite
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from fedwqcp._io import parse_json, reason_and_place
from fedwqcp.errors import InputError, MalformedMessageError, RecordError
from fedwqcp.wire.limits import (
    MESSAGE_BYTES,
    MESSAGE_VALUES,
    RELEASE_BYTES,
    RELEASE_VALUES,
    check_bytes,
    check_values,
)
from fedwqcp.wire.messages import (
    LONG,
    VERSION,
    Answer,
    Ask,
    Census,
    Outcome,
    Payload,
    Question,
    Round,
    Summary,
    other_version,
)
from fedwqcp.wire.release import ReleaseRecord

Kinds: TypeAlias = tuple[type[Payload], ...]
"""The kinds of payload that may occur in a message."""

Builder: TypeAlias = Callable[[Any], Any]
"""Turns what msgspec read into an object of ours."""


_AS_THEY_ARE = frozenset({str, int, bool})
"""Types that JSON knows."""


def plain(thing: object) -> object:
    """Turn a message or a part of it into what JSON knows; NaN and -inf are refused."""
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
        # long lists of numbers are most of a long message
        if set(map(type, thing)) == {float} and all(map(isfinite, thing)):
            return list(thing)
        return [plain(part) for part in thing]
    if isinstance(thing, dict):
        return {key: plain(part) for key, part in thing.items()}
    if dataclasses.is_dataclass(thing):
        cls: Any = type(thing)
        fields = {name: plain(getattr(thing, name)) for name in _hints(cls)}
        for name in _optional(cls):
            if not fields[name]:
                del fields[name]
        return {"kind": thing.kind, **fields} if isinstance(thing, Payload) else fields
    return thing


class _NoKind(msgspec.Struct, tag_field="kind", tag="-"):
    """Never sent: msgspec asks for the kind only where there are several to choose from."""


@lru_cache(maxsize=256)
def wire_type(cls: Any, kinds: Kinds) -> Any:
    """Return what msgspec reads strictly for a dataclass of ours, or for the type of a field.

    ``kinds`` are the kinds of payload that may occur in it.
    """
    if cls is float:
        return _union(float, Literal["inf"])
    if cls in (Summary, Question, Outcome):
        found = [wire_type(kind, kinds) for kind in kinds if issubclass(kind, cls)]  # type: ignore[arg-type]  # a class is hashable
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


@lru_cache(maxsize=256)  # a server reads many messages
def builder(cls: Any, kinds: Kinds) -> Builder:
    """Return what turns a value that `wire_type` of the same class read into an object of ours."""
    origin, parts = get_origin(cls), get_args(cls)
    if origin in (Union, types.UnionType):
        return _builder_of_members(parts, kinds)
    if cls in (Summary, Question, Outcome):
        tagged = {kind.kind: builder(kind, kinds) for kind in kinds if issubclass(kind, cls)}  # type: ignore[arg-type]  # a class is hashable

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
            builders[wire_type(kind, kinds)] = builder(kind, kinds)  # type: ignore[arg-type]  # a class is hashable
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


M = TypeVar("M", bound=Round | Ask | Answer | ReleaseRecord)

R = TypeVar("R", bound=ReleaseRecord)

MAX_BYTES = int(MESSAGE_BYTES.most)
"""A larger message is refused unread."""
_FEW = 10_000
"""Lists in a message that is read a second time although it is wrong already."""
_ENCODER = msgspec.json.Encoder()


class _Version(msgspec.Struct):
    """What holds its version: a round or an answer."""

    version: int | None = None


class _Versioned(_Version):
    """A message, which has a version or holds the round that has it."""

    round: _Version | str | None = None


class _Named(msgspec.Struct):
    """The method of a release, as far as its name; the rest is skipped, not built."""

    name: str


class _Terms(msgspec.Struct):
    """The round of a release, as far as method and version."""

    method: _Named
    version: int


class _Head(msgspec.Struct):
    """A release, as far as its round."""

    round: _Terms


def encode(message: Round | Ask | Answer | ReleaseRecord) -> bytes:
    """Return the bytes of a message: compact JSON with a final newline.

    An answer that holds anything but summaries is refused with an `InputError`, and so is a number
    that cannot travel.
    """
    if isinstance(message, Answer):
        for part in message.answers:
            if part is not None and not isinstance(part, Summary):
                raise InputError(f"only a Summary can leave an agent, got {type(part).__name__}")
    return _ENCODER.encode(plain(message)) + b"\n"


def decode(data: bytes, cls: type[M], kinds: Kinds = (), source: str = "unknown") -> M:
    """Return the message that the bytes hold, or raise a `MalformedMessageError`.

    ``kinds`` are the kinds of payload that may occur in it, as the round's method declares them;
    ``source`` says where it came from, for the error.
    """
    try:
        _check_extent(data, release=issubclass(cls, ReleaseRecord))
        kind: Any = cls  # to a cache, a type is a key like any other
        decoder, build = _reader(kind, kinds)
        message: M = build(_read(data, decoder))
    except msgspec.ValidationError as error:
        if (version := _version(data)) not in (None, VERSION):  # its fields are others, too
            raise MalformedMessageError(source, "version", other_version(version)) from None
        reason, place = reason_and_place(error)
        raise MalformedMessageError(source, place or "message", reason) from None
    except InputError as error:
        raise MalformedMessageError(source, error.field or "message", error.reason) from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # the parsers' own words quote positions and characters of a text that is not ours
        raise MalformedMessageError(source, "message", "must be one JSON object in UTF-8") from None
    return message


def terms(round: Round) -> str:
    """Return the digest that binds an answer to the terms of its round.

    Sixteen hexadecimal digits: another score setting, level or roster gives others. They are the
    same for a round and for what its agents are sent of it.
    """
    return blake2b(encode(round.brief()), digest_size=8).hexdigest()


def brief(release: R) -> R:
    """Return a release as it is sent to agents, without what other agents answered.

    Where the roster is long and all agents share the thresholds, the number of entries and their
    digest stand for the entries.
    """
    whole = release.public()
    if len(whole.agents) <= LONG or not all(o.same_for_all for o in whole.outcomes):
        return whole
    statuses = Counter(agent.status for agent in whole.agents)
    digest = sha256(encode(whole)).hexdigest()
    census = Census(statuses["used"], statuses["refused"], statuses["missing"], digest)
    return replace(whole, round=whole.round.brief(), agents=(), census=census)


class _Keys(msgspec.Struct):
    """What tells rounds, releases and answers apart, without reading any."""

    quorum: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    outcomes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    answers: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def holds(data: bytes) -> Literal["round", "release", "answer"] | None:
    """Tell whether bytes look like a round, a release or an answer; None for anything else."""
    try:
        _check_extent(data, release=True)
        keys = msgspec.json.decode(data, type=_Keys)
    except (InputError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if keys.outcomes is not msgspec.UNSET:
        return "release"
    if keys.answers is not msgspec.UNSET:
        return "answer"
    return None if keys.quorum is msgspec.UNSET else "round"


def method_of(data: bytes, source: str) -> str:
    """Return the name of the method of a saved release, so that its kinds can be looked up.

    Bytes that hold no release of this version are refused with a `RecordError`.
    """
    try:
        _check_extent(data, release=True)
        head = msgspec.json.decode(data, type=_Head).round
    except InputError as error:
        raise RecordError(f"{source}: {error}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        if holds(data) == "round":
            raise RecordError(
                f"{source} is a round, not its release, which `server close` writes "
                "(release-ID.json)"
            ) from None
        raise RecordError(f"{source} must hold a release of fedwqcp; it cannot be read") from None
    if head.version != VERSION:
        raise RecordError(f"{source}: version: {other_version(head.version)}")
    return head.method.name


@lru_cache(maxsize=64)
def _reader(cls: Any, kinds: Kinds) -> tuple[msgspec.json.Decoder[Any], Builder]:
    """Keep what reads and what builds each type."""
    return msgspec.json.Decoder(wire_type(cls, kinds)), builder(cls, kinds)


def _check_extent(data: bytes, *, release: bool) -> None:
    """Refuse bytes that are too many, or hold too many values, before anything is built of them."""
    check_bytes(len(data), RELEASE_BYTES if release else MESSAGE_BYTES, "size")
    check_values(data, RELEASE_VALUES if release else MESSAGE_VALUES, "size")


def _version(data: bytes) -> int | None:
    """Return the version that a message says it has, as far as that can be read."""
    try:
        found = msgspec.json.decode(data, type=_Versioned)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found.round.version if isinstance(found.round, _Version) else found.version


def _read(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Read the bytes strictly, refusing an object that has one key twice.

    What reads back to the same bytes has every key once; all that `encode` writes does. Only other
    bytes (other spacing, order or spelling of numbers) are read a second time to look at the keys.
    """
    try:
        struct = decoder.decode(data)
        if _ENCODER.encode(struct) == data.removesuffix(b"\n"):
            return struct
    except (msgspec.MsgspecError, ValueError):
        if data.count(b"[") < _FEW:  # the reason of a repeated key comes first, where it is cheap
            parse_json(data, "message")
        raise
    parse_json(data, "message")
    return struct
