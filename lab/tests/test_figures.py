"""Figures by name, in every format."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.report.figures import FigureSource, draw
from fedwqcp_lab.evaluation import evaluate, partitions
from fedwqcp_lab.experiment import MethodPlan
from fedwqcp_lab.figures import FIGURES, Medians, coverage_against_size, medians
from fedwqcp_lab.pipeline import Folder
from fedwqcp_lab.studies.stress import journal_of, summarize
from units import experiment, labels_unit

pytest.importorskip("matplotlib")

SOME = [
    Medians(dataset, "classification", 0.1, method, model, 0.9, size)
    for dataset in ("digits", "synthetic")
    for method in ("fedwq-cp", "split-cp")
    for model, size in (("strong", 1.5), ("weak", 2.5))
]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A benchmark's and a study's folder, by figure."""
    root = tmp_path_factory.mktemp("sources")
    run, study = (root / name for name in ("run", "study"))
    for folder in (run, study):
        folder.mkdir()
    plans = tuple(MethodPlan(name=name, method=name) for name in ("fedwq-cp", "fedavgq-cp"))
    small = replace(experiment(), methods=plans)
    for seed in (0, 1):
        unit = labels_unit(seed)
        Folder(run).results.append(evaluate(unit, small))
        Folder(run).partitions.append(partitions(unit))
        for value in (0.1, 1.0):
            journal_of(study).append(summarize(evaluate(unit, small), "label", value))
    return {
        "partition": (run,),
        "ablation": (run,),
        "coverage-vs-size": (run,),
        "gap-vs-heterogeneity": (study,),
    }


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "ecdf"])
@pytest.mark.parametrize(
    ("ending", "begins"), [(".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")]
)
def test_every_figure_in_every_format_twice_the_same(sources, name, ending, begins, tmp_path):
    for source in sources[name]:
        one, other = (
            draw(name, FigureSource(source), tmp_path / f"{n}.v2{ending}", FIGURES)
            for n in ("a", "b")
        )
        assert one.name == f"a.v2{ending}"
        assert one.read_bytes().startswith(begins)
        assert one.read_bytes() == other.read_bytes()


def test_an_agents_own_scores_beside_a_release(tmp_path):
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet([1, 2, 3], size=100), rng.integers(0, 3, size=100)
    np.savez(tmp_path / "cal.npz", probs=probs, labels=labels)
    score = fw.LAC()
    release = fw.calibrate(
        {"here": score.of(probs, labels)}, method="fedwq-cp", alpha=0.1, score=score
    )
    fw.save(release, tmp_path / "release.json")
    asked = FigureSource(tmp_path / "release.json", agent="here", outputs=tmp_path / "cal.npz")
    svg = draw("ecdf", asked, tmp_path / "own.svg", FIGURES).read_text()
    assert "lac, fedwq-cp" in svg
    with pytest.raises(InputError, match="--agent and --outputs"):
        draw("ecdf", FigureSource(tmp_path / "release.json"), tmp_path / "no.svg", FIGURES)
    cal = fw.Calibration(score.of(probs, labels), labels=labels, n_classes=3)
    by = fw.calibrate({"here": cal}, method="fcp", alpha=0.1, score=score, by="label")
    fw.save(by, tmp_path / "release.json")
    with pytest.raises(InputError):
        draw("ecdf", asked, tmp_path / "no.svg", FIGURES)


def test_points_of_a_benchmark_are_medians(sources):
    results = Folder(sources["ablation"][0]).results.read()
    one = [r for r in results if (r.method, r.agent) == ("fedwq-cp", results[0].agent)]
    found = next(
        m
        for m in medians([r for r in results if r.preset == one[0].preset])
        if (m.method, m.model) == ("fedwq-cp", one[0].model)
    )
    own = [r.coverage for r in one if r.preset == one[0].preset]
    assert found.coverage == pytest.approx(sum(own) / 2)


@pytest.mark.parametrize(
    ("name", "source", "file", "preset"),
    [
        ("pie", "partition", "a.svg", None),
        ("ecdf", "ablation", "a.jpg", None),
        ("ecdf", "ablation", "a.svg", None),
        ("gap-vs-heterogeneity", "ablation", "a.svg", None),
        ("ablation", "ablation", "a.svg", "none"),
        ("partition", "gap-vs-heterogeneity", "a.svg", None),
    ],
)
def test_what_cannot_be_drawn_is_refused(sources, name, source, file, preset, tmp_path):
    with pytest.raises(InputError):
        draw(name, FigureSource(sources[source][0], preset), tmp_path / file, FIGURES)
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_told(sources, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError):
        draw("ablation", FigureSource(sources["ablation"][0]), tmp_path / "a.svg", FIGURES)


def test_every_method_and_dataset_is_named(tmp_path):
    svg = coverage_against_size(SOME, tmp_path / "demo")[1].read_text()
    names = ("fedwq-cp", "split-cp", "digits: classification", "synthetic", "weak model")
    assert all(f"<!-- {name}" in svg for name in names)


def test_what_is_infinite_is_said_rather_than_drawn(tmp_path):
    some = [*SOME, replace(SOME[0], method="fcp", size=inf)]
    svg = coverage_against_size(some, tmp_path / "demo")[1].read_text()
    assert "not shown" in svg
    assert "not shown" not in coverage_against_size(SOME, tmp_path / "demo")[1].read_text()
