"""Every table and the figure of docs/beyond.md, from results/beyond and results/stress.

Also the table of docs/explanation/label-shift.md, from those in results/tuning.

Run: python benchmarks/beyond.py [--simulate] [--figure]
A test holds the page to what this prints. --simulate first makes results/beyond/simulated.jsonl.xz
anew (simulated models; no data needed).
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator, Sequence
from math import exp, isfinite, log
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any

import numpy as np

import fedwqcp as fw
from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.results import Result, read_results
from fedwqcp_lab.studies.scale import size_at
from fedwqcp_lab.studies.stress import StressResult, journal_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "beyond"
TUNING = ROOT / "results" / "tuning"
FIGURE = ROOT / "docs" / "images" / "beyond"
LABELS = ("mnist", "fashionmnist", "cifar10", "dermamnist", "bloodmnist", "tissuemnist")
RECIPE = ("paper", "fedwq-cp")
LEAD = ("randomised APS", "fedls-cp")
TUNED = ("tilted APS", "fedls-cp")  # what tuning chose; not recommended, the page says why
SUMMARISED = (RECIPE, ("randomised APS", "fcp"), LEAD, TUNED)
RESIDUALS = {  # what presets of sets of labels take for intervals
    "paper": "absolute residual, largest where too few points",
    "randomised APS": "absolute residual, +inf where too few points",
}
OTHERS = ("split-cp", "fedwq-cp", "fcp", "fedcp-qq", "dp-fedcp")
SHOWN = (
    RECIPE,
    *(("randomised APS", method) for method in OTHERS),
    LEAD,
    ("randomised APS", "fedls-cp (own points)"),
    *(("tilted APS", method) for method in OTHERS),
    TUNED,
    ("tilted APS", "fedls-cp (own points)"),
    ("tilted APS", "fedwq-cp by label"),
    ("tilted APS", "fcp by label"),
    ("tilted APS", "fedls-cp by label"),
    ("LAC", "fedwq-cp"),
    ("LAC", "fedls-cp"),
)


MATCHED = (
    RECIPE,
    *(("randomised APS", method) for method in OTHERS),
    LEAD,
    ("tilted APS", "fcp"),
    ("tilted APS", "fedcp-qq"),
    TUNED,
)
SIMULATED = RESULTS / "simulated.jsonl.xz"
CLASSES, AGENTS, CALIBRATION, TEST, FEDERATIONS = 10, 6, 6_000, 10_000, 100
CONCENTRATIONS = {"strong": 0.0189, "weak": 0.3045}  # accuracies 0.90 and 0.46
METHODS: dict[str, dict[str, int]] = {
    "fedwq-cp": {},
    "fcp": {},
    "fedls-cp": {},
    "fedls-cp (as recorded)": {"min_gap": 2, "min_class": 1},  # defaults when results/ were made
}
TEMPERATURES = {
    "calibrated": {"strong": 1.0, "weak": 1.0},
    "strong overconfident, weak underconfident": {"strong": 0.6, "weak": 1.4},
}


def tables() -> Iterator[tuple[str, str]]:
    """Yield each table of the page with its name."""
    results = read_results(RESULTS)
    stressed = journal_of(ROOT / "results" / "stress").read()
    yield "summary", markdown_table(_summary(results))
    yield "simulated", markdown_table(_simulated())
    yield "matched", markdown_table(_matched(stressed))
    yield "scale", markdown_table(_scale(stressed))
    yield "failures", markdown_table(_failures(stressed))
    yield "methods", markdown_table(_methods(results))
    yield "datasets", markdown_table(_datasets(results))
    yield "agents", markdown_table(_agents(results))
    yield "retina", markdown_table(_retina(results))


def tuning() -> str:
    """Return what settings were chosen on: held-out training rows of seeds 0 to 4."""
    results = read_results(TUNING)
    rows = [["score", "method", "gap", "worst agent", "size ratio"]]
    for row in dict.fromkeys((r.preset, r.method) for r in results):
        if "n0" in row[1] and row[0] != "tilted APS, 0.07":
            continue
        gaps, _, least, ratio = summary(results, row)
        rows.append([*row, f"{gaps:.4f}", f"{least:.3f}", f"{ratio:.3f}"])
    return markdown_table(rows)


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


def _summary(results: Sequence[Result]) -> Iterator[list[str]]:
    """Set the recipe beside three other rows, over- and under-coverage apart."""
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
    yield ["bytes sent by an agent, at most", *(f"{max(r.bytes_up for r in o):,}" for o in own), ""]


def _matched(stressed: Sequence[StressResult]) -> Iterator[list[str]]:
    """Compare sizes where every row's worst agent covers as often as the recipe's does."""
    own = [line for line in stressed if line.factor == "alpha"]
    names = list(dict.fromkeys(line.dataset for line in own))
    points = {(name, row): _levels(own, name, row) for name in names for row in MATCHED}
    recipe = {name: points[name, RECIPE][0.05] for name in names}  # miscoverage and size
    heads = (f"{_title(own, name)}: worst {1 - recipe[name][0]:.3f}" for name in names)
    yield ["score", "method", *heads, "size ratio", "size ratio at alpha = 0.05"]
    for row in MATCHED:
        sizes = [size_at(points[name, row], recipe[name][0]) for name in names]
        cells = ["none" if x is None else f"{x:.2f}" for x in sizes]
        ratios = [x / recipe[name][1] for name, x in zip(names, sizes, strict=True) if x]
        matched = f"{geometric_mean(ratios):.3f}" if len(ratios) == len(names) else "none"
        plain = geometric_mean(points[name, row][0.05][1] / recipe[name][1] for name in names)
        yield [*row, *cells, matched, f"{plain:.3f}"]


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


def _scale(stressed: Sequence[StressResult]) -> Iterator[list[str]]:
    """Show FCP and fedls-cp on randomised APS as agents become many."""
    methods = ("fcp", "fedls-cp")
    yield ["dataset", "agents", *(f"{m}: {what}" for m in methods for what in ("worst", "gap"))]
    own = [x for x in stressed if (x.factor, x.preset) == ("agents", "randomised APS")]
    for name in dict.fromkeys(x.dataset for x in own):
        for value in (6.0, 20.0, 100.0):
            cells = []
            for method in methods:
                here = [x for x in own if (x.dataset, x.value, x.method) == (name, value, method)]
                cells += [f"{median(x.worst for x in here):.3f}"]
                cells += [f"{median(x.gap for x in here):.4f}"]
            yield [_title(own, name), f"{value:g}", *cells]


def _failures(stressed: Sequence[StressResult]) -> Iterator[list[str]]:
    """Show where the worst agent of each method on randomised APS lacks most."""
    yield ["method", "lacks at most", "dataset", "where"]
    groups: dict[tuple[str, str, str, float], list[StressResult]] = {}
    for x in stressed:
        if x.preset == "randomised APS":
            groups.setdefault((x.method, x.dataset, x.factor, x.value), []).append(x)
    lacks = {key: median(1 - x.alpha - x.worst for x in own) for key, own in groups.items()}
    most = {name: max((v, k) for k, v in lacks.items() if k[0] == name) for name, *_ in lacks}
    for lack, (method, dataset, factor, value) in sorted(most.values()):
        title = _title(stressed, dataset)
        yield [method, f"{lack:.3f}", title, f"{factor} = {value:g}"]


def simulate(seed: int, models: str) -> list[dict[str, object]]:
    """Return what methods give one federation of simulated models.

    p is drawn from a symmetric Dirichlet distribution and y from p, so that the model is calibrated
    and no class differs from another: given y = c, p is Dirichlet with c's parameter raised by 1. A
    temperature other than 1 makes the model over- or underconfident.
    """
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(AGENTS, 0.3), size=CLASSES)
    labels = rng.integers(CLASSES, size=CALIBRATION)
    places = (rng.uniform(size=CALIBRATION)[:, None] > shares.cumsum(axis=1)[labels]).sum(axis=1)
    owner = np.minimum(places, AGENTS - 1)
    truth = rng.integers(CLASSES, size=TEST)
    agents = []
    for k in range(AGENTS):
        kind = "strong" if k < AGENTS // 2 else "weak"
        drawn = []
        for y in (labels[owner == k], truth):
            mass = rng.standard_gamma(CONCENTRATIONS[kind], size=(len(y), CLASSES))
            mass[np.arange(len(y)), y] = rng.standard_gamma(CONCENTRATIONS[kind] + 1, size=len(y))
            p = (mass / mass.sum(axis=1, keepdims=True)) ** (1 / TEMPERATURES[models][kind])
            drawn.append((p / p.sum(axis=1, keepdims=True), y, rng.uniform(size=len(y))))
        agents.append(drawn)
    records: list[dict[str, object]] = []
    scores: dict[str, Any] = {"randomised APS": fw.APS(), "tilted APS": fw.scores.get("tilted-aps")}
    for name, score in scores.items():
        sent = {f"{k}": fw.Calibration(score.of(*own), own[1]) for k, (own, _) in enumerate(agents)}
        for method, settings in METHODS.items():
            chosen = fw.methods.get(method.partition(" (")[0], **settings)
            release = fw.calibrate(sent, method=chosen, alpha=0.05, target="mixture")
            hits, sizes = [], []
            for k, (_, (p, y, u)) in enumerate(agents):
                sets = score.invert(p, release.threshold(f"{k}"), u=u)
                hits.append(int(sets.cover(y).sum()))
                sizes.append(float(sets.sizes().mean()))
            line = {"models": models, "seed": seed, "score": name, "method": method}
            records.append({**line, "hits": hits, "size": round(fmean(sizes), 4)})
    return records


def simulated() -> list[dict[str, object]]:
    """Return the records of the simulation."""
    with lzma.open(SIMULATED, "rt") as lines:
        return [json.loads(line) for line in lines]


def _simulated() -> Iterator[list[str]]:
    """Show each score and method on models that are calibrated, and on models that are not."""
    yield ["models", "score", "method", "gap", "worst agent", "strong", "weak", "size"]
    records = simulated()
    for row in dict.fromkeys((r["models"], r["score"], r["method"]) for r in records):
        own = [r for r in records if (r["models"], r["score"], r["method"]) == row]
        covered = np.array([r["hits"] for r in own]) / TEST
        figures = [
            f"{np.abs(covered - 0.95).mean():.4f}",
            f"{np.median(covered.min(axis=1)):.3f}",
            f"{covered[:, : AGENTS // 2].mean():.3f}",
            f"{covered[:, AGENTS // 2 :].mean():.3f}",
            f"{np.mean([r['size'] for r in own]):.2f}",
        ]
        yield [*map(str, row), *figures]


def _methods(results: Sequence[Result]) -> Iterator[list[str]]:
    """Show every shown row over the six datasets."""
    yield ["score", "method", "gap", "short", "worst agent", "worst class", "size ratio"]
    for row in SHOWN:
        gaps, lacks, least, ratio = summary(results, row)
        figures = f"{gaps:.4f}", f"{lacks:.4f}", f"{least:.3f}", f"{_class(results, row):.3f}"
        yield [*row, *figures, f"{ratio:.3f}"]


def _class(results: Sequence[Result], row: tuple[str, str]) -> float:
    """Return the worst class's coverage, mean over seeds, agents and datasets."""
    own = [r.worst_class for name in LABELS for r in _rows(results, name, row)]
    return fmean(worst for worst in own if worst is not None)


