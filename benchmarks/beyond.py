"""The tables of docs/beyond.md, and one of docs/explanation/label-shift.md, from results/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean, geometric_mean, median

from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.results import Result, read_results
from fedwqcp_lab.studies.scale import size_at
from fedwqcp_lab.studies.stress import StressResult, journal_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "beyond"
LABELS = ("mnist", "fashionmnist", "cifar10", "dermamnist", "bloodmnist", "tissuemnist")
RECIPE = ("paper", "fedwq-cp")
LEAD = ("randomised APS", "fedls-cp")
SUMMARISED = (RECIPE, ("randomised APS", "fcp"), LEAD)


def tables() -> Iterator[tuple[str, str]]:
    """Yield each table with its name; the last is for the page on label shift."""
    results = read_results(RESULTS)
    stressed = journal_of(ROOT / "results" / "stress").read()
    yield "summary", markdown_table(_summary(results, stressed))


def gap(rows: Sequence[Result]) -> float:
    """Return the mean over seeds and agents of the distance from 1 - alpha."""
    return fmean(abs(r.coverage - (1 - r.alpha)) for r in rows)


def short(rows: Sequence[Result]) -> float:
    """Return the mean over seeds and agents of what lacks to 1 - alpha."""
    return fmean(max(0.0, 1 - r.alpha - r.coverage) for r in rows)


def worst(rows: Sequence[Result]) -> float:
    """Return the worst agent's coverage, median over seeds."""
    seeds = {r.seed for r in rows}
    return median(min(r.coverage for r in rows if r.seed == seed) for seed in seeds)


def size(rows: Sequence[Result]) -> float:
    """Return the mean size over seeds and agents."""
    return fmean(r.size for r in rows)


def summary(results: Sequence[Result], row: tuple[str, str]) -> tuple[float, float, float, float]:
    """Return gap, shortfall, worst agent on the worst dataset, and size beside the recipe's."""
    own = {name: _rows(results, name, row) for name in LABELS}
    base = {name: _rows(results, name, RECIPE) for name in LABELS}
    ratio = exp(fmean(log(size(own[name]) / size(base[name])) for name in LABELS))
    gaps = fmean(gap(rows) for rows in own.values())
    lacks = fmean(short(rows) for rows in own.values())
    return gaps, lacks, min(worst(rows) for rows in own.values()), ratio


def _rows(results: Sequence[Result], dataset: str, row: tuple[str, str]) -> list[Result]:
    """Return the records of one row."""
    preset, method = row
    return [
        r for r in results if r.dataset == dataset and r.method == method and r.preset == preset
    ]


def _summary(results: Sequence[Result], stressed: Sequence[StressResult]) -> Iterator[list[str]]:
    """Set the recipe beside two other rows, over- and under-coverage apart."""
    yield ["", *(f"{preset}, {method}" for preset, method in SUMMARISED), "goal"]
    found = [summary(results, row) for row in SUMMARISED]
    own = [[r for name in LABELS for r in _rows(results, name, row)] for row in SUMMARISED]
    below = [sum(r.coverage < 1 - r.alpha for r in rows) for rows in own]
    yield ["mean gap to 0.95", *(f"{gaps:.4f}" for gaps, *_ in found), "0.006"]
    yield ["of it over-coverage", *(f"{gaps - lacks:.4f}" for gaps, lacks, *_ in found), ""]
    yield ["of it under-coverage", *(f"{lacks:.4f}" for _, lacks, *_ in found), ""]
    shares = (
        f"{100 * count / len(rows):.0f} % of {len(rows)}"
        for count, rows in zip(below, own, strict=True)
    )
    yield ["agents and seeds covered below 0.95", *shares, ""]
    least = (f"{worst:.3f}" for *_, worst, _ in found)
    yield ["worst agent, median over seeds, worst dataset", *least, "0.942"]
    yield ["size beside the recipe's", *(f"{ratio:.3f}" for *_, ratio in found), "0.68"]
    yield ["the same where worst agents cover alike", *map(str, _matched(stressed)), ""]
    yield ["bytes sent by an agent, at most", *(f"{max(r.bytes_up for r in o):,}" for o in own), ""]


def _matched(stressed: Sequence[StressResult]) -> Iterator[str]:
    """Compare sizes where every row's worst agent covers as often as the recipe's does."""
    own = [line for line in stressed if line.factor == "alpha"]
    names = list(dict.fromkeys(line.dataset for line in own))
    recipe = {name: _levels(own, name, RECIPE)[0.05] for name in names}  # miscoverage and size
    for row in SUMMARISED:
        sizes = [size_at(_levels(own, name, row), recipe[name][0]) for name in names]
        ratios = [x / recipe[name][1] for name, x in zip(names, sizes, strict=True) if x]
        yield f"{geometric_mean(ratios):.3f}" if len(ratios) == len(names) else "none"


def _levels(
    own: Sequence[StressResult], dataset: str, row: tuple[str, str]
) -> dict[float, tuple[float, float]]:
    """Return the worst agent's miscoverage and the mean size at each level, medians over seeds."""
    lines = [x for x in own if (x.dataset, x.preset, x.method) == (dataset, *row)]
    found = {}
    for alpha in sorted({x.alpha for x in lines}):
        here = [x for x in lines if x.alpha == alpha]
        found[alpha] = 1 - median(x.worst for x in here), median(x.size for x in here)
    return found
