"""The paper's two tables as rows of cells, before they become Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedwqcp_lab.compare import ALL, AVERAGE, OURS, Cell, reduction

AGENTS_FIRST = "coverage"
"""The metric that is shown for every agent."""


@dataclass(frozen=True)
class Row:
    """One method on one dataset.

    Parameters
    ----------
    dataset, method : str
        As shown.
    cells : dict of str to Cell
        By agent for a coverage table, by metric for a size table.
    less, published_less : float or None
        By which share FedWQ-CP's sets are smaller: ours, and from the published medians.
    """

    dataset: str
    method: str
    cells: dict[str, Cell]
    less: float | None = None
    published_less: float | None = None


def coverage_rows(found: Sequence[Cell]) -> tuple[Row, ...]:
    """Return the coverage table: agents, their mean, and the seconds of the calibration.

    Parameters
    ----------
    found : sequence of Cell
        The cells of one preset.

    Returns
    -------
    tuple of Row
        Cells by agent, "Avg" and "all".
    """
    rows = []
    for own in _by_row(found):
        chosen = {c.agent: c for c in own if c.metric == AGENTS_FIRST}
        chosen[ALL] = next(c for c in own if c.metric == "runtime_s")
        rows.append(Row(own[0].shown, own[0].method, chosen))
    return tuple(rows)


def size_rows(found: Sequence[Cell]) -> tuple[Row, ...]:
    """Return the size table, with what FedWQ-CP saves against each method.

    Parameters
    ----------
    found : sequence of Cell
        The cells of one preset.

    Returns
    -------
    tuple of Row
        Cells by metric: "size", and for ordinal labels "clipped" and "labels".
    """
    ours = {c.dataset: c for c in found if c.method == OURS and c.metric == "size"}
    rows = []
    for own in _by_row(found):
        chosen = {
            c.metric: c
            for c in own
            if c.metric in ("size", "clipped", "labels") and c.agent == AVERAGE
        }
        size, best = chosen["size"], ours.get(own[0].dataset)
        less = published_less = None
        if best is not None and best.method != size.method:
            less = reduction(size.median, best.median)
            if size.figure is not None and best.figure is not None:
                published_less = reduction(size.figure.median, best.figure.median)
        rows.append(Row(own[0].shown, own[0].method, chosen, less, published_less))
    return tuple(rows)


def agents_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns of a coverage table, without the runtime.

    Parameters
    ----------
    rows : sequence of Row
        A coverage table.

    Returns
    -------
    tuple of str
        Agents, and "Avg" last.
    """
    names = dict.fromkeys(name for row in rows for name in row.cells)
    return (*(name for name in names if name not in (ALL, AVERAGE)), AVERAGE)


def _by_row(found: Sequence[Cell]) -> list[list[Cell]]:
    """Return cells of one dataset and method together, in their order."""
    rows: dict[tuple[str, str], list[Cell]] = {}
    for cell in found:
        rows.setdefault((cell.dataset, cell.method), []).append(cell)
    return list(rows.values())
