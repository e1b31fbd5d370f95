"""What following the advice does to coverage and size, on saved model outputs.

Run: python benchmarks/advice.py --outputs FOLDER          (DATASET/seed-S; records.jsonl)
     python benchmarks/advice.py --outputs FOLDER --fresh  (seeds it was not set on; fresh.jsonl)
and: python benchmarks/advice.py --page                    (the tables of docs/how-to/advise.md)

Each unit is looked at with randomised APS and with LAC (RetinaMNIST: absolute residuals), with and
without class counts; then the advised method runs on the advised score. Beside it stands FedWQ-CP
on the score of the first look; where that is +inf, with overflow="exclude". Where the advice names
a floor, the same method without it is measured too ("bare").
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.advising import advise_on
from fedwqcp.methods import Method
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp_lab.comparison import shown
from fedwqcp_lab.evaluation import Scored, prepare
from fedwqcp_lab.experiment import PresetPlan
from fedwqcp_lab.unit import Unit, load

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "advice" / "records.jsonl"
FRESH = RECORDS.with_name("fresh.jsonl")
PAGE = ROOT / "docs" / "how-to" / "advise.md"
ALPHA = 0.05
OTHERS = (0.02, 0.1, 0.2)
LEVELS = (ALPHA, *OTHERS)
PRESETS = {
    "aps": PresetPlan(name="aps", labels={"name": "aps"}),
    "lac": PresetPlan(name="lac", labels={"name": "lac"}),
    "absolute-residual": PresetPlan(name="residual", intervals={"name": "absolute-residual"}),
}


def measure(unit: Unit, alpha: float) -> Iterator[dict[str, object]]:
    """Give one record for each score, and for counts known or not."""
    classes = unit.setting.task == "classification"
    title = shown(unit.setting.title, unit.setting.status)
    names = ("aps", "lac") if classes else ("absolute-residual",)
    scored = {name: prepare(unit, PRESETS[name]) for name in names}
    second = FedLSCP(floor=True)  # as method="auto" looks
    for name in names:
        look = release(scored[name], fw.methods.get("fedwq-cp"), alpha)
        infinite = any(look.threshold(agent) == np.inf for agent in look.used)
        plain = fw.methods.get("fedwq-cp", overflow="exclude" if infinite else "propagate")
        covered, size = outcome(scored[name], release(scored[name], plain, alpha))
        for counts in (True, False) if classes else (False,):
            looks = [look, release(scored[name], second, alpha)] if counts else [look]
            advice = advise_on(*looks)
            then = scored[advice.score]
            yield {
                "alpha": alpha, "dataset": title, "seed": unit.setting.seed,
                "look": name, "counts": counts, "code": advice.code, "method": advice.method,
                "score": advice.score, "price": bool(advice.price),
                "base_worst": min(covered), "base_size": size,
                **follow(then, advice.method, advice.settings, alpha, covered),
                "bare": follow(then, advice.method, {**advice.settings, "floor": False}, alpha,
                               covered) if "floor" in advice.settings else None,
            }  # fmt: skip


def follow(
    scored: Scored, name: str, settings: dict[str, Any], alpha: float, covered: list[float]
) -> dict[str, float]:
    """Return what a method does: its worst agent, size, gap, and how many agents it covers less."""
    found, size = outcome(scored, release(scored, fw.methods.get(name, **settings), alpha))
    return {
        "worst": min(found),
        "size": size,
        "gap": float(np.mean([abs(each - (1 - alpha)) for each in found])),
        "less": sum(own < before for own, before in zip(found, covered, strict=True)),
    }


def measured(folder: Path) -> list[list[dict[str, object]]]:
    """Give the records of one unit, level by level."""
    unit = load(folder)
    return [list(measure(unit, alpha)) for alpha in LEVELS]


def release(scored: Scored, method: Method, alpha: float) -> fw.Release:
    """Run one method."""
    return fw.calibrate(scored.calibrations, method=method, alpha=alpha, score=scored.score, seed=0)


def outcome(scored: Scored, release: fw.Release) -> tuple[list[float], float]:
    """Return the coverage of every agent and the mean size over agents."""
    found = [board.measure(release.threshold(name), "leq") for name, board in scored.boards.items()]
    sizes = [each.size if each.clipped is None else each.clipped for each in found]
    return [each.hits / each.n for each in found], float(np.mean(sizes))


def tables() -> list[tuple[str, str]]:
    """Return the tables of the page, from the records alone."""
    every, fresh = (
        [json.loads(line) for line in file.read_text().splitlines()] for file in (RECORDS, FRESH)
    )
    return [
        ("followed", followed(every)),
        ("others", at_other_levels(every)),
        ("floor", floors(every, fresh)),
        ("grown", growth(every, fresh)),
        ("fresh", followed(fresh)),
        ("fresh others", at_other_levels(fresh)),
    ]


def followed(every: list[dict[str, Any]]) -> str:
    """Show what following the advice did, at the usual level."""
    records = [r for r in every if r["alpha"] == ALPHA]
    rows = [["dataset", "first look", "counts", "advice", "worst agent: FedWQ-CP", "advised",
             "worse in", "size, times FedWQ-CP's"]]  # fmt: skip
    keys = dict.fromkeys((r["dataset"], r["look"], r["counts"]) for r in records)
    for dataset, look, counts in keys:
        own = [
            r for r in records if (r["dataset"], r["look"], r["counts"]) == (dataset, look, counts)
        ]
        used = [f"{r['method']} on {r['score']}" for r in own]
        times = [r["size"] / r["base_size"] for r in own]
        rows.append([
            dataset, look, "yes" if counts else "no",
            ", ".join(f"{name} ({used.count(name)})" for name in dict.fromkeys(used)),
            f"{np.median([r['base_worst'] for r in own]):.3f}",
            f"{np.median([r['worst'] for r in own]):.3f}",
            f"{sum(r['worst'] < r['base_worst'] for r in own)} of {len(own)}",
            f"{min(times):.2f} to {max(times):.2f}",
        ])  # fmt: skip
    return table(rows)


def at_other_levels(every: list[dict[str, Any]]) -> str:
    """Show how often it covered less, or grew without a word, at other levels."""
    others = [
        ["alpha", "cases", "covered less", "by at most", "grew by a twentieth, no price named"]
    ]
    for alpha in OTHERS:
        own = [r for r in every if r["alpha"] == alpha]
        less = [r["base_worst"] - r["worst"] for r in own if r["worst"] < r["base_worst"]]
        grew = [r for r in own if r["size"] > 1.05 * r["base_size"] and not r["price"]]
        most = f"{max(less):.3f}" if less else ""
        others.append([f"{alpha:g}", str(len(own)), str(len(less)), most, str(len(grew))])
    return table(others)


def floors(every: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> str:
    """Show what a floor costs: the same method with and without it, at all levels."""
    rows = [["seeds", "method and score", "cases", "covered less without", "by at most",
             "single agents covered less without", "gap without", "with",
             "size with, times that without: mean", "largest"]]  # fmt: skip
    for seeds, records in (("0 to 4", every), ("10 to 19", fresh)):
        own = [r for r in records if r.get("bare") and r["score"] == r["look"]]
        for name, score in dict.fromkeys((r["method"], r["score"]) for r in own):
            some = [r for r in own if (r["method"], r["score"]) == (name, score)]
            bare = [r["base_worst"] - r["bare"]["worst"] for r in some]
            times = [r["size"] / r["bare"]["size"] for r in some]
            rows.append([
                seeds, f"{name} on {score}", str(len(some)),
                str(sum(gap > 0 for gap in bare)), f"{max(0.0, *bare):.3f}",
                str(sum(r["bare"]["less"] for r in some)),
                f"{np.mean([r['bare']['gap'] for r in some]):.4f}",
                f"{np.mean([r['gap'] for r in some]):.4f}",
                f"{np.exp(np.mean(np.log(times))):.3f}", f"{max(times):.3f}",
            ])  # fmt: skip
    return table(rows)


def growth(every: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> str:
    """Show how often and how far sets grew, by the rule that spoke, at all levels."""
    rows = [["rule", "method", "first look", "cases", "grew by more than a twentieth",
             "at most, times FedWQ-CP's size"]]  # fmt: skip
    found: dict[tuple[str, str, str], list[float]] = {}
    for r in sorted([*every, *fresh], key=lambda r: (r["code"], r["method"], r["look"])):
        key = r["code"], f"{r['method']} on {r['score']}", r["look"]
        found.setdefault(key, []).append(r["size"] / r["base_size"])
    found["all", "", ""] = [factor for times in found.values() for factor in times]
    for key, times in found.items():
        grew = sum(factor > 1.05 for factor in times)
        rows.append([*key, str(len(times)), str(grew), f"{max(times):.2f}"])
    return table(rows)


def table(rows: list[list[str]]) -> str:
    """Write rows as Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def main() -> None:
    """Measure, or write the page's table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if not given.page:
        RECORDS.parent.mkdir(parents=True, exist_ok=True)
        folders = sorted(given.outputs.glob("*/seed-*"))
        with ProcessPoolExecutor(given.jobs) as pool:
            each = list(pool.map(measured, folders))
        found = [r for level in range(len(LEVELS)) for unit in each for r in unit[level]]
        lines = "".join(json.dumps(record) + "\n" for record in found)
        (FRESH if given.fresh else RECORDS).write_text(lines)
        return
    page = PAGE.read_text()
    for name, text in tables():
        page = re.sub(
            rf"(<!-- {name} -->\n\n).*?(\n\n)", rf"\g<1>{text}\g<2>", page, count=1, flags=re.DOTALL
        )
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
