"""One masked sum over Flower's SecAgg+, driven from the server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.common import FitIns, Parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import Stage
from flwr.server import LegacyContext
from flwr.serverapp import Grid

from fedwqcp.errors import FedwqcpError, QuorumError, RoundError
from fedwqcp.federation.transport.flower.secure_carrier import CHECK, Carrier
from fedwqcp.federation.transport.flower.secure_masks import secaggplus_workflow
from fedwqcp.wire.masked import MODULUS, FixedPoint


@dataclass(frozen=True)
class _Node:
    """What SecAgg+ needs to know of a site."""

    node_id: int


class _Adding:
    """What SecAgg+ asks of a strategy: it names the sites of a sum, and takes its total."""

    def __init__(self, nodes: Iterable[int], scale: FixedPoint) -> None:
        self.scale = scale
        self.asked = tuple(nodes)
        self.nodes: tuple[int, ...] = ()
        self.totals: tuple[int, ...] = ()

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[Any]:
        """Return the sites; what they are asked goes with every stage."""
        del server_round, parameters, client_manager
        return [(_Node(node), FitIns(Parameters([], ""), {})) for node in self.asked]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[None, Any]:
        """Undo the scaling of SecAgg+, which gives mean * target with the words centred."""
        del server_round, failures
        target, count = 2**self.scale.bits, len(results)
        (mean,) = parameters_to_ndarrays(results[0][1].parameters)
        centred = (round(float(value) * count / target) for value in mean)
        *totals, check = (value + count * target // 2 for value in centred)
        if check != count * CHECK or not all(0 <= word < count * target for word in totals):
            raise ValueError("the masks do not cancel")
        self.nodes = tuple(node.node_id for node, _ in results)
        self.totals = tuple(totals)
        return None, {}


def add(
    carrier: Carrier, nodes: Sequence[int], scale: FixedPoint
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Add the words of some sites under masks.

    Parameters
    ----------
    carrier : Carrier
        Carries the stages.
    nodes : sequence of int
        The sites.
    scale : FixedPoint
        How numbers became words.

    Returns
    -------
    tuple
        The nodes whose words were added, and the totals.

    Raises
    ------
    LostError
        If a site is lost before it shared its keys.
    QuorumError
        If too few sites were left to unmask the sum.
    RoundError
        If the masks do not cancel: no single site can be named then.
    """
    target, most = 2**scale.bits, len(nodes)
    adding = _Adding(nodes, scale)
    records = RecordDict(
        {"config": ConfigRecord({"current_round": 1}), "parameters": ArrayRecord()}
    )
    context = Context(0, 0, {}, records, {})
    workflow = secaggplus_workflow()(
        num_shares=most,
        reconstruction_threshold=most // 2 + 1,
        max_weight=float(target),
        clipping_range=target / 2,
        quantization_range=target,
        modulus_range=MODULUS,
    )
    try:
        with np.errstate(all="ignore"):  # a false share gives any number
            workflow(cast(Grid, carrier), LegacyContext(context, strategy=cast(Any, adding)))
    except (ValueError, TypeError, ArithmeticError) as error:
        if carrier.stage != Stage.UNMASK or isinstance(error, FedwqcpError):
            raise
        raise RoundError(
            "masks: they do not cancel: at least one site did not follow the protocol, and a "
            "masked sum cannot tell which"
        ) from None
    if not adding.nodes:
        raise QuorumError("too few agents were left to remove the masks of the sum")
    return adding.nodes, adding.totals