def _datasets(results: Sequence[Result]) -> Iterator[list[str]]:
    """Show the recipe and `LEAD` for each dataset."""
    yield ["dataset", "recipe: gap", "worst", "size", "fedls-cp: gap", "worst", "size"]
    for name in LABELS:
        cells: list[str] = []
        for row in (RECIPE, LEAD):
            rows = _rows(results, name, row)
            cells += [f"{gap(rows):.4f}", f"{worst(rows):.3f}", f"{size(rows):.2f}"]
        yield [_title(results, name), *cells]


def _agents(results: Sequence[Result]) -> Iterator[list[str]]:
    """Show coverage and size of every agent under `LEAD`."""
    agents = sorted({r.agent for r in results})
    yield ["dataset", *(f"{agent}: coverage, size" for agent in agents)]
    for name in LABELS:
        rows = _rows(results, name, LEAD)
        cells = []
        for agent in agents:
            own = [r for r in rows if r.agent == agent]
            cells.append(
                f"{median(r.coverage for r in own):.3f}, {median(r.size for r in own):.2f}"
            )
        yield [_title(results, name), *cells]


def _retina(results: Sequence[Result]) -> Iterator[list[str]]:
    """Show intervals on RetinaMNIST."""
    yield ["models", "score", "method", "coverage", "worst agent", "length, clipped", "labels"]
    for dataset in ("retinamnist", "retinamnist-long"):
        for row in dict.fromkeys((r.preset, r.method) for r in results if r.dataset == dataset):
            if row[1] == "cphet":
                continue
            rows = _rows(results, dataset, row)
            coverage = fmean(r.coverage for r in rows)
            length, labels = (
                fmean(getattr(r, x) or 0.0 for r in rows) for x in ("clipped", "labels")
            )
            models = "longer training" if dataset.endswith("long") else "the paper's"
            figures = (f"{coverage:.3f}", f"{worst(rows):.3f}", f"{length:.2f}", f"{labels:.2f}")
            yield [models, RESIDUALS.get(row[0], row[0]), row[1], *figures]


