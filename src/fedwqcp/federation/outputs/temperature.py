"""An agent's logits: the temperature at which they become probabilities.

It is fitted on rows that are held out and not calibrated on, and it stays at the agent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from fedwqcp.arrays import Bools, as_floats, as_labels
from fedwqcp.errors import InputError
from fedwqcp.federation.outputs.reading import Outputs
from fedwqcp.federation.outputs.rows import named_by_line, row_uniforms
from fedwqcp.federation.plan import Plan
from fedwqcp.scores import fit_temperature, row_ids, softmax
from fedwqcp.wire.round import Round

VERSION = 1
"""Version of the file in which it is kept; another one is refused."""


@dataclass(frozen=True)
class Temperature:
    """How an agent's logits become probabilities in one round.

    Parameters
    ----------
    round, agent : str
        Id of the round, and whose it is.
    temperature : float
        What logits are divided by.
    share : float
        Share of the rows that was held out for it; 0 where it was not fitted.
    fitted_on : int
        How many rows that were.
    version : int
        Version of the file.
    """

    round: str
    agent: str
    temperature: float = 1.0
    share: float = 0.0
    fitted_on: int = 0
    version: int = VERSION

    def __str__(self) -> str:
        if not self.share:
            return "logits at temperature 1"
        rows = f"{self.fitted_on} rows that are not calibrated on"
        return f"logits at temperature {self.temperature:.4g}, fitted on {rows}"


@named_by_line
def fitted(round: Round, agent: str, outputs: Outputs, share: float) -> Temperature:
    """Fit a temperature on a share of an agent's rows.

    Parameters
    ----------
    round : Round
        The terms; its key and the rows' ids decide which rows are held out.
    agent : str
        Name of the agent.
    outputs : Outputs
        Logits, with labels.
    share : float
        Which share of the rows, strictly between 0 and 1.

    Returns
    -------
    Temperature
        The temperature, and on how many rows it was fitted.

    Raises
    ------
    InputError
        If the share is outside, the method is private, labels are missing, or no temperature fits.
    """
    if not 0 < share < 1:
        raise InputError(f"the share for the temperature must be between 0 and 1, got {share:g}")
    if isfinite(Plan.of(round).method.spends):
        raise InputError(
            f"{round.method.name!r} is private, and a temperature would tell of the rows that it "
            "was fitted on: leave it out, or fit it on public data"
        )
    if outputs.labels is None:
        raise InputError("calibration needs labels beside the outputs (labels, label or y)")
    logits = as_floats(outputs.values, "logits", (None, None))
    labels = as_labels(outputs.labels, *logits.shape)
    rows = held_out(round, outputs, share)
    found = fit_temperature(logits[rows], labels[rows])
    return Temperature(round.id, agent, found, share, int(rows.sum()))


@named_by_line
def held_out(round: Round, outputs: Outputs, share: float) -> Bools:
    """Tell which rows are held out.

    Parameters
    ----------
    round : Round
        The terms.
    outputs : Outputs
        All rows.
    share : float
        Which share of them, about.

    Returns
    -------
    Bools, shape (n,)
        A keyed hash of each row's id decides: the same for the same row, and a larger share only
        adds rows.
    """
    found: Bools = row_uniforms(f"temperature {round.key}", outputs) < share
    return found


def calibrated(round: Round, outputs: Outputs, own: Temperature) -> Outputs:
    """Return the rows that are calibrated on, as probabilities.

    Parameters
    ----------
    round : Round
        The terms.
    outputs : Outputs
        All rows, as logits.
    own : Temperature
        The agent's temperature and how much was held out for it.

    Returns
    -------
    Outputs
        The rows that were not held out.
    """
    rest = ~held_out(round, outputs, own.share)
    return probabilities(outputs, own).take(rest)


@named_by_line
def probabilities(outputs: Outputs, own: Temperature) -> Outputs:
    """Return logits as probabilities at an agent's temperature.

    Parameters
    ----------
    outputs : Outputs
        Logits.
    own : Temperature
        The agent's temperature.

    Returns
    -------
    Outputs
        The same rows; those without ids get one of their logits, so that no rounding changes it.
    """
    ids = row_ids(outputs.values) if outputs.ids is None else outputs.ids
    return replace(outputs, values=softmax(outputs.values, own.temperature), ids=ids, logits=False)
