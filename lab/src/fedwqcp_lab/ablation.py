"""FedAvgQ-CP against FedWQ-CP: what the weights of the mean do, as a figure and in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from fedwqcp.report.figures import COLOURS, STYLE, require_matplotlib, save_all
from fedwqcp_lab.compare import AVERAGE, INTERVAL, OURS, Cell

PLAIN_MEAN = "fedavgq-cp"
"""The ablation: every agent counts alike."""

SEPARATE = 0.0005
"""Differences of coverage below this are called none: half the last digit shown."""


def rows(found: Sequence[Cell]) -> list[list[str]]:
    """Return what the plain mean does to the weak agents' coverage.

    Parameters
    ----------
    found : sequence of Cell
        Every cell.

    Returns
    -------
    list of list of str
        One row for each preset and dataset; the first one holds the names of the columns.
    """
    lines = [["preset", "dataset", "weak, FedWQ-CP", "weak, FedAvgQ-CP", "plain mean covers"]]
    for preset, dataset in dict.fromkeys((c.preset, c.dataset) for c in found):
        own = [c for c in found if (c.preset, c.dataset) == (preset, dataset)]
        weighted, plain = (_weak(own, method) for method in (OURS, PLAIN_MEAN))
        if weighted is None or plain is None:
            continue
        gap = plain - weighted
        word = "alike" if abs(gap) < SEPARATE else "less" if gap < 0 else "more"
        lines.append([preset, own[0].shown, f"{weighted:.4f}", f"{plain:.4f}", word])
    return lines


def draw(
    found: Sequence[Cell],
    nominal: float,
    stem: Path,
    endings: Sequence[str] = (".png", ".svg"),
) -> tuple[Path, ...]:
    """Draw both methods' coverage agent by agent, one panel for each dataset.

    Parameters
    ----------
    found : sequence of Cell
        The cells of one preset.
    nominal : float
        The coverage that is asked for.
    stem : Path
        Where to, without ending.
    endings : sequence of str, optional
        In which formats.

    Returns
    -------
    tuple of Path
        The files; none where there is nothing to compare.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    have = {c.method for c in found}
    if not {OURS, PLAIN_MEAN} <= have:
        return ()
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys(c.dataset for c in found))
    columns = min(4, len(datasets))
    lines = -(-len(datasets) // columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(max(4.8, 3.2 * columns), 2.8 * lines + 0.4), layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel in panels[len(datasets) :]:
            panel.set_visible(False)
        for panel, dataset in zip(panels, datasets, strict=False):
            _draw(panel, [c for c in found if c.dataset == dataset], nominal)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            title=f"median over seeds ± {INTERVAL}",
            loc="outside lower center",
            ncols=3,
            frameon=False,
        )
        return save_all(figure, stem, endings)


def _draw(panel: Any, found: Sequence[Cell], nominal: float) -> None:
    """Draw one dataset."""
    for shift, colour, method in ((-0.12, COLOURS[1], OURS), (0.12, COLOURS[0], PLAIN_MEAN)):
        own = _coverage(found, method)
        panel.errorbar(
            [place + shift for place in range(len(own))],
            [c.median for c in own],
            yerr=[c.half for c in own],
            fmt="o" if method == OURS else "s",
            color=colour,
            markersize=4,
            capsize=2,
            linewidth=1,
            label=method,
        )
    panel.axhline(nominal, color="0.35", linestyle="--", linewidth=1, label=f"nominal {nominal:g}")
    panel.set_xticks(range(len(own)), [c.agent for c in own])
    panel.set_title(found[0].shown, loc="left", fontweight="bold")
    panel.set_ylabel("coverage")


def _coverage(found: Sequence[Cell], method: str) -> list[Cell]:
    """Return a method's coverage, agent by agent."""
    return [
        c for c in found if c.method == method and c.metric == "coverage" and c.agent != AVERAGE
    ]


def _weak(found: Sequence[Cell], method: str) -> float | None:
    """Return the mean over weak agents of the median coverages."""
    own = [c.median for c in _coverage(found, method) if c.agent.startswith("W")]
    return fmean(own) if own else None
