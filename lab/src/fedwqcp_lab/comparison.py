"""Results over seeds as cells of a table, each beside the published figure.

`published` reads the paper's figures; `cells` summarises results over seeds and judges each against
them; rows of cells then become Markdown, CSV or figures elsewhere.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import inf, isfinite, sqrt
from statistics import fmean, median, stdev
from typing import Literal, TypeAlias

from fedwqcp.errors import InputError
from fedwqcp_lab.results import DatasetRecord, Result

PublishedVerdict: TypeAlias = Literal["inside", "overlapping", "outside", ""]
"""Our median lies in the published interval; the intervals meet; neither; nothing to compare."""

AVERAGE, ALL = "Avg", "all"
"""Places of figures that belong to no single agent."""

INTERVAL = "1.96 sd / sqrt(seeds)"
"""Half the width of every interval over seeds, as tables, figures and reports name it."""

OURS = "fedwq-cp"
"""The method whose sets the others are compared with."""

_METHODS = ("dp-fedcp", "split-cp", "fedcp-qq", "fcp", "cphet", "fedwq-cp", "fedavgq-cp")

_PRESETS = ("paper", "sound", "sound-cqr")

PublishedKey: TypeAlias = tuple[str, str, str, str]
"""Dataset, method, metric and agent, written without hyphens in small letters, agents apart."""

DECIMALS = {"coverage": 4, "size": 2, "runtime_s": 3}
"""Decimals that the paper prints."""

PLAIN_MEAN = "fedavgq-cp"
"""The ablation: every agent counts alike."""

SEPARATE = 0.0005
"""Differences of coverage below this are called none: half the last digit shown."""


READINGS = (
    ("fedwq-cp", "fedwq-cp", "the method"),
    ("split-cp", "split-cp", "the method"),
    ("fcp", "fcp", "the method"),
    (
        "fedcp-qq",
        "fedcp-qq (local maximum 6 of 6)",
        "the largest score of any agent, at most 1, in float32",
    ),
    ("cphet", "split-cp", "as SplitCP: each agent alone, no weights"),
    (
        "dp-fedcp",
        "dp-fedcp (mean of all iterates from 0.7)",
        "pinball descent on all scores alike, mean of all iterates from 0.7, plain sets",
    ),
)
"""For each published row: our row that is held against it, and what that is."""


def cells(results: Sequence[Result], *, against: bool = True) -> tuple[TableCell, ...]:
    """Summarise results over seeds."""
    if not results:
        raise InputError("there are no results: run the experiment first")
    status: dict[str, str] = {}
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        if status.setdefault(result.dataset, result.status) != result.status:
            raise InputError(f"the results mix copies of {result.dataset} that differ in status")
        rows.setdefault((result.dataset, result.preset, result.method), []).append(result)
    found = [cell for row in sorted(rows, key=_order) for cell in _row(rows[row], against)]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class TableCell(DatasetRecord):
    """One figure of a table: a median over seeds, and what the paper prints for it."""

    preset: str
    method: str
    metric: str  # "coverage", "size", "clipped", "labels", "runtime_s" or "sets_s"
    agent: str  # an agent, "Avg" (mean over agents) or "all"
    seeds: int
    median: float
    half: float  # `half_width`
    figure: PublishedFigure | None
    verdict: PublishedVerdict  # empty for times, which belong to a machine


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def judge(value: float, half: float, figure: PublishedFigure) -> PublishedVerdict:
    """Compare our figure with a published one.

    Examples
    --------
    >>> judge(0.96, 0.01, PublishedFigure(0.95, 0.005, 4))
    'overlapping'
    """
    # Our median is a count over at most a few hundred thousand, an end of the printed interval one
    # over 20,000: where they are not equal they differ by more than 1e-10. Rounding to 1e-12 takes
    # away what float sums added, so that a median exactly on the end counts as inside.
    exact, low, high = (round(x, 12) for x in (value, value - half, value + half))
    if figure.low <= exact <= figure.high:
        return "inside"
    meets = isfinite(half) and low <= figure.high and figure.low <= high
    return "overlapping" if meets else "outside"


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the interval over seeds: 1.96 sd / sqrt(n).

    Examples
    --------
    >>> round(half_width([0.94, 0.95, 0.96]), 4)
    0.0113
    """
    if not all(isfinite(value) for value in values):
        return inf
    return 1.96 * stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def reduction(other: float, ours: float) -> float | None:
    """Return by which share our sets are smaller: (other - ours) / other."""
    return (other - ours) / other if 0 < other < inf and ours < inf else None


