"""Flower's SecAgg+ with masks from a cryptographic generator.

In rounds of ours masks are SHAKE-256 of the whole 256-bit secret that two sites share. Keys, shares
and stages are Flower's own. We run copies of its two modules that nobody else imports, so SecAgg+
for anything else in the process, and in any other thread, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec, module_from_spec
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_STATE

from fedwqcp.errors import InputError
from fedwqcp.federation.secure import Words, mask_stream
from fedwqcp.wire.masked import MODULUS

_SITE = "flwr.client.mod.secure_aggregation.secaggplus_mod"
_SERVER = "flwr.server.workflow.secure_aggregation.secaggplus_workflow"
_GENERATOR = "pseudo_rand_gen"


def secaggplus_mod() -> Callable[..., Message]:
    """Return what does one stage of SecAgg+ at a site.

    Returns
    -------
    callable
        Flower's mod with our masks.

    Raises
    ------
    InputError
        If this Flower has no such generator: masks would then be of unknown strength.
    """
    found: Callable[..., Message] = _copy(_SITE).secaggplus_mod
    return found


def secaggplus_state(context: Context) -> Any:
    """Return what a site keeps between the stages of SecAgg+.

    Parameters
    ----------
    context : Context
        Flower's context of the site.

    Returns
    -------
    SecAggPlusState
        Its keys, and the shares that it holds of others.
    """
    return _copy(_SITE).SecAggPlusState(**context.state.config_records[RECORD_KEY_STATE])


def secaggplus_workflow() -> type[Any]:
    """Return what drives the stages of SecAgg+ at the server.

    Returns
    -------
    type
        Flower's workflow with our masks.

    Raises
    ------
    InputError
        As of `secaggplus_mod`.
    """
    found: type[Any] = _copy(_SERVER).SecAggPlusWorkflow
    return found


@cache
def _copy(name: str) -> ModuleType:
    """Load a module once more, out of everyone's sight, and give it our generator."""
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise InputError(_UNCHECKED)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, _GENERATOR):
        raise InputError(_UNCHECKED)
    setattr(module, _GENERATOR, expand)
    return module


_UNCHECKED = "SecAgg+ of this Flower is not the one that was checked: use flwr 1.41"


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
    parts = np.split(mask_stream(seed, int(ends[-1])), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, dimensions_list, strict=True)]
