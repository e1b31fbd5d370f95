"""A round as a user runs it, from files to sets: processor seconds, beside reading the input.

Run: python benchmarks/whole_round.py [--page]  (--rows 1000000 for the largest; default 200,000)
Every job runs in a process of its own, and once more while a timer looks every two milliseconds at
what it does: the last column names the parts that take most, as shares of the processor's time.
"Reading" is numpy's or pyarrow's own reading of the same file into an array; for arrays, a sum.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import fedwqcp as fw

ROOT = Path(__file__).resolve().parents[1]
C, AGENTS = 100, 6
LOOK = 0.002
JOBS = ("fw.calibrate, 6 agents", "agent calibrate", "agent predict", "a site's answer (Flower)")


def rows_of(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of normal logits, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = np.exp(2 * rng.standard_normal((n, C), dtype=np.float32))
    p /= p.sum(axis=1, keepdims=True)
    return p, (np.cumsum(p, axis=1) > rng.random((n, 1), dtype=np.float32)).argmax(axis=1)


def write_inputs(n: int) -> None:
    """Write the same rows as .npz and .parquet, a round and its release."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    p, y = rows_of(n)
    ids = np.arange(n)
    np.savez("rows.npz", probs=p, y=y, ids=ids)
    columns = {f"p{k}": p[:, k] for k in range(C)} | {"y": y, "id": ids}
    pq.write_table(pa.table(columns), "rows.parquet")
    Path("agents.toml").write_text('agents = ["a"]\n')
    for words in (
        "server open --agents agents.toml --alpha 0.1 --method fedwq-cp --out round.json",
        "agent calibrate --round round.json --outputs rows.npz --agent a --out answer.json",
        "server close round.json answer.json --out release.json",
    ):
        command = [sys.executable, "-m", "fedwqcp", *words.split()]
        subprocess.run(command, check=True, capture_output=True)


def read(file: str) -> None:
    """Read a file into an array, and nothing else."""
    if file.endswith("npz"):
        with np.load(file) as archive:
            kept = {name: archive[name] for name in archive.files}
        del kept
    else:
        import pyarrow.parquet as pq

        pq.read_table(file).to_pandas()


def in_process() -> Callable[[], object]:
    """`fw.calibrate` from probabilities, and the sets of one agent."""
    data = {f"agent-{k}": fw.Outputs(*rows_of(50_000, k), np.arange(50_000)) for k in range(AGENTS)}

    def work() -> object:
        release = fw.calibrate(data, method="fedwq-cp", alpha=0.1)
        return release.predict_set("agent-0", data["agent-0"].values, ids=np.arange(50_000))

    return work


def site(file: str) -> Callable[[], object]:
    """What a ClientApp does when it is asked: read the file, score, answer."""
    from fedwqcp.federation.agent import Agent
    from fedwqcp.federation.plan import Plan
    from fedwqcp.federation.predict import calibration_of
    from fedwqcp.federation.transport.folder import read_round
    from fedwqcp.readers import load_outputs

    plan = Plan.of(read_round(Path("round.json")))

    def work() -> object:
        return Agent("a", plan, calibration_of(plan.round, load_outputs(Path(file)))).answer()

    return work


def command(words: str) -> Callable[[], object]:
    """A command, from the import of its program on."""

    def work() -> None:
        from fedwqcp.cli.main import app

        try:
            app(words.split())
        except SystemExit as done:
            if done.code:
                raise

    return work


def parts() -> dict[tuple[str, str], str]:
    """Return what functions do, by file and name."""
    from fedwqcp import outputs, readers, sets
    from fedwqcp.cli import agent
    from fedwqcp.scores import LabelScore

    functions: dict[Callable[..., object], str] = {
        readers.load_outputs: "reading and checking",
        outputs.row_uniforms: "hashing of ids",
        LabelScore.of: "scores",
        LabelScore.invert: "sets",
        LabelScore.measure: "coverage and sizes",
        sets.as_csv: "the table of sets as text",
        agent._measured: "coverage and its interval",
    }
    codes = {function.__code__: part for function, part in functions.items()}
    return {(code.co_filename, code.co_name): part for code, part in codes.items()}


def shares(work: Callable[[], object]) -> str:
    """Say which parts of a job take most of the processor's time.

    Time since the last look counts for the innermost part that is at work.
    """
    seen: list[tuple[float, list[tuple[str, str]]]] = []
    last = time.process_time()

    def look(_: int, frame: FrameType | None) -> None:
        nonlocal last
        now, stack = time.process_time(), []
        while frame is not None:
            if frame.f_code.co_filename != look.__code__.co_filename:
                stack.append((frame.f_code.co_filename, frame.f_code.co_name))
            frame = frame.f_back
        seen.append((now - last, stack))
        last = now

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, LOOK, LOOK)
    work()
    signal.setitimer(signal.ITIMER_PROF, 0)
    known, taken = parts(), Counter[str]()  # not before: a command imports them itself
    for seconds, stack in seen:
        found = (
            "imports" if name == "<module>" else known.get((file, name)) for file, name in stack
        )
        taken[next(filter(None, found), "the rest")] += seconds
    most = [(part, seconds) for part, seconds in taken.most_common() if part != "the rest"][:4]
    return ", ".join(f"{part} {seconds / sum(taken.values()):.0%}" for part, seconds in most)


def one(job: str, file: str, profiled: bool) -> None:
    """Print seconds of a job and of reading its input; or the shares of its parts."""
    makes: dict[str, Callable[[], Callable[[], object]]] = {
        JOBS[0]: in_process,
        JOBS[1]: lambda: command(
            f"agent calibrate --round round.json --outputs {file} --agent a --out again.json"
        ),
        JOBS[2]: lambda: command(
            f"agent predict --release release.json --round round.json --outputs {file} --agent a "
            "--out sets.csv"
        ),
        JOBS[3]: lambda: site(file),
    }
    work, reading = makes[job](), []
    if file:
        for _ in range(3):
            begin = time.process_time()
            read(file)
            reading.append(time.process_time() - begin)
    else:  # the arrays are there: one reading of them
        arrays = [rows_of(50_000)[0] for _ in range(AGENTS)]
        begin = time.process_time()
        sum(float(p.sum()) for p in arrays)
        reading.append(time.process_time() - begin)
    if not profiled:
        begin = time.process_time()
        work()
        taken = time.process_time() - begin
        print(f"{taken:.2f} | {min(reading):.2f} | {taken / min(reading):.1f}")
        return
    print(shares(work))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--page", action="store_true", help="into docs/performance.md")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(*options.one[:2], profiled=options.one[2] == "profiled")
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_inputs(options.rows)
        load = f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
        lines = [f"`python benchmarks/whole_round.py`: {options.rows:,} x {C}; {load}\n"]
        lines += [
            "| job | input | seconds | reading | times reading | of which |",
            "|" + "---|" * 6,
        ]
        for job in JOBS:
            for file in ("rows.npz", "rows.parquet") if job != JOBS[0] else ("",):
                cells = [job, file or "arrays"]
                for how in ("plain", "profiled"):
                    words = [sys.executable, __file__, "--one", job, file, how]
                    done = subprocess.run(words, check=True, capture_output=True, text=True)
                    cells.append(done.stdout.splitlines()[-1])
                lines.append("| " + " | ".join(cells) + " |")
    print("\n".join(lines))
    if options.page:
        sys.path.insert(0, str(ROOT / "tools"))
        from page_parts import put

        put(ROOT / "docs/performance.md", "round", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
