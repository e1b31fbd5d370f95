"""A small plot of a release, on matplotlib axes: coverage by agent.

>>> import matplotlib; matplotlib.use("agg")
>>> import fedwqcp as fw
>>> site = fw.Outputs([[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]], labels=[1, 0, 1])
>>> release = fw.calibrate({"a": site, "b": site}, score="lac", alpha=0.4)
>>> found = [release.measure(name, [[0.1, 0.9], [0.45, 0.55]], [1, 1]) for name in "ab"]
>>> coverage(found, alpha=0.4).get_xlabel()
'coverage, with its exact 95 % interval'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedwqcp._validation import as_alpha, checked
from fedwqcp.errors import InputError
from fedwqcp.metrics import AgentMetrics
from fedwqcp.report.figures import COLOURS, require_matplotlib

__all__ = ["coverage"]


@checked
def coverage(found: Sequence[AgentMetrics], alpha: float, ax: Any = None) -> Any:
    """Plot the coverage of each agent with its exact interval, beside what was asked for.

    Parameters
    ----------
    found : sequence of AgentMetrics
        As ``release.measure(agent, ...)`` gives them, at one alpha.
    alpha : float
        The miscoverage level; 1 - alpha is the dashed line.
    ax : matplotlib.axes.Axes, optional
        Where to plot; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Raises
    ------
    InputError
        If there is nothing to plot, or it is no such sequence.
    MissingExtraError
        If matplotlib is not installed.
    """
    if not len(found):
        raise InputError("there must be at least one agent to plot, got none")
    alpha = as_alpha(alpha)
    require_matplotlib()
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    rows = range(len(found))
    for row, one in zip(rows, found, strict=True):
        ax.plot([one.low, one.high], [row, row], color=COLOURS[1], linewidth=2)
        ax.plot([one.coverage], [row], marker="o", color=COLOURS[1], label=one.agent)
    ax.axvline(1 - alpha, color="0.35", linestyle="--", linewidth=1)
    ax.set_yticks(list(rows), [one.agent for one in found])
    ax.invert_yaxis()
    levels = " or ".join(f"{level * 100:g} %" for level in sorted({one.level for one in found}))
    ax.set_xlabel(f"coverage, with its exact {levels} interval")
    return ax
