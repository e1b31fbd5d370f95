from dataclasses import replace

import numpy as np
import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab import unit as units
from fedwqcp_lab.evaluate import evaluate
from fedwqcp_lab.run import Where
from fedwqcp_lab.stages import Folder
from fedwqcp_lab.stress import journal_of, run
from fedwqcp_lab.stress_figure import write
from fedwqcp_lab.stressed import stressed
from fedwqcp_lab.study import Factor, Stress, load, shape_of
from fedwqcp_lab.unit import Side, Unit
from units import experiment, labels_unit

STUDY = Stress(
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
        sides = tuple(
            Side(side.name, rng.normal(size=(n, 4)).astype(np.float32), side.test)
            for side in unit.sides
        )
        units.save(Unit(unit.setting, sides), folder.unit(STUDY.experiment, ("blobs", seed)))


def test_a_line_sums_up_its_agents():
    results = evaluate(labels_unit(), experiment())
    lines = stressed(results, "agents", 3.0)
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
    assert run(STUDY, Where(out=tmp_path, jobs=2)) == 6
    whole = journal_of(tmp_path).read()
    assert len(whole) == 2 * 3 * 2 * 2
    assert {(x.factor, x.value, x.agents, x.alpha) for x in whole} == {
        ("agents", 2.0, 2, 0.1),
        ("agents", 4.0, 4, 0.1),
        ("alpha", 0.2, 3, 0.2),
    }
    with pytest.raises(InputError, match="--resume"):
        run(STUDY, Where(out=tmp_path))
    path = journal_of(tmp_path).path
    path.write_bytes(
        path.read_bytes()[:-50]
    )  # torn in its last line: that federation is made again
    assert run(STUDY, Where(out=tmp_path), resume=True) == 1
    assert sorted(journal_of(tmp_path).read(), key=lambda x: x.key) == sorted(
        whole, key=lambda x: x.key
    )
    other = replace(STUDY, experiment=replace(STUDY.experiment, alpha=0.3))
    with pytest.raises(RecordError, match="made with other settings"):
        run(other, Where(out=tmp_path), resume=True)
    names = {file.name for file in write(whole, tmp_path)}
    assert names >= {"stress.csv", "stress-paper.svg", "stress-sound.png"}
    assert (tmp_path / "stress.csv").read_text().count("\n") == 1 + 3 * 2 * 2


def test_the_study_that_comes_along_begins_at_the_papers_point():
    study = load()
    start = study.start
    assert (start.alpha, start.beta, start.agents, start.strong) == (0.05, 0.3, 6, 0.5)
    for name in ("label", "agents", "alpha", "strong"):  # each passes through it
        assert any(shape_of(p, start) == start for p in study.points if p[0] == name)


def test_wrong_studies_are_refused(tmp_path):
    with pytest.raises(InputError, match="whole number"):
        Factor(name="agents", values=(2.5,))
    with pytest.raises(InputError, match="name: must be one of 'alpha', 'agents'"):
        Factor(name="size", values=(1,))
    with pytest.raises(InputError, match="values must be different"):
        Factor(name="agents", values=(2, 2.0))
    for factors in ((), 2 * (Factor(name="agents", values=(2,)),)):
        with pytest.raises(InputError, match="factors must have different names"):
            Stress(experiment=experiment(), factors=factors)
    file = tmp_path / "s.toml"
    file.write_text("factors = 3")
    with pytest.raises(InputError, match=r"s\.toml"):
        load(file)
