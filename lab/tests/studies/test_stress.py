from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluation import evaluate
from fedwqcp_lab.pipeline import Folder, RunOptions
from fedwqcp_lab.studies.stress import (
    Factor,
    Shape,
    StressStudy,
    federate,
    journal_of,
    run,
    summarize,
    write_figures,
)
from fedwqcp_lab.unit import AgentOutputs, Unit
from units import experiment, labels_unit

STUDY = StressStudy(
    experiment=experiment(
        pool=True, datasets=experiment().datasets[:1], presets=experiment().presets[:2]
    ),
    factors=(Factor(name="agents", values=(2, 4)), Factor(name="alpha", values=(0.2,))),
)


def fill(folder):
    """Save pools where a run would."""
    for seed in STUDY.experiment.seeds:
        unit = labels_unit(seed)
        rng = np.random.default_rng(seed)
        n = len(unit.setting.labels)
        outputs = tuple(
            AgentOutputs(agent.name, rng.normal(size=(n, 4)).astype(np.float32), agent.test)
            for agent in unit.outputs
        )
        units.save(Unit(unit.setting, outputs), folder.unit(STUDY.experiment, ("blobs", seed)))


def test_a_line_sums_up_its_agents():
    results = evaluate(labels_unit(), experiment())
    lines = summarize(results, "agents", 3.0)
    assert len(lines) == 4
    own = [r for r in results if (r.preset, r.method) == ("sound", "fedwq-cp")]
    line = next(x for x in lines if (x.preset, x.method) == ("sound", "fedwq-cp"))
    assert line.worst == min(r.coverage for r in own)
    assert line.gap == pytest.approx(sum(abs(r.coverage - 0.9) for r in own) / 3)
    assert line.short == pytest.approx(sum(max(0, 0.9 - r.coverage) for r in own) / 3)
    assert (line.agents, line.fewest) == (3, min(r.n_cal for r in own))


def test_a_study_is_resumed_and_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    fill(Folder(tmp_path))
    assert run(STUDY, RunOptions(out=tmp_path, jobs=2)) == 6
    whole = journal_of(tmp_path).read()
    assert len(whole) == 2 * 3 * 2 * 2
    assert {(x.factor, x.value, x.agents, x.alpha) for x in whole} == {
        ("agents", 2.0, 2, 0.1),
        ("agents", 4.0, 4, 0.1),
        ("alpha", 0.2, 3, 0.2),
    }
    with pytest.raises(InputError, match="--resume"):
        run(STUDY, RunOptions(out=tmp_path))
    path = journal_of(tmp_path).path
    path.write_bytes(
        path.read_bytes()[:-50]
    )  # torn in its last line: that federation is made again
    assert run(STUDY, RunOptions(out=tmp_path), resume=True) == 1
    assert sorted(journal_of(tmp_path).read(), key=lambda x: x.key) == sorted(
        whole, key=lambda x: x.key
    )
    other = replace(STUDY, experiment=replace(STUDY.experiment, alpha=0.3))
    with pytest.raises(RecordError):
        run(other, RunOptions(out=tmp_path), resume=True)
    names = {file.name for file in write_figures(whole, tmp_path)}
    assert names >= {"stress.csv", "stress-paper.svg", "stress-sound.png"}
    assert (tmp_path / "stress.csv").read_text().count("\n") == 1 + 3 * 2 * 2


def pool(seed=0):
    """Return models with outputs for all calibration points: those of row i are (model, i)."""
    unit = labels_unit(seed)
    n = len(unit.setting.labels)
    outputs = tuple(
        AgentOutputs(agent.name, np.stack([np.full(n, at), np.arange(n)] * 2, axis=1), agent.test)
        for at, agent in enumerate(unit.outputs)
    )
    return Unit(unit.setting, outputs)


def test_every_point_has_one_owner_whose_model_predicts_it():
    found = federate(pool(), Shape(agents=5, strong=0.4, beta=0.5))
    assert found.setting.agents == ("S0", "S1", "W2", "W3", "W4")
    assert np.bincount(found.setting.owners, minlength=5).sum() == 240
    models = [0, 1, 2, 2, 2]  # two strong models in turn, one weak model
    for at, agent in enumerate(found.outputs):
        rows = found.setting.part(at)
        assert np.array_equal(agent.calibration[:, 1], rows)
        assert (agent.calibration[:, 0] == models[at]).all()
        assert agent.test is pool().outputs[models[at]].test or len(agent.test) == 90
