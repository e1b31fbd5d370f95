"""Every table and the figure of docs/beyond.md, computed from the records in results/beyond.

Also the table of docs/explanation/label-shift.md, from those in results/tuning.

Run: python benchmarks/beyond.py [--figure]
A test holds the page to what this prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from math import exp, isfinite, log
from pathlib import Path
from statistics import fmean, median

from fedwqcp_lab.compare import shown
from fedwqcp_lab.pages import read
from fedwqcp_lab.result import Result

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "beyond"
TUNING = ROOT / "results" / "tuning"
FIGURE = ROOT / "docs" / "images" / "beyond"
LABELS = ("mnist", "fashionmnist", "cifar10", "dermamnist", "bloodmnist", "tissuemnist")
RECIPE = ("paper", "fedwq-cp")
CHOSEN = ("tilted APS", "fedls-cp")
RESIDUALS = {  # what presets of sets of labels take for intervals
    "paper": "absolute residual, largest where too few points",
    "randomised APS": "absolute residual, +inf where too few points",
}
CHOSEN_LENGTH = ("normalised residual, small agents left out", "fedwq-cp")
SHOWN = (
    RECIPE,
    ("randomised APS", "fedwq-cp"),
    ("randomised APS", "fcp"),
    ("randomised APS", "fedcp-qq"),
    ("randomised APS", "fedls-cp"),
    ("randomised APS", "fedls-cp (own points)"),
    ("tilted APS", "fedwq-cp"),
    ("tilted APS", "fcp"),
    ("tilted APS", "fedcp-qq"),
    CHOSEN,
    ("tilted APS", "fedls-cp (own points)"),
    ("tilted APS", "fedwq-cp by label"),
    ("tilted APS", "fcp by label"),
    ("tilted APS", "fedls-cp by label"),
    ("LAC", "fedwq-cp"),
    ("LAC", "fedls-cp"),
)


def tables() -> Iterator[tuple[str, str]]:
    """Yield each table of the page with its name."""
    results = read(RESULTS)
    yield "goals", _table(_goals(results))
    yield "methods", _table(_methods(results))
    yield "datasets", _table(_datasets(results))
    yield "agents", _table(_agents(results))
    yield "retina", _table(_retina(results))


def tuning() -> str:
    """Return what settings were chosen on: held-out training rows of seeds 0 to 4."""
    results = read(TUNING)
    rows = [["score", "method", "gap", "worst agent", "size ratio"]]
    for row in dict.fromkeys((r.preset, r.method) for r in results):
        if "n0" in row[1] and row[0] != "tilted APS, 0.07":
            continue
        gaps, _, least, ratio = summary(results, row)
        rows.append([*row, f"{gaps:.4f}", f"{least:.3f}", f"{ratio:.3f}"])
    return _table(iter(rows))


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
    return [r for r in results if (r.dataset, r.preset, r.method) == (dataset, *row)]


def _goals(results: Sequence[Result]) -> Iterator[list[str]]:
    """Set what was reached beside what was to be reached."""
    yield ["", "the paper's recipe", "ours", "goal", ""]
    base, ours = summary(results, RECIPE), summary(results, CHOSEN)
    own = [r for name in LABELS for r in _rows(results, name, CHOSEN)]
    classes = {"dermamnist": 7, "bloodmnist": 8, "tissuemnist": 8}
    most = max(r.bytes_up / classes.get(r.dataset, 10) for r in own)
    yield ["mean gap to 0.95", f"{base[0]:.4f}", f"{ours[0]:.4f}", "0.006", _met(ours[0] <= 0.006)]
    yield [
        "worst agent, median over seeds, worst dataset",
        f"{base[2]:.3f}",
        f"{ours[2]:.3f}",
        "0.942",
        _met(ours[2] >= 0.942),
    ]
    yield ["size beside the recipe's", "1", f"{ours[3]:.3f}", "0.68", _met(ours[3] <= 0.68)]
    yield ["bytes sent per class, at most", "", f"{most:.0f}", "600", _met(most <= 600)]
    length = fmean(r.clipped or 0.0 for r in _rows(results, "retinamnist", RECIPE))
    chosen = _rows(results, "retinamnist-long", CHOSEN_LENGTH)
    best, covered = fmean(r.clipped or 0.0 for r in chosen), fmean(r.coverage for r in chosen)
    yield [
        "RetinaMNIST, ours with longer training: clipped length, coverage at least 0.95",
        f"{length:.2f}",
        f"{best:.2f} ({100 * (best / length - 1):.0f} %), coverage {covered:.3f}",
        "-15 %",
        _met(best <= 0.85 * length and covered >= 0.95),
    ]


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
    """Show the recipe and the chosen row for each dataset."""
    yield ["dataset", "recipe: gap", "worst", "size", "ours: gap", "worst", "size"]
    for name in LABELS:
        cells: list[str] = []
        for row in (RECIPE, CHOSEN):
            rows = _rows(results, name, row)
            cells += [f"{gap(rows):.4f}", f"{worst(rows):.3f}", f"{size(rows):.2f}"]
        yield [_title(results, name), *cells]


def _agents(results: Sequence[Result]) -> Iterator[list[str]]:
    """Show coverage and size of every agent under the chosen row."""
    agents = sorted({r.agent for r in results})
    yield ["dataset", *(f"{agent}: coverage, size" for agent in agents)]
    for name in LABELS:
        rows = _rows(results, name, CHOSEN)
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
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from fedwqcp.report.figures import COLOURS, MARKERS, STYLE, save

    results = read(RESULTS)
    rows = dict.fromkeys((r.preset, r.method) for r in results if r.dataset == "mnist")
    scores = list(dict.fromkeys(preset for preset, _ in rows))
    methods = list(dict.fromkeys(method for _, method in rows))
    with mpl.rc_context(STYLE):
        figure = Figure((7.5, 4.6), layout="constrained")
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


def _title(results: Sequence[Result], name: str) -> str:
    """Return a dataset as tables show it."""
    first = next(r for r in results if r.dataset == name)
    return shown(first.title, first.status)


def _met(held: bool) -> str:
    """Say whether a goal was reached."""
    return "reached" if held else "missed"


def _table(rows: Iterator[list[str]]) -> str:
    """Return rows as Markdown."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    for name, table in (*tables(), ("tuning", tuning())):
        print(f"{name}\n\n{table}\n")
    if "--figure" in sys.argv:
        draw()
