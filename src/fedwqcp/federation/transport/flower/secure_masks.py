"""Flower's SecAgg+ with masks from a cryptographic generator.

While SecAgg+ works for a round of ours, at the server or at a site, masks are SHAKE-256 of the
whole 256-bit secret that two sites share. Keys, shares and stages are Flower's own; SecAgg+ for
anything else in the process is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from math import prod

import numpy as np

from fedwqcp.errors import InputError
from fedwqcp.federation.secure.masks import Words, stream
from fedwqcp.wire.masked import MODULUS

_USERS = (
    "flwr.client.mod.secure_aggregation.secaggplus_mod",
    "flwr.server.workflow.secure_aggregation.secaggplus_workflow",
)
_NAME = "pseudo_rand_gen"


@contextmanager
def whole_seeds() -> Iterator[None]:
    """Let SecAgg+ expand whole seeds within the block.

    Yields
    ------
    None
        Nothing.

    Raises
    ------
    InputError
        If this Flower has no such generator: masks would then be of unknown strength.
    """
    users = [import_module(name) for name in _USERS]
    if not all(hasattr(user, _NAME) for user in users):
        raise InputError("SecAgg+ of this Flower is not the one that was checked: use flwr 1.41")
    before = [getattr(user, _NAME) for user in users]
    try:
        for user in users:
            setattr(user, _NAME, expand)
        yield
    finally:
        for user, theirs in zip(users, before, strict=True):
            setattr(user, _NAME, theirs)


def expand(seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]) -> list[Words]:
    """Return masks of the shapes that SecAgg+ asks for.

    Parameters
    ----------
    seed : bytes
        The secret of one site, or of two.
    num_range : int
        The modulus, which must be 2^32.
    dimensions_list : list of tuple of int
        Shapes.

    Returns
    -------
    list of Words
        One mask for each shape.

    Raises
    ------
    InputError
        If the modulus is another.
    """
    if num_range != MODULUS:
        raise InputError(f"masks are words modulo 2^32, got {num_range}")
    ends = np.cumsum([prod(shape) for shape in dimensions_list])
    parts = np.split(stream(seed, int(ends[-1])), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, dimensions_list, strict=True)]
