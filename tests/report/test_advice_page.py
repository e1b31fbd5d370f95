"""The page on advice shows what its records give, and what was promised of it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_the_records_give():
    page = (ROOT / "docs" / "how-to" / "advise.md").read_text()
    for name, table in runpy.run_path(str(ROOT / "benchmarks" / "advice.py"))["tables"]():
        assert f"<!-- {name} -->\n\n{table}\n\n" in page


def test_following_it_is_never_worse_and_names_its_price():
    lines = (ROOT / "results" / "advice" / "records.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    records = [record for record in records if record["alpha"] == 0.05]
    assert len({(r["dataset"], r["seed"]) for r in records}) == 35
    for record in records:
        assert record["worst"] >= record["base_worst"], record
        assert record["size"] <= 1.05 * record["base_size"] or record["price"], record
