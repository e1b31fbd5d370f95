"""The benchmark in the terminal, from cells made by hand."""

from dataclasses import replace
from io import StringIO

from rich.console import Console

from fedwqcp_lab.compare import AVERAGE, Cell
from fedwqcp_lab.overview import standings, tables, verdicts
from fedwqcp_lab.published import Figure

BASE = Cell(
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


def test_every_method_has_its_worst_agent():
    fcp, split = standings(CELLS)
    assert (fcp.worst_agent, fcp.worst, fcp.coverage, fcp.size) == ("W1", 0.87, 0.93, 1.5)
    assert (split.worst_agent, split.worst) == ("S0", 0.9)


def test_a_table_for_each_dataset_and_preset():
    found = tables((*CELLS, *(replace(cell, preset="paper") for cell in CELLS)), 0.9)
    assert [table.title for table in found] == [
        "digits, preset sound, 2 seeds",
        "digits, preset paper, 2 seeds",
    ]
    text = said(found[0])
    assert "0.930 ± 0.010" in text
    assert "median over seeds ± 1.96 sd / sqrt(seeds)" in text
    assert "W1 0.870" in text
    assert "inf" in text
    assert "●" in text
    assert "●" not in said(tables(CELLS, 0.9, ascii=True)[0])


def test_a_stand_in_is_marked_in_the_terminal_too():
    (table,) = tables([replace(c, title="TissueMNIST", status="subset") for c in CELLS], 0.9)
    assert "TissueMNIST [subset], preset sound, 2 seeds" in said(table)


def test_verdicts_only_where_something_was_published():
    assert verdicts(CELLS) is None
    judged = replace(BASE, figure=Figure(0.93, 0.01, 4), verdict="inside")
    assert "100 %" in said(verdicts((judged,)))
