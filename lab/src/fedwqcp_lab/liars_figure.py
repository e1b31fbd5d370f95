"""What two liars did, as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from fedwqcp.report.figures import COLOURS, MARKERS, STYLE, require_matplotlib, save
from fedwqcp_lab.comparison import shown
from fedwqcp_lab.liars_record import Lied
from fedwqcp_lab.liars_tables import lies_of, pooled_coverage

SHOWN = ("fedwq-cp", "fcp", "weighted-median-cp", "trimmed-mean-cp", "rob-fcp", "guarded-median-cp")
"""The methods of the figure."""


def draw(records: Sequence[Lied], preset: str, liars: int, path: Path) -> Path:
    """Draw the worst honest agent's coverage under every lie, one panel for each dataset.

    Parameters
    ----------
    records : sequence of Lied
        All records.
    preset : str
        Under which preset.
    liars : int
        How many lied.
    path : Path
        Where to, as SVG.

    Returns
    -------
    Path
        The same.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    own = [r for r in records if r.preset == preset and r.liars == liars and not r.bounded]
    titles = sorted({shown(r.title, r.status) for r in own})
    with rc_context(STYLE):
        figure = Figure(figsize=(3.6 * len(titles), 3.6), layout="constrained")
        panels = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
        for panel, title in zip(panels, titles, strict=True):
            _panel(panel, [r for r in own if shown(r.title, r.status) == title])
            panel.set_title(title, loc="left", fontweight="bold")
        panels[0].set_ylabel("coverage of the worst honest agent")
        handles = [
            Line2D([], [], label=name, linestyle="none", **_look(place))
            for place, name in enumerate(SHOWN)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
        return save(figure, path)


def _panel(panel: Any, records: Sequence[Lied]) -> None:
    """Draw one dataset: the median, and a line from the lowest to the highest coverage."""
    panel.axhline(1 - records[0].alpha, color="0.35", linestyle="--", linewidth=1)
    lies = lies_of(records)
    for place, method in enumerate(SHOWN):
        for at, lie in enumerate(lies):
            found = pooled_coverage(records, method, lie)
            if not found:
                continue
            x = at + (place - (len(SHOWN) - 1) / 2) * 0.15
            colour = COLOURS[place % len(COLOURS)]
            panel.plot([x, x], [min(found), max(found)], color=colour, linewidth=1.2)
            panel.plot([x], [median(found)], linestyle="none", **_look(place))
    panel.set_xticks(range(len(lies)), lies, rotation=30, ha="right")
    panel.set_ylim(-0.02, 1.02)


def _look(place: int) -> dict[str, Any]:
    """Return how a method is marked."""
    return {
        "marker": MARKERS[place % len(MARKERS)],
        "color": COLOURS[place % len(COLOURS)],
        "markersize": 5.0,
    }
