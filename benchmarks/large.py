"""What large data take: peak memory and seconds of a site's answer, by rows or by images.

Run: python benchmarks/large.py [rows | images]     (--sizes 100000 1000000 for a try)
Makes Parquet files of outputs with ten classes and of scores (4 GB, half an hour), or an .npz for
each image (5 GB, a minute), in a temporary folder. Measures ``agent calibrate`` in a process of its
own, and the largest process of a SuperNode that answers a round of Flower. The first million rows
must give the thresholds that they give in memory. Writes a table in docs/how-to/large-data.md
unless --sizes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fedwqcp as fw
from fedwqcp.federation.transport.flower.deployment import new_app
from fedwqcp.readers import load_outputs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from local_federation import LocalFederation, descendants, round_ended
from page_parts import put

ROOT = Path(__file__).resolve().parents[1]
CLASSES, PART, MOST = 10, 500_000, 10**8
PREFIX = 2  # parts
IMAGE = 1024
CASES = {
    "rows": {
        "`agent calibrate`, APS": ("outputs.parquet", "aps"),
        "`agent calibrate`, LAC": ("outputs.parquet", "lac"),
        "`agent calibrate --scores`": ("scores.parquet", "lac"),
        "a Flower site, APS": ("flower", ""),
    },
    "images": {f"images of {IMAGE} x {IMAGE}, float32": ("images", "mask")},
}
MADE = {"rows": ("outputs", "scores", "prefix"), "images": ("images",)}
SIZES = {"rows": [5_000_000, 50_000_000], "images": [100, 1_000]}


def write(folder: Path, rows: int, kind: str) -> None:
    """Write a file of model outputs, or of scores, part by part."""
    rng, path = np.random.default_rng(0), folder / f"{kind}.parquet"
    writer: pq.ParquetWriter | None = None
    for first in range(0, rows, PART):
        count = min(PART, rows - first)
        label = rng.integers(0, CLASSES, count)
        logits = rng.normal(size=(count, CLASSES)).astype(np.float32)
        logits[np.arange(count), label] += 2
        odds = np.exp(logits)
        probs = odds / odds.sum(axis=1, keepdims=True)
        columns = {"label": label, "score": 1 - probs[np.arange(count), label]}
        if kind == "outputs":
            columns = {f"p{k}": probs[:, k] for k in range(CLASSES)} | {"label": label}
            columns["id"] = [f"case-{row}" for row in range(first, first + count)]
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def write_images(folder: Path, count: int) -> None:
    """Write a file for each image: its probabilities, and the true mask."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir()
    for number in range(count):
        probs = rng.random((IMAGE, IMAGE), np.float32)
        mask = rng.random(probs.shape) < probs
        np.savez(folder / "images" / f"{number}.npz", probs=probs, mask=mask)


def reading(images: Path) -> float:
    """Return the seconds that numpy takes to read images."""
    began = time.process_time()
    for path in images.iterdir():
        with np.load(path) as image:
            _ = image["probs"], image["mask"]
    return time.process_time() - began


def by_file(folder: Path, source: str, score: str) -> str:
    """Return the peak memory and the seconds of ``agent calibrate``."""
    command = (sys.executable, "-m", "fedwqcp")
    terms = ("--agents", "roster.toml", "--alpha", "0.1", "--score", score)
    opening, name = ("server", "open", *terms, "--out"), f"{score}-{source}.json"
    subprocess.run([*command, *opening, name], cwd=folder, check=True, stdout=-3)
    given = "--scores" if source.startswith("scores") else "--outputs"
    answering = ("agent", "calibrate", "--round", name, "--agent", "a", given, source)
    out = ("--out", f"answer-{name}")
    child = subprocess.Popen([*command, *answering, *out], cwd=folder, stdout=-3, stderr=-3)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{source} {score}: exit status {status}")
    found = f"{usage.ru_maxrss / 1024:.0f} MiB, {usage.ru_utime + usage.ru_stime:.3g} s"
    return (
        f"{found} (numpy reads them in {reading(folder / source):.2g})"
        if source == "images"
        else found
    )


