"""Single points with their prediction sets, shown where their owner asks for it."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import ClassVar


@dataclass(frozen=True)
class Drawn:
    """A prediction set.

    Parameters
    ----------
    methods : sequence of str
        Which methods give it.
    members : sequence of (str, bool)
        What the set holds, and whether it is the truth.
    covered : bool
        Whether it holds the truth.
    """

    methods: Sequence[str]
    members: Sequence[tuple[str, bool]]
    covered: bool


@dataclass(frozen=True)
class Example:
    """One point with its sets.

    Parameters
    ----------
    agent : str
        Whose model.
    title, text : str
        What it is, and what the model says of it.
    image, alt : str
        The picture as a data address, and its text alternative; empty where there is none.
    sets : sequence of Drawn
        Different ones, each with its methods.
    """

    agent: str
    title: str
    text: str
    image: str
    alt: str
    sets: Sequence[Drawn]


@dataclass(frozen=True)
class Gallery:
    """Examples, one agent at a time.

    Parameters
    ----------
    examples : sequence of Example
        The hardest first.
    """

    examples: Sequence[Example]
    kind: ClassVar[str] = "gallery"


def distinct(drawn: Iterable[Drawn]) -> list[Drawn]:
    """Return each set once, with all methods that give it.

    Parameters
    ----------
    drawn : iterable of Drawn
        The sets of all methods.

    Returns
    -------
    list of Drawn
        In the order of their first methods.
    """
    found: dict[tuple[tuple[str, bool], ...], Drawn] = {}
    for one in drawn:
        key = tuple(one.members)
        before = found[key].methods if key in found else ()
        found[key] = replace(one, methods=(*before, *one.methods))
    return list(found.values())


def picture(pixels: Sequence[int]) -> str:
    """Return a square grey image as an address that holds all of it.

    Parameters
    ----------
    pixels : sequence of int
        0 (shown white, as ink on paper is) to 255, row by row.

    Returns
    -------
    str
        A PNG as a data address; empty where there are no pixels.
    """
    if not pixels:
        return ""
    side = isqrt(len(pixels))
    lines = (bytes(255 - p for p in pixels[at : at + side]) for at in range(0, len(pixels), side))
    head = struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(b"".join(b"\0" + line for line in lines)))
    file = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in (*parts, (b"IEND", b"")))
    return f"data:image/png;base64,{b64encode(file).decode()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    """Return one part of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
