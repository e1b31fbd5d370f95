"""The page on the assessment shows what its records give, and these keep what is promised."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import fedwqcp as fw

ROOT = Path(__file__).resolve().parents[2]
BENCH = runpy.run_path(str(ROOT / "benchmarks" / "assessment.py"))
ROWS = BENCH["read"]()
GRID = [(n, M) for n in BENCH["SIZES"] for M in BENCH["AGENTS"]]


def test_the_records_hold_every_kind_a_thousand_times():
    kinds = {(r["scores"], r["alpha"], r["deviating"], r["cost"], r["n"], r["M"]) for r in ROWS}
    assert kinds == {(*kind, n, M) for kind in BENCH["kinds"]() for n, M in GRID}
    assert len(ROWS) == len(kinds)
    assert min(r["runs"] for r in ROWS) >= 1000
    assert {20, 1000} <= set(BENCH["SIZES"])
    assert {3, 100} <= set(BENCH["AGENTS"])


def test_identical_agents_are_called_unsafe_in_at_most_2_percent():
    assert max(r["unsafe"] for r in ROWS if r["deviating"] == "identical") <= 0.02


def test_a_loss_of_more_than_half_of_alpha_is_called_safe_in_at_most_5_percent():
    assert max(r["safe"] for r in ROWS if r["cost"] > 0.5) <= 0.05
    assert max(r["safe and lost"] for r in ROWS) <= 0.05


def test_the_worst_agent_under_auto_is_near_that_of_the_best_fixed_method():
    assert max(BENCH["shortfall"](r) for r in ROWS) <= 0.02


def test_the_records_can_be_made_again():
    n, M = 20, 3
    again = [{k: v if isinstance(v, str) else float(v) for k, v in r.items()}
             for r in BENCH["measure"](n, M)]  # fmt: skip
    assert again == [r for r in ROWS if (r["n"], r["M"]) == (n, M)]


@pytest.mark.parametrize(("n", "M"), [(20, 6), (200, 3), (1000, 3)])
def test_auto_decides_as_the_simulation_does(n, M):
    chosen = {"safe": "fedwq-cp", "cannot tell": "fcp"}
    seen = set()
    for name, alpha, who, cost in [
        kind for kind in BENCH["kinds"]() if kind[3] in (0.0, 0.55, 2.5) and kind[2] != "half"
    ]:
        family = BENCH["FAMILIES"][name]
        pattern = BENCH["shifts"](family, who, cost, M, alpha)
        (u,) = BENCH["draws"](n, M, 2, seed=7)
        found = BENCH["simulate"](u, family, pattern, alpha)
        scores = family.score(family.moved(family.of_uniform(u), pattern[:, None]))
        for run, verdict in enumerate(found["verdict"].tolist()):
            cals = {f"a{k}": scores[run, k] for k in range(M)}
            release = fw.calibrate(cals, method="auto", alpha=alpha)
            own = "split-cp" if BENCH["own_suffices"](n, alpha) else "fcp"
            assert release.round.method.name == chosen.get(verdict, own)
            thresholds = [release.threshold(agent) for agent in cals]
            assert np.allclose(thresholds, found["thresholds"]["auto"][run], rtol=1e-9, atol=0)
            seen.add(verdict)
    assert "cannot tell" in seen


def test_with_the_right_target_auto_is_near_the_best_fixed_method():
    rows = BENCH["read_labels"]()
    kinds = {(r["people"], r["alpha"], r["n"]) for r in rows}
    assert len(kinds) == len(rows) == 2 * len(BENCH["ALPHAS"]) * len(BENCH["LABEL_SIZES"])
    assert min(r["runs"] for r in rows) >= 1000
    assert max(map(BENCH["label_shortfall"], rows)) <= 0.02
    for row in rows:
        (wrong,) = {"own", "mixture"} - {row["people"]}
        assert row[f"worst auto, {wrong}"] < row[f"worst auto, {row['people']}"]


def test_a_simulation_with_labels_can_be_made_again():
    one, two = (BENCH["measure_labels"](40, 0.1, runs=2) for _ in range(2))
    assert one == two
    assert {row["people"] for row in one} == {"own", "mixture"}
