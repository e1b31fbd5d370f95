"""What large data take: peak memory and seconds of ``agent calibrate`` by rows, or by images.

Run: python benchmarks/large.py [rows | images]     (--sizes 100000 1000000 for a try)
Makes Parquet files of outputs with ten classes and of scores (4 GB, about ten minutes), or an .npz
for each image (5 GB, a minute), in a temporary folder, and measures each command in a process of
its own. Writes a table in docs/how-to/large-data.md unless --sizes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from page_parts import put

ROOT = Path(__file__).resolve().parents[1]
CLASSES, PART = 10, 500_000
IMAGE = 1024
IMAGES = f"images of {IMAGE} x {IMAGE}, float32"
SCORES = "`--scores`"
CASES = {
    "rows": {"outputs, `auto` with APS": "aps", "outputs, `auto` with LAC": "lac", SCORES: "lac"},
    "images": {IMAGES: "mask"},
}
SIZES = {"rows": [5_000_000, 50_000_000], "images": [100, 1_000]}


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


def write_images(folder: Path, count: int) -> Path:
    """Write a file for each image: its probabilities, and the true mask."""
    rng, path = np.random.default_rng(0), folder / "images"
    path.mkdir()
    for number in range(count):
        probs = rng.random((IMAGE, IMAGE), np.float32)
        np.savez(path / f"{number}.npz", probs=probs, mask=rng.random(probs.shape) < probs)
    return path


def reading(images: Path) -> float:
    """Return the seconds that numpy takes to read images."""
    began = time.process_time()
    for path in images.iterdir():
        with np.load(path) as image:
            _ = image["probs"], image["mask"]
    return time.process_time() - began


def measured(folder: Path, rows: int, case: str, score: str) -> str:
    """Return the peak memory and the seconds of one command."""
    # made by another process: peak memory counts the parent's
    made = (sys.executable, __file__, "--make", folder, str(rows), case)
    source = subprocess.run(made, check=True, capture_output=True, text=True).stdout.strip()
    classes = "" if case == IMAGES else f"n_classes = {CLASSES}\n"
    (folder / "roster.toml").write_text(f'agents = ["a", "b"]\n{classes}max_n = {10**8}\n')
    command = (sys.executable, "-m", "fedwqcp")
    opening = (
        "server",
        "open",
        "--agents",
        "roster.toml",
        "--alpha",
        "0.1",
        "--score",
        score,
    )
    subprocess.run([*command, *opening, "--out", "round.json"], cwd=folder, check=True, stdout=-3)
    given = "--scores" if case == SCORES else "--outputs"
    answering = ("agent", "calibrate", "--round", "round.json", "--agent", "a", given, source)
    child = subprocess.Popen([*command, *answering], cwd=folder, stdout=-3, stderr=-3)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{case}: exit status {status}")
    found = f"{used.ru_maxrss / 1024:.0f} MiB, {used.ru_utime + used.ru_stime:.0f} s"
    return f"{found} (reading {reading(Path(source)):.0f})" if case == IMAGES else found


def main() -> None:
    """Print the table, and put it into the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", choices=tuple(CASES), default="rows")
    parser.add_argument("--sizes", type=int, nargs="+", help="other numbers; no page")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        folder, size, case = options.make
        if case == IMAGES:
            print(write_images(Path(folder), int(size)))
        else:
            print(write(Path(folder), int(size), scores=case == SCORES))
        return
    sizes, part = options.sizes or SIZES[options.part], options.part
    head = " | ".join(f"{size:,} {part}" for size in sizes)
    command = "python benchmarks/large.py" + " images" * (part == "images")
    lines = [
        f"`{command}`: peak memory, and seconds of one core",
        "",
        f"| read | {head} |",
        "|---|" + "---|" * len(sizes),
    ]
    for case, score in CASES[part].items():
        cells = []
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                cells.append(measured(Path(folder), size, case, score))
        lines.append(f"| {case} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if not options.sizes:
        put(ROOT / "docs" / "how-to" / "large-data.md", f"large {part}", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