def draw() -> None:
    """Draw gap against size for every score and method."""
    from fedwqcp.report.figures import COLOURS, MARKERS, new_figure, save

    results = read_results(RESULTS)
    rows = dict.fromkeys((r.preset, r.method) for r in results if r.dataset == "mnist")
    scores = list(dict.fromkeys(preset for preset, _ in rows))
    methods = list(dict.fromkeys(method for _, method in rows))
    with new_figure(7.5, 4.6) as figure:
        panel = figure.subplots()
        for preset, method in rows:
            gaps, _, _, ratio = summary(results, (preset, method))
            if isfinite(ratio):
                panel.plot(
                    ratio,
                    gaps,
                    color=COLOURS[scores.index(preset) % len(COLOURS)],
                    marker=MARKERS[methods.index(method) % len(MARKERS)],
                    linestyle="none",
                    markersize=7,
                )
        panel.axhline(0.006, color="0.6", linewidth=0.8)
        panel.axvline(0.68, color="0.6", linewidth=0.8)
        panel.set(xlabel="size beside the paper's recipe", ylabel="mean gap to 0.95", yscale="log")
        for at, name in enumerate(scores):
            panel.plot([], [], "o", color=COLOURS[at % len(COLOURS)], label=name)
        for at, name in enumerate(methods):
            panel.plot([], [], MARKERS[at % len(MARKERS)], color="0.3", label=name)
        figure.legend(loc="outside right upper", frameon=False)
        for ending in (".svg", ".png"):
            save(figure, FIGURE.with_suffix(ending))


def _title(results: Sequence[Result] | Sequence[StressResult], name: str) -> str:
    """Return a dataset as tables show it."""
    first = next(r for r in results if r.dataset == name)
    return first.display_title


if __name__ == "__main__":
    if "--simulate" in sys.argv:
        lines = [r for m in TEMPERATURES for s in range(FEDERATIONS) for r in simulate(s, m)]
        with lzma.open(SIMULATED, "wt") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
    for name, table in (*tables(), ("tuning", tuning())):
        print(f"{name}\n\n{table}\n")
    if "--figure" in sys.argv:
        draw()
