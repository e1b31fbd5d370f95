"""Flower's SecAgg+ with masks from a cryptographic generator; server and site both use it.

In rounds of ours masks are SHAKE-256 of the whole 256-bit secret that two sites share. Keys, shares
and stages are Flower's own. We run copies of its two modules that nobody else imports, so SecAgg+
for anything else in the process, and in any other thread, is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec, module_from_spec
from math import prod
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict

from fedwqcp.errors import InputError
from fedwqcp.federation.secure import Words, mask_stream
from fedwqcp.federation.transport.flower.deployment import TESTED, unusable_flower
from fedwqcp.methods import MODULUS, FixedPoint

try:  # every private name of Flower's; all else here is its Message API
    from flwr.common import (
        Code,
        FitIns,
        FitRes,
        Parameters,
        Status,
        ndarrays_to_parameters,
        parameters_to_ndarrays,
    )
    from flwr.common.secure_aggregation.crypto.symmetric_encryption import decrypt
    from flwr.common.secure_aggregation.secaggplus_constants import (
        RECORD_KEY_CONFIGS,
        RECORD_KEY_STATE,
        Key,
        Stage,
    )
    from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_separate
    from flwr.compat.common.recorddict_compat import fitres_to_recorddict
    from flwr.server import LegacyContext
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key
except ImportError as error:
    raise unusable_flower(error) from None

__all__ = ["RECORD_KEY_CONFIGS", "Key", "Stage"]  # of Flower's, for our two sides

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


def fit_reply(arrays: Iterable[npt.NDArray[Any]] = ()) -> RecordDict:
    """Return arrays as a site's answer to what SecAgg+ takes for training."""
    parameters = ndarrays_to_parameters([*arrays])
    return fitres_to_recorddict(FitRes(Status(Code.OK, ""), parameters, 1, {}), False)


def unopened(configs: ConfigRecord, context: Context) -> list[int]:
    """Return the nodes whose key shares for this site cannot be opened, or are none.

    Only this site can tell; if it said nothing, it would look like the one at fault.
    """
    if configs[Key.STAGE] != Stage.COLLECT_MASKED_VECTORS:
        return []
    state = _copy(_SITE).SecAggPlusState(**context.state.config_records[RECORD_KEY_STATE])
    sources, ciphertexts = (cast(Any, configs[k]) for k in (Key.SOURCE_LIST, Key.CIPHERTEXT_LIST))
    faulty = []
    for source, ciphertext in zip(sources, ciphertexts, strict=True):
        try:
            shares = decrypt(state.ss2_dict[source], ciphertext)
            sender, receiver, seed, key = share_keys_plaintext_separate(shares)
            sound = (sender, receiver) == (source, state.nid)
            sound = sound and are_shares([seed], [key])
        except Exception:  # whatever another site put there
            sound = False
        faulty += [] if sound else [source]
    return faulty


class MaskedTotal:
    """What SecAgg+ asks of a strategy: it names the sites of a sum, and takes its total."""

    def __init__(self, nodes: Iterable[int], scale: FixedPoint) -> None:
        self.scale = scale
        self.asked = tuple(nodes)
        self.nodes: tuple[int, ...] = ()
        self.totals: tuple[int, ...] = ()

    def add(self, grid: object) -> None:
        """Run the workflow: it sends every stage over the grid."""
        target, most = 2**self.scale.bits, len(self.asked)
        first = ConfigRecord({"current_round": 1})
        records = RecordDict({"config": first, "parameters": ArrayRecord()})
        context = Context(0, 0, {}, records, {})
        workflow = _copy(_SERVER).SecAggPlusWorkflow(
            num_shares=most,
            reconstruction_threshold=most // 2 + 1,
            max_weight=float(target),
            clipping_range=target / 2,
            quantization_range=target,
            modulus_range=MODULUS,
        )
        with np.errstate(all="ignore"):  # a false share gives any number
            workflow(grid, LegacyContext(context, strategy=cast(Any, self)))

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        """Return the sites; what they are asked goes with every stage."""
        del server_round, parameters, client_manager
        ask = FitIns(Parameters([], ""), {})
        return [(SimpleNamespace(node_id=node), ask) for node in self.asked]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[None, Any]:
        """Undo the scaling of SecAgg+, which gives mean * target with the words centred."""
        del server_round, failures
        target, count = 2**self.scale.bits, len(results)
        (mean,) = parameters_to_ndarrays(results[0][1].parameters)
        centred = (round(float(value) * count / target) for value in mean)
        *totals, check = (value + count * target // 2 for value in centred)
        if check != count * CHECK or not all(0 <= word < MODULUS for word in totals):
            raise ValueError("the masks do not cancel")
        self.nodes = tuple(node.node_id for node, _ in results)
        self.totals = tuple(totals)
        return None, {}


def is_key(data: bytes) -> bool:
    """Tell whether bytes are a public key that every site can use."""
    if len(data) > LONGEST:
        return False
    try:
        return bool(bytes_to_public_key(data).curve.name == "secp384r1")
    except Exception:  # whatever the bytes hold
        return False


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
