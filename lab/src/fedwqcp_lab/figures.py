"""Figures of an experiment: the ablation, and who holds what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedwqcp.report.figures import COLOURS, new_figure, save_all
from fedwqcp_lab.comparison import INTERVAL, OURS, PLAIN_MEAN, TableCell, agent_coverage
from fedwqcp_lab.results import AgentPartition


@contextmanager
def _one_panel_each(
    datasets: Sequence[str],
    width: float,
    height: float,
    *,
    least: float = 0.0,
    below: float = 0.0,
) -> Iterator[tuple[Any, Any]]:
    """Begin a figure with a panel for each dataset, four in a row; the legend has room below."""
    columns = min(4, len(datasets))
    lines = -(-len(datasets) // columns)
    with new_figure(max(least, width * columns), height * lines + below) as figure:
        panels = figure.subplots(lines, columns, squeeze=False)
        for panel in panels.flat[len(datasets) :]:
            panel.set_visible(False)
        yield figure, panels


def draw_ablation(found: Sequence[TableCell], nominal: float, stem: Path) -> tuple[Path, ...]:
    """Draw both methods' coverage agent by agent, one panel for each dataset."""
    if not {OURS, PLAIN_MEAN} <= {c.method for c in found}:
        return ()
    datasets = list(dict.fromkeys(c.dataset for c in found))
    with _one_panel_each(datasets, 3.2, 2.8, least=4.8, below=0.4) as (figure, panels):
        for panel, dataset in zip(panels.flat, datasets, strict=False):
            _ablation_panel(panel, [c for c in found if c.dataset == dataset], nominal)
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            title=f"median over seeds ± {INTERVAL}",
            loc="outside lower center",
            ncols=3,
            frameon=False,
        )
        return save_all(figure, stem, (".png", ".svg"))


def draw_partition(partitions: Sequence[AgentPartition], stem: Path) -> tuple[Path, ...]:
    """Draw the partition of the first seed, one panel for each dataset."""
    first = min((part.seed for part in partitions), default=0)
    datasets = sorted({part.dataset for part in partitions if part.seed == first})
    if not datasets:
        return ()
    with _one_panel_each(datasets, 3.4, 2.6) as (figure, panels):
        for panel, dataset in zip(panels.flat, datasets, strict=False):
            own = [s for s in partitions if s.dataset == dataset and s.seed == first]
            _partition_panel(panel, sorted(own, key=lambda part: int(part.agent[1:])))
        figure.suptitle(f"calibration points of each agent and class, seed {first}")
        return save_all(figure, stem, (".png", ".svg"))


def _ablation_panel(panel: Any, found: Sequence[TableCell], nominal: float) -> None:
    for shift, colour, method in ((-0.12, COLOURS[1], OURS), (0.12, COLOURS[0], PLAIN_MEAN)):
        own = agent_coverage(found, method)
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
    panel.set_title(found[0].display_title, loc="left", fontweight="bold")
    panel.set_ylabel("coverage")


def _partition_panel(panel: Any, partitions: Sequence[AgentPartition]) -> None:
    """Draw one dataset: the darker, the more points; the number stands inside."""
    counts = [part.counts for part in partitions]
    most = max(1, *(count for row in counts for count in row))
    panel.pcolormesh(counts, cmap="Blues", vmin=0, vmax=most, edgecolors="white", linewidth=0.5)
    for line, row in enumerate(counts):
        for column, count in enumerate(row):
            panel.text(
                column + 0.5,
                line + 0.5,
                str(count),
                ha="center",
                va="center",
                fontsize=6,
                color="white" if count > most / 2 else "0.2",
            )
    panel.set_yticks([line + 0.5 for line in range(len(partitions))], [s.agent for s in partitions])
    panel.set_xticks([c + 0.5 for c in range(len(counts[0]))], range(len(counts[0])))
    panel.invert_yaxis()
    panel.set_title(partitions[0].display_title, loc="left", fontweight="bold")
