"""Score distributions with the thresholds drawn in: why one threshold fits, or does not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import Any

from fedwqcp.bench.shown import Portrait
from fedwqcp.report.figures import COLOURS, STYLE, require_matplotlib, save_all


def draw(
    portraits: Sequence[Portrait], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw each agent's distribution of scores, its own threshold and the released one.

    The curves go through the edges of bins that hold ten people or more, straight in between.

    Parameters
    ----------
    portraits : sequence of Portrait
        The agents, one panel for each dataset.
    stem : Path
        Where to, without ending.
    endings : sequence of str, optional
        In which formats.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys(p.dataset for p in portraits))
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(datasets), 3.8), layout="constrained")
        panels = figure.subplots(1, len(datasets), sharey=True, squeeze=False)[0]
        for panel, dataset in zip(panels, datasets, strict=True):
            _draw(panel, [p for p in portraits if p.dataset == dataset])
            panel.set_title(dataset, loc="left", fontweight="bold")
        panels[0].set_ylabel("share of calibration points")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
        return save_all(figure, stem, endings)


def _draw(panel: Any, portraits: Sequence[Portrait]) -> None:
    """Draw one dataset."""
    first = portraits[0]
    panel.axhline(first.level, color="0.35", linestyle="--", linewidth=1)
    for place, own in enumerate(portraits):
        colour = COLOURS[place % len(COLOURS)]
        n = sum(own.people)
        if n:
            shares = [people / n for people in accumulate(own.people, initial=0)]
            panel.plot(own.edges, shares, color=colour, linewidth=1.4, label=own.agent)
        if isfinite(own.local):
            panel.plot([own.local], [first.level], marker="|", color=colour, markersize=11)
    for value, style, name in (
        (first.released, "-", "released threshold"),
        (first.mixture, ":", "quantile of all scores"),
    ):
        if isfinite(value):
            panel.axvline(value, color="black", linestyle=style, linewidth=1.2, label=name)
    panel.set_xlabel("score; ticks on the dashed line: agents' own thresholds")
    panel.set_ylim(0, 1.01)
