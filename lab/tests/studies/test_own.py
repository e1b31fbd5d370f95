from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedwqcp_lab import evaluation
from fedwqcp_lab import unit as units
from fedwqcp_lab.pipeline import Folder, RunOptions
from fedwqcp_lab.studies.own import (
    HEART,
    MIXES,
    GroupedResult,
    Hospitals,
    OwnStudy,
    evaluate,
    journal_of,
    load,
    pending,
    run,
)
from units import experiment, labels_unit, lines_unit

RESULTS = Path(__file__).resolve().parents[3] / "results" / "own"


def record(**changes):
    """Two agents, two groups; the second agent has no point."""
    fields = {
        "dataset": "blobs",
        "title": "Blobs",
        "status": "synthetic",
        "task": "classification",
        "seed": 0,
        "alpha": 0.1,
        "preset": "paper",
        "method": "split-cp",
        "agents": ("S0", "W1"),
        "counts": ((3, 1), (0, 0)),
        "tested": (10, 30),
        "hits": ((10, 15), (5, 30)),
        "sizes": ((1.0, 3.0), (2.0, 2.0)),
        "guarantee": "none",
        "code": "",
        "device": "cpu",
    }
    return GroupedResult(**{**fields, **changes})


def test_coverage_and_size_under_each_mix_by_hand():
    found = record()
    assert found.coverage("own") == {"S0": 0.75 * 1 + 0.25 * 0.5}  # W1 has no mix of its own
    assert found.coverage("shared") == {"S0": 25 / 40, "W1": pytest.approx(35 / 40)}
    assert found.coverage("balanced") == {"S0": 0.75, "W1": 0.75}
    assert found.coverage("neighbour") == {"W1": 0.75 * 0.5 + 0.25 * 1}
    assert found.size("own") == 0.75 * 1 + 0.25 * 3
    assert found.size("shared") == pytest.approx((2.5 + 2.0) / 2)
    assert found.agent_size("balanced", "S0") == 2.0


@pytest.mark.parametrize("make", [labels_unit, lines_unit])
def test_the_shared_mix_is_what_the_benchmark_measures(make):
    unit, plans = make(), experiment()
    measured = {(r.preset, r.method, r.agent): r for r in evaluation.evaluate(unit, plans)}
    for found in evaluate(unit, plans):
        for agent, coverage in found.coverage("shared").items():
            own = measured[found.preset, found.method, agent]
            assert coverage == pytest.approx(own.coverage)
            size = own.size if own.clipped is None else own.clipped
            assert found.agent_size("shared", agent) == pytest.approx(size, abs=1e-4)


def patients(path, n=40):
    """Write patients of four hospitals: the first measurement tells who is ill."""
    rng = np.random.default_rng(0)
    path.parent.mkdir(parents=True)
    lines = ["site,age,chol,num"]
    for site in ("a", "b", "c", "d"):
        for i in range(n):
            missing = "200" if i % 5 > 1 else "0" if i % 5 else ""
            lines.append(f"{site},{i % 2 + rng.normal() / 3:.3f},{missing},{2 * (i % 2)}")
    path.write_text("\n".join(lines) + "\n")


def small_study(out, hospitals="0"):
    """Return a study on one unit whose model outputs are there, and on hospitals."""
    small = experiment(datasets=experiment().datasets[:1], seeds=(0,))
    units.save(labels_unit(0), Folder(out).unit(small, ("blobs", 0)))
    return OwnStudy(experiment=small, hospitals=Hospitals(alpha=0.2, seeds=hospitals))


def test_a_study_is_run_once_and_goes_on(tmp_path):
    pytest.importorskip("sklearn")
    patients(tmp_path / HEART)
    out = tmp_path / "out"
    study, options = small_study(out), RunOptions(out=out, data=tmp_path)
    assert run(study, options) == 2
    records = journal_of(out).read()
    assert {(r.dataset, r.alpha) for r in records} == {("blobs", 0.1), ("heart", 0.2)}
    assert all(0 <= c <= 1 for r in records for mix in MIXES for c in r.coverage(mix).values())
    assert run(study, options, resume=True) == 0
    assert journal_of(out).read() == records


def test_nothing_is_pending_of_the_records_in_the_repository():
    study, records = load(), journal_of(RESULTS).read()
    assert pending(study.experiment, records) == ()
    assert pending(study.on_hospitals, records) == ()
    assert pending(study.experiment, records[1:]) == ((records[0].dataset, records[0].seed),)
