"""What large data take: peak memory and seconds of ``agent calibrate`` by rows, from Parquet.

Run: python benchmarks/large.py            (about ten minutes; --rows 100000 1000000 for a try)
Makes files of outputs with ten classes, and of scores, in a temporary folder (4 GB), and measures
each command in a process of its own. Writes the table in docs/how-to/large-data.md unless --rows.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from page_parts import put

ROOT = Path(__file__).resolve().parents[1]
CLASSES, PART = 10, 500_000
CASES = {"outputs, `auto` with APS": "aps", "outputs, `auto` with LAC": "lac", "`--scores`": "lac"}


def write(folder: Path, rows: int, *, scores: bool) -> Path:
    """Write a file of model outputs, or of scores, part by part."""
    rng, path = np.random.default_rng(0), folder / f"{'scores' if scores else 'outputs'}.parquet"
    writer: pq.ParquetWriter | None = None
    for first in range(0, rows, PART):
        count = min(PART, rows - first)
        label = rng.integers(0, CLASSES, count)
        logits = rng.normal(size=(count, CLASSES)).astype(np.float32)
        logits[np.arange(count), label] += 2
        odds = np.exp(logits)
        probs = odds / odds.sum(axis=1, keepdims=True)
        columns = {"label": label, "score": 1 - probs[np.arange(count), label]}
        if not scores:
            columns = {f"p{k}": probs[:, k] for k in range(CLASSES)} | {"label": label}
            columns["id"] = [f"case-{row}" for row in range(first, first + count)]
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path


def measured(folder: Path, rows: int, case: str) -> tuple[float, float]:
    """Return the peak memory in MiB and the seconds of one command."""
    scores = case == "`--scores`"  # made by another process: peak memory counts the parent's
    made = (sys.executable, __file__, "--make", folder, str(rows), "scores" if scores else "")
    source = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
    roster = f'agents = ["a", "b"]\nn_classes = {CLASSES}\nmax_n = {10**8}\n'
    (folder / "roster.toml").write_text(roster)
    command = (sys.executable, "-m", "fedwqcp")
    opening = (
        "server",
        "open",
        "--agents",
        "roster.toml",
        "--alpha",
        "0.1",
        "--score",
        CASES[case],
    )
    subprocess.run([*command, *opening, "--out", "round.json"], cwd=folder, check=True, stdout=-3)
    given = "--scores" if scores else "--outputs"
    answering = ("agent", "calibrate", "--round", "round.json", "--agent", "a", given, source)
    child = subprocess.Popen([*command, *answering], cwd=folder, stdout=-3, stderr=-3)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{case}: exit status {status}")
    return used.ru_maxrss / 1024, used.ru_utime + used.ru_stime


def main() -> None:
    """Print the table, and put it into the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="+", help="other numbers of rows; no page")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        folder, rows, kind = options.make
        print(write(Path(folder), int(rows), scores=bool(kind)))
        return
    sizes = options.rows or [5_000_000, 50_000_000]
    head = " | ".join(f"{rows:,} rows" for rows in sizes)
    lines = [
        "`python benchmarks/large.py`: peak memory, and seconds of one core",
        "",
        f"| read | {head} |",
        "|---|" + "---|" * len(sizes),
    ]
    for case in CASES:
        cells = []
        for rows in sizes:
            with tempfile.TemporaryDirectory() as folder:
                peak, seconds = measured(Path(folder), rows, case)
            cells.append(f"{peak:.0f} MiB, {seconds:.0f} s")
        lines.append(f"| {case} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if not options.rows:
        put(ROOT / "docs" / "how-to" / "large-data.md", "large", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
