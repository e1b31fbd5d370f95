from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.pipeline import RunOptions
from fedwqcp_lab.studies import scale
from fedwqcp_lab.studies.scale import exact_worst, size_at
from fedwqcp_lab.studies.stress import DistinctModels, Factor, StressStudy, journal_of
from fedwqcp_lab.training import TrainingData
from units import experiment


def test_sizes_at_equal_coverage_and_the_exact_worst_agent_by_hand():
    levels = {0.05: (0.04, 8.0), 0.1: (0.16, 2.0)}
    assert size_at(levels, 0.08) == pytest.approx(4.0)  # halfway in log miscoverage
    assert size_at(levels, 0.2) is None
    assert size_at({0.05: (0.08, 8.0), 0.1: (0.08, 4.0)}, 0.08) == pytest.approx(4.0)
    assert size_at({0.05: (0.0, 8.0), 0.1: (0.16, 2.0)}, 0.08) is None  # every label in every set
    # one agent, rank 20 of 20: Beta(20, 1) has the median 2^(-1/20); of four agents the smallest
    assert exact_worst(1, 20, 0.05) == pytest.approx(0.5 ** (1 / 20))
    assert exact_worst(4, 20, 0.05) == pytest.approx((1 - 0.5**0.25) ** (1 / 20))
    assert exact_worst(4, 18, 0.05) == 1.0  # too few points: +inf


SCALE = StressStudy(
    experiment=experiment(
        pool=True,
        alpha=0.05,
        seeds=(0, 1),
        datasets=(replace(experiment().datasets[0], name="bloodmnist", batch=4, components=3),),
        presets=(replace(experiment().presets[1], name="randomised APS", intervals={}),),
        methods=tuple(
            replace(experiment().methods[0], name=name, method=name.split()[0], target=target)
            for name, target in (("split-cp", ""), ("fedwq-cp", ""), ("cphet (own)", "own"))
        ),
        strong_epochs=3,
        weak_epochs=3,
    ),
    factors=(
        Factor(name="agents", values=(2, 21)),
        Factor(name="points", values=(30, 900)),
        Factor(name="rotation", values=(0, 90)),
        Factor(name="temperature", values=(1,)),
    ),
    distinct=DistinctModels(agents=2, points=80, rows=200, calibration=0.6, large_seeds=1),
    levels=(0.05, 0.2),
)


TABLE = replace(
    SCALE,
    experiment=replace(
        SCALE.experiment,
        seeds=(0,),
        datasets=(replace(SCALE.experiment.datasets[0], name="again", data="digits"),),
    ),
    factors=(Factor(name="agents", values=(2,)),),
)
"""A study on data of scikit-learn, under another name."""


@pytest.mark.parametrize("outputs", [None, "outputs elsewhere"])
def test_a_run_deletes_no_more_than_the_federations_it_saved(tmp_path, outputs):
    chosen = None if outputs is None else tmp_path / outputs
    folder = chosen or tmp_path / "outputs"
    (folder / "seed-0").mkdir(parents=True)
    foreign = folder / "seed-0" / "S0.npz"
    foreign.write_bytes(b"saved by another run")
    assert scale.run(TABLE, RunOptions(out=tmp_path, outputs=chosen)) == 1
    assert {line.dataset for line in journal_of(tmp_path).read()} == {"again"}
    assert [path for path in folder.rglob("*") if path.is_file()] == [foreign]


@pytest.fixture
def images(monkeypatch):
    """Stand for a dataset: eight classes, each brighter than the one before."""
    rng = np.random.default_rng(0)
    labels = (np.arange(2500) % 8).astype(np.uint8)
    made = rng.integers(0, 20, (2500, 8, 8, 3)).astype(np.uint8)
    made += 20 * labels[:, None, None, None]
    labels[rng.random(2500) < 0.2] = 3  # so that no model is always right
    made[:, :4] += 40
    source = TrainingData(
        catalog.find("bloodmnist"),
        "subset",
        "",
        made[:2400],
        labels[:2400],
        made[2400:],
        labels[2400:],
    )
    monkeypatch.setattr(scale, "read_images", lambda plan, data: source)
    monkeypatch.setattr(scale, "check_data", lambda plans, data: None)


@pytest.mark.usefixtures("images")
def test_distinct_models_equal_points_and_both_mixes(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(scale, "LARGE", 20)
    options = RunOptions(out=tmp_path, device="cpu")
    assert (
        scale.run(SCALE, options) == 2 * 5 + 1
    )  # there are no 900 points for each of two; 21 agents once
    lines = journal_of(tmp_path).read()
    assert {x.alpha for x in lines} == {0.05, 0.2}
    assert {x.mix for x in lines} == {"own", "shared"}
    seen = {(x.factor, x.value): (x.agents, x.fewest) for x in lines}
    assert seen == {
        ("agents", 2.0): (2, 80),
        ("agents", 21.0): (21, 68),  # 1,440 points for 21: fewer each
        ("points", 30.0): (2, 30),
        ("rotation", 0.0): (2, 80),
        ("rotation", 90.0): (2, 80),
        ("temperature", 1.0): (2, 80),
    }
    assert {x.seed for x in lines if x.agents == 21} == {0}
    assert not [x for x in lines if x.method == "cphet (own)" and x.agents > 20]
    assert all(x.skew == 0.5 for x in lines if x.factor == "rotation")  # groups are the sites
    assert scale.run(SCALE, options, resume=True) == 0
    names = [name for name, _ in scale.tables(lines)]
    assert names == ["coverage", "matched", "gap", "scores", "datasets"]
    assert {f.name for f in scale.write_tables(lines, tmp_path)} == {
        "scale.md",
        "scale.svg",
        "scale.png",
    }
