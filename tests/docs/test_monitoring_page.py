"""The tables of the page on monitoring are those of its records."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_tells_what_was_measured():
    found = runpy.run_path(str(ROOT / "benchmarks" / "monitor.py"))["tables"]()
    page = (ROOT / "docs" / "explanation" / "monitoring.md").read_text()
    for name, table in found:
        assert f"<!-- {name} -->\n\n{table}\n\n" in page


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
