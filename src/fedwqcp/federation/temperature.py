"""How an agent's logits become probabilities in a round: a temperature fitted on held-out rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fedwqcp._io import exists, from_json, read, to_json, write_atomic
from fedwqcp._validation import Bools, as_floats, as_labels, unchecked
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.plan import Plan
from fedwqcp.outputs import LABELS_BESIDE, Outputs, named_by_line, row_uniforms
from fedwqcp.scores import LabelScore, fit_temperature, row_ids, softmax
from fedwqcp.wire.messages import Round

_ANEW = "to fit again, delete it and the answer, or choose another --temperature-file"


class Temperature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an agent's logits become probabilities in one round; share 0 where it was not fitted."""

    round: str
    agent: str
    temperature: Annotated[float, Meta(gt=0)] = 1.0
    share: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    fitted_on: int = 0
    version: Literal[1] = 1

    def __str__(self) -> str:
        if not self.share:
            return "logits at temperature 1"
        rows = f"{self.fitted_on} rows that are not calibrated on"
        return f"logits at temperature {self.temperature:.4g}, fitted on {rows}"


def for_calibration(
    round: Round, agent: str, outputs: Outputs, share: float | None, path: Path
) -> tuple[Outputs, Temperature | None]:
    """Return what an agent calibrates on, and the temperature that it must predict with.

    A temperature that is kept already, for the same round, stands: a later step of the round must
    be answered with it.
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
    known = exists(path)
    if known:
        fit = load_temperature(path, round, agent)
        if fit.share:  # the id is all that the file knows of a round
            _check_not_private(round)
        if share not in (None, fit.share):
            raise InputError(f"{path} is of a share of {fit.share:g}; {_ANEW}")
    else:
        fit = Temperature(round.id, agent)
        if share is not None:
            fit = fitted(round, agent, outputs, share)
    used = calibrated(round, outputs, fit)
    if not known:
        write_atomic(path, to_json(fit))
    return used, fit


def for_prediction(
    round: Round, agent: str, outputs: Outputs | None, path: Path
) -> Temperature | None:
    """Return the temperature that an agent predicts with; without outputs the one that is kept."""
    there = exists(path)
    if outputs is None:
        return load_temperature(path, round, agent) if there else None
    if outputs.logits and not there:
        raise InputError(
            f"the outputs are logits, and {path}, which `agent calibrate` wrote when it read "
            "logits, is not there: name it with --temperature-file, or give probabilities"
        )
    if outputs.logits:
        return load_temperature(path, round, agent)
    if there and _parse(path).round == round.id and load_temperature(path, round, agent).share:
        raise InputError(
            f"this agent calibrated on logits at the temperature in {path}: predict from logits too"
        )
    return None


def load_temperature(path: Path, round: Round, agent: str) -> Temperature:
    """Read an agent's temperature, as `for_calibration` wrote it in this round."""
    fit = _parse(path)
    if (fit.round, fit.agent) != (round.id, agent):
        raise InputError(
            f"{path} is of round {fit.round} and agent {fit.agent!r}, not of round {round.id} and "
            f"agent {agent!r}: choose another --temperature-file"
        )
    return fit


@named_by_line
def fitted(round: Round, agent: str, outputs: Outputs, share: float) -> Temperature:
    """Fit a temperature on a share of an agent's rows."""
    if not 0 < share < 1:
        raise InputError(f"the share for the temperature must be between 0 and 1, got {share:g}")
    _check_not_private(round)
    if outputs.labels is None:
        raise InputError("calibration needs labels beside the outputs", cure=LABELS_BESIDE)
    logits = as_floats(outputs.values, "logits", (None, None))
    labels = as_labels(outputs.labels, *logits.shape)
    rows = held_out(round, outputs, share)
    temperature = fit_temperature(logits[rows], labels[rows])
    return Temperature(round.id, agent, temperature, share, int(rows.sum()))


@named_by_line
def held_out(round: Round, outputs: Outputs, share: float) -> Bools:
    """Tell which rows are held out: a keyed hash of the id decides; a larger share adds rows."""
    rows: Bools = row_uniforms(f"temperature {round.key}", outputs) < share
    return rows


def calibrated(round: Round, outputs: Outputs, fit: Temperature | None) -> Outputs:
    """Return the rows that are calibrated on, as probabilities; None where there are no logits."""
    if fit is None:
        return probabilities(outputs, None)
    rows = held_out(round, outputs, fit.share)
    if int(rows.sum()) != fit.fitted_on:
        raise InputError(
            f"must be the rows that the agent calibrated with: its temperature was fitted on "
            f"{fit.fitted_on}, and these hold out {int(rows.sum())}; {_ANEW}",
            field="outputs",
        )
    return probabilities(outputs, fit.temperature).take(~rows)


@named_by_line
def probabilities(outputs: Outputs, temperature: float | None) -> Outputs:
    """Return what a model put out as probabilities: logits where there is a temperature.

    Rows without ids get one made of their logits.
    """
    if outputs.logits != (temperature is not None):
        raise InputError(
            "must be logits, as calibrated" if temperature else "must be probabilities"
        )
    if temperature is None:
        return outputs
    ids = row_ids(outputs.values) if outputs.ids is None else outputs.ids
    return unchecked(outputs, values=softmax(outputs.values, temperature), ids=ids, logits=False)


def _check_not_private(round: Round) -> None:
    """Refuse a fitted temperature in a private round."""
    if Plan.of(round).method.traits.private:
        raise InputError(
            f"{round.method.name!r} is private, and a temperature would reveal something about "
            "the rows that it was fitted on: leave it out, or fit it on public data"
        )


def _parse(path: Path) -> Temperature:
    """Read a temperature, of any agent and round."""
    fit = from_json(read(path), Temperature)
    if fit is None:
        raise RecordError(f"{path} is damaged, or of another version than 1")
    return fit
