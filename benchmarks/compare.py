"""Compare the speed of two checkouts: compiled scores, sets and `measure`, case by case.

Run: python benchmarks/compare.py ../old .      (paths of the checkouts; needs numba)

Both compute the same cases alternately, each in a process of its own with a cache of its own, so
that a change of load meets both. The first pair of processes compiles and is not timed. How fast a
process is also depends on where its memory lies, so that several pairs are timed and the least
processor time of each case is kept. Prints milliseconds, the ratio new / old, and the highest
ratios.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SCORES = {
    "LAC": "fw.LAC()",
    "APS": "fw.APS(randomized=False)",
    "APS random": "fw.APS()",
    "RAPS": "fw.RAPS(penalty=0.01, randomized=False)",
    "SAPS": "fw.SAPS(penalty=0.1, randomized=False)",
}
CALLS = ("of", "invert", "measure")
ROWS = {10: 50_000, 32: 50_000, 100: 50_000, 1000: 10_000}
TYPES = ("float32", "float64")

# Runs in the environment of either checkout, so it uses only what both have.
WORK = """
import sys, time
import numpy as np, fedwqcp as fw
rng = np.random.default_rng(0)
for line in sys.stdin:
    score, call, rows, classes, dtype, times = line.rstrip().split("|")
    score, n, C = eval(score), int(rows), int(classes)
    p = np.exp(2 * rng.normal(size=(2 * n, C)))
    p = (p / p.sum(axis=1, keepdims=True)).astype(dtype)
    y = (p.cumsum(axis=1) > rng.random((2 * n, 1))).argmax(axis=1)  # drawn from the probabilities
    given = {"u": np.linspace(0, 1, n, endpoint=False)} if getattr(score, "randomized", 0) else {}
    q = fw.conformal_quantile(score.of(p[n:], y[n:], **given), 0.1)  # of other rows, as in use
    p, y = p[:n], y[:n]
    arguments = {"of": (p, y), "invert": (p, q), "measure": (p, y, q)}[call]
    taken = []
    for _ in range(int(times) + 2):
        start = time.process_time()
        getattr(score, call)(*arguments, **given)
        taken.append(time.process_time() - start)
    print(min(taken[2:]), flush=True)
"""


def start(checkout: Path, cache: str) -> subprocess.Popen[str]:
    """Start a process that computes cases with the code of a checkout."""
    one = {"FEDWQCP_BACKEND": "numba", "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", WORK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | one | {"PYTHONPATH": str(checkout / "src")},
    )


def seconds(process: subprocess.Popen[str], case: str) -> float:
    """Return the time of a case."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(case, file=process.stdin, flush=True)
    answer = process.stdout.readline()
    if not answer:
        raise SystemExit(f"{case}: the process ended; its error is above")
    return float(answer)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", default="", help="cases with this text")
    parser.add_argument("--pairs", type=int, default=4, help="how many pairs of processes")
    options = parser.parse_args()
    every = itertools.product(SCORES, CALLS, ROWS, TYPES)
    cases = [case for case in every if options.only in "|".join(map(str, case))]
    least: dict[tuple[object, ...], list[float]] = {case: [1e9, 1e9] for case in cases}
    checkouts = [options.old.resolve(), options.new.resolve()]
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        for pair in range(options.pairs + 1):
            both = [start(*given) for given in zip(checkouts, (old, new), strict=True)]
            for case in cases:
                score, call, classes, dtype = case
                given = (SCORES[score], call, ROWS[classes], classes, dtype, 7 if pair else 1)
                taken = [seconds(one, "|".join(map(str, given))) for one in both]
                if pair:
                    least[case] = [min(a, b) for a, b in zip(least[case], taken, strict=True)]
            for process in both:
                process.communicate()
            print(f"pair {pair} of {options.pairs}", file=sys.stderr, flush=True)
    ratios = []
    for case, (before, after) in least.items():
        text = "{:10s} {:7s} {:4d} {}".format(*case)
        ratios.append((after / before, text))
        print(f"{text}  {before * 1e3:8.3f}  {after * 1e3:8.3f}  {after / before:5.2f}")
    highest = [f"{ratio:.2f} ({text})" for ratio, text in sorted(ratios, reverse=True)[:3]]
    print(f"highest of {len(ratios)}: {', '.join(highest)}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
