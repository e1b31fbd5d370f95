"""First call and ten calls: numpy alone, compiled at once, and the choice that is made by itself.

Run: python benchmarks/first_call.py            (about an hour; --quick: a few minutes)
Every row is measured in processes of its own, first with an empty cache, then with what it kept.
"ratio" is the time of the choice over that of the better of numpy and numba, after the first call
and after ten; it must not pass 2.2 for inputs of at least a million numbers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

CODE = """
import time, numpy as np, fedwqcp as fw
score, rng = {score}, np.random.default_rng(0)
p = rng.standard_exponential(({rows}, {classes}), dtype=np.{dtype})
p /= p.sum(axis=1, keepdims=True)
y, u = np.zeros(len(p), int), rng.random(len(p))
given = {{"u": u}} if getattr(score, "randomized", False) else {{}}
start = time.perf_counter()
for n in range(10):
    {call}
    if n in (0, 9):
        print(time.perf_counter() - start)
"""
SCORES = (
    "fw.LAC()",
    "fw.APS(randomized=False)",
    "fw.APS()",
    "fw.RAPS(penalty=0.01)",
    "fw.SAPS(penalty=0.1)",
)
CALLS = {
    "of": "score.of(p, y, **given)",
    "invert": "score.invert(p, 0.5, **given)",
    "measure": "score.measure(p, y, 0.5, **given)",
}
BACKENDS = ("numpy", "numba", "auto")


def seconds(code: str, backend: str, cache: str) -> list[float]:
    """One call and ten, in a process of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "FEDWQCP_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Print a row for every kind of call."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one score, one type, one size")
    quick = parser.parse_args().quick
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print("| call | score | type | classes | numbers | cache | " + " | ".join(BACKENDS), end="")
    print(" | ratio, 1 call | ratio, 10 calls |\n" + "|---" * 11 + "|")
    for score in SCORES[2:3] if quick else SCORES:
        for name in CALLS:
            for dtype in ("float32",) if quick else ("float32", "float64"):
                for classes in (10, 100) if quick else (10, 100, 1000):
                    for size in (2**22,) if quick else (2**17, 2**20, 2**24):
                        row(score, name, dtype, classes, size)


def row(score: str, name: str, dtype: str, classes: int, size: int) -> None:
    """Measure one kind of call with an empty and with a filled cache."""
    code = CODE.format(
        score=score, call=CALLS[name], dtype=dtype, classes=classes, rows=size // classes + 1
    )
    folders = [tempfile.TemporaryDirectory() for _ in BACKENDS]
    for cache in ("empty", "kept"):
        if cache == "kept":  # what compiling leaves behind
            seconds(code, "numba", folders[2].name)
        found = [
            seconds(code, backend, folder.name)
            for backend, folder in zip(BACKENDS, folders, strict=True)
        ]
        ratios = [found[2][n] / min(found[0][n], found[1][n]) for n in (0, 1)]
        cells = [f"{one:.2f} / {ten:.2f} s" for one, ten in found]
        print(
            f"| {name} | {score.removeprefix('fw.')} | {dtype} | {classes} | {size:,} | {cache} | "
            + " | ".join(cells)
            + f" | {ratios[0]:.1f} | {ratios[1]:.1f} |",
            flush=True,
        )
    for folder in folders:
        folder.cleanup()


if __name__ == "__main__":
    main()
