"""The records of the monitor keep what its page says."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_false_alarms_were_within_the_bound_and_drifts_were_seen():
    lines = (ROOT / "results" / "monitor" / "records.jsonl").read_text().splitlines()
    records = {(one["drift"], one["signal"]): one for one in map(json.loads, lines)}
    for signal in ("alarm", "size", "top"):
        quiet = records["", signal]
        assert quiet["streams"] >= 2000
        assert sum(quiet["weeks"].values()) <= 0.05 * quiet["streams"]
        drifted = records["harder", signal]
        assert drifted["streams"] >= 200
        assert sum(drifted["weeks"].values()) >= 0.95 * drifted["streams"]
