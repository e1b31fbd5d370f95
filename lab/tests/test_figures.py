"""Figures by name, in every format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.report.figures import FigureSource, draw
from fedwqcp_lab.evaluation import evaluate, partitions
from fedwqcp_lab.experiment import MethodPlan
from fedwqcp_lab.figures import FIGURES
from fedwqcp_lab.pipeline import Folder
from fedwqcp_lab.studies.stress import journal_of, summarize
from units import experiment, labels_unit

pytest.importorskip("matplotlib")


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
