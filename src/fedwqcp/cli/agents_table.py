"""What became of each agent of a round, and where its threshold lies beside the released one."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from rich.table import Table
from rich.text import Text

from fedwqcp.report.terminal import Scale, always_left_out, released
from fedwqcp.wire.payload import LocalQuantile, ToAll
from fedwqcp.wire.release import Release

MOST_SHOWN = 200
"""Agents in the table."""


def agents_table(release: Release, *, ascii: bool = False) -> Table:
    """Return a row for each agent; with local thresholds, each as a dot on a common scale.

    Parameters
    ----------
    release : Release
        As the server has it, with what was received. Dots are of the first level and group.
    ascii : bool, optional
        Whether the terminal knows no other characters.

    Returns
    -------
    Table
        The agents.
    """
    local = {
        name: answer
        for name, answers in release.received.items()
        if answers and isinstance(answer := answers[0], LocalQuantile)
    }
    out = always_left_out(released(release))
    scale = _scale(release, local, ascii)
    guarantee = f"{release.guarantee} ({release.assumption})"
    table = Table(title=f"{release.round.method.name}; guarantee: {guarantee}")
    for heading in ("agent", "status", *(("points", "threshold") if local else ())):
        table.add_column(heading, overflow="fold")
    if scale is not None:
        table.add_column(f"{scale.left:.3g} to {scale.right:.3g}", no_wrap=True)
    for heading in ("bytes up", "reason"):
        table.add_column(heading, overflow="fold")
    shown = release.agents
    if len(shown) > MOST_SHOWN:  # a terminal shows thousands slowly, and nobody reads them
        shown = tuple(sorted(shown, key=lambda agent: agent.status == "used")[:MOST_SHOWN])
        left = len(release.agents) - len(shown)
        table.caption = f"and {left} more agents, all in the record; unused ones come first here"
    for agent in shown:
        own = local.get(agent.name)
        row = [agent.name, "left out" if agent.name in out else agent.status]
        if local:
            row += ["", ""] if own is None else [str(own.n), f"{own.threshold:.4g}"]
        if scale is not None:
            q = None if own is None or not isfinite(own.threshold) else own.threshold
            row.append("" if q is None else scale.bar(q, q, q))
        table.add_row(*row, str(agent.bytes_up), Text(agent.reason))
    return table


def _scale(release: Release, local: Mapping[str, LocalQuantile], ascii: bool) -> Scale | None:
    """Return a scale over all local thresholds, if they differ and there is a common one."""
    finite = sorted(own.threshold for own in local.values() if isfinite(own.threshold))
    common = release.outcomes[0]
    if not isinstance(common, ToAll) or not finite or finite[0] == finite[-1]:
        return None
    if not isinstance(common.value, float) or not finite[0] <= common.value <= finite[-1]:
        return None
    return Scale(finite[0], finite[-1], common.value, width=24, ascii=ascii)