def over_flower(folder: Path) -> str:
    """Return the peak memory of a SuperNode's largest process, and the seconds of all of them."""
    new_app(folder / "app")
    records, peak, seconds = folder / "records", 0.0, dict[int, float]()
    terms = {"agents": "agent-0", "max-n": MOST, "deadline": 3600.0, "records": str(records)}
    site = {"outputs": folder / "outputs.parquet", "folder": folder / "kept", "max-seconds": 3600.0}
    with LocalFederation(folder / "federation", ("agent-0",)) as federation:
        federation.start_site("agent-0", site)
        federation.wait_online(1)
        run = federation.submit(folder / "app", terms)
        node = federation.processes._running["agent-0"].pid
        while not (records.exists() and round_ended(records)):
            for pid in (node, *descendants(node)):
                most, seconds[pid] = used(pid, seconds.get(pid, 0.0))
                peak = max(peak, most)
            time.sleep(0.1)
            if not federation.processes.alive("superlink"):
                raise SystemExit("Flower: the SuperLink ended")
        if (ended := federation.wait(run, 60)) != "finished:completed":
            raise SystemExit(f"Flower: {ended}")
    return f"{peak:.0f} MiB, {sum(seconds.values()):.0f} s"


def used(pid: int, before: float) -> tuple[float, float]:
    """Return a process's peak memory in MiB, and its seconds so far."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:  # it ended
        return 0.0, before
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) / 1024 if found else 0.0, sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def check_prefix(folder: Path) -> None:
    """Hold the thresholds of the first million rows, read in batches, against those in memory."""
    outputs, prefix = pq.ParquetFile(folder / "outputs.parquet"), folder / "prefix.parquet"
    pq.write_table(outputs.read_row_groups([*range(min(PREFIX, outputs.num_row_groups))]), prefix)
    sources = fw.OutputBatches(prefix), load_outputs(prefix)
    for score in ("aps", "lac"):
        first, second = (
            fw.calibrate({"a": each}, alpha=[0.05, 0.1], score=score, key="k", by="label").local
            for each in sources
        )
        assert first == second
    print(f"{len(sources[1].values):,} rows: the thresholds are those in memory", flush=True)


def make(folder: Path, size: int, kind: str) -> None:
    """Make what is read, or check what its first rows give."""
    if kind == "images":
        write_images(folder, size)
    elif kind == "prefix":
        check_prefix(folder)
    else:
        write(folder, size, kind)


def main() -> None:
    """Print the table, and put it into the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", choices=tuple(CASES), default="rows")
    parser.add_argument("--sizes", type=int, nargs="+", help="other numbers; no page")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(Path(options.make[0]), int(options.make[1]), options.make[2])
        return
    sizes, part = options.sizes or SIZES[options.part], options.part
    cells: dict[str, list[str]] = {case: [] for case in CASES[part]}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            classes = f"n_classes = {CLASSES}\n" * (part == "rows")
            roster = f'agents = ["a", "b"]\n{classes}max_n = {MOST}\n'
            Path(folder, "roster.toml").write_text(roster)
            for kind in MADE[part]:  # by another process: peak memory counts the parent's
                command = (sys.executable, __file__, "--make", folder, str(size), kind)
                subprocess.run(command, check=True)
            for case, (source, score) in CASES[part].items():
                flower = source == "flower"
                found = (
                    over_flower(Path(folder)) if flower else by_file(Path(folder), source, score)
                )
                cells[case].append(found)
                print(f"{size:,} {part}, {case}: {found}", flush=True)
    command_line = "python benchmarks/large.py" + " images" * (part == "images")
    lines = [
        f"`{command_line}`: peak memory, and seconds of one core",
        "",
        f"| read | {' | '.join(f'{size:,} {part}' for size in sizes)} |",
        "|---|" + "---|" * len(sizes),
        *(f"| {case} | {' | '.join(each)} |" for case, each in cells.items()),
    ]
    if not options.sizes:
        put(ROOT / "docs/how-to/large-data.md", f"large {part}", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
