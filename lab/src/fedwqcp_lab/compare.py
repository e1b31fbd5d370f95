"""Results over seeds as cells of a table, each beside the published figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from statistics import fmean, median, stdev
from typing import Literal, TypeAlias

from fedwqcp.errors import InputError
from fedwqcp_lab.published import Figure, place, plain, published
from fedwqcp_lab.result import Result

Verdict: TypeAlias = Literal["inside", "overlapping", "outside", ""]
"""Our median lies in the published interval; the intervals meet; neither; nothing to compare."""

AVERAGE, ALL = "Avg", "all"
"""Places of figures that belong to no single agent."""

INTERVAL = "1.96 sd / sqrt(seeds)"
"""Half the width of every interval over seeds, as tables, figures and reports name it."""

OURS = "fedwq-cp"
"""The method whose sets the others are compared with."""

_METHODS = ("dp-fedcp", "split-cp", "fedcp-qq", "fcp", "cphet", "fedwq-cp", "fedavgq-cp")
_PRESETS = ("paper", "sound", "sound-cqr")


@dataclass(frozen=True)
class Cell:
    """One figure.

    Parameters
    ----------
    dataset, title, status : str
        The data.
    preset, method : str
        Settings and row.
    metric : str
        "coverage", "size", "clipped", "labels" or "runtime_s".
    agent : str
        An agent, "Avg" (mean over agents) or "all".
    seeds : int
        How many runs.
    median, half : float
        Median over seeds, and `half_width` of them.
    figure : Figure or None
        What the paper prints.
    verdict : str
        How both stand to each other; empty for times, which belong to a machine.
    """

    dataset: str
    title: str
    status: str
    preset: str
    method: str
    metric: str
    agent: str
    seeds: int
    median: float
    half: float
    figure: Figure | None
    verdict: Verdict

    @property
    def shown(self) -> str:
        """The dataset as tables show it; a stand-in for the published data is marked."""
        return shown(self.title, self.status)


def shown(title: str, status: str) -> str:
    """Return a dataset's title; anything but the published data is marked.

    Parameters
    ----------
    title, status : str
        As a result has them.

    Returns
    -------
    str
        Such as ``"TissueMNIST [subset]"``.
    """
    said = status == "published" or status in title
    return title if said else f"{title} [{status}]"


def cells(results: Sequence[Result], *, against: bool = True) -> tuple[Cell, ...]:
    """Summarise results over seeds.

    Parameters
    ----------
    results : sequence of Result
        All results of a run.
    against : bool, optional
        Whether published figures are set beside.

    Returns
    -------
    tuple of Cell
        Sorted as the paper's tables are, whatever the order of the results.

    Raises
    ------
    InputError
        If there are none, or copies of a dataset with different status are mixed.
    """
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


def counts(found: Iterable[Cell]) -> dict[tuple[str, str, str], Counter[str]]:
    """Count the verdicts.

    Parameters
    ----------
    found : iterable of Cell
        Cells.

    Returns
    -------
    dict
        By preset, method and metric; only where there is something to compare.
    """
    tally: dict[tuple[str, str, str], Counter[str]] = {}
    for cell in found:
        if cell.verdict:
            tally.setdefault((cell.preset, cell.method, cell.metric), Counter())[cell.verdict] += 1
    return tally


def judge(value: float, half: float, figure: Figure) -> Verdict:
    """Hold our figure against a published one.

    Parameters
    ----------
    value, half : float
        Our median and half the width of its interval.
    figure : Figure
        The published one.

    Returns
    -------
    str
        "inside", "overlapping" or "outside".

    Examples
    --------
    >>> judge(0.96, 0.01, Figure(0.95, 0.005, 4))
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

    Parameters
    ----------
    values : sequence of float
        One figure for each seed.

    Returns
    -------
    float
        0 for a single seed, +inf if a figure is infinite.

    Examples
    --------
    >>> round(half_width([0.94, 0.95, 0.96]), 4)
    0.0113
    """
    if not all(isfinite(value) for value in values):
        return inf
    return 1.96 * stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def reduction(other: float, ours: float) -> float | None:
    """Return by which share our sets are smaller: (other - ours) / other.

    Parameters
    ----------
    other, ours : float
        Mean sizes.

    Returns
    -------
    float or None
        None where it has no meaning.
    """
    return (other - ours) / other if 0 < other < inf and ours < inf else None


def _row(results: Sequence[Result], against: bool) -> list[Cell]:
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


def _cell(first: Result, metric: str, agent: str, values: list[float], against: bool) -> Cell:
    """Return one figure over seeds."""
    middle, half = median(values), half_width(values)
    figure = published().get(place(first.dataset, first.method, metric, agent)) if against else None
    timed = metric in ("runtime_s", "sets_s")
    return Cell(
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
    """Return the place of a name."""
    return known.index(name) if name in known else len(known)