def count_verdicts(found: Iterable[TableCell]) -> dict[tuple[str, str, str], Counter[str]]:
    """Count the verdicts."""
    tally: dict[tuple[str, str, str], Counter[str]] = {}
    for cell in found:
        if cell.verdict:
            tally.setdefault((cell.preset, cell.method, cell.metric), Counter())[cell.verdict] += 1
    return tally


def against_published(found: Iterable[TableCell], method: str, row: str) -> list[TableCell]:
    """Return the cells of one of our rows, judged by the figures published for a method."""
    judged = []
    for cell in found:
        figure = published().get(published_key(cell.dataset, method, cell.metric, cell.agent))
        if cell.method == row and cell.metric in ("coverage", "size") and figure is not None:
            verdict = judge(cell.median, cell.half, figure)
            judged.append(replace(cell, figure=figure, verdict=verdict))
    return judged


@cache
def published() -> dict[PublishedKey, PublishedFigure]:
    """Return all printed figures."""
    text = (files("fedwqcp_lab") / "published.csv").read_text(encoding="utf-8")
    return {
        published_key(row["dataset"], row["method"], row["metric"], row["agent"]): PublishedFigure(
            float(row["median"]), float(row["ci95_half_width"]), DECIMALS[row["metric"]]
        )
        for row in csv.DictReader(text.splitlines())
    }


@dataclass(frozen=True)
class PublishedFigure:
    """A printed median and half the width of its interval, both to so many decimals."""

    median: float
    half: float
    decimals: int

    @property
    def low(self) -> float:
        """Lower end of the interval, lowered by what rounding may have taken."""
        return round(self.median - self.half - 0.5 * 10.0**-self.decimals, self.decimals + 1)

    @property
    def high(self) -> float:
        """Upper end of the interval, raised by what rounding may have taken."""
        return round(self.median + self.half + 0.5 * 10.0**-self.decimals, self.decimals + 1)


def published_key(dataset: str, method: str, metric: str, agent: str) -> PublishedKey:
    """Return the key of a published figure, whatever the spelling.

    Examples
    --------
    >>> published_key("cifar10", "fedcp-qq (exact)", "size", "Avg")
    ('cifar10', 'fedcpqq', 'size', 'Avg')
    """
    return plain(dataset), plain(method.partition(" (")[0]), metric, agent


def plain(name: str) -> str:
    """Return a name in small letters without hyphens."""
    return name.lower().replace("-", "")


def coverage_rows(found: Sequence[TableCell]) -> tuple[MethodRow, ...]:
    """Return the coverage table: agents, their mean, and the seconds of the calibration."""
    rows = []
    for own in _by_row(found):
        chosen = {c.agent: c for c in own if c.metric == "coverage"}
        chosen[ALL] = next(c for c in own if c.metric == "runtime_s")
        rows.append(MethodRow(own[0].display_title, own[0].method, chosen))
    return tuple(rows)


def size_rows(found: Sequence[TableCell]) -> tuple[MethodRow, ...]:
    """Return the size table, with what FedWQ-CP saves against each method."""
    ours = {c.dataset: c for c in found if c.method == OURS and c.metric == "size"}
    rows = []
    for own in _by_row(found):
        chosen = {
            c.metric: c
            for c in own
            if c.metric in ("size", "clipped", "labels") and c.agent == AVERAGE
        }
        size, best = chosen["size"], ours.get(own[0].dataset)
        less = published_less = None
        if best is not None and best.method != size.method:
            less = reduction(size.median, best.median)
            if size.figure is not None and best.figure is not None:
                published_less = reduction(size.figure.median, best.figure.median)
        rows.append(MethodRow(own[0].display_title, own[0].method, chosen, less, published_less))
    return tuple(rows)


@dataclass(frozen=True)
class MethodRow:
    """One method on one dataset."""

    dataset: str
    method: str
    cells: dict[str, TableCell]  # by agent for a coverage table, by metric for a size table
    less: float | None = None  # the share by which FedWQ-CP's sets are smaller
    published_less: float | None = None  # the same from the published medians


