"""The records of the page on averaging keep the error bounds that it states."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BENCH = runpy.run_path(str(ROOT / "benchmarks" / "assessment.py"))
ROWS = BENCH["read"]()


def test_the_records_hold_every_kind_a_thousand_times():
    kinds = {(r["scores"], r["alpha"], r["deviating"], r["cost"], r["n"], r["M"]) for r in ROWS}
    grid = [(n, M) for n in BENCH["SIZES"] for M in BENCH["AGENTS"]]
    assert kinds == {(*kind, n, M) for kind in BENCH["kinds"]() for n, M in grid}
    assert len(ROWS) == len(kinds)
    assert min(r["runs"] for r in ROWS) >= 1000


def test_identical_agents_are_called_unsafe_in_at_most_2_percent():
    assert max(r["unsafe"] for r in ROWS if r["deviating"] == "identical") <= 0.02


def test_a_loss_of_more_than_half_of_alpha_is_called_safe_in_at_most_5_percent():
    assert max(r["safe"] for r in ROWS if r["cost"] > 0.5) <= 0.05
    assert max(r["safe and lost"] for r in ROWS) <= 0.05


def test_the_records_can_be_made_again():
    n, M = 20, 3
    again = [{k: v if isinstance(v, str) else float(v) for k, v in r.items()}
             for r in BENCH["measure"](n, M)]  # fmt: skip
    assert again == [r for r in ROWS if (r["n"], r["M"]) == (n, M)]
