"""Single points with their prediction sets, shown where their owner asks for it."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import ClassVar


@dataclass(frozen=True)
class Drawn:
    """A prediction set of one method.

    Parameters
    ----------
    method : str
        Which method.
    members : sequence of (str, bool)
        What the set holds, and whether it is the truth.
    covered : bool
        Whether it holds the truth.
    """

    method: str
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
        One for each method.
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
