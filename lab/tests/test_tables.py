"""Tables as files and in the terminal, from cells made by hand."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from fedwqcp_lab.comparison import AVERAGE, TableCell, ablation_rows, cells
from fedwqcp_lab.evaluation import evaluate, partitions
from fedwqcp_lab.experiment import MethodPlan
from fedwqcp_lab.figures import draw_ablation
from fedwqcp_lab.pipeline import Folder
from fedwqcp_lab.tables import (
    terminal_tables,
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


def test_the_ablation_says_which_way_it_goes(folder):
    found = cells(Folder(folder).results.read())
    rows = ablation_rows(found)
    assert len(rows) == 1 + 5
    for _, _, weighted, plain, word in rows[1:]:
        gap = float(plain) - float(weighted)
        assert word == ("alike" if abs(gap) < 5e-4 else "less" if gap < 0 else "more")
    only = [c for c in found if c.method != "fedavgq-cp"]
    assert len(ablation_rows(only)) == 1
    assert draw_ablation(only, 0.9, folder / "none") == ()


BASE = TableCell(
    dataset="digits", title="digits", status="published", preset="sound", method="fcp",
    metric="coverage", agent=AVERAGE, seeds=2, median=0.93, half=0.01, figure=None, verdict="",
)  # fmt: skip
CELLS = (
    replace(BASE, agent="S0", median=0.99),
    replace(BASE, agent="W1", median=0.87),
    BASE,
    replace(BASE, metric="size", median=1.5),
    replace(BASE, method="split-cp", agent="S0", median=0.9),
    replace(BASE, method="split-cp", agent="W1", median=0.94),
    replace(BASE, method="split-cp", median=0.92),
    replace(BASE, method="split-cp", metric="size", median=float("inf")),
)


def said(thing):
    text = StringIO()
    Console(file=text, width=120).print(thing)
    return text.getvalue()


def test_a_table_for_each_dataset_and_preset():
    found = terminal_tables((*CELLS, *(replace(cell, preset="paper") for cell in CELLS)), 0.9)
    assert ["sound" in table.title for table in found] == [True, False]
    assert ["paper" in table.title for table in found] == [False, True]
    text = said(found[0])
    assert "0.930 ± 0.010" in text
    assert "1.96" in text
    assert "W1 0.870" in text
    assert "inf" in text
    assert "●" in text
    assert "●" not in said(terminal_tables(CELLS, 0.9, ascii=True)[0])
