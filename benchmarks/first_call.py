"""How long the first call of a kind takes, where it must be compiled and where that was kept.

Run: python benchmarks/first_call.py
Every call is made in a process of its own, with a cache that is empty at first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

CODE = """
import time, numpy as np, fedwqcp as fw
score, rng = fw.APS(randomized=False), np.random.default_rng(0)
p = rng.dirichlet(np.ones({classes}), {rows}).astype(np.{dtype})
y = np.zeros(len(p), int)
start = time.perf_counter()
{call}
print(time.perf_counter() - start)
"""
CALLS = {
    "of": "score.of(p, y)",
    "measure": "score.measure(p, y, 0.5)",
    "invert": "score.invert(p, 0.5)",
    "invert, mapped": "p.flags.writeable = False; score.invert(p, 0.5)",
    "invert, ties": "p[:] = 1 / {classes}; score.invert(p, 0.5)",
}


def seconds(code: str, cache: str) -> float:
    """The first call in a process of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> None:
    """Print both times for every kind of call."""
    print("| call | type | classes | compiling | kept |\n|---|---|---|---|---|")
    for classes in (10, 100):
        for dtype in ("float32", "float64"):
            for name, call in CALLS.items():
                code = CODE.replace("{call}", call).format(
                    rows=2**20 // classes + 1, classes=classes, dtype=dtype
                )
                with tempfile.TemporaryDirectory() as cache:
                    first, second = seconds(code, cache), seconds(code, cache)
                print(
                    f"| {name} | {dtype} | {classes} | {first:.1f} s | {second:.1f} s |", flush=True
                )


if __name__ == "__main__":
    main()
