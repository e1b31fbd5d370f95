"""Byzantine agents: forged scores through real messages, their effect, tables and page."""

from __future__ import annotations

import lzma
import re
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest

from fedwqcp import Calibration, methods
from fedwqcp.errors import ImplausibleValueError, InputError, RecordError
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.server import Server
from fedwqcp.methods.rob_fcp import Span
from fedwqcp.wire.codec import encode, terms
from fedwqcp.wire.messages import Answer, Round
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluation import calibrate_row, prepare
from fedwqcp_lab.pipeline import Folder
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
    attacks_of,
    cost,
    coverage_by_dataset,
    effect,
    journal_of,
    sizes,
)
from refusals import raises
from units import experiment, labels_unit, lines_unit

HONEST = {
    "a": Calibration(np.arange(1, 11) / 10),
    "b": Calibration(np.arange(1, 11) / 20),
    "c": Calibration(np.arange(1, 6) / 5),
}


def scores(kind: str, byzantine: tuple[str, ...], highest: float = 1.0) -> dict[str, list[float]]:
    sent = attacked(kind, HONEST, byzantine, alpha=0.2, highest=highest)
    return {name: cal.scores.tolist() for name, cal in sent.items()}


def test_honest_agents_tell_what_they_have() -> None:
    for kind in ATTACKS:
        assert scores(kind, ("a",))["b"] == HONEST["b"].scores.tolist()


def test_every_attack_by_hand() -> None:
    assert scores("too high", ("c",))["c"] == [1.0] * 5
    assert scores("too high", ("c",), inf)["c"] == [FAR * 1.0] * 5
    assert scores("too low", ("c",))["c"] == [0.0] * 5
    assert scores("huge n", ("c",))["c"] == [0.0] * 5 * TIMES
    assert scores("colluding", ("c",))["c"] == [0.1, 0.2, 0.3, 0.4, 0.5]
    # thresholds are 0.9, 0.45 and 1.0: b has the smallest
    assert scores("copying", ("a", "c"))["c"] == HONEST["b"].scores.tolist()
    assert scores("copying", ("b",))["b"] == HONEST["a"].scores.tolist()


def test_labels_and_features_go_with_forged_scores() -> None:
    cal = Calibration([0.5, 0.7], [0, 1], [[1.0], [2.0]], 2)
    sent = attacked("huge n", {"a": cal, "b": cal}, ["a"], alpha=0.1, highest=1.0)["a"]
    assert sent.n == 2 * TIMES
    assert sent.labels.tolist() == [0, 1] * TIMES
    assert sent.features.shape == (2 * TIMES, 1)


def test_unknown_attacks() -> None:
    with pytest.raises(InputError):
        scores("slander", ("a",))


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


def test_a_method_that_asks_nobody_cannot_be_attacked(made: tuple[AttackResult, ...]) -> None:
    for attack in ATTACKS:
        assert by(made, "split-cp", attack).changes == (0.0,) * 4


def test_one_huge_claim_owns_the_mean_unless_it_is_bounded(made: tuple[AttackResult, ...]) -> None:
    free, bound = (by(made, "fedwq-cp", "huge n", bounded=b) for b in (False, True))
    assert max(free.threshold) < 0.3
    assert free.refused == (0,) * 4
    assert bound.refused == (1,) * 4
    assert min(bound.threshold) > 0.5


def test_attacks_move_coverage_in_their_direction(made: tuple[AttackResult, ...]) -> None:
    for method in ("fedwq-cp", "fedavgq-cp", "fcp"):
        low, high = (by(made, method, attack) for attack in ("too low", "too high"))
        honest = by(made, method, NOBODY).threshold[0]
        assert max(low.changes) <= 0 <= min(high.changes)
        assert min(low.threshold) < honest < max(high.threshold)


def test_a_regression_leaves_out_label_shift() -> None:
    preset = [p for p in experiment().presets if p.name == "sound"]
    found = byzantine.evaluate(lines_unit(n=60), preset, 0.1, most=1)
    assert {r.method for r in found} == {p.name for p in (*PLAIN, *ROBUST)} - {
        "dp-fedcp",
        "fedls-cp",
    }
    assert max(by(found, "fedwq-cp", "too high").size) > 10 * max(by(found, "fcp", NOBODY).size)


def test_bounds_hold_for_what_the_robust_methods_send() -> None:
    round = Round(
        id=new_id(),
        method=choose_method("rob-fcp"),
        score=choose_score("aps"),
        alphas=(0.1,),
        agents=("a", "b"),
        quorum=1,
        max_n=100,
        n_classes=3,
    )

    def refusal(span: Span) -> object:
        answer = Answer(round.id, terms(round), 0, "a", "rob-fcp", "aps", (0.1,), (span,))
        return Server(round).receive(encode(answer), "a")

    assert refusal(Span(0.1, 0.9, 100)) is None
    assert refusal(Span(0.1, inf, 100)) is None
    for span in (Span(0.1, 0.9, 101), Span(0.1, 1.5, 50), Span(-0.1, 0.9, 50)):
        assert isinstance(refusal(span), ImplausibleValueError)


