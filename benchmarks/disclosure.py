"""What an agent's limit on disclosed scores costs, on four hospitals.

``python benchmarks/disclosure.py --data FOLDER`` reads ``heart_disease.csv`` there (UCI Heart
Disease, doi 10.24432/C52P4X, with a column ``site``) and rewrites ``results/disclosure/table.md``.
Each site trains a model of its own on half of its patients, calibrates on a quarter of them and
tests on the last quarter.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedwqcp as fw
from fedwqcp.methods.fcp import FCP
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.methods.fedwq_cp import FedWQCP

OUT = Path(__file__).parents[1] / "results" / "disclosure" / "table.md"
ALPHA = 0.1
GAPS = (2, 3, 5, 10)
METHODS = {
    "fedwq-cp": FedWQCP(),
    "fcp, exact counts": FCP(),
    **{f"fcp, share 1/{gap}": FCP(count_gap=gap) for gap in GAPS},
    "fedls-cp, share 1/2, classes from 1": FedLSCP(min_gap=2, min_class=1),
    **{
        f"fedls-cp, share 1/{gap}, classes from {least}": FedLSCP(min_gap=gap, min_class=least)
        for gap in (2, 5, 10)
        for least in (5, 10, 20)
    },
}


def sites(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Read features and labels (disease or not) of every site."""
    with (folder / "heart_disease.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("site", "num")]
    found = {}
    for site in dict.fromkeys(row["site"] for row in rows):
        own = [row for row in rows if row["site"] == site]
        x = np.array([[float(row[name] or "nan") for name in names] for row in own])
        found[site] = x, np.array([int(row["num"]) > 0 for row in own]).astype(int)
    return found


def models(seed: int) -> tuple[Any, ...]:
    """A model for each site."""
    return (
        RandomForestClassifier(100, min_samples_leaf=3, random_state=seed),
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        GaussianNB(),
        GradientBoostingClassifier(n_estimators=50, random_state=seed),
    )


def split(data: dict, seed: int) -> dict[str, tuple[fw.Calibration, np.ndarray, np.ndarray]]:
    """Train, calibrate and give the test scores of every label, site by site."""
    rng, score, found = np.random.default_rng(seed), fw.APS(), {}
    for (site, (x, y)), model in zip(data.items(), models(seed), strict=True):
        order = rng.permutation(len(y))
        train, cal, test = np.split(order, [len(y) // 2, 3 * len(y) // 4])
        fill = SimpleImputer(keep_empty_features=True).fit(x[train])
        fitted = model.fit(fill.transform(x[train]), y[train])
        probs = np.zeros((len(y), 2))
        probs[:, fitted.classes_] = fitted.predict_proba(fill.transform(x))
        u = rng.random(len(y))
        own = score.of(probs[cal], y[cal], u=u[cal])
        every = np.stack(
            [score.of(probs[test], np.full(len(test), c), u=u[test]) for c in (0, 1)], axis=1
        )
        found[site] = fw.Calibration(own, y[cal], n_classes=2), every, y[test]
    return found


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=30)
    given = parser.parse_args()
    data = sites(given.data)
    totals = {name: np.zeros((len(data), 2)) for name in METHODS}
    for seed in range(given.splits):
        now = split(data, seed)
        for name, method in METHODS.items():
            release = fw.calibrate(
                {s: cal for s, (cal, _, _) in now.items()}, method=method, alpha=ALPHA
            )
            for at, (site, (_, every, y)) in enumerate(now.items()):
                inside = every <= release.threshold(site)
                totals[name][at] += inside[np.arange(len(y)), y].mean(), inside.sum(axis=1).mean()
    head = ["method", *(f"{site} (n = {len(y) // 4})" for site, (_, y) in data.items())]
    lines = [
        f"Coverage / mean set size over {given.splits} splits, alpha = {ALPHA}, randomised APS: "
        "`python benchmarks/disclosure.py --data FOLDER`.",
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for name, total in totals.items():
        cells = (f"{c:.3f} / {size:.2f}" for c, size in total / given.splits)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
