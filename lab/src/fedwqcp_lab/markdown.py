"""The comparison as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isinf

from fedwqcp_lab.compare import ALL, Cell, counts
from fedwqcp_lab.grid import Row, agents_of, coverage_rows, size_rows

MARKS = {"inside": "=", "overlapping": "~", "outside": "x", "": ""}
"""How a verdict is written in a cell."""

LEGEND = """\
Each cell: median over seeds ± 1.96 sd / sqrt(number of seeds); in brackets what the paper prints,
and how both stand to each other: `=` our median lies inside the published interval (widened by half
a unit of its last digit), `~` the two intervals meet, `x` they do not. Avg is the mean over agents.
Seconds are those of the calibration, on another machine than the paper's: no verdict. A dataset
with a word in brackets behind its name is not the published data but what the word says."""

SIZES = """\
Size: mean number of labels, or mean length of the intervals. Less: (other - FedWQ-CP) / other of
the medians, in brackets the same of the published medians. For ordinal labels from 0: length
within their range, and mean number of labels inside the interval."""


def page(found: Sequence[Cell], ablation: Sequence[Sequence[str]]) -> str:
    """Return all tables as one page.

    Parameters
    ----------
    found : sequence of Cell
        Every cell.
    ablation : sequence of sequence of str
        Rows of the ablation, the first one holds the names of the columns.

    Returns
    -------
    str
        Markdown.
    """
    parts = ["# Results beside the published figures", LEGEND]
    for preset in dict.fromkeys(cell.preset for cell in found):
        own = [cell for cell in found if cell.preset == preset]
        parts += [f"## Coverage, preset `{preset}`", _coverage(coverage_rows(own))]
        parts += [f"## Size, preset `{preset}`", SIZES, _sizes(size_rows(own))]
    parts += ["## Verdicts", _verdicts(found)]
    if len(ablation) > 1:
        parts += ["## Ablation: FedAvgQ-CP against FedWQ-CP", table(ablation)]
    return "\n\n".join(parts) + "\n"


def number(value: float, decimals: int) -> str:
    """Write a number with fixed decimals.

    Parameters
    ----------
    value : float
        A number, or +inf.
    decimals : int
        How many.

    Returns
    -------
    str
        The text.
    """
    return "inf" if isinf(value) else f"{value:.{decimals}f}"


def verdict_rows(found: Iterable[Cell]) -> list[list[str]]:
    """Return how many cells of each row stand how.

    Parameters
    ----------
    found : iterable of Cell
        Cells.

    Returns
    -------
    list of list of str
        The first one holds the names of the columns.
    """
    rows = [["preset", "method", "metric", "cells", "inside", "overlapping", "outside", "share"]]
    for (preset, method, metric), tally in counts(found).items():
        total = sum(tally.values())
        good = tally["inside"] + tally["overlapping"]
        split = [str(tally[name]) for name in ("inside", "overlapping", "outside")]
        rows.append([preset, method, metric, str(total), *split, f"{100 * good / total:.0f} %"])
    return rows


def _coverage(rows: Sequence[Row]) -> str:
    """Return a coverage table."""
    agents = agents_of(rows)
    lines = [["dataset", "method", *agents, "seconds"]]
    for row in rows:
        cells = [_cell(row.cells.get(agent), 4) for agent in agents]
        lines.append([row.dataset, row.method, *cells, _cell(row.cells.get(ALL), 3)])
    return table(lines)


def _sizes(rows: Sequence[Row]) -> str:
    """Return a size table."""
    ordinal = any("labels" in row.cells for row in rows)
    extra = ["within range", "labels inside"] if ordinal else []
    lines = [["dataset", "method", "size", "less", *extra]]
    for row in rows:
        less = "" if row.less is None else f"{100 * row.less:.1f} %"
        if row.published_less is not None:
            less += f" ({100 * row.published_less:.1f} %)"
        more = [_cell(row.cells.get(name), 2) for name in ("clipped", "labels")] if ordinal else []
        lines.append([row.dataset, row.method, _cell(row.cells["size"], 2), less, *more])
    return table(lines)


def _verdicts(found: Sequence[Cell]) -> str:
    """Return the counts of verdicts."""
    rows = verdict_rows(found)
    return table(rows) if len(rows) > 1 else "There is no published figure to compare with."


def _cell(cell: Cell | None, decimals: int) -> str:
    """Write one cell."""
    if cell is None:
        return ""
    text = f"{number(cell.median, decimals)} ± {number(cell.half, decimals)}"
    if cell.figure is None:
        return text
    printed = f"{cell.figure.median:.{decimals}f} ± {cell.figure.half:.{decimals}f}"
    return f"{text} ({printed} {MARKS[cell.verdict]}".rstrip() + ")"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table.

    Parameters
    ----------
    rows : sequence of sequence of str
        The first one is the head.

    Returns
    -------
    str
        Markdown.
    """
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
