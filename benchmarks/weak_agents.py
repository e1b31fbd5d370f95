"""Whom the warning of labels that do not fit meets: the paper's weak agents, and spoilt data.

Run: python benchmarks/weak_agents.py --data DIR  (trains; results/auto/weak-agents.csv)
and: python tools/fill_pages.py                   (a sentence of docs/explanation/faq.md)
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedwqcp.federation.inspection import agreement, of_agreement
from fedwqcp_lab.experiment import paper, parse_seeds
from fedwqcp_lab.training import train_units

RECORDS = Path(__file__).resolve().parents[1] / "results" / "auto" / "weak-agents.csv"
SPOILT = ("columns reversed", "labels shuffled")


def records(data: Path, seeds: tuple[int, ...]) -> Iterator[dict[str, object]]:
    """Train the weak agents of every dataset with classes, and yield what is said of each."""
    experiment = replace(paper(), strong_epochs=1)  # strong models are not looked at
    for plan in experiment.datasets:
        if plan.ordinal is not None:
            continue
        for unit in train_units(plan, experiment, seeds, data=data, on_progress=print):
            setting = unit.setting
            for place, agent in enumerate(unit.outputs):
                labels = setting.labels[setting.part(place)].astype(np.int64)
                if agent.model == "strong" or not len(labels):
                    continue
                values = agent.calibration
                shuffled = np.random.default_rng(setting.seed).permutation(labels)
                cases = {
                    "as it is": (values, labels),
                    "columns reversed": (values[:, ::-1], labels),
                    "labels shuffled": (values, shuffled),
                }
                warned = {
                    case: int(any(of_agreement(None, agreement(*pair))))
                    for case, pair in cases.items()
                }
                right = float((values.argmax(axis=1) == labels).mean())
                about = {"dataset": setting.title, "seed": setting.seed, "agent": agent.name}
                yield {**about, "n": len(labels), "right": round(right, 4), **warned}


def tables() -> Iterator[tuple[str, str]]:
    """Yield the part of the page with its name."""
    with RECORDS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    warned = {case: sum(int(row[case]) for row in rows) for case in ("as it is", *SPOILT)}
    right = [float(row["right"]) for row in rows]
    yield (
        "weak agents",
        f"Of the paper's {len(rows)} weak agents (two seeds, top class right in {min(right):.0%} "
        f"to {max(right):.0%} of rows) it warns of {warned['as it is'] or 'none'}. With columns "
        f"reversed it warns of {warned['columns reversed']}, with labels shuffled of "
        f"{warned['labels shuffled']}.",
    )


def main() -> None:
    """Train and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=parse_seeds, default=(0, 1))
    given = parser.parse_args()
    found = list(records(given.data, given.seeds))
    with RECORDS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
