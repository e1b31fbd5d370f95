"""Flower's SecAgg+ with masks from a cryptographic generator; server and site both use it.

In rounds of ours masks are SHAKE-256 of the whole 256-bit secret that two sites share. Keys, shares
and stages are Flower's own. We run copies of its two modules that nobody else imports, so SecAgg+
for anything else in the process, and in any other thread, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec, module_from_spec
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
from flwr.app import Context, Message

from fedwqcp.errors import InputError
from fedwqcp.federation.secure import Words, mask_stream
from fedwqcp.federation.transport.flower.deployment import TESTED, unusable_flower
from fedwqcp.methods import MODULUS

try:  # every private name of Flower's; all else here is its Message API
    from flwr.common import (
        Code as Code,
    )
    from flwr.common import (
        FitIns as FitIns,
    )
    from flwr.common import (
        FitRes as FitRes,
    )
    from flwr.common import (
        Parameters as Parameters,
    )
    from flwr.common import (
        Status as Status,
    )
    from flwr.common import (
        ndarrays_to_parameters as ndarrays_to_parameters,
    )
    from flwr.common import (
        parameters_to_ndarrays as parameters_to_ndarrays,
    )
    from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt as decrypt
    from flwr.common.secure_aggregation.secaggplus_constants import (
        RECORD_KEY_CONFIGS as RECORD_KEY_CONFIGS,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import (
        RECORD_KEY_STATE as RECORD_KEY_STATE,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import (
        Key as Key,
    )
    from flwr.common.secure_aggregation.secaggplus_constants import (
        Stage as Stage,
    )
    from flwr.common.secure_aggregation.secaggplus_utils import (
        share_keys_plaintext_separate as share_keys_plaintext_separate,
    )
    from flwr.compat.common.recorddict_compat import fitres_to_recorddict as fitres_to_recorddict
    from flwr.server import LegacyContext as LegacyContext
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key as bytes_to_public_key
except ImportError as error:
    raise unusable_flower(error) from None

CHECK = 1
"""A word that every site adds: its total tells whether the masks cancel."""
LONGEST = 4096
"""Bytes of the longest key, share or ciphertext: honest ones have less than 1024."""
_SEED_SHARE = 4 + 48
"""Bytes of a share of a seed: 32 bytes, padded to blocks of 16, behind the number of the share."""
_SITE = "flwr.client.mod.secure_aggregation.secaggplus_mod"
_SERVER = "flwr.server.workflow.secure_aggregation.secaggplus_workflow"
_UNCHECKED = f"SecAgg+ of this Flower is not the one that was checked: use flwr {TESTED}"


def secaggplus_mod() -> Callable[..., Message]:
    """Return the site's side of SecAgg+, which handles one stage: Flower's mod with our masks."""
    mod: Callable[..., Message] = _copy(_SITE).secaggplus_mod
    return mod


def secaggplus_state(context: Context) -> Any:
    """Return what a site keeps between the stages: its keys, and the shares it holds of others."""
    return _copy(_SITE).SecAggPlusState(**context.state.config_records[RECORD_KEY_STATE])


def secaggplus_workflow() -> type[Any]:
    """Return the server's side of SecAgg+: Flower's workflow with our masks."""
    workflow: type[Any] = _copy(_SERVER).SecAggPlusWorkflow
    return workflow


def are_shares(seeds: Sequence[bytes], keys: Sequence[bytes]) -> bool:
    """Tell whether bytes have the form of shares of seeds and of private keys.

    That is a number and blocks of 16 bytes; it says nothing of their values.
    """
    return all(len(share) == _SEED_SHARE for share in seeds) and all(
        20 <= len(share) <= LONGEST and len(share) % 16 == 4 for share in keys
    )


def expand_seed(seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]) -> list[Words]:
    """Return masks of the shapes that SecAgg+ asks for; it calls this with these names."""
    if num_range != MODULUS:
        raise InputError(f"masks are words modulo 2^32, got {num_range}")
    ends = np.cumsum([prod(shape) for shape in dimensions_list])
    parts = np.split(mask_stream(seed, int(ends[-1])), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, dimensions_list, strict=True)]


def whole_words(parameters: list[Any], clipping_range: float, target_range: int) -> list[Words]:
    """Return words as they are, where SecAgg+ would clip and round; it divided them by its range.

    All words modulo 2^32 pass, since a random one must be able to hide any other in a total.
    """
    del clipping_range
    return [np.rint(array * target_range).astype(np.int64) for array in parameters]


@cache
def _copy(name: str) -> ModuleType:
    """Load a private copy of a module of Flower's, and put our masks and words into it.

    A Flower that does not use these names is refused: its masks would be of unknown strength.
    """
    ours: dict[str, object] = {"pseudo_rand_gen": expand_seed}
    if name == _SITE:
        ours["quantize"] = whole_words
    spec = find_spec(name)
    if spec is None or spec.loader is None:
        raise InputError(_UNCHECKED)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if not all(hasattr(module, known) for known in ours):
        raise InputError(_UNCHECKED)
    vars(module).update(ours)
    return module
