"""The page on advice shows what its records give, and what was promised of it."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from fedwqcp.theory import advise
from fedwqcp.wire.payload import LocalQuantile

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_the_records_give():
    page = (ROOT / "docs" / "how-to" / "advise.md").read_text()
    for name, table in runpy.run_path(str(ROOT / "benchmarks" / "advice.py"))["tables"]():
        assert f"<!-- {name} -->\n\n{table}\n\n" in page


def recorded(file):
    """Read records of benchmarks/advice.py."""
    lines = (ROOT / "results" / "advice" / file).read_text().splitlines()
    return [json.loads(line) for line in lines]


def advice_by(code, score):
    """Return an advice of the rule that spoke, on the score that was looked at."""
    alike = {name: LocalQuantile(0.9, 800) for name in "abcde"}
    thresholds, counts = {
        "alike": (alike, None),
        "tiny": ({**alike, "few": LocalQuantile(float("inf"), 5)}, None),
        "outlier": ({**alike, "far": LocalQuantile(0.1, 800)}, None),
        "spread": ({"a": LocalQuantile(0.1, 800), "b": LocalQuantile(0.9, 800)}, None),
        "label-shift": (
            {"a": LocalQuantile(0.1, 800), "b": LocalQuantile(0.9, 800)},
            {"a": (700, 100), "b": (100, 700)},
        ),
    }[code]
    found = advise(thresholds, 0.05, counts=counts, score=score, bounds=(0.0, 1.0))
    assert found.code == code
    return found


@pytest.mark.parametrize(("file", "units"), [("records.jsonl", 35), ("fresh.jsonl", 70)])
def test_following_it_is_never_worse_and_says_what_it_does_to_sizes(file, units):
    records = recorded(file)
    assert len({(r["dataset"], r["seed"]) for r in records}) == units
    assert {r["alpha"] for r in records} == {0.02, 0.05, 0.1, 0.2}
    prices = {
        (code, look): advice_by(code, look).price
        for code, look in {(r["code"], r["look"]) for r in records}
    }
    for record in records:
        price = prices[record["code"], record["look"]]
        assert record["worst"] >= record["base_worst"], record
        assert record["price"] == bool(price), record
        if not price:  # then the thresholds are FedWQ-CP's
            assert record["size"] == record["base_size"], record
        elif record["size"] > 1.05 * record["base_size"]:
            assert re.search("sets (may )?grow|larger sets|sets of APS are larger", price), price


@pytest.mark.parametrize("file", ["records.jsonl", "fresh.jsonl"])
def test_on_one_score_a_floor_covers_no_agent_less(file):
    floored = [r for r in recorded(file) if r["bare"] and r["score"] == r["look"]]
    assert len(floored) > 200
    assert not any(r["less"] for r in floored)
    assert any(r["bare"]["less"] for r in floored)  # without it some agents were
