"""What labels tell of an agent's sets: rates with their intervals, in all and in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedwqcp import metrics
from fedwqcp.arrays import as_groups
from fedwqcp.cli.output import Output
from fedwqcp.federation.outputs import Outputs
from fedwqcp.report.terminal import scale
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.round import Round


@dataclass(frozen=True)
class Measured:
    """A rate among some rows.

    Parameters
    ----------
    group : str or None
        Which rows; None for all.
    what : str
        ``"coverage"``, or ``"false-negative rate"`` where several labels occur together.
    n : int
        How many rows.
    rate, low, high : float
        The rate and its 95 % interval: exact (Clopper-Pearson) for a coverage, Chernoff's for a
        false-negative rate.
    size : float
        Mean size of the sets.
    """

    group: str | None
    what: str
    n: int
    rate: float
    low: float
    high: float
    size: float


def measured(
    agent: str, round: Round, sets: LabelSets | Intervals, new: Outputs
) -> tuple[Measured, ...]:
    """Return how many sets hold their label, or how many labels they miss; also in each group.

    Parameters
    ----------
    agent : str
        Whose sets.
    round : Round
        The round that they come from.
    sets : LabelSets or Intervals
        One for each row.
    new : Outputs
        The rows, with labels or without.

    Returns
    -------
    tuple of Measured
        All rows first; nothing without labels.
    """
    if new.labels is None or not len(sets):
        return ()
    groups = new.labels if round.by == "label" else new.groups if round.by == "group" else None
    parts: list[tuple[str | None, np.ndarray]] = [(None, np.full(len(sets), True))]
    if groups is not None:
        names = as_groups(groups, len(sets))
        parts += [(f"{round.by} {name}", names == name) for name in np.unique(names)]
    several = isinstance(sets, LabelSets) and new.labels.ndim == 2
    found = []
    for name, rows in parts:
        own, y = sets[rows], new.labels[rows]
        size = float(own.sizes().mean())
        if several and isinstance(own, LabelSets):
            risk = metrics.measure_risk(agent, own, y)
            what, told = "false-negative rate", (risk.risk, risk.low, risk.high)
        else:
            rate = metrics.measure(agent, own, y)
            what, told = "coverage", (rate.coverage, rate.low, rate.high)
        found.append(Measured(name, what, len(own), *told, size))
    return tuple(found)


def say(found: Sequence[Measured], alpha: float, output: Output) -> None:
    """Print rates, each with a bar.

    Parameters
    ----------
    found : sequence of Measured
        The rates.
    alpha : float
        The miscoverage level that was asked for.
    output : Output
        Where to.
    """
    if not found:
        return
    nominal = 1 - alpha if found[0].what == "coverage" else alpha
    ends = (end for each in found for end in (each.low, each.high))
    bars = scale(ends, nominal, ascii=output.console.options.ascii_only)
    for each in found:
        name = "" if each.group is None else f"{each.group}: "
        of = f" of {each.n}, mean size {each.size:.4g}" if name else ""
        bar = bars.bar(each.low, each.rate, each.high)
        kind = "exact" if each.what == "coverage" else "Chernoff"
        output.say(
            f"{name}{each.what} {each.rate:.4f}{of}, {kind} 95 % interval {each.low:.4f} to "
            f"{each.high:.4f}  {bars.left:g} {bar} {bars.right:g}"
        )
