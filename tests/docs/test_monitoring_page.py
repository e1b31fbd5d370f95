"""The records of the monitor keep what its page says."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_false_alarms_were_within_the_bound_and_drops_were_seen():
    lines = (ROOT / "results" / "monitor" / "records.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert {record["kind"] for record in records} == {"none", "drop"}
    for record in records:
        if record["kind"] == "none":
            assert record["streams"] == 10_000
            assert record["alarms"] <= 0.05 * record["streams"]
        else:
            assert record["alarms"] >= 0.99 * record["streams"]
