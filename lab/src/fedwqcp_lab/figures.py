"""Figures of experiments and studies by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isinf
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias, TypeVar

from fedwqcp.errors import InputError
from fedwqcp.report.figures import COLOURS, MARKERS, new_figure, save_all
from fedwqcp_lab.comparison import INTERVAL, OURS, PLAIN_MEAN, TableCell, agent_coverage, cells
from fedwqcp_lab.results import AgentPartition, Journal, Result, read_results
from fedwqcp_lab.studies.own import MAIN
from fedwqcp_lab.studies.scale import draw_scale
from fedwqcp_lab.studies.stress import StressResult, draw_stress, journal_of

Record = TypeVar("Record", Result, StressResult)


@contextmanager
def _one_panel_each(
    datasets: Sequence[str],
    width: float,
    height: float,
    *,
    least: float = 0.0,
    below: float = 0.0,
    sharey: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Begin a figure with a panel for each dataset, four in a row; the legend has room below."""
    columns = min(4, len(datasets))
    lines = -(-len(datasets) // columns)
    with new_figure(max(least, width * columns), height * lines + below) as figure:
        panels = figure.subplots(lines, columns, sharey=sharey, squeeze=False)
        for panel in panels.flat[len(datasets) :]:
            panel.set_visible(False)
        yield figure, panels


def coverage_against_size(
    records: Sequence[Medians], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw coverage against mean size for each method and agent, one panel for each dataset."""
    datasets = list(dict.fromkeys(r.dataset for r in records))
    methods = sorted({r.method for r in records})
    with _one_panel_each(datasets, 4.6, 3.8, below=0.6, sharey=True) as (figure, panels):
        for panel, dataset in zip(panels.flat, datasets, strict=False):
            _coverage_panel(panel, [r for r in records if r.dataset == dataset], methods)
        panels[0][0].set_ylim(top=1.01)  # shared by all, after the last point is drawn
        for row in panels:
            row[0].set_ylabel("coverage of an agent on the shared test data")
        figure.legend(handles=_legend(methods), loc="outside lower center", ncols=5, frameon=False)
        return save_all(figure, stem, endings)


def draw_ablation(
    found: Sequence[TableCell],
    nominal: float,
    stem: Path,
    endings: Sequence[str] = (".png", ".svg"),
) -> tuple[Path, ...]:
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
        return save_all(figure, stem, endings)


def draw_partition(
    partitions: Sequence[AgentPartition], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
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
        return save_all(figure, stem, endings)


@dataclass(frozen=True)
class Medians:
    """What a method gave an agent: medians of coverage and size over seeds."""

    dataset: str
    task: str
    alpha: float
    method: str
    model: str
    coverage: float
    size: float


def medians(results: Sequence[Result]) -> tuple[Medians, ...]:
    """Return medians over seeds."""
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.dataset, result.method, result.agent), []).append(result)
    return tuple(
        Medians(
            dataset=own[0].display_title,
            task=own[0].task,
            alpha=own[0].alpha,
            method=own[0].method,
            model=own[0].model,
            coverage=median(result.coverage for result in own),
            size=median(result.size for result in own),
        )
        for _, own in sorted(rows.items())
    )


def _partition(
    source: Path, preset: str | None, stem: Path, endings: Sequence[str]
) -> tuple[Path, ...]:
    """Draw who has which calibration points, under any preset."""
    del preset
    return draw_partition(
        Journal(source / "partitions.jsonl", AgentPartition).read(), stem, endings
    )


def _ablation(
    source: Path, preset: str | None, stem: Path, endings: Sequence[str]
) -> tuple[Path, ...]:
    """Draw the plain mean of thresholds beside the weighted one."""
    results = _of_preset(read_results(source), preset)
    return draw_ablation(cells(results), 1 - results[0].alpha, stem, endings)


def _coverage(
    source: Path, preset: str | None, stem: Path, endings: Sequence[str]
) -> tuple[Path, ...]:
    """Draw coverage against size."""
    results = _of_preset(read_results(source), preset)
    plain = [result for result in results if " (" not in result.method]  # no other readings
    return coverage_against_size(medians(plain), stem, endings)


def _gap(source: Path, preset: str | None, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw what the worst agent lacks, against every factor of a stress study."""
    records = journal_of(source).read()
    if not records:
        raise InputError(f"{source} holds no stress.jsonl; first: fedwqcp-lab stress")
    if any(record.mix == "own" for record in records):
        return draw_scale(_of_preset(records, preset or MAIN), stem, endings)
    return draw_stress(_of_preset(records, preset), stem, endings)


def _of_preset(records: Sequence[Record], preset: str | None) -> list[Record]:
    """Return the records of one preset, by default the first."""
    names = list(dict.fromkeys(record.preset for record in records))
    if preset is not None and preset not in names:
        raise InputError(f"unknown preset {preset!r}; there are: {', '.join(names)}")
    return [record for record in records if record.preset == (preset or names[0])]


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


def _coverage_panel(panel: Any, records: Sequence[Medians], methods: Sequence[str]) -> None:
    first = records[0]
    nominal = 1 - first.alpha
    panel.axhline(nominal, color="0.35", linestyle="--", linewidth=1)
    endless = []
    for place, method in enumerate(methods):
        own = [r for r in records if r.method == method]
        if any(isinf(r.size) for r in own):
            endless.append(method)
        for r in own:
            if not isinf(r.size):
                panel.plot(
                    [r.size], [r.coverage], **_marker_style(place, strong=r.model == "strong")
                )
    labels = first.task == "classification"
    panel.set_xlabel("mean number of labels in a set" if labels else "mean length of an interval")
    panel.set_title(f"{first.dataset}: {first.task}", loc="left", fontweight="bold")
    panel.margins(x=0.08)
    panel.annotate(
        f"nominal {nominal:g}",
        (0.995, nominal),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        color="0.35",
        fontsize=8,
    )
    if endless:
        note = f"not shown, infinite: {', '.join(endless)}"
        panel.text(0.995, 0.02, note, transform=panel.transAxes, ha="right", fontsize=8)


def _marker_style(place: int, *, strong: bool) -> dict[str, Any]:
    """Return how a method is marked: filled where the model is strong, hollow where weak."""
    colour = COLOURS[place % len(COLOURS)]
    return {
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": "none",
        "markersize": 6.5,
        "markeredgecolor": colour,
        "markerfacecolor": colour if strong else "none",
        "markeredgewidth": 1.3,
        "alpha": 0.9,
        "clip_on": False,
    }


def _legend(methods: Sequence[str]) -> list[Any]:
    """Return one handle for each method, and those that tell models apart."""
    from matplotlib.lines import Line2D

    grey: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "0.35"}
    return [
        *(
            Line2D([], [], label=method, **_marker_style(place, strong=True))
            for place, method in enumerate(methods)
        ),
        Line2D([], [], label="strong model", **grey),
        Line2D([], [], label="weak model", markerfacecolor="none", **grey),
    ]


Draw: TypeAlias = Callable[[Path, str | None, Path, Sequence[str]], tuple[Path, ...]]
"""Draw a figure of a folder and a preset at a stem, in the formats named by endings."""

FIGURES: dict[str, Draw] = {
    "partition": _partition,
    "ablation": _ablation,
    "coverage-vs-size": _coverage,
    "gap-vs-heterogeneity": _gap,
}
"""Every figure by its name."""


def draw(name: str, source: Path, path: Path, preset: str | None = None) -> Path:
    """Draw one of the figures; the same records give the same bytes."""
    if name not in FIGURES:
        raise InputError(f"unknown figure {name!r}; known: {', '.join(FIGURES)}")
    files = FIGURES[name](source, preset, path.with_suffix(""), (path.suffix,))
    if not files:
        raise InputError(f"{source} holds nothing to draw {name} from")
    return files[0]
