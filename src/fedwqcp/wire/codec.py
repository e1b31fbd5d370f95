"""Messages to bytes and back, strictly.

The bytes are JSON. What is decoded has exactly the fields of its type, each of the right type, none
repeated; anything else is refused with the place and the reason. JSON has no infinity: +inf travels
as the text ``"inf"``; NaN and -inf cannot travel. Private data has no way in: an answer holds
summaries, and nothing else of an agent can be encoded.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Any, TypeVar

import msgspec

from fedwqcp._io import reason_and_place
from fedwqcp.errors import InputError, MalformedMessageError, RecordError
from fedwqcp.wire._schema import Builder, Kinds, builder, plain, wire_type
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.limits import (
    MESSAGE_BYTES,
    MESSAGE_VALUES,
    RELEASE_BYTES,
    RELEASE_VALUES,
    check_bytes,
    check_values,
)
from fedwqcp.wire.payload import Summary
from fedwqcp.wire.release import Release
from fedwqcp.wire.roster import LONG, Census
from fedwqcp.wire.round import VERSION, Round, other_version

M = TypeVar("M", Round, Ask, Answer, Release)

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


def encode(message: Round | Ask | Answer | Release) -> bytes:
    """Return the bytes of a message.

    Parameters
    ----------
    message : Round, Ask, Answer or Release
        The message; an answer holds summaries and nothing else.

    Returns
    -------
    bytes
        Compact JSON with a final newline.

    Raises
    ------
    InputError
        If something in it is not a payload of the right side, or a number cannot travel.
    """
    if isinstance(message, Answer):
        for part in message.answers:
            if part is not None and not isinstance(part, Summary):
                raise InputError(f"only a Summary can leave an agent, got {type(part).__name__}")
    return _ENCODER.encode(plain(message)) + b"\n"


def decode(data: bytes, cls: type[M], kinds: Kinds = (), source: str = "unknown") -> M:
    """Return the message that the bytes hold.

    Parameters
    ----------
    data : bytes
        What was received.
    cls : type
        Round, Ask, Answer or Release.
    kinds : tuple of type, optional
        The kinds of payload that may occur in it, as the round's method declares them.
    source : str, optional
        Where it came from, for the error.

    Returns
    -------
    Round, Ask, Answer or Release
        The message.

    Raises
    ------
    MalformedMessageError
        If the bytes do not hold exactly one sound message of this type.
    """
    try:
        _check_extent(data, release=cls is Release)
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

    Parameters
    ----------
    round : Round
        The terms.

    Returns
    -------
    str
        Sixteen hexadecimal digits; another score setting, level or roster gives others. They are
        the same for a round and for what its agents are sent of it.
    """
    return blake2b(encode(round.brief()), digest_size=8).hexdigest()


def brief(release: Release) -> Release:
    """Return a release as it is sent to agents.

    Parameters
    ----------
    release : Release
        What a round ended with.

    Returns
    -------
    Release
        Without what other agents answered; where the roster is long and all agents share the
        thresholds, with the number of entries and their digest instead of the entries.
    """
    whole = release.public()
    if len(whole.agents) <= LONG or not all(o.same_for_all for o in whole.outcomes):
        return whole
    fates = Counter(agent.status for agent in whole.agents)
    digest = sha256(encode(whole)).hexdigest()
    census = Census(fates["used"], fates["refused"], fates["missing"], digest)
    return replace(whole, round=whole.round.brief(), agents=(), census=census)


def method_of(data: bytes, source: str) -> str:
    """Return the name of the method of a saved release, so that its kinds can be looked up.

    Parameters
    ----------
    data : bytes
        A saved release.
    source : str
        Where it came from, for the error.

    Returns
    -------
    str
        The name.

    Raises
    ------
    RecordError
        If the bytes hold no release of this version.
    """
    try:
        _check_extent(data, release=True)
        head = msgspec.json.decode(data, type=_Head).round
    except InputError as error:
        raise RecordError(f"{source}: {error}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
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
            json.loads(data, object_pairs_hook=_refuse_repeated)
        raise
    json.loads(data, object_pairs_hook=_refuse_repeated)
    return struct


def _refuse_repeated(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse an object that has one key twice."""
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise InputError("an object has one key twice", field="message")
    return keys
