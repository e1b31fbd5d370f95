"""How a round grows with its agents: seconds, memory and slopes on log-log axes.

Run: python benchmarks/scale.py            (some minutes; --quick: at a tenth of the sizes)
Every size is measured in a process of its own. Seconds are those of the processor, the making of
the data not counted; memory is what the process grows by. By files, ``server close`` reads the
answers in a folder. Writes the table in docs/many-agents.md unless --quick.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.transport.folder import open_round
from fedwqcp.methods import Calibration
from fedwqcp.wire.messages import Choice, Round

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from page_parts import put

ROOT = Path(__file__).resolve().parents[1]
Case = Callable[[int], Callable[[], object]]


def in_process(method: str, target: str, agents: int) -> Callable[[], object]:
    """`fw.calibrate` with so many agents of 50 rows and four classes."""
    rng = np.random.default_rng(0)
    data: dict[str, Calibration] = {}
    for at in range(agents):
        features = rng.normal(size=(50, 2)) if method == "cphet" else None
        data[f"a{at:06d}"] = Calibration(rng.random(50), rng.integers(0, 4, 50), features)
    return lambda: fw.calibrate(data, method=method, alpha=0.1, target=target)


def by_files(agents: int) -> Callable[[], object]:
    """``server close`` of so many answers."""
    names = tuple(f"a{at:06d}" for at in range(agents))
    round = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.1,), names, agents, 10**5)
    plan, cal = Plan.of(round), Calibration(np.linspace(0, 1, 50))
    folder = tempfile.mkdtemp()
    open_round(round, Path(folder, "round.json"))
    for name in names:
        Path(folder, f"{name}.json").write_bytes(Agent(name, plan, cal).answer())
    words = ["-m", "fedwqcp", "server", "close", "round.json", *(f"{name}.json" for name in names)]
    return lambda: subprocess.run(
        [sys.executable, *words], cwd=folder, check=True, capture_output=True
    )


CASES: dict[str, tuple[list[int], Case]] = {
    "`fw.calibrate`, auto": ([1000, 10_000, 100_000], partial(in_process, "auto", "own")),
    "`fw.calibrate`, fedwq-cp": ([1000, 10_000, 100_000], partial(in_process, "fedwq-cp", "own")),
    "`fw.calibrate`, fedls-cp": ([1000, 10_000, 100_000], partial(in_process, "fedls-cp", "own")),
    "`fw.calibrate`, cphet, target mixture": (
        [100, 300, 1000],
        partial(in_process, "cphet", "mixture"),
    ),
    "`fw.calibrate`, cphet, target own": ([10, 30, 100], partial(in_process, "cphet", "own")),
    "`server close`, answers in a folder": ([2000, 6000, 20_000], by_files),
}


def spent() -> float:
    """Processor seconds of this process and its children."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def peak() -> float:
    """Largest memory of this process or a child, in MiB."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(one).ru_maxrss for one in who) / 1024


def one(name: str, size: int) -> None:
    """Print seconds and memory of one case, in a process of its own."""
    work = CASES[name][1](size)
    held, began = peak(), spent()
    work()
    print(spent() - began, peak() - held)


def row(name: str, shrink: int) -> str:
    """Measure a case at all its sizes."""
    sizes, found = [size // shrink for size in CASES[name][0]], []
    for size in sizes:
        words = [sys.executable, __file__, "--one", name, str(size)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        found.append([float(x) for x in done.stdout.split()])
    seconds, memory = zip(*found, strict=True)
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    last = float(np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2]))
    cells = [
        name,
        ", ".join(f"{size:,}" for size in sizes),
        ", ".join(f"{x:.2f}" for x in seconds),
        ", ".join(f"{x:.0f}" for x in memory),
        f"{slope:.2f}",
        f"{last:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table, and put it into the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes; no page")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one[0], int(options.one[1]))
        return
    lines = [
        f"`python benchmarks/scale.py`; load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores",
        "",
        "| agents | sizes | seconds | MiB | slope | slope of the last two |",
        "|---|---|---|---|---|---|",
    ]
    for name in CASES:
        lines.append(row(name, 10 if options.quick else 1))
        print(lines[-1], flush=True)
    if not options.quick:
        put(ROOT / "docs" / "many-agents.md", "scale", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
