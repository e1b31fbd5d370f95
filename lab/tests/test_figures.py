"""Figures by name, in every format."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.demo.records import REPORT_FILE, AgentProfile, save_records, save_report
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.outputs import load_outputs
from fedwqcp.report.figures import FigureSource, agent_profile, draw
from fedwqcp_lab.evaluation import evaluate, partitions
from fedwqcp_lab.experiment import MethodPlan
from fedwqcp_lab.figures import FIGURES, medians
from fedwqcp_lab.pipeline import Folder
from fedwqcp_lab.studies.stress import journal_of, summarize
from records import record
from units import experiment, labels_unit

pytest.importorskip("matplotlib")

PROFILE = AgentProfile(
    dataset="digits", agent="S0", counts=(4, 16), edges=(0.0, 0.5, 1.0), people=(10, 10), local=0.9,
    released=0.8, mixture=float("inf"), level=0.9, coverage=0.8, coverage_mixture=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A demo's, a benchmark's and a study's folder, by figure."""
    root = tmp_path_factory.mktemp("sources")
    demo, run, study = (root / name for name in ("demo", "run", "study"))
    for folder in (demo, run, study):
        folder.mkdir()
    save_records(demo / "records.jsonl", [record(agent=name) for name in ("S0", "W1")])
    save_report(demo / REPORT_FILE, [PROFILE, replace(PROFILE, agent="W1", people=(), edges=())])
    plans = tuple(MethodPlan(name=name, method=name) for name in ("fedwq-cp", "fedavgq-cp"))
    small = replace(experiment(), methods=plans)
    for seed in (0, 1):
        unit = labels_unit(seed)
        Folder(run).results.append(evaluate(unit, small))
        Folder(run).partitions.append(partitions(unit))
        for value in (0.1, 1.0):
            journal_of(study).append(summarize(evaluate(unit, small), "label", value))
    return {
        "partition": (demo, run),
        "ablation": (run,),
        "coverage-vs-size": (demo, run),
        "ecdf": (demo,),
        "gap-vs-heterogeneity": (study,),
    }


@pytest.mark.parametrize("name", FIGURES)
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


def test_the_curve_goes_through_the_edges_of_the_bins(sources, tmp_path):
    svg = draw("ecdf", FigureSource(sources["ecdf"][0]), tmp_path / "ecdf.svg", FIGURES).read_text()
    assert "released threshold" in svg
    assert "quantile of all scores" not in svg  # it is +inf here


def test_an_agents_own_scores_beside_a_release(tmp_path):
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet([1, 2, 3], size=100), rng.integers(0, 3, size=100)
    np.savez(tmp_path / "cal.npz", probs=probs, labels=labels)
    score = fw.LAC()
    release = fw.calibrate({"here": score.of(probs, labels)}, alpha=0.1, score=score)
    fw.save(release, tmp_path / "release.json")
    asked = FigureSource(tmp_path / "release.json", agent="here", outputs=tmp_path / "cal.npz")
    svg = draw("ecdf", asked, tmp_path / "own.svg", FIGURES).read_text()
    assert "lac, fedwq-cp" in svg
    own = agent_profile(release, "here", load_outputs(tmp_path / "cal.npz"))
    assert own.local == own.released == release.threshold("here")
    assert own.coverage == 0.91  # the 91st of 100
    assert min(own.people) >= 10
    with pytest.raises(InputError, match="--agent and --outputs"):
        draw("ecdf", FigureSource(tmp_path / "release.json"), tmp_path / "no.svg", FIGURES)
    cal = fw.Calibration(score.of(probs, labels), labels=labels, n_classes=3)
    by = fw.calibrate({"here": cal}, method="fcp", alpha=0.1, score=score, by="label")
    with pytest.raises(InputError, match="one for each label"):
        agent_profile(by, "here", load_outputs(tmp_path / "cal.npz"))


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
    assert found.tested == 0


@pytest.mark.parametrize(
    ("name", "source", "file", "preset", "said"),
    [
        ("pie", "partition", "a.svg", None, "known: coverage-vs-size, ecdf, partition, ablation"),
        ("ecdf", "ecdf", "a.jpg", None, r"must end in \.pdf, \.png, \.svg, got a\.jpg"),
        ("ecdf", "ablation", "a.svg", None, "must be the demo's folder"),
        ("gap-vs-heterogeneity", "ecdf", "a.svg", None, "fedwqcp-lab stress"),
        ("ablation", "ablation", "a.svg", "none", "unknown preset 'none'; there are: "),
        ("partition", "gap-vs-heterogeneity", "a.svg", None, "nothing to draw partition from"),
    ],
)
def test_what_cannot_be_drawn_is_said(sources, name, source, file, preset, said, tmp_path):
    with pytest.raises(InputError, match=said):
        draw(name, FigureSource(sources[source][0], preset), tmp_path / file, FIGURES)
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_told(sources, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError):
        draw("ecdf", FigureSource(sources["ecdf"][0]), tmp_path / "a.svg", FIGURES)
