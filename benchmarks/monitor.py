"""When each signal of the monitor speaks, and how often it does so falsely: simulated streams.

Run: python benchmarks/monitor.py            (minutes on one core; writes results/monitor/)
Its ``tables()`` are those of docs/how-to/monitor.md.

One site, promised 0.9. A model of ten classes is calibrated on 500 rows, and 500 others are the
baseline of its inputs. Then 100 rows come each week, for 26 weeks. From week 7 on coverage is 10
points lower: inputs get harder (``harder``), or labels change while inputs stay (``relabelled``).
All rows pass through the product's own monitor, at delta = 0.05.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedwqcp.monitor import Monitor, MonitorTerms
from fedwqcp.quantile import conformal_quantile
from fedwqcp_lab.comparison import markdown_table

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "monitor" / "records.jsonl"
ALPHA, CLASSES, CALIBRATED, WEEKLY, WEEKS, DRIFT = 0.1, 10, 500, 100, 26, 7
SIGNAL, HARDER, RELABELLED = 2.0, 1.5, 0.15
"""How far the true class stands out; the same after a drift; share of labels that are redrawn."""
SIGNALS = {
    "alarm": "alarm: coverage, needs labels",
    "watch": "watch: coverage, needs labels",
    "size": "inputs: size of the sets",
    "top": "inputs: score of the top label",
}


def rows(
    rng: np.random.Generator, n: int, drift: str = ""
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return probabilities and labels."""
    y = rng.integers(CLASSES, size=n)
    logits = rng.normal(size=(n, CLASSES))
    logits[np.arange(n), y] += HARDER if drift == "harder" else SIGNAL
    probs = np.exp(SIGNAL * logits)
    if drift == "relabelled":
        y = np.where(rng.uniform(size=n) < RELABELLED, rng.integers(CLASSES, size=n), y)
    return probs / probs.sum(axis=1, keepdims=True), y


def stream(seed: int, drift: str) -> dict[str, int]:
    """Return the week in which each signal first spoke."""
    rng = np.random.default_rng([seed, len(drift)])
    probs, y = rows(rng, CALIBRATED)
    q = float(conformal_quantile(1 - probs[np.arange(len(y)), y], ALPHA))
    terms = MonitorTerms(ALPHA, ("site",))
    by_size, by_top = Monitor(terms, {"site": CALIBRATED}), Monitor(terms)
    probs, _ = rows(rng, CALIBRATED)
    by_size.update_inputs("site", (1 - probs <= q).sum(axis=1), baseline=True)
    by_top.update_inputs("site", probs.max(axis=1), baseline=True)
    spoke: dict[str, int] = {}
    for week in range(1, WEEKS + 1):
        probs, y = rows(rng, WEEKLY, drift if week >= DRIFT else "")
        mask = 1 - probs <= q
        by_size.update_inputs("site", mask.sum(axis=1))
        top = by_top.update_inputs("site", probs.max(axis=1))
        (found,) = by_size.update("site", mask[np.arange(WEEKLY), y])
        said = {
            "alarm": found.state == "alarm",
            "watch": found.state in ("watch", "alarm"),
            "size": found.inputs == "alarm",
            "top": top.inputs == "alarm",
        }
        for signal, speaks in said.items():
            if speaks:
                spoke.setdefault(signal, week)
    return spoke


def simulate(streams: int, quiet: int) -> Iterator[dict[str, object]]:
    """Give a record for each drift and signal: in how many streams it first spoke in which week."""
    for drift, count in (("", quiet), ("harder", streams), ("relabelled", streams)):
        found = [stream(seed, drift) for seed in range(count)]
        for signal in SIGNALS:
            weeks = Counter(one[signal] for one in found if signal in one)
            yield {
                "drift": drift, "signal": signal, "streams": count,
                "weeks": {str(week): weeks[week] for week in sorted(weeks)},
            }  # fmt: skip


def tables() -> list[tuple[str, str]]:
    """Return the table of the page, from the records alone."""
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    lines = []
    for signal, name in SIGNALS.items():
        own = {one["drift"]: one for one in records if one["signal"] == signal}
        false = sum(own[""]["weeks"].values())
        line = [name]
        for drift in ("harder", "relabelled"):
            weeks = sorted(
                int(week) for week, n in own[drift]["weeks"].items() for _ in range(n)
            )  # false alarms before the drift are left out
            after = [week for week in weeks if week >= DRIFT]
            streams = own[drift]["streams"] - len(weeks) + len(after)
            median = after[(streams - 1) // 2] if len(after) > (streams - 1) // 2 else None
            line.append("never" if median is None else str(median))
            line.append(f"{len(after) / streams:.0%}")
        lines.append([*line, f"{false:,} of {own['']['streams']:,}"])
    columns = ["signal", "harder inputs: median week", "seen", "changed labels: median week"]
    return [("signals", markdown_table([[*columns, "seen", "false, in 26 weeks"], *lines]))]


def main() -> None:
    """Simulate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--quiet", type=int, default=2000, help="streams without drift")
    asked = parser.parse_args()
    lines = [json.dumps(record) + "\n" for record in simulate(asked.streams, asked.quiet)]
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    RECORDS.write_text("".join(lines))


if __name__ == "__main__":
    main()