def agents_of(rows: Sequence[MethodRow]) -> tuple[str, ...]:
    """Return the columns of a coverage table, without the runtime."""
    names = dict.fromkeys(name for row in rows for name in row.cells)
    return (*(name for name in names if name not in (ALL, AVERAGE)), AVERAGE)


def ablation_rows(found: Sequence[TableCell]) -> list[list[str]]:
    """Return what the plain mean does to the weak agents' coverage."""
    lines = [["preset", "dataset", "weak, FedWQ-CP", "weak, FedAvgQ-CP", "plain mean covers"]]
    for preset, dataset in dict.fromkeys((c.preset, c.dataset) for c in found):
        own = [c for c in found if (c.preset, c.dataset) == (preset, dataset)]
        weighted, plain = (_weak_coverage(own, method) for method in (OURS, PLAIN_MEAN))
        if weighted is None or plain is None:
            continue
        gap = plain - weighted
        word = "alike" if abs(gap) < SEPARATE else "less" if gap < 0 else "more"
        lines.append([preset, own[0].display_title, f"{weighted:.4f}", f"{plain:.4f}", word])
    return lines


def agent_coverage(found: Sequence[TableCell], method: str) -> list[TableCell]:
    """Return a method's coverage, agent by agent."""
    return [
        c for c in found if c.method == method and c.metric == "coverage" and c.agent != AVERAGE
    ]


def _row(results: Sequence[Result], against: bool) -> list[TableCell]:
    """Return the cells of one dataset, preset and method."""
    seeds = sorted({result.seed for result in results})
    agents = sorted({result.agent for result in results}, key=lambda name: int(name[1:]))
    by = {(result.seed, result.agent): result for result in results}
    if len(by) < len(seeds) * len(agents):
        first = results[0]
        raise InputError(
            f"{first.method} on {first.dataset}: some agents have no result for some seed; "
            "complete the run with --resume"
        )
    series: dict[tuple[str, str], list[float]] = {}
    for agent in agents:
        series["coverage", agent] = [by[seed, agent].coverage for seed in seeds]
    for metric in ("coverage", "size", "clipped", "labels"):
        if getattr(results[0], metric) is not None:
            series[metric, AVERAGE] = [
                fmean(getattr(by[seed, agent], metric) for agent in agents) for seed in seeds
            ]
    series["runtime_s", ALL] = [by[seed, agents[0]].calibration_s for seed in seeds]
    series["sets_s", ALL] = [by[seed, agents[0]].sets_s for seed in seeds]
    return [
        _cell(results[0], metric, agent, values, against)
        for (metric, agent), values in series.items()
    ]


def _cell(first: Result, metric: str, agent: str, values: list[float], against: bool) -> TableCell:
    """Return one figure over seeds."""
    middle, half = median(values), half_width(values)
    figure = (
        published().get(published_key(first.dataset, first.method, metric, agent))
        if against
        else None
    )
    timed = metric in ("runtime_s", "sets_s")
    return TableCell(
        dataset=first.dataset,
        title=first.title,
        status=first.status,
        preset=first.preset,
        method=first.method,
        metric=metric,
        agent=agent,
        seeds=len(values),
        median=middle,
        half=half,
        figure=figure,
        verdict="" if figure is None or timed else judge(middle, half, figure),
    )


def _order(row: tuple[str, str, str]) -> tuple[int, str, int, str, int, str]:
    """Sort presets, datasets and methods as the paper has them, unknown ones last."""
    dataset, preset, method = row
    printed = list(dict.fromkeys(key[0] for key in published()))
    return (
        _at(preset, _PRESETS),
        preset,
        _at(plain(dataset), printed),
        dataset,
        _at(method.partition(" (")[0], _METHODS),
        method,
    )


def _at(name: str, known: Sequence[str]) -> int:
    return known.index(name) if name in known else len(known)


def _by_row(found: Sequence[TableCell]) -> list[list[TableCell]]:
    """Return cells of one dataset and method together, in their order."""
    rows: dict[tuple[str, str], list[TableCell]] = {}
    for cell in found:
        rows.setdefault((cell.dataset, cell.method), []).append(cell)
    return list(rows.values())


def _weak_coverage(found: Sequence[TableCell], method: str) -> float | None:
    """Return the mean over weak agents of the median coverages."""
    own = [c.median for c in agent_coverage(found, method) if c.agent.startswith("W")]
    return fmean(own) if own else None
