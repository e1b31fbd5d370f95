"""Messages as bytes and back: strict, bounded, one canonical form."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from hashlib import sha256
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, Union

import msgspec
from msgspec.structs import replace

from fedwqcp._io import as_plain, parse_json, reason_and_place
from fedwqcp.errors import InputError, MalformedMessageError, RecordError
from fedwqcp.wire.limits import MESSAGE_BYTES, check_extent
from fedwqcp.wire.messages import (
    LONG_ROSTER,
    VERSION,
    Answer,
    Ask,
    Census,
    Message,
    Payload,
    Round,
    Summary,
    other_version,
    read_real,
)
from fedwqcp.wire.release import ReleaseRecord

Kinds: TypeAlias = tuple[type[Payload], ...]
"""The kinds of payload that may occur in a message."""


class _NoKind(msgspec.Struct, tag_field="kind", tag="-"):
    """Never sent: msgspec asks for the kind only where there are several to choose from."""

    def __post_init__(self) -> None:
        raise InputError("must be one that the round's method sends", field="kind")


M = TypeVar("M", bound=Round | Ask | Answer | ReleaseRecord)

R = TypeVar("R", bound=ReleaseRecord)
P = TypeVar("P", int, str)

_NOTHING = msgspec.Raw()
"""What stands for a field that is not there."""

MAX_BYTES = int(MESSAGE_BYTES.most)
"""A larger message is refused unread."""
_FEW = 10_000
"""Lists in a message that is read a second time although it is wrong already."""


def encode(message: Round | Ask | Answer | ReleaseRecord) -> bytes:
    """Return the bytes of a message: compact JSON with a final newline.

    An answer that holds anything but summaries is refused with an `InputError`, and so is a number
    that cannot travel.
    """
    if isinstance(message, Answer):
        for part in message.answers:
            if part is not None and not isinstance(part, Summary):
                raise InputError(f"only a Summary can leave an agent, got {type(part).__name__}")
    return _bytes(message) + b"\n"


def _bytes(message: object) -> bytes:
    """Write a message; only one that may hold an infinite number, or none at all, is looked at."""
    data = _ENCODER.encode(message)
    return _ENCODER.encode(_with_infinity(message)) if b"null" in data else data


def _with_infinity(thing: Any) -> Any:
    """Return a message as JSON knows it, with ``"inf"`` for +inf; NaN and -inf are refused."""
    thing = msgspec.to_builtins(thing, enc_hook=as_plain) if isinstance(thing, Message) else thing
    if isinstance(thing, float) and not isfinite(thing):
        if thing != inf:
            raise InputError(f"only numbers and +inf can travel, got {thing}")
        return "inf"
    if isinstance(thing, tuple | list):  # long lists of numbers are most of a long message
        finite = set(map(type, thing)) == {float} and all(map(isfinite, thing))
        return thing if finite else [_with_infinity(part) for part in thing]
    if isinstance(thing, dict):
        return {key: _with_infinity(part) for key, part in thing.items()}
    return thing


_ENCODER = msgspec.json.Encoder(enc_hook=as_plain)


def decode(data: bytes, cls: type[M], kinds: Kinds = (), source: str | Path = "unknown") -> M:
    """Return the message that the bytes hold, or raise a `MalformedMessageError`.

    ``kinds`` are the kinds of payload that may occur in it, as the round's method declares them;
    ``source`` is the agent, ``"server"`` or the file that it came from, for the error.
    """
    try:
        check_extent(data, release=issubclass(cls, ReleaseRecord))
        kind: Any = cls  # to a cache, a type is a key like any other
        message: M = _read(data, _decoder(kind, kinds))
        states = issubclass(cls, ReleaseRecord) or hasattr(message, "version")
        if states and b'"version"' not in data:  # which has a default, for Python alone
            raise InputError("must be stated", field="version")
    except msgspec.ValidationError as error:
        if (version := _version(data)) not in (None, VERSION):  # which has other fields, too
            raise MalformedMessageError(source, "version", other_version(version)) from None
        reason, field = reason_and_place(error)
        if isinstance(wrong := error.__cause__, InputError):
            reason, field = wrong.reason, wrong.field
        raise MalformedMessageError(source, field or "message", reason) from None
    except InputError as error:
        raise MalformedMessageError(source, error.field or "message", error.reason) from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # the parsers' own texts would quote what was sent
        raise MalformedMessageError(source, "message", "must be one JSON object in UTF-8") from None
    return message


def brief(release: R) -> R:
    """Return a release as it is sent to agents, without what other agents answered.

    Where the roster is long and all agents share the thresholds, the number of entries and their
    digest stand for the entries.
    """
    whole = release.public()
    if len(whole.agents) <= LONG_ROSTER or not all(o.same_for_all for o in whole.outcomes):
        return whole
    statuses = Counter(agent.status for agent in whole.agents)
    digest = sha256(encode(whole)).hexdigest()
    census = Census(len(whole.used), statuses["refused"], statuses["missing"], digest)
    return replace(whole, round=whole.round.brief(), agents=(), census=census)


def _fields(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Return the fields of a JSON object, their values not read; none of anything else."""
    try:
        return msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def holds(data: bytes) -> Literal["round", "release", "answer"] | None:
    """Tell rounds, releases and answers apart; None for anything else."""
    try:
        check_extent(data, release=True)
    except InputError:
        return None
    fields = _fields(data)
    if "outcomes" in fields:
        return "release"
    if "answers" in fields:
        return "answer"
    return "round" if "quorum" in fields else None


