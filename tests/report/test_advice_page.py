"""The page on advice shows what its records give, and what was promised of it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from statistics import median

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


def test_on_fresh_seeds_the_medians_are_not_worse_and_prices_are_named():
    lines = (ROOT / "results" / "advice" / "fresh.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    groups = {}
    for record in records:
        if record["alpha"] == 0.05:
            key = record["dataset"], record["look"], record["counts"]
            groups.setdefault(key, []).append(record)
    assert {len(own) for own in groups.values()} == {10}
    for own in groups.values():
        assert median(r["worst"] for r in own) >= median(r["base_worst"] for r in own)
    less = [r["base_worst"] - r["worst"] for own in groups.values() for r in own]
    assert sum(gap > 0 for gap in less) == 5  # as the page says
    assert round(max(less), 3) == 0.017
    assert all(r["size"] <= 1.05 * r["base_size"] or r["price"] for r in records)
