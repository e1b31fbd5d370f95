"""Small plots of a release, on matplotlib axes: coverage by agent, and scores.

>>> import matplotlib; matplotlib.use("agg")
>>> import fedwqcp as fw
>>> site = fw.Outputs([[0.2, 0.8], [0.7, 0.3], [0.6, 0.4]], labels=[1, 0, 1])
>>> release = fw.calibrate({"a": site, "b": site}, score="lac", alpha=0.4)
>>> found = [release.measure(name, [[0.1, 0.9], [0.45, 0.55]], [1, 1]) for name in "ab"]
>>> coverage(found, alpha=0.4).get_xlabel()
'coverage, with its exact 95 % interval'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from fedwqcp._validation import Floats, as_alpha, checked
from fedwqcp.errors import InputError
from fedwqcp.federation.predict import calibration_of, thresholds
from fedwqcp.federation.release import Release
from fedwqcp.methods import Calibration
from fedwqcp.metrics import MIN_COUNT, AgentMetrics
from fedwqcp.outputs import Outputs
from fedwqcp.quantile import conformal_quantile
from fedwqcp.report.figures import COLOURS, require_matplotlib

__all__ = ["coverage", "score_ecdf"]


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
    _check_some(found)
    alpha = as_alpha(alpha)
    ax, rows = _axes(ax), range(len(found))
    for row, one in zip(rows, found, strict=True):
        ax.plot([one.low, one.high], [row, row], color=COLOURS[1], linewidth=2)
        ax.plot([one.coverage], [row], marker="o", color=COLOURS[1], label=one.agent)
    ax.axvline(1 - alpha, color="0.35", linestyle="--", linewidth=1)
    ax.set_yticks(list(rows), [one.agent for one in found])
    ax.invert_yaxis()
    levels = " or ".join(f"{level * 100:g} %" for level in sorted({one.level for one in found}))
    ax.set_xlabel(f"coverage, with its exact {levels} interval")
    return ax


@checked
def score_ecdf(
    release: Release,
    sites: Mapping[str, Outputs | Calibration],
    alpha: float | None = None,
    ax: Any = None,
) -> Any:
    """Plot the distribution of each agent's calibration scores, its own and the released threshold.

    The curves go through the edges of bins that hold ten people or more, straight in between, so
    that they can be shown; an agent with fewer has none.

    Parameters
    ----------
    release : Release
        What the round ended with.
    sites : mapping of str to Outputs or Calibration
        The calibration data of agents, as `calibrate` takes them.
    alpha : float, optional
        Which level, where the round has several.
    ax : matplotlib.axes.Axes, optional
        Where to plot; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes: dotted lines are agents' own conformal thresholds, full ones those in use.

    Raises
    ------
    InputError
        If there is nothing to plot, or an agent has several thresholds: by label or group.
    MissingExtraError
        If matplotlib is not installed.
    """
    _check_some(sites)
    release.tasks_of(alpha)  # refuses a level that is not of the round
    level = release.round.alphas[0] if alpha is None else alpha
    calibrations = {
        agent: calibration_of(release.round, data) if isinstance(data, Outputs) else data
        for agent, data in sites.items()
    }
    ax = _axes(ax)
    in_use: dict[str, float] = {}
    for number, (agent, cal) in enumerate(calibrations.items()):
        released = np.ravel(thresholds(release, agent, level, cal))
        if len(released) != 1 or cal.columns > 1:
            raise InputError("the plot needs one threshold; this round gives several to an agent")
        colour = COLOURS[number % len(COLOURS)]
        if points := _ecdf(cal.scores):
            ax.plot(*zip(*points, strict=True), color=colour, label=agent)
        alone = conformal_quantile(cal.scores, level)
        if isfinite(alone):
            ax.axvline(alone, color=colour, linestyle=":", linewidth=1.2)
        in_use[agent] = float(released[0])
    shared = len(set(in_use.values())) == 1
    for number, q in enumerate(in_use.values()):
        if isfinite(q) and (number == 0 or not shared):
            colour = "black" if shared else COLOURS[number % len(COLOURS)]
            ax.axvline(q, color=colour, linewidth=1.2)
    ax.axhline(1 - level, color="0.35", linestyle="--", linewidth=1)
    ax.set_xlabel(
        f"{release.round.score.name} score; solid line: threshold in use, dotted: an agent's own"
    )
    ax.set_ylabel("share of calibration points")
    if ax.get_legend_handles_labels()[0]:
        ax.legend()
    return ax


def _ecdf(scores: Floats, bins: int = 20) -> list[tuple[float, float]]:
    """Return edges with the share of scores up to each; ten people or more lie between two.

    Edges are equal steps over a range that is rounded outward to one digit of its width, so that
    its ends do not tell the lowest and the highest score more exactly than that.
    """
    values = np.sort(scores[np.isfinite(scores)])
    if len(values) < MIN_COUNT:
        return []
    low, high = values[0], values[-1]
    step = 10.0 ** np.floor(np.log10(high - low or abs(low) or 1.0))
    first, last = np.floor(low / step), np.ceil(high / step)
    edges = np.linspace(first, max(last, first + 1), bins + 1) * step
    below = [0, *np.searchsorted(values, edges[1:-1]).tolist(), len(values)]
    kept = [0]
    for place, people in enumerate(below):
        if people - below[kept[-1]] >= MIN_COUNT <= len(values) - people:
            kept.append(place)
    return [(float(edges[place]), below[place] / len(scores)) for place in (*kept, bins)]


def _axes(ax: Any) -> Any:
    """Return the axes, on a new figure where none are given."""
    require_matplotlib()
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _check_some(found: Sequence[object] | Mapping[str, object]) -> None:
    if not len(found):
        raise InputError("there must be at least one agent to plot, got none")
