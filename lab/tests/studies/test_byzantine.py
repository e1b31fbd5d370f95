"""Byzantine agents: forged scores through real messages, their effect, tables and page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from pathlib import Path

import numpy as np
import pytest

from fedwqcp import Calibration, methods
from fedwqcp_lab.evaluation import calibrate_row, prepare
from fedwqcp_lab.studies import byzantine
from fedwqcp_lab.studies.byzantine import (
    ATTACKS,
    FAR,
    KEPT,
    NOBODY,
    PLAIN,
    ROBUST,
    TIMES,
    AttackResult,
    attacked,
    journal_of,
)
from units import experiment, labels_unit

HONEST = {
    "a": Calibration(np.arange(1, 11) / 10),
    "b": Calibration(np.arange(1, 11) / 20),
    "c": Calibration(np.arange(1, 6) / 5),
}


def scores(kind: str, byzantine: tuple[str, ...], highest: float = 1.0) -> dict[str, list[float]]:
    sent = attacked(kind, HONEST, byzantine, alpha=0.2, highest=highest)
    return {name: cal.scores.tolist() for name, cal in sent.items()}


def test_every_attack_by_hand() -> None:
    assert scores("too high", ("c",))["c"] == [1.0] * 5
    assert scores("too high", ("c",), inf)["c"] == [FAR * 1.0] * 5
    assert scores("too low", ("c",))["c"] == [0.0] * 5
    assert scores("huge n", ("c",))["c"] == [0.0] * 5 * TIMES
    assert scores("colluding", ("c",))["c"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    # thresholds are 0.9, 0.45 and 1.0: b has the smallest
    assert scores("copying", ("a", "c"))["c"] == HONEST["b"].scores.tolist()
    assert scores("copying", ("b",))["b"] == HONEST["a"].scores.tolist()


@pytest.fixture(scope="module")
def made() -> tuple[AttackResult, ...]:
    """One Byzantine agent of four, every attack and method, a classification, preset sound."""
    unit = labels_unit(n=160, agents=("S0", "S1", "W2", "W3"))
    return byzantine.evaluate(
        unit, [p for p in experiment().presets if p.name == "sound"], 0.1, most=1
    )


def by(
    made: tuple[AttackResult, ...], method: str, attack: str, *, bounded: bool = False
) -> AttackResult:
    return next(r for r in made if (r.method, r.attack, r.bounded) == (method, attack, bounded))


def test_every_method_meets_every_attack_once(made: tuple[AttackResult, ...]) -> None:
    assert len({record.key for record in made}) == len(made)
    assert len(made) == len((*PLAIN, *ROBUST)) * (1 + len(ATTACKS) + 1)
    assert {plan.method for plan in (*PLAIN, *ROBUST)} <= set(methods.available())


def test_without_an_attack_it_is_the_plain_round(made: tuple[AttackResult, ...]) -> None:
    unit = labels_unit(n=160, agents=("S0", "S1", "W2", "W3"))
    scored = prepare(unit, experiment().presets[1])
    for plan in (plan for plan in PLAIN if plan.method in ("fedwq-cp", "fcp", "split-cp")):
        calibrated = calibrate_row(unit.setting, scored, plan, 0.1)
        found = [
            scored.test_sets[name].measure(q, scored.rule(plan))
            for name, q in calibrated.thresholds.items()
        ]
        record = by(made, plan.name, NOBODY)
        assert record.coverage == (min(m.hits / m.n_test for m in found),)
        assert record.size[0] == pytest.approx(np.mean([m.size for m in found]), rel=1e-5)


def test_one_huge_claim_owns_the_mean_unless_it_is_bounded(made: tuple[AttackResult, ...]) -> None:
    free, bound = (by(made, "fedwq-cp", "huge n", bounded=b) for b in (False, True))
    assert max(free.threshold) < 0.3
    assert free.refused == (0,) * 4
    assert bound.refused == (1,) * 4
    assert min(bound.threshold) > 0.5


ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results" / "byzantine"


def methods_that_keep(records: Sequence[AttackResult], preset: str, byzantine: int) -> list[str]:
    """Return the robust methods that keep the worst honest agent's coverage on every dataset."""
    own = [r for r in records if (r.preset, r.byzantine) == (preset, byzantine) and r.robust]
    lost = {record.method for record in own if max(map(abs, record.changes)) > KEPT}
    return sorted({record.method for record in own} - lost)


def test_the_tables_and_the_figure_are_what_the_records_give(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    records = journal_of(RESULTS).read()
    page, figure = byzantine.write_tables(records, tmp_path)
    assert page.read_bytes() == (RESULTS / "tables.md").read_bytes()
    committed = RESULTS / "two-byzantine-agents.svg"
    drawn_by = re.search(r"Matplotlib v([^,]+),", committed.read_text())
    again = re.search(r"Matplotlib v([^,]+),", figure.read_text())
    assert drawn_by
    if drawn_by[1] == again[1]:
        assert figure.read_bytes() == committed.read_bytes()


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("sound", ["guarded-median-cp"]),
        ("paper", ["guarded-median-cp", "guarded-median-cp (slack 0.2)"]),
    ],
)
def test_two_of_six_are_withstood_on_every_dataset(preset: str, expected: list[str]) -> None:
    records = journal_of(RESULTS).read()
    assert {r.dataset for r in records} >= {"retinamnist", "dermamnist", "bloodmnist"}
    assert methods_that_keep(records, preset, 2) == expected
