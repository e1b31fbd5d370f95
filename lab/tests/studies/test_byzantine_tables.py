"""The effect of Byzantine agents as tables and a figure; and the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from pathlib import Path

import pytest

from fedwqcp_lab.studies import byzantine_tables
from fedwqcp_lab.studies.byzantine import NOBODY, AttackResult, journal_of
from fedwqcp_lab.studies.byzantine_tables import (
    KEPT,
    attacks_of,
    cost,
    coverage_by_dataset,
    effect,
    sizes,
)

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results" / "byzantine"
PAGE = ROOT / "docs" / "explanation" / "byzantine.md"


def attacked(**changes: object) -> AttackResult:
    fields = {
        "dataset": "digits",
        "title": "Digits",
        "status": "published",
        "task": "classification",
        "seed": 0,
        "alpha": 0.05,
        "preset": "sound",
        "method": "fcp",
        "robust": False,
        "attack": "too low",
        "byzantine": 2,
        "bounded": False,
        "coverage": (0.90, 0.95, 0.70),
        "truthful": (0.95, 0.95, 0.90),
        "size": (1.0, 2.0, 1.0),
        "truthful_size": (2.0, 2.0, 2.0),
        "threshold": (0.5, 0.6, 0.7),
        "refused": (0, 0, 0),
        "code": "fedwqcp 0",
    }
    return AttackResult(**{**fields, **changes})


def one(**changes: object) -> AttackResult:
    lists = dict.fromkeys(("coverage", "truthful", "size", "truthful_size", "threshold"), (0.5,))
    return attacked(**{**lists, "refused": (0,), **changes})


def test_changes_are_pooled_over_choices_and_seeds() -> None:
    records = [attacked(), attacked(seed=1, coverage=(0.95, 0.95, 0.91))]
    # -0.05, 0, -0.2, 0, 0, +0.01
    assert effect(records, "sound", 2).splitlines()[-1] == "| fcp | 0.000 (-0.200) |"
    assert effect([attacked()], "sound", 2).splitlines()[-1] == "| fcp | -0.050 (-0.200) |"


def test_robust_methods_come_last() -> None:
    records = [attacked(), attacked(method="another", robust=True), attacked(method="zeta")]
    rows = [line.split(" | ")[0] for line in effect(records, "sound", 2).splitlines()]
    assert rows == ["| method", "| ---", "| fcp", "| zeta", "| another"]


def test_sizes_are_ratios_and_may_be_endless() -> None:
    assert sizes([attacked()], "sound", 2).endswith("| 0.50 (1.00) |")
    endless = one(size=(inf,), truthful_size=(inf,))
    assert sizes([endless], "sound", 2).endswith("| 1.00 (1.00) |")
    assert sizes([one(size=(inf,))], "sound", 2).endswith("| inf (inf) |")
    assert sizes([one(truthful_size=(0.0,))], "sound", 2).endswith("| inf (inf) |")


def test_the_cost_without_an_attack() -> None:
    honest = [
        one(attack=NOBODY, byzantine=0, seed=seed, coverage=(0.9 + seed / 10,), size=(1.0 + seed,))
        for seed in (0, 1)
    ]
    other = one(attack=NOBODY, byzantine=0, dataset="a", title="A", method="another")
    lines = cost([*honest, other], "sound").splitlines()
    assert lines[0] == "| method | A: worst | A: size | Digits: worst | Digits: size |"
    assert lines[2:] == ["| another | 0.500 | 0.50 |  |  |", "| fcp |  |  | 0.950 | 1.50 |"]


def test_a_bound_makes_an_attack_of_its_own() -> None:
    records = [
        attacked(attack="huge n", bounded=True),
        attacked(attack="copying"),
        attacked(attack="huge n"),
    ]
    assert attacks_of(records) == ["huge n", "huge n, max_n set", "copying"]


def methods_that_keep(records: Sequence[AttackResult], preset: str, byzantine: int) -> list[str]:
    """Return the robust methods that keep the worst honest agent's coverage on every dataset."""
    own = [r for r in records if (r.preset, r.byzantine) == (preset, byzantine) and r.robust]
    lost = {record.method for record in own if max(map(abs, record.changes)) > KEPT}
    return sorted({record.method for record in own} - lost)


def test_who_keeps_it() -> None:
    steady = one(method="steady", robust=True, coverage=(0.481,))
    shaken = one(method="shaken", robust=True, coverage=(0.479,))
    elsewhere = one(method="steady", robust=True, dataset="b", title="B", coverage=(0.51,))
    records = [steady, shaken, elsewhere, one(method="shaken", robust=True, title="B")]
    assert methods_that_keep(records, "sound", 2) == ["steady"]
    lines = coverage_by_dataset(records, "sound", 2).splitlines()
    assert "| shaken | Digits | **-0.021** (-0.021 to -0.021) |" in lines
    assert "| steady | Digits | -0.019 (-0.019 to -0.019) |" in lines


def test_the_page_and_the_tables_show_what_the_records_give(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    records = journal_of(RESULTS).read()
    page, figure = byzantine_tables.write_tables(records, tmp_path)
    assert page.read_bytes() == (RESULTS / "tables.md").read_bytes()
    shown = PAGE.read_text(encoding="utf-8")
    tables = byzantine_tables.all_tables(records)
    headings = re.findall(r"^\*\*(.+)\*\*$", shown, flags=re.MULTILINE)
    assert len(headings) >= 5
    for heading in headings:
        assert f"**{heading}**\n\n{tables[heading]}\n" in shown, heading
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
