"""Named streams of random numbers: each use has its own, so adding one changes no other number."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.random import Generator

from fedwqcp.errors import InputError


def stream(seed: int, *names: str) -> Generator:
    """Return the generator that belongs to a seed and a list of names.

    The same seed and names always give the same numbers; other names give independent ones.

    Parameters
    ----------
    seed : int
        Seed of the whole run, at least 0.
    *names : str
        What the numbers are for, such as ``"train", "agent-3"``.

    Returns
    -------
    numpy.random.Generator
        A fresh generator at the start of its stream.

    Raises
    ------
    InputError
        If the seed is not a whole number of at least 0.

    Examples
    --------
    >>> stream(0, "train", "a").random() == stream(0, "train", "a").random()
    True
    >>> stream(0, "train", "a").random() == stream(0, "train", "b").random()
    False
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    key = tuple(word for name in names for word in _words(name))
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=key))


def _words(name: str) -> tuple[int, ...]:
    """Hash a name to four words; the fixed length keeps ("ab", "c") and ("a", "bc") apart."""
    digest = blake2b(name.encode(), digest_size=16).digest()
    return tuple(int(word) for word in np.frombuffer(digest, dtype="<u4"))
