"""First call and ten calls: numpy alone, compiled at once, the choice made by itself, and peers.

Run: build/peers/bin/python benchmarks/first_call.py     (--quick: one score and size, minutes)
in the environment that ``make bench-peers`` makes; elsewhere the peers are left out.
Every cell is measured in a process of its own, after its imports, on one thread: first with an
empty cache, then with what compiling left. "auto" is what a user gets. "ratio" is its time over
that of the better of numpy and numba after the first call and after ten. Verdicts follow the table:
at most 2.2 for inputs of at least a million numbers, and never slower in total than the fastest
peer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

DATA = """
import time, numpy as np
rng = np.random.default_rng(0)
p = rng.standard_exponential(({rows}, {classes}), dtype=np.{dtype})
p /= p.sum(axis=1, keepdims=True)
y, u = np.zeros(len(p), np.int64), rng.random(len(p))
"""
OURS = """
import fedwqcp as fw
score = {made}
given = {{"u": u}} if getattr(score, "randomized", False) else {{}}
work = lambda: {call}
"""
THEIRS = """
import sys
sys.path.insert(0, {folder!r})
import peers
work = peers.calls({library!r}, {score!r}, p, y, 0.5)[{name!r}]
"""
LOOP = """
start = time.{clock}()
for n in range(10):
    work()
    if n in (0, 9):
        print(time.{clock}() - start)
"""
SCORES = {
    "fw.LAC()": ("LAC", False),
    "fw.APS(randomized=False)": ("APS", False),
    "fw.APS()": ("APS", True),
    "fw.RAPS(penalty=0.01)": ("RAPS", True),
    "fw.SAPS(penalty=0.1)": ("SAPS", True),
}
CALLS = {
    "of": "score.of(p, y, **given)",
    "invert": "score.invert(p, 0.5, **given)",
    "measure": "score.measure(p, y, 0.5, **given)",
}
BACKENDS = ("numpy", "numba", "auto")
PEERS = ("TorchCP", "puncc")
MOST, LARGE = 2.2, 2**20


class Found(NamedTuple):
    """What was measured of one kind of call."""

    what: str
    size: int
    ours: list[list[float]]
    """Seconds of one call and of ten, by backend."""
    peer: list[float] | None
    """Those of the fastest peer."""

    def ratios(self) -> list[float]:
        """The choice, over the better of numpy and numba."""
        return [self.ours[2][n] / min(self.ours[0][n], self.ours[1][n]) for n in (0, 1)]


def seconds(code: str, backend: str, cache: str) -> list[float] | None:
    """One call and ten, in a process of its own; None if it fails."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = os.environ | one | {"NUMBA_CACHE_DIR": cache, "FEDWQCP_BACKEND": backend}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=False, capture_output=True, text=True
    )
    if done.returncode:
        return None
    return [float(line) for line in done.stdout.split()]


def fastest_peer(data: str, made: str, name: str, clock: str) -> tuple[str, list[float]] | None:
    """Measure the peers; return the one with the shortest first call."""
    found = {}
    for library in PEERS:
        theirs = THEIRS.format(
            folder=str(Path(__file__).parent / "peers"),
            library=library,
            score=SCORES[made],
            name=name,
        )
        taken = seconds(data + theirs + LOOP.format(clock=clock), "auto", "")
        if taken:
            found[library] = taken
    if not found:
        return None
    library = min(found, key=lambda one: found[one][0])
    return library, found[library]


def measure(made: str, name: str, shape: tuple[str, int, int], clock: str) -> list[Found]:
    """Measure one kind of call, print its rows and return them."""
    dtype, classes, size = shape
    data = DATA.format(dtype=dtype, classes=classes, rows=size // classes + 1)
    code = data + OURS.format(made=made, call=CALLS[name]) + LOOP.format(clock=clock)
    peer = fastest_peer(data, made, name, clock)
    folders = [tempfile.TemporaryDirectory() for _ in BACKENDS]
    rows = []
    for cache in ("empty", "kept"):
        if cache == "kept":
            seconds(code, "numba", folders[2].name)
        ours = []
        for backend, folder in zip(BACKENDS, folders, strict=True):
            taken = seconds(code, backend, folder.name)
            assert taken is not None, backend
            ours.append(taken)
        words = (name, made.removeprefix("fw."), dtype, str(classes), f"{size:,}", cache)
        found = Found(", ".join(words), size, ours, peer[1] if peer else None)
        rows.append(found)
        cells = [f"{one:.3f} / {ten:.2f}" for one, ten in ours]
        cells.append(f"{peer[0]} {peer[1][0]:.3f} / {peer[1][1]:.2f}" if peer else "")
        cells += [f"{ratio:.1f}" for ratio in found.ratios()]
        print("| " + " | ".join((*words, *cells)) + " |", flush=True)
    for folder in folders:
        folder.cleanup()
    return rows


def verdicts(rows: list[Found]) -> None:
    """Print whether the promises hold, each with its worst case."""
    large = [row for row in rows if row.size >= LARGE]
    worst = max(large, key=lambda row: max(row.ratios()))
    most = max(worst.ratios())
    print(
        f"\nat most {MOST} times the better of numpy and numba, from {LARGE:,} numbers on: "
        f"{'met' if most <= MOST else 'MISSED'}; worst {most:.2f} ({worst.what})"
    )
    beside = [row for row in rows if row.peer]
    if not beside:
        print("no peer is installed: make bench-peers")
        return
    slower = [
        f"{row.ours[2][n] / row.peer[n]:.2f} ({row.what}, {('1 call', '10 calls')[n]})"
        for row in beside
        for n in (0, 1)
        if row.peer and row.ours[2][n] > row.peer[n]
    ]
    print(f"never slower in total than the fastest peer: {'MISSED' if slower else 'met'}")
    print("\n".join(f"  {one}" for one in slower))
    plain = [
        f"{row.peer[0] / row.ours[0][0]:.2f} ({row.what})"
        for row in beside
        if row.peer and "empty" in row.what and row.peer[0] < 2 * row.ours[0][0]
    ]
    print(f"numpy alone is not twice as fast as the fastest peer in {len(plain)} of them:")
    print("\n".join(f"  {one}" for one in plain))


def main() -> None:
    """Print a row for every kind of call, and the verdicts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one score, one type, one size")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a busy machine")
    options = parser.parse_args()
    quick, clock = options.quick, "process_time" if options.cpu else "perf_counter"
    print(f"seconds of one call / of ten; load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores\n")
    print("| call | score | type | classes | numbers | cache | " + " | ".join(BACKENDS), end="")
    print(" | fastest peer | ratio, 1 call | ratio, 10 calls |\n" + "|---" * 12 + "|")
    rows: list[Found] = []
    for made in ["fw.APS()"] if quick else SCORES:
        for name in CALLS:
            for dtype in ("float32",) if quick else ("float32", "float64"):
                for classes in (10, 100) if quick else (10, 100, 1000):
                    for size in (2**22,) if quick else (2**17, 2**20, 2**24):
                        rows += measure(made, name, (dtype, classes, size), clock)
    verdicts(rows)


if __name__ == "__main__":
    main()
