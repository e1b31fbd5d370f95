from __future__ import annotations

from dataclasses import replace
from math import inf, sqrt
from statistics import stdev

import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.comparison import (
    PublishedFigure,
    cells,
    count_verdicts,
    judge,
    published,
    published_key,
    reduction,
)
from fedwqcp_lab.evaluation import evaluate
from units import experiment, labels_unit


@pytest.fixture(scope="module")
def results():
    units = (labels_unit(seed, dataset="mnist") for seed in range(3))
    small = experiment(datasets=(replace(experiment().datasets[0], name="mnist"),))
    found = [r for unit in units for r in evaluate(unit, small)]
    return [replace(r, title="MNIST", status="published") for r in found]


def test_the_published_figures_are_all_there():
    assert len(published()) == 354
    figure = published()[published_key("MNIST", "FedWQ-CP", "size", "Avg")]
    assert (figure.median, figure.half) == (3.00, 0.24)
    assert published_key("cifar10", "fedcp-qq (paper's rows)", "size", "Avg") in published()
    assert published_key("Fashion-MNIST", "split-cp", "coverage", "S0") in published()


@pytest.mark.parametrize(
    ("value", "half", "verdict"),
    [
        (3.24, 0.0, "inside"),
        (3.2449, 0.0, "inside"),  # 0.2449 rounds to 0.24
        (3.246, 0.0, "outside"),
        (3.30, 0.06, "overlapping"),
        (2.50, 0.20, "outside"),
        (2.50, 0.26, "overlapping"),
        (inf, inf, "outside"),
        (3.10, inf, "inside"),
        (9.00, inf, "outside"),
    ],
)
def test_verdicts(value, half, verdict):
    assert judge(value, half, PublishedFigure(3.00, 0.24, 2)) == verdict


def test_cells_are_medians_over_seeds(results):
    found = {(c.method, c.metric, c.agent): c for c in cells(results) if c.preset == "paper"}
    own = [r for r in results if r.preset == "paper" and r.method == "fedwq-cp"]
    s0 = sorted(r.coverage for r in own if r.agent == "S0")
    cell = found["fedwq-cp", "coverage", "S0"]
    assert cell.median == s0[1]
    assert cell.half == pytest.approx(1.96 * stdev(s0) / sqrt(3))
    assert cell.seeds == 3
    means = sorted(sum(r.size for r in own if r.seed == seed) / 3 for seed in range(3))
    assert found["fedwq-cp", "size", "Avg"].median == pytest.approx(means[1])
    assert found["fedwq-cp", "size", "Avg"].figure.median == 3.00
    assert found["fedwq-cp", "runtime_s", "all"].verdict == ""


def test_without_published_figures_there_is_no_verdict(results):
    assert not any(c.verdict or c.figure for c in cells(results, against=False))
    tally = count_verdicts(cells(results))
    assert set(tally) >= {("paper", "fedwq-cp", "coverage"), ("paper", "fedwq-cp", "size")}
    # the small experiment has agents S0, S1 and W2, of which the paper has two, and the mean
    assert sum(tally["paper", "fedwq-cp", "coverage"].values()) == 3
    assert sum(tally["paper", "fedwq-cp", "size"].values()) == 1


def test_a_run_with_holes_is_refused(results):
    with pytest.raises(InputError):
        cells(results[1:])
    with pytest.raises(InputError, match="no results"):
        cells([])


def test_the_reduction_is_relative_to_the_other():
    assert reduction(6.88, 3.00) == pytest.approx(0.564, abs=5e-4)  # as printed: 56.4 %
    assert reduction(inf, 3.0) is None
    assert reduction(0.0, 3.0) is None
