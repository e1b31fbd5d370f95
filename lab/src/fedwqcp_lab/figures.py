"""Figures of benchmarks and studies by name, beside those that `fedwqcp report figure` draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from fedwqcp.demo.records import AgentProfile
from fedwqcp.errors import InputError
from fedwqcp.report import figures
from fedwqcp.report.figures import COLOURS, STYLE, FigureSource, require_matplotlib, save_all
from fedwqcp.report.html.demo import is_demo
from fedwqcp_lab.comparison import INTERVAL, OURS, PLAIN_MEAN, Cell, agent_coverage, cells, shown
from fedwqcp_lab.results import Journal, Result, Share, read_results
from fedwqcp_lab.studies.stress import Stressed, draw_stress

Line = TypeVar("Line", Result, Stressed)


def _partition(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw who has which calibration points."""
    if is_demo(asked.source):
        return draw_partition(
            [_share(p) for p in figures.demo_profiles(asked.source)], stem, endings
        )
    return draw_partition(Journal(asked.source / "partitions.jsonl", Share).read(), stem, endings)


def _ablation(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw the plain mean of thresholds beside the weighted one."""
    results = _of_preset(read_results(asked.source), asked.preset)
    return draw_ablation(cells(results), 1 - results[0].alpha, stem, endings)


def _coverage(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw coverage against size."""
    if is_demo(asked.source):
        return figures.demo_coverage(asked, stem, endings)
    results = _of_preset(read_results(asked.source), asked.preset)
    plain = [result for result in results if " (" not in result.method]  # no other readings
    return figures.coverage_against_size(medians(plain), stem, endings)


def _gap(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw what the worst agent lacks, against every factor of a stress study."""
    lines = Journal(asked.source / "stress.jsonl", Stressed).read()
    if not lines:
        raise InputError(f"{asked.source} holds no stress.jsonl; first: fedwqcp-lab stress")
    return draw_stress(_of_preset(lines, asked.preset), stem, endings)


FIGURES: dict[str, figures.Draw] = {
    **figures.FIGURES,
    "partition": _partition,
    "ablation": _ablation,
    "coverage-vs-size": _coverage,
    "gap-vs-heterogeneity": _gap,
}
"""Every figure by its name."""


def _share(profile: AgentProfile) -> Share:
    """Return an agent's part of the data as a benchmark keeps it."""
    return Share(
        dataset=profile.dataset,
        title=profile.dataset,
        status="published",
        task="classification" if len(profile.counts) > 1 else "regression",
        seed=0,
        agent=profile.agent,
        counts=profile.counts,
        quantiles=False,
    )


def _of_preset(lines: Sequence[Line], preset: str | None) -> list[Line]:
    """Return the lines of one preset."""
    names = list(dict.fromkeys(line.preset for line in lines))
    if preset is not None and preset not in names:
        raise InputError(f"unknown preset {preset!r}; there are: {', '.join(names)}")
    return [line for line in lines if line.preset == (preset or names[0])]


def draw_ablation(
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
            _ablation_panel(panel, [c for c in found if c.dataset == dataset], nominal)
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


def _ablation_panel(panel: Any, found: Sequence[Cell], nominal: float) -> None:
    """Draw one dataset."""
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
    panel.set_title(found[0].shown, loc="left", fontweight="bold")
    panel.set_ylabel("coverage")


def draw_partition(
    shares: Sequence[Share], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw the partition of the first seed, one panel for each dataset.

    Parameters
    ----------
    shares : sequence of Share
        Partitions of a run.
    stem : Path
        Where to, without ending.
    endings : sequence of str, optional
        In which formats.

    Returns
    -------
    tuple of Path
        The files; none without partitions.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    first = min((share.seed for share in shares), default=0)
    datasets = sorted({share.dataset for share in shares if share.seed == first})
    if not datasets:
        return ()
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(4, len(datasets))
    lines = -(-len(datasets) // columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(3.4 * columns, 2.6 * lines), layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel in panels[len(datasets) :]:
            panel.set_visible(False)
        for panel, dataset in zip(panels, datasets, strict=False):
            own = [s for s in shares if s.dataset == dataset and s.seed == first]
            _partition_panel(panel, sorted(own, key=lambda share: int(share.agent[1:])))
        figure.suptitle(f"calibration points of each agent and class, seed {first}")
        return save_all(figure, stem, endings)


def _partition_panel(panel: Any, shares: Sequence[Share]) -> None:
    """Draw one dataset: the darker, the more points; the number stands inside."""
    counts = [share.counts for share in shares]
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
    panel.set_yticks([line + 0.5 for line in range(len(shares))], [s.agent for s in shares])
    panel.set_xticks([c + 0.5 for c in range(len(counts[0]))], range(len(counts[0])))
    panel.invert_yaxis()
    panel.set_title(shown(shares[0].title, shares[0].status), loc="left", fontweight="bold")


@dataclass(frozen=True)
class Medians:
    """What a method gave an agent, as medians over seeds; a `Point`.

    Parameters
    ----------
    dataset, task, method, model : str
        As in a result; the dataset as it is shown.
    alpha, coverage, size : float
        Level, and medians.
    tested : int
        0: chance within one test set is not what these stray by.
    """

    dataset: str
    task: str
    alpha: float
    method: str
    model: str
    coverage: float
    size: float
    tested: int = 0


def medians(results: Sequence[Result]) -> tuple[Medians, ...]:
    """Return medians over seeds.

    Parameters
    ----------
    results : sequence of Result
        The results of one preset.

    Returns
    -------
    tuple of Medians
        One for each dataset, method and agent, sorted.
    """
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.dataset, result.method, result.agent), []).append(result)
    return tuple(_medians(rows[key]) for key in sorted(rows))


def _medians(results: Sequence[Result]) -> Medians:
    """Return an agent's medians over seeds."""
    first = results[0]
    return Medians(
        dataset=shown(first.title, first.status),
        task=first.task,
        alpha=first.alpha,
        method=first.method,
        model=first.model,
        coverage=median(result.coverage for result in results),
        size=median(result.size for result in results),
    )
