"""Everything that a folder of records gives: Markdown, LaTeX, CSV and figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp.federation.files import write_atomic
from fedwqcp_lab import ablation, latex, markdown
from fedwqcp_lab import partition_figure as partition
from fedwqcp_lab.compare import Cell, cells
from fedwqcp_lab.journal import Journal
from fedwqcp_lab.result import Result, Share

COLUMNS = (
    "preset",
    "dataset",
    "status",
    "method",
    "metric",
    "agent",
    "seeds",
    "median",
    "half_width",
    "published",
    "published_half_width",
    "verdict",
)


def write(folder: Path, out: Path, *, against: bool = True) -> tuple[Path, ...]:
    """Write all tables and figures of a run; the same records give the same bytes.

    Parameters
    ----------
    folder : Path
        Where ``records.jsonl`` and ``partitions.jsonl`` are.
    out : Path
        Where to; it is made where it is missing.
    against : bool, optional
        Whether published figures are set beside ours.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    InputError
        If there are no records, or the folder cannot be written.
    RecordError
        If they are damaged.
    MissingExtraError
        If matplotlib is not installed.
    """
    results = read(folder)
    found = cells(results, against=against)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError:
        raise InputError(f"--out must be a folder that can be written, got {out}") from None
    texts = {
        "tables.md": markdown.page(found, ablation.rows(found)),
        "tables.tex": latex.page(found),
        "cells.csv": cells_csv(found),
        "verdicts.csv": _csv(markdown.verdict_rows(found)),
    }
    for name, text in texts.items():
        write_atomic(out / name, text.encode())
    drawn: tuple[Path, ...] = ()
    for preset in dict.fromkeys(cell.preset for cell in found):
        own = [cell for cell in found if cell.preset == preset]
        drawn += ablation.draw(own, 1 - results[0].alpha, out / f"ablation-{preset}")
    shares = Journal(folder / "partitions.jsonl", Share).read()
    drawn += partition.draw(shares, out / "partitions")
    return (*(out / name for name in texts), *drawn)


def read(folder: Path) -> tuple[Result, ...]:
    """Read the results of a run.

    Parameters
    ----------
    folder : Path
        Where ``records.jsonl`` is.

    Returns
    -------
    tuple of Result
        At least one.

    Raises
    ------
    InputError
        If there are none.
    RecordError
        If they are damaged.
    """
    results = Journal(folder / "records.jsonl", Result).read()
    if not results:
        raise InputError(
            f"{folder / 'records.jsonl'} holds no results; first: fedwqcp-lab run paper.toml "
            f"--out {folder}"
        )
    return results


def cells_csv(found: Sequence[Cell]) -> str:
    """Return every cell as a line of CSV.

    Parameters
    ----------
    found : sequence of Cell
        The cells.

    Returns
    -------
    str
        With a line of column names first.
    """
    rows = [list(COLUMNS)]
    for cell in found:
        figure = cell.figure
        rows.append(
            [
                cell.preset,
                cell.title,
                cell.status,
                cell.method,
                cell.metric,
                cell.agent,
                str(cell.seeds),
                f"{cell.median:.6g}",
                f"{cell.half:.6g}",
                "" if figure is None else f"{figure.median:.{figure.decimals}f}",
                "" if figure is None else f"{figure.half:.{figure.decimals}f}",
                cell.verdict,
            ]
        )
    return _csv(rows)


def _csv(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
