"""Tables as files and in the terminal, from cells made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedwqcp_lab.evaluation import evaluate, partitions
from fedwqcp_lab.experiment import MethodPlan
from fedwqcp_lab.pipeline import Folder
from fedwqcp_lab.tables import (
    write,
)
from units import experiment, labels_unit, lines_unit

pytest.importorskip("matplotlib")

METHODS = tuple(
    MethodPlan(name=name, method=name) for name in ("split-cp", "fedwq-cp", "fedavgq-cp")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records of a stand-in and of a regression, two seeds each."""
    root = tmp_path_factory.mktemp("run")
    small = experiment(
        datasets=(
            replace(experiment().datasets[0], name="tissuemnist"),
            replace(experiment().datasets[1], name="retinamnist"),
        ),
        methods=METHODS,
    )
    where = Folder(root)
    for seed in (0, 1):
        units = (
            _named(labels_unit(seed), "tissuemnist", "TissueMNIST", "subset"),
            _named(lines_unit(seed), "retinamnist", "RetinaMNIST", "published"),
        )
        for unit in units:
            where.results.append(evaluate(unit, small))
            where.partitions.append(partitions(unit))
    return root


@pytest.fixture(scope="module")
def written(folder):
    """All files made from these records."""
    write(folder, folder / "tables")
    return folder / "tables"


def _named(unit, dataset, title, status):
    setting = replace(unit.setting, dataset=dataset, title=title, status=status)
    return replace(unit, setting=setting)


def test_the_page_shows_published_figures_verdicts_and_stand_ins(written):
    page = (written / "tables.md").read_text()
    assert "`paper`" in page
    assert "`sound-cqr`" in page
    rows = [line for line in page.splitlines() if line.startswith("| TissueMNIST")]
    assert rows
    assert all("TissueMNIST [subset]" in line for line in rows)
    size = next(r for r in rows if "fedwq-cp" in r and "4.84 ± 0.40" in r)
    assert size.count("|") == len(["", "dataset", "method", "size", "less", "within", "inside"])
    assert "1.96" in page
    assert "plain mean covers" in page
