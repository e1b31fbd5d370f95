"""How often the monitor alarms falsely, and how soon it sees a drop: 10,000 simulated streams.

Run: python benchmarks/monitor.py            (minutes on one core; writes results/monitor/)
Its ``tables()`` are those of docs/explanation/monitoring.md.

Each stream is one agent, promised 0.95, delta = 0.05. It has a good time of 0, 1000 or 10,000 rows
at exactly 0.95; then coverage falls. Rows pass through the product's own code.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fedwqcp.monitor.sequential_tests import DropTest, advance
from fedwqcp_lab.comparison import markdown_table

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "monitor" / "records.jsonl"
ALPHA, DELTA, STREAMS = 0.05, 0.05, 10_000
GOOD = (0, 1000, 10_000)
AFTER = {0.9: 4000, 0.85: 1500, 0.75: 600}
"""Coverage after a drop, and for how many rows it is followed."""
CHUNK = 250


def follow(test: DropTest, coverage: float, rows: int, rng: np.random.Generator) -> DropTest:
    """Return a test after more rows, or at its alarm."""
    for start in range(0, rows, CHUNK):
        hits = (rng.uniform(size=min(CHUNK, rows - start)) < coverage).astype(np.int64)
        after = advance(test, np.ones_like(hits), hits, ALPHA, DELTA)
        if after.alarm is not None:
            hits = hits[: after.alarm - test.n]
            return advance(test, np.ones_like(hits), hits, ALPHA, DELTA)
        test = after
    return test


def simulate(streams: int) -> Iterator[dict[str, float]]:
    """Give one record for each length of the good time and each drop."""
    rng = np.random.default_rng(0)
    false = dict.fromkeys(GOOD, 0)
    found: dict[tuple[int, float], list[tuple[int, int, float]]] = {
        (good, after): [] for good in GOOD for after in AFTER
    }
    for _ in range(streams):
        test = DropTest()
        for good in GOOD:
            if test.alarm is None:
                test = follow(test, 1 - ALPHA, good - test.n, rng)
            if test.alarm is not None:
                false[good] += 1
                continue
            for after, rows in AFTER.items():
                dropped = follow(test, after, rows, rng)
                if dropped.alarm is not None:
                    before, n, hits = dropped.drop
                    seen = (dropped.alarm - good, abs(before - good), hits / n)
                    found[good, after].append(seen)
    for good in GOOD:
        yield {"kind": "none", "rows": good, "streams": streams, "alarms": false[good]}
        for after, rows in AFTER.items():
            yield {
                "kind": "drop", "good": good, "after": after, "rows": rows,
                "streams": streams - false[good], **summed(found[good, after]),
            }  # fmt: skip


def summed(seen: list[tuple[int, int, float]]) -> dict[str, float]:
    """Return delays, how far off the guessed beginning is, and the estimate of coverage."""
    delay, off, coverage = np.array(seen).T
    low, median, high = np.quantile(delay, [0.1, 0.5, 0.9], method="inverted_cdf")
    return {
        "alarms": len(seen),
        "delay_10": int(low),
        "delay_50": int(median),
        "delay_90": int(high),
        "off_50": int(np.quantile(off, 0.5, method="inverted_cdf")),
        "coverage_50": round(float(np.median(coverage)), 4),
    }


def tables() -> list[tuple[str, str]]:
    """Return the tables of the page, from the records alone."""
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    none = [
        [
            f"{r['rows']:,}",
            f"{r['streams']:,}",
            f"{r['alarms']:,}",
            f"{r['alarms'] / r['streams']:.4f}",
        ]
        for r in records
        if r["kind"] == "none" and r["rows"]
    ]
    drop = [
        [
            f"{r['good']:,}", f"{r['after']:.2f}", f"{r['delay_50']:,}",
            f"{r['delay_10']:,} to {r['delay_90']:,}", f"{r['alarms'] / r['streams']:.4f}",
            f"{r['off_50']:,}", f"{r['coverage_50']:.3f}",
        ]
        for r in records
        if r["kind"] == "drop"
    ]  # fmt: skip
    return [
        ("false", markdown_table([["rows", "streams", "alarms", "share"], *none])),
        ("delay", markdown_table([["good rows", "coverage then", "delay, median", "middle 80 %",
                          "alarms", "beginning off by", "estimate"], *drop])),
    ]  # fmt: skip


def main() -> None:
    """Simulate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=STREAMS)
    lines = [json.dumps(record) + "\n" for record in simulate(parser.parse_args().streams)]
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    RECORDS.write_text("".join(lines))


if __name__ == "__main__":
    main()