def test_records_come_back(made: tuple[AttackResult, ...], tmp_path) -> None:
    packed = byzantine.journal_of(tmp_path).write_compressed(made)
    assert packed == tmp_path / "records.jsonl.xz"
    assert byzantine.journal_of(tmp_path).read() == tuple(sorted(made, key=lambda r: r.key))


def test_the_committed_records_are_packed_again_byte_for_byte(tmp_path) -> None:
    committed = Path(__file__).resolve().parents[3] / "results" / "byzantine"
    records = byzantine.journal_of(committed).read()
    packed = byzantine.journal_of(tmp_path).write_compressed(records)
    again, before = (
        lzma.decompress(path.read_bytes()) for path in (packed, committed / packed.name)
    )
    assert again == before


def test_records_that_cannot_be(made: tuple[AttackResult, ...], tmp_path) -> None:
    with raises(InputError, field="coverage"):
        replace(made[0], size=())
    (tmp_path / "records.jsonl.xz").write_bytes(b"no archive")
    with pytest.raises(RecordError):
        byzantine.journal_of(tmp_path).read()


def test_saved_units_are_found_and_tried(tmp_path, monkeypatch) -> None:
    chosen = experiment()
    monkeypatch.setattr(byzantine, "_experiments", lambda: (chosen,))
    unit = lines_unit(n=120)
    folder = Folder(tmp_path / "o", tmp_path / "o").unit(chosen, ("lines", 0))
    with pytest.raises(InputError):
        byzantine.saved(tmp_path / "o")
    units.save(unit, folder)
    assert byzantine.saved(tmp_path / "o") == (folder,)
    with pytest.raises(InputError):
        byzantine.saved(tmp_path / "o", seeds=(1,))
    with pytest.raises(InputError):
        byzantine.saved(tmp_path / "o", datasets=("blobs",))


ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "results" / "byzantine"


def recorded(**changes: object) -> AttackResult:
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
    return recorded(**{**lists, "refused": (0,), **changes})


def cells(table: str, row: int = -1) -> list[str]:
    """Return the cells of a row of a Markdown table."""
    return [cell.strip() for cell in table.splitlines()[row].split("|")[1:-1]]


def test_changes_are_pooled_over_choices_and_seeds() -> None:
    records = [recorded(), recorded(seed=1, coverage=(0.95, 0.95, 0.91))]
    # -0.05, 0, -0.2, 0, 0, +0.01
    assert cells(effect(records, "sound", 2)) == ["fcp", "0.000 (-0.200)"]
    assert cells(effect([recorded()], "sound", 2)) == ["fcp", "-0.050 (-0.200)"]


def test_robust_methods_come_last() -> None:
    records = [recorded(), recorded(method="another", robust=True), recorded(method="zeta")]
    rows = [line.split(" | ")[0] for line in effect(records, "sound", 2).splitlines()]
    assert rows == ["| method", "| ---", "| fcp", "| zeta", "| another"]


def test_sizes_are_ratios_and_may_be_endless() -> None:
    assert cells(sizes([recorded()], "sound", 2))[-1] == "0.50 (1.00)"
    endless = one(size=(inf,), truthful_size=(inf,))
    assert cells(sizes([endless], "sound", 2))[-1] == "1.00 (1.00)"
    assert cells(sizes([one(size=(inf,))], "sound", 2))[-1] == "inf (inf)"
    assert cells(sizes([one(truthful_size=(0.0,))], "sound", 2))[-1] == "inf (inf)"


def test_the_cost_without_an_attack() -> None:
    honest = [
        one(attack=NOBODY, byzantine=0, seed=seed, coverage=(0.9 + seed / 10,), size=(1.0 + seed,))
        for seed in (0, 1)
    ]
    other = one(attack=NOBODY, byzantine=0, dataset="a", title="A", method="another")
    table = cost([*honest, other], "sound")
    heads = ("A: worst", "A: size", "Digits: worst", "Digits: size")
    assert cells(table, 0) == ["method", *heads]
    assert cells(table, 2) == ["another", "0.500", "0.50", "", ""]
    assert cells(table, 3) == ["fcp", "", "", "0.950", "1.50"]


def test_a_bound_makes_an_attack_of_its_own() -> None:
    records = [
        recorded(attack="huge n", bounded=True),
        recorded(attack="copying"),
        recorded(attack="huge n"),
    ]
    assert attacks_of(records) == ["huge n", f"huge n{byzantine.BOUNDED}", "copying"]


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
    table = coverage_by_dataset(records, "sound", 2)
    shown = {tuple(row[:2]): row[2] for row in (cells(table, n) for n in range(2, 6))}
    assert shown["shaken", "Digits"].startswith("**-0.021**")
    assert shown["steady", "Digits"].startswith("-0.019")


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
