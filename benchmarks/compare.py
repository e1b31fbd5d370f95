"""Compare the speed of two checkouts and of numpy alone: scores, sets and `measure`, case by case.

Run: python benchmarks/compare.py ../old .      (paths of checkouts, each with an environment .venv)

All compute the same cases alternately in processes of their own, on one thread, so that a change of
load meets all. The least time of the processor is kept; other work only makes it longer. Prints
nanoseconds a row, and how many times as long as the old checkout and as fast as numpy alone the
new one is.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
from pathlib import Path

SCORES = {
    "APS": "fw.APS(randomized=False)",
    "APS random": "fw.APS()",
    "RAPS": "fw.RAPS(penalty=0.01, randomized=False)",
    "SAPS": "fw.SAPS(penalty=0.05, randomized=False)",
    "LAC": "fw.LAC()",
}
CALLS = ("of", "invert", "measure")
THRESHOLDS = ("shared", "row", "label")
NUMBERS = 5_000_000

# Runs in the environment of any checkout, so it uses only what all have.
WORK = """
import sys, time
import numpy as np, fedwqcp as fw
for line in sys.stdin:
    score, call, per, n, C, dtype = line.rstrip().split("|")
    score, n, C, rng = eval(score), int(n), int(C), np.random.default_rng(0)
    p = np.exp(2 * rng.normal(size=(n, C)))
    p = (p / p.sum(axis=1, keepdims=True)).astype(dtype)
    y = np.where(np.arange(n) % 2, p.argmax(axis=1), rng.integers(0, C, n))
    given = {"u": rng.random(n)} if score.randomized else {}
    q = np.quantile(score.of(p, y, **given), 0.9)
    if per != "shared":
        k = np.arange(n)[:, None] if per == "row" else np.arange(C)
        q = q + 0.02 * (k % 7 - 3) / 3
    arguments = {"of": (p, y), "invert": (p, q), "measure": (p, y, q)}[call]
    least, end = float("inf"), time.perf_counter() + 0.1
    while time.perf_counter() < end:
        start = time.process_time()
        getattr(score, call)(*arguments, **given)
        least = min(least, time.process_time() - start)
    print(least / n * 1e9, flush=True)
"""


def start(checkout: Path, backend: str) -> subprocess.Popen[str]:
    """Start a process that computes cases with the code of a checkout."""
    one = {"FEDWQCP_BACKEND": backend, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [str(checkout / ".venv/bin/python"), "-c", WORK],
        env=os.environ | one,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(process: subprocess.Popen[str], case: str) -> float:
    """Return the least time of a case."""
    process.stdin.write(case + "\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    """Print a line for each case, then the worst of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--old-backend", default="compiled", help="numba for commits that had it")
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 10, 100, 1000])
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    processes = {
        "old": start(options.old, options.old_backend),
        "numpy": start(options.new, "numpy"),
        "new": start(options.new, "compiled"),
    }
    worst: dict[tuple[str, int], tuple[float, float]] = {}
    cases = itertools.product(options.classes, ("float32", "float64"), SCORES, THRESHOLDS, CALLS)
    for classes, dtype, score, per, call in cases:
        if call == "of" and per != "shared":
            continue
        n = min(50_000, NUMBERS // classes)
        case = f"{SCORES[score]}|{call}|{per}|{n}|{classes}|{dtype}"
        least = {
            name: min(ask(process, case) for _ in range(options.repeats))
            for name, process in processes.items()
        }
        slower, faster = least["new"] / least["old"], least["numpy"] / least["new"]
        times = "  ".join(f"{name} {least[name]:9.1f}" for name in processes)
        label = f"{classes:5d} {dtype} {score:10s} {per:6s} {call:7s}"
        print(f"{label} {times}  new/old {slower:5.2f}  numpy/new {faster:5.2f}", flush=True)
        before = worst.get((per, classes), (0.0, float("inf")))
        worst[per, classes] = max(before[0], slower), min(before[1], faster)
    for (per, classes), (slower, faster) in worst.items():
        print(f"worst {per} {classes}: new/old {slower:.2f}, numpy/new {faster:.2f}")


if __name__ == "__main__":
    main()
