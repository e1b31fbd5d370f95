"""What a threshold for each class does to the classes' coverage, on saved model outputs.

Run: python benchmarks/by_label.py FOLDER
FOLDER holds outputs of classifiers, such as a run with held_out = 0.15 leaves (`fedwqcp-lab run`).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from math import exp, log
from pathlib import Path
from statistics import fmean

from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluation import evaluate
from fedwqcp_lab.experiment import load
from fedwqcp_lab.results import Result

METHODS = ("fedwq-cp", "fcp", "fedls-cp")
PRESET = "tilted APS"


def main(folder: Path) -> None:
    """Print one line for each method, and each dataset under fedls-cp."""
    shipped = load(Path("beyond.toml"))
    names = {form for name in METHODS for form in (name, f"{name} by label")}
    experiment = replace(
        shipped,
        presets=tuple(p for p in shipped.presets if p.name == PRESET),
        methods=tuple(m for m in shipped.methods if m.name in names),
    )
    results: list[Result] = []
    for path in sorted(folder.rglob(units.SETTING)):
        unit = units.load(path.parent)
        if unit.setting.task == "classification":
            results += evaluate(unit, experiment)
            print(path.parent, file=sys.stderr)
    print("| method | gap to 0.95 | worst class | size |")
    print("| --- | --- | --- | --- |")
    for name in METHODS:
        for form in (name, f"{name} by label"):
            print(f"| {form} | {_over_all(results, form)} |")
    print()
    print("| dataset | worst class: fedls-cp | fcp by label | size: fedls-cp | fcp by label |")
    print("| --- | --- | --- | --- | --- |")
    for title in sorted({r.title for r in results}):
        forms = [
            [r for r in results if (r.title, r.method) == (title, form)]
            for form in ("fedls-cp", "fcp by label")
        ]
        least = " | ".join(f"{_worst_class(rows):.2f}" for rows in forms)
        sizes = " | ".join(f"{fmean(r.size for r in rows):.2f}" for rows in forms)
        print(f"| {forms[0][0].display_title} | {least} | {sizes} |")


def _worst_class(rows: list[Result]) -> float:
    """Return the mean over seeds and agents of the worst class's coverage."""
    return fmean(r.worst_class for r in rows if r.worst_class is not None)


def _over_all(results: list[Result], method: str) -> str:
    """Return gap, worst class and size (geometric mean) over the datasets."""
    own = [
        [r for r in results if (r.dataset, r.method) == (dataset, method)]
        for dataset in sorted({r.dataset for r in results})
    ]
    gap = fmean(fmean(abs(r.coverage - 1 + r.alpha) for r in rows) for rows in own)
    least = fmean(_worst_class(rows) for rows in own)
    size = exp(fmean(log(fmean(r.size for r in rows)) for rows in own))
    return f"{gap:.4f} | {least:.3f} | {size:.2f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
