"""Figures by name, in every format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedwqcp_lab.evaluation import evaluate, partitions
from fedwqcp_lab.experiment import MethodPlan
from fedwqcp_lab.figures import FIGURES, draw
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


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    ("ending", "begins"), [(".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")]
)
def test_every_figure_in_every_format_twice_the_same(sources, name, ending, begins, tmp_path):
    for source in sources[name]:
        one, other = (draw(name, source, tmp_path / f"{n}.v2{ending}") for n in ("a", "b"))
        assert one.name == f"a.v2{ending}"
        assert one.read_bytes().startswith(begins)
        assert one.read_bytes() == other.read_bytes()
