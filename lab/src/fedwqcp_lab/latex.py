"""The comparison as LaTeX tables (booktabs)."""

from __future__ import annotations

from collections.abc import Sequence

from fedwqcp_lab.compare import ALL, Cell
from fedwqcp_lab.grid import Row, agents_of, coverage_rows, size_rows
from fedwqcp_lab.markdown import number

MARKS = {"inside": "=", "overlapping": r"\sim", "outside": r"\times", "": ""}
"""How a verdict is written."""

HEAD = r"""% \usepackage{booktabs}; made from records, do not edit
% median over seeds, 1.96 sd / sqrt(seeds) below; then the published figure, and
% = inside the published interval, \sim the intervals meet, \times neither"""


def page(found: Sequence[Cell]) -> str:
    """Return all tables.

    Parameters
    ----------
    found : sequence of Cell
        Every cell.

    Returns
    -------
    str
        LaTeX, one table for coverage and one for size of each preset.
    """
    parts = [HEAD]
    for preset in dict.fromkeys(cell.preset for cell in found):
        own = [cell for cell in found if cell.preset == preset]
        parts.append(_coverage(coverage_rows(own), preset))
        parts.append(_sizes(size_rows(own), preset))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return text that LaTeX prints as it is.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        With special characters escaped.
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)


def _coverage(rows: Sequence[Row], preset: str) -> str:
    """Return a coverage table."""
    agents = agents_of(rows)
    lines = [["Dataset", "Method", *agents, "Runtime (s)"]]
    for row in rows:
        cells = [_cell(row.cells.get(agent), 4) for agent in agents]
        lines.append(
            [escape(row.dataset), escape(row.method), *cells, _cell(row.cells.get(ALL), 3)]
        )
    return _tabular(lines, f"coverage, preset {preset}")


def _sizes(rows: Sequence[Row], preset: str) -> str:
    """Return a size table."""
    lines = [["Dataset", "Method", "Avg size", r"\% less", r"\% less, published"]]
    for row in rows:
        shares = ["" if x is None else f"{100 * x:.1f}" for x in (row.less, row.published_less)]
        cell = _cell(row.cells["size"], 2)
        lines.append([escape(row.dataset), escape(row.method), cell, *shares])
    return _tabular(lines, f"size, preset {preset}")


def _cell(cell: Cell | None, decimals: int) -> str:
    """Write one cell."""
    if cell is None:
        return ""
    half = number(cell.half, decimals).replace("inf", r"\infty")
    middle = number(cell.median, decimals).replace("inf", r"\infty")
    text = f"{middle}_{{\\pm {half}}}"
    if cell.figure is None:
        return f"${text}$"
    printed = f"{cell.figure.median:.{decimals}f}_{{\\pm {cell.figure.half:.{decimals}f}}}"
    mark = f"{{}}{MARKS[cell.verdict]}{{}}" if cell.verdict else r"\;"
    return f"${text} {mark} {printed}$"


def _tabular(lines: Sequence[Sequence[str]], what: str) -> str:
    """Return rows as a tabular; a dataset's name stands on its first row only."""
    head, *body = lines
    text = [f"% {what}", f"\\begin{{tabular}}{{ll{'c' * (len(head) - 2)}}}", r"\toprule"]
    text += [" & ".join(head) + r" \\"]
    last = None
    for dataset, *rest in body:
        if dataset != last:
            text.append(r"\midrule")
        text.append(" & ".join(["" if dataset == last else dataset, *rest]) + r" \\")
        last = dataset
    return "\n".join([*text, r"\bottomrule", r"\end{tabular}"])
