"""The page on advice shows what its records give, and what was promised of it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_the_records_give():
    page = (ROOT / "docs" / "how-to" / "advise.md").read_text()
    for name, table in runpy.run_path(str(ROOT / "benchmarks" / "advice.py"))["tables"]():
        assert f"<!-- {name} -->\n\n{table}\n\n" in page


def recorded(file):
    """Read records of benchmarks/advice.py."""
    lines = (ROOT / "results" / "advice" / file).read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(("file", "units"), [("records.jsonl", 35), ("fresh.jsonl", 70)])
def test_following_it_is_never_worse_and_names_its_price(file, units):
    records = recorded(file)
    assert len({(r["dataset"], r["seed"]) for r in records}) == units
    assert {r["alpha"] for r in records} == {0.02, 0.05, 0.1, 0.2}
    for record in records:
        assert record["worst"] >= record["base_worst"], record
        assert record["size"] <= 1.05 * record["base_size"] or record["price"], record


@pytest.mark.parametrize("file", ["records.jsonl", "fresh.jsonl"])
def test_on_one_score_a_floor_covers_no_agent_less(file):
    floored = [r for r in recorded(file) if r["bare"] and r["score"] == r["look"]]
    assert len(floored) > 200
    assert not any(r["less"] for r in floored)
    assert any(r["bare"]["less"] for r in floored)  # without it some agents were
