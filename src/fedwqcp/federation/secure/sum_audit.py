"""The recomputation of a secure round's release from the sums that the server kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedwqcp.errors import RecordError
from fedwqcp.federation.files import read
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.secure.sums import SumServer
from fedwqcp.wire.codec import decode
from fedwqcp.wire.masked import MODULUS
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round


def from_sums(
    folder: Path, round: Round, entries: Sequence[Mapping[str, Any]], reasons: Mapping[str, str]
) -> Release:
    """Hold the dialogue of a secure round again with the sums that were kept.

    Parameters
    ----------
    folder : Path
        The record of the round.
    round : Round
        The terms.
    entries : sequence of mapping
        The lines of its log.
    reasons : mapping of str to str
        Why agents were refused.

    Returns
    -------
    Release
        As recomputed; round trips and bytes are taken from the record, since sums do not tell them.

    Raises
    ------
    RecordError
        If a sum does not belong to the round, or sums are missing.
    """
    plan = Plan.of(round)
    server: SumServer | None = None
    for entry in entries:
        if entry["event"] == "summed":
            server = server or SumServer(plan)
            agents, totals = _kept(folder, entry["file"])
            if server.ended:
                raise RecordError(f"{entry['file']}: comes after the last step")
            if len(totals) != server.width:
                raise RecordError(f"{entry['file']}: must hold {server.width} sums")
            server.hear(agents, totals)
    if server is None or not server.ended:
        raise RecordError("sums: are missing from the record")
    told = decode(read(folder / "record.json"), Release, plan.kinds, "record.json")
    up = {name: told.bytes_up(name) for name in round.agents}
    down = {name: told.bytes_down(name) for name in round.agents}
    return server.release(told.rounds, reasons, up, down)


def _kept(folder: Path, name: str) -> tuple[list[str], list[int]]:
    """Read one sum."""
    data = read(folder / name)
    try:
        kept = json.loads(data)
        agents, totals = kept["agents"], kept["totals"]
        sound = isinstance(agents, list) and all(isinstance(agent, str) for agent in agents)
        sound = sound and isinstance(totals, list)
        sound = sound and all(type(total) is int and 0 <= total < MODULUS for total in totals)
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise RecordError(f"{name}: must hold agents and their totals modulo 2^32")
    return agents, totals
