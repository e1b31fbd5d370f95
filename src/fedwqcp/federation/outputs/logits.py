"""Logits in files of model outputs: what calibration and prediction make of them.

`for_calibration` keeps the agent's temperature in a file that says for which round it is. Whoever
predicts from logits must have that file, so that both use the same temperature.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from pathlib import Path

from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.files import read, write_atomic
from fedwqcp.federation.outputs.reading import Outputs
from fedwqcp.federation.outputs.temperature import (
    VERSION,
    Temperature,
    calibrated,
    fitted,
    held_out,
)
from fedwqcp.federation.plan import Plan
from fedwqcp.scores import LabelScore
from fedwqcp.wire.round import Round


def for_calibration(
    round: Round, agent: str, outputs: Outputs, share: float | None, path: Path
) -> tuple[Outputs, Temperature | None]:
    """Return what an agent calibrates on, and the temperature that it must predict with.

    Parameters
    ----------
    round : Round
        The terms.
    agent : str
        Name of the agent.
    outputs : Outputs
        What its model put out, with labels.
    share : float or None
        Share of the rows to fit a temperature on; None fits none.
    path : Path
        Where the temperature is kept. One that is there already, for the same round, stands: a
        later step of the round must be answered with it.

    Returns
    -------
    tuple of Outputs and (Temperature or None)
        Probabilities of the rows that were not held out; outputs that are no logits come back as
        they are.

    Raises
    ------
    InputError
        If a temperature is asked for and cannot be had, or another one is in the way.
    """
    if not outputs.logits:
        if share is not None:
            raise InputError(
                "a temperature needs logits, the file holds none: write 'logits' (columns z0, z1, "
                "...); logarithms of probabilities will do where none is 0"
            )
        return outputs, None
    if not isinstance(Plan.of(round).score, LabelScore):
        raise InputError(f"score {round.score.name!r} does not read logits of classes")
    if path.exists():
        own = load(path, round, agent)
        rows = int(held_out(round, outputs, own.share).sum())
        if share not in (None, own.share) or rows != own.fitted_on:
            raise InputError(
                f"{path} was fitted on {own.fitted_on} rows, a share of {own.share:g}; to fit "
                "anew, delete it and the answer, or choose another --temperature-file"
            )
    else:
        own = Temperature(round.id, agent)
        if share is not None:
            own = fitted(round, agent, outputs, share)
        write_atomic(path, (json.dumps(asdict(own)) + "\n").encode())
    return calibrated(round, outputs, own), own


def for_prediction(round: Round, agent: str, outputs: Outputs, path: Path) -> Temperature | None:
    """Return the temperature that an agent predicts with.

    Parameters
    ----------
    round : Round
        The terms.
    agent : str
        Name of the agent.
    outputs : Outputs
        What its model put out on new inputs.
    path : Path
        Where `for_calibration` kept it.

    Returns
    -------
    Temperature or None
        None where the outputs are no logits.

    Raises
    ------
    InputError
        If the outputs are logits and there is none, or none for this round; or if they are no
        logits and the agent calibrated with a temperature.
    """
    if outputs.logits and not path.exists():
        raise InputError(
            f"the outputs are logits, and {path}, which `agent calibrate` wrote when it read "
            "logits, is not there: name it with --temperature-file, or give probabilities"
        )
    if outputs.logits:
        return load(path, round, agent)
    if path.exists() and _parse(path).round == round.id and load(path, round, agent).share:
        raise InputError(
            f"this agent calibrated on logits at the temperature in {path}: predict from logits too"
        )
    return None


def load(path: Path, round: Round, agent: str) -> Temperature:
    """Read an agent's temperature.

    Parameters
    ----------
    path : Path
        What `for_calibration` wrote.
    round : Round
        The terms.
    agent : str
        Whose it must be.

    Returns
    -------
    Temperature
        The temperature.

    Raises
    ------
    RecordError
        If the file is damaged or of another version.
    InputError
        If it is another agent's, or of another round.
    """
    own = _parse(path)
    if (own.round, own.agent) != (round.id, agent):
        raise InputError(
            f"{path} is of round {own.round} and agent {own.agent!r}, not of round {round.id} and "
            f"agent {agent!r}: choose another --temperature-file"
        )
    return own


def _parse(path: Path) -> Temperature:
    """Read a temperature, whosever it is."""
    kinds = {"round": str, "agent": str, "temperature": float, "share": float}
    kinds |= {"fitted_on": int, "version": int}
    try:
        found = json.loads(read(path))
    except ValueError:
        found = None
    sound = isinstance(found, dict) and {key: type(value) for key, value in found.items()} == kinds
    if not sound or found["version"] != VERSION:
        raise RecordError(f"{path} is damaged, or of another version than {VERSION}")
    own = Temperature(**found)
    if not (isfinite(own.temperature) and own.temperature > 0 and 0 <= own.share < 1):
        raise RecordError(f"{path} is damaged: its temperature or share is out of range")
    return own
