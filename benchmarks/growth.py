"""How time grows with rows, classes, agents and levels: slopes on log-log axes.

Run: python benchmarks/growth.py
A slope of 1 is linear growth. The best of interleaved repeats; writes benchmarks/results/growth.md
and the table in docs/performance.md.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedwqcp as fw
from fedwqcp.methods import get
from fedwqcp.wire.messages import Summary

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from page_parts import put

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 7
SCORE = fw.APS(randomized=False)


def probabilities(n: int, C: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of normal logits, and labels."""
    rng = np.random.default_rng(0)
    p = np.exp(2 * rng.standard_normal((n, C), dtype=np.float32))
    return p / p.sum(axis=1, keepdims=True), rng.integers(0, C, n)


def slope(
    sizes: list[int], make: Callable[[int], Callable[[], object]]
) -> tuple[float, list[float]]:
    """Fit seconds against size."""
    works = [make(size) for size in sizes]
    for work in works:
        work()
    times: list[list[float]] = [[] for _ in sizes]
    for _ in range(REPEATS):
        for work, found in zip(works, times, strict=True):
            start = time.process_time()
            work()
            found.append(time.process_time() - start)
    seconds = [min(found) for found in times]
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), seconds


def calibrating(n: int, C: int) -> Callable[[], object]:
    """Scores of n rows."""
    p, y = probabilities(n, C)
    return lambda: SCORE.of(p, y)


def inverting(n: int, C: int) -> Callable[[], object]:
    """Sets of n rows."""
    p, _ = probabilities(n, C)
    return lambda: SCORE.invert(p, 0.9)


def measuring(n: int, C: int) -> Callable[[], object]:
    """Coverage and size of n rows."""
    p, y = probabilities(n, C)
    return lambda: SCORE.measure(p, y, 0.9)


def aggregating(agents: int) -> Callable[[], object]:
    """One threshold from those of many agents."""
    method: Any = get("fedwq-cp")
    rng = np.random.default_rng(0)
    some = [fw.Calibration(rng.random(50)) for _ in range(100)]
    summaries: list[Summary] = [method.summarize(cal, 0.1) for cal in some]
    return lambda: method.aggregate(summaries * (agents // 100), 0.1)


def selecting(n: int) -> Callable[[], object]:
    """The threshold of a sample."""
    scores = np.random.default_rng(0).random(n)
    return lambda: fw.conformal_quantile(scores, 0.1)


def levels(count: int) -> Callable[[], object]:
    """Thresholds for many levels from one sample."""
    scores = np.random.default_rng(0).random(10**5)
    alphas = np.linspace(0.01, 0.5, count).round(6).tolist()
    return lambda: [fw.conformal_quantile(scores, alpha) for alpha in alphas]


CASES: dict[str, tuple[list[int], Callable[[int], Callable[[], object]]]] = {
    "APS scores, rows (C = 100)": (
        [100_000, 200_000, 400_000, 800_000],
        lambda n: calibrating(n, 100),
    ),
    "APS sets, rows (C = 100)": ([100_000, 200_000, 400_000, 800_000], lambda n: inverting(n, 100)),
    "APS measure, rows (C = 100)": (
        [100_000, 200_000, 400_000, 800_000],
        lambda n: measuring(n, 100),
    ),
    "APS scores, classes (n = 5,000)": (
        [125, 250, 500, 1000, 2000],
        lambda C: calibrating(5000, C),
    ),
    "APS sets, classes (n = 5,000)": ([125, 250, 500, 1000, 2000], lambda C: inverting(5000, C)),
    "quantile, scores": ([10**5, 10**6, 4 * 10**6], selecting),
    "FedWQ-CP, agents": ([1000, 10_000, 100_000], aggregating),
    "quantile, levels": ([10, 20, 40, 80], levels),
}


def main(page: bool = True) -> dict[str, float]:
    """Print the slopes, put them into the documentation where wanted, and return them."""
    slopes: dict[str, float] = {}
    lines = ["| time against | slope | sizes | seconds |", "|---|---|---|---|"]
    for name, (sizes, make) in CASES.items():
        found, seconds = slope(sizes, make)
        slopes[name] = found
        shown = ", ".join(f"{s:.4f}" for s in seconds)
        lines.append(f"| {name} | {found:.2f} | {', '.join(map(str, sizes))} | {shown} |")
        print(lines[-1], flush=True)
    if not page:
        return slopes
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    out = Path(__file__).parent / "results" / "growth.md"
    text = "\n".join(lines)
    text = f"`python benchmarks/growth.py`: processor time; load {load}\n\n{text}\n"
    out.write_text(text)
    put(ROOT / "docs" / "performance.md", "growth", text)
    return slopes


if __name__ == "__main__":
    main()
