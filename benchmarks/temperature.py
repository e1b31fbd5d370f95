"""What a temperature fitted by each agent does to coverage and size, on saved model outputs.

Run: python benchmarks/temperature.py FOLDER
FOLDER holds outputs of classifiers, such as a run with held_out = 0.15 leaves (`fedwqcp-lab run`).
Three ways are compared on the same four fifths of the test points: no temperature; one that each
agent fits on a fifth of its own calibration points, which it then does not calibrate on; and one
that it fits on the other fifth of the test points, whose labels are like the target's.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean, median

import numpy as np

from fedwqcp.errors import InputError
from fedwqcp.scores import fit_temperature, uniforms
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluation import evaluate
from fedwqcp_lab.experiment import load
from fedwqcp_lab.results import Result
from fedwqcp_lab.unit import Unit

SHARE = 0.2
WAYS = ("none", "own rows", "rows like the target's")
ROWS = (
    ("randomised APS", "fedwq-cp"),
    ("randomised APS", "fedls-cp"),
    ("tilted APS", "fedwq-cp"),
    ("tilted APS", "fedls-cp"),
    ("LAC", "fedwq-cp"),
    ("LAC", "fedls-cp"),
)


def variants(unit: Unit) -> tuple[dict[str, Unit], dict[str, list[float]]]:
    """Return the unit under each way, and the temperatures of its agents."""
    setting = unit.setting
    aside = uniforms("test", np.arange(len(setting.test_labels))) < SHARE
    own = uniforms("own", setting.rows) < SHARE
    truth = setting.test_labels
    fits: dict[str, list[float]] = {way: [] for way in WAYS}
    for place, agent in enumerate(unit.outputs):
        part = setting.part(place)
        fits["none"].append(1.0)
        fits["own rows"].append(_fit(agent.calibration[own[part]], setting.labels[part][own[part]]))
        fits["rows like the target's"].append(_fit(agent.test[aside], truth[aside]))
    found = {way: _heated(unit, temperatures, aside) for way, temperatures in fits.items()}
    found["own rows"] = _without(found["own rows"], own)
    return found, fits


def _fit(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the best temperature, or 1 where there is none."""
    try:
        return fit_temperature(logits, labels)
    except InputError:
        return 1.0


def _heated(unit: Unit, temperatures: list[float], aside: np.ndarray) -> Unit:
    """Return logits at temperatures, tested on the points that were not put aside."""
    outputs = tuple(
        replace(agent, calibration=agent.calibration / t, test=agent.test[~aside] / t)
        for agent, t in zip(unit.outputs, temperatures, strict=True)
    )
    setting = replace(
        unit.setting,
        test_labels=unit.setting.test_labels[~aside],
        test_groups=unit.setting.test_groups[~aside],
    )
    return Unit(setting, outputs)


def _without(unit: Unit, rows: np.ndarray) -> Unit:
    """Return the unit without some calibration points."""
    setting = unit.setting
    outputs = tuple(
        replace(agent, calibration=agent.calibration[~rows[setting.part(place)]])
        for place, agent in enumerate(unit.outputs)
    )
    names = ("owners", "rows", "labels", "groups", "features")
    return Unit(replace(setting, **{n: getattr(setting, n)[~rows] for n in names}), outputs)


def main(folder: Path) -> None:
    """Print one line for each score, method and way."""
    shipped = load(Path("beyond.toml"))
    experiment = replace(
        shipped,
        presets=tuple(p for p in shipped.presets if p.name in dict(ROWS)),
        methods=tuple(m for m in shipped.methods if m.name in {row[1] for row in ROWS}),
    )
    results: dict[str, list[Result]] = defaultdict(list)
    temperatures: dict[str, list[float]] = defaultdict(list)
    for path in sorted(folder.rglob(units.SETTING)):
        unit = units.load(path.parent)
        if unit.setting.task != "classification":
            continue
        found, fits = variants(unit)
        for way, changed in found.items():
            results[way] += evaluate(changed, experiment)
            temperatures[way] += fits[way]
        print(path.parent, file=sys.stderr)
    for way in WAYS[1:]:
        low, mid, high = np.quantile(temperatures[way], (0.05, 0.5, 0.95))
        same = sum(t == 1.0 for t in temperatures[way])
        print(f"{way}: T from {low:.2f} to {high:.2f}, median {mid:.2f}; {same} agents had no fit")
    print("| score | method | temperature fitted on | gap | worst agent | size |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row in ROWS:
        for way in WAYS:
            print(f"| {row[0]} | {row[1]} | {way} | {_cells(results, row, way)} |")


def _cells(results: dict[str, list[Result]], row: tuple[str, str], way: str) -> str:
    """Return gap, worst agent and size beside no temperature, over all datasets."""
    gaps, least, ratios = [], [], []
    for name in sorted({r.dataset for r in results[way]}):
        own, base = (
            [r for r in results[w] if (r.dataset, r.preset, r.method) == (name, *row)]
            for w in (way, "none")
        )
        gaps.append(fmean(abs(r.coverage - 1 + r.alpha) for r in own))
        seeds = {r.seed for r in own}
        least.append(median(min(r.coverage for r in own if r.seed == seed) for seed in seeds))
        ratios.append(log(fmean(r.size for r in own) / fmean(r.size for r in base)))
    return f"{fmean(gaps):.4f} | {min(least):.3f} | {exp(fmean(ratios)):.3f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