def mistaken_for(wanted: str, data: bytes) -> str | None:
    """Say what a file holds instead of what is wanted, for an error; None if `holds` cannot."""
    kind = holds(data)
    return None if kind in (None, wanted) else _DESCRIBED[kind]


_DESCRIBED = {
    "round": "a round",
    "release": "the release or the record of a round",
    "answer": "an agent's answer",
}


def method_of(data: bytes, source: str) -> str:
    """Return the name of the method of a saved release, so that its kinds can be looked up.

    Bytes that hold no release of this version are refused with a `RecordError`.
    """
    try:
        check_extent(data, release=True)
    except InputError as error:
        raise RecordError(f"{source}: {error}") from None
    round = _fields(_fields(data).get("round", _NOTHING))
    name = _plain(_fields(round.get("method", _NOTHING)).get("name"), str)
    version = _plain(round.get("version"), int)
    if name is None or version is None:
        other = mistaken_for("release", data)
        what = f"is {other}, not a release" if other else "cannot be read as a release"
        raise RecordError(
            f"{source} {what}: pass the release or the record that `server close` wrote "
            "(release-ID.json, round-ID.record.json)"
        )
    if version != VERSION:
        raise RecordError(f"{source}: version: {other_version(version)}")
    return name


@lru_cache(maxsize=64)
def _decoder(cls: Any, kinds: Kinds) -> msgspec.json.Decoder[Any]:
    """Return what reads a type; a server reads many messages of each."""
    wanted = [part.__bound__ for part in getattr(cls, "__parameters__", ())]
    parts = [Union[(*(k for k in kinds if issubclass(k, part)), _NoKind)] for part in wanted]
    return msgspec.json.Decoder(cls[*parts] if parts else cls, dec_hook=read_real)


def _version(data: bytes) -> int | None:
    """Return the version that a message says it has: its own, or that of the round in it."""
    fields = _fields(data)
    return _plain((_fields(fields.get("round", _NOTHING)) or fields).get("version"), int)


def _plain(value: msgspec.Raw | None, kind: type[P]) -> P | None:
    """Read a number or a text; None where there is none."""
    try:
        return msgspec.json.decode(value or _NOTHING, type=kind)
    except (msgspec.MsgspecError, ValueError):
        return None


def _read(data: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Read the bytes strictly, refusing an object that has one key twice.

    What reads back to the same bytes has every key once; all that `encode` writes does. Only other
    bytes (other spacing, order or spelling of numbers) are read a second time to look at the keys.
    """
    try:
        struct = decoder.decode(data)
        if _bytes(struct) == data.removesuffix(b"\n"):
            return struct
    except (msgspec.MsgspecError, ValueError):
        if data.count(b"[") < _FEW:  # name a repeated key first, where that is cheap
            parse_json(data, "message")
        raise
    parse_json(data, "message")
    return struct
