"""Masks: streams of words that two agents share and nobody else can tell from noise."""

from __future__ import annotations

from hashlib import shake_256
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.wire.masked import MODULUS

Words: TypeAlias = npt.NDArray[np.int64]
"""Whole numbers modulo 2^32."""


def stream(seed: bytes, count: int) -> Words:
    """Return the mask that a seed stands for.

    Parameters
    ----------
    seed : bytes
        A secret; 32 random bytes or more.
    count : int
        How many words.

    Returns
    -------
    Words, shape (count,)
        SHAKE-256 of the seed, read as words from 0 to 2^32 - 1; the whole seed counts.
    """
    drawn = np.frombuffer(shake_256(b"fedwqcp mask" + seed).digest(4 * count), dtype="<u4")
    return drawn.astype(np.int64)


def masked(words: npt.ArrayLike, add: list[bytes], subtract: list[bytes]) -> Words:
    """Hide words under the masks of some seeds.

    Parameters
    ----------
    words : array_like of int, shape (count,)
        What one agent contributes.
    add, subtract : list of bytes
        Seeds whose masks are added, and those whose masks are taken away; of two agents that share
        a seed one adds and the other subtracts, so that the sum of all is free of masks.

    Returns
    -------
    Words, shape (count,)
        Modulo 2^32.
    """
    hidden = np.asarray(words, dtype=np.int64)
    for seed in add:
        hidden = hidden + stream(seed, len(hidden))
    for seed in subtract:
        hidden = hidden - stream(seed, len(hidden))
    return np.asarray(hidden % MODULUS)


def summed(vectors: list[Words]) -> tuple[int, ...]:
    """Add masked vectors.

    Parameters
    ----------
    vectors : list of Words
        One for each agent.

    Returns
    -------
    tuple of int
        The sums modulo 2^32: those of the words, if every mask was added and subtracted once.
    """
    return tuple((np.sum(vectors, axis=0) % MODULUS).tolist())
