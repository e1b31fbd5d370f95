"""A benchmark in the terminal: coverage, worst agent and size of every method, and a small plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedwqcp.report.bars import scale
from fedwqcp_lab.compare import AVERAGE, INTERVAL, Cell
from fedwqcp_lab.markdown import number, verdict_rows


@dataclass(frozen=True)
class Standing:
    """One method on one dataset, as medians over seeds.

    Parameters
    ----------
    preset, dataset, method : str
        Settings, data as shown, and row.
    coverage, half : float
        Mean over agents, and 1.96 sd / sqrt(seeds) of it.
    worst : float
        Coverage of the worst agent.
    worst_agent : str
        Whose it is.
    size : float
        Mean size of the sets.
    seeds : int
        How many runs.
    """

    preset: str
    dataset: str
    method: str
    coverage: float
    half: float
    worst: float
    worst_agent: str
    size: float
    seeds: int


def standings(found: Sequence[Cell]) -> tuple[Standing, ...]:
    """Return how every method stands.

    Parameters
    ----------
    found : sequence of Cell
        Every cell.

    Returns
    -------
    tuple of Standing
        In the order of the cells.
    """
    rows: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in found:
        rows.setdefault((cell.preset, cell.shown, cell.method), []).append(cell)
    return tuple(_standing(own) for own in rows.values())


def tables(found: Sequence[Cell], nominal: float, *, ascii: bool = False) -> tuple[Table, ...]:
    """Return one table for each preset and dataset.

    Parameters
    ----------
    found : sequence of Cell
        Every cell.
    nominal : float
        The coverage that is asked for.
    ascii : bool, optional
        Whether the terminal knows no other characters.

    Returns
    -------
    tuple of Table
        One row for each method.
    """
    rows = standings(found)
    made = []
    for preset, dataset in dict.fromkeys((row.preset, row.dataset) for row in rows):
        own = [row for row in rows if (row.preset, row.dataset) == (preset, dataset)]
        ends = (end for r in own for end in (r.coverage - r.half, r.coverage + r.half, r.worst))
        bars = scale((min(1.0, max(0.0, end)) for end in ends), nominal, ascii=ascii)
        title = escape(f"{dataset}, preset {preset}, {own[0].seeds} seeds")  # "[subset]" must stay
        table = Table(
            title=title,
            title_justify="left",
            caption=f"coverage: median over seeds ± {INTERVAL}",
            caption_justify="left",
        )
        table.add_column("method", overflow="fold")
        for name in ("coverage", "worst agent", "size"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column(f"coverage, {bars.left:g} to {bars.right:g}", no_wrap=True)
        for row in own:
            bar = bars.bar(row.coverage - row.half, row.coverage, row.coverage + row.half)
            table.add_row(
                row.method,
                f"{row.coverage:.3f} ± {row.half:.3f}",
                f"{row.worst_agent} {row.worst:.3f}",
                number(row.size, 2),
                Text(bar, no_wrap=True),
            )
        made.append(table)
    return tuple(made)


def verdicts(found: Sequence[Cell]) -> Table | None:
    """Return how many figures agree with what the paper prints.

    Parameters
    ----------
    found : sequence of Cell
        Every cell.

    Returns
    -------
    Table or None
        None where nothing was published.
    """
    head, *body = verdict_rows(found)
    if not body:
        return None
    table = Table(*head, title="beside the published figures", title_justify="left")
    for row in body:
        table.add_row(*row)
    return table


def _standing(own: Sequence[Cell]) -> Standing:
    """Sum up one method on one dataset."""
    coverages = {cell.agent: cell for cell in own if cell.metric == "coverage"}
    mean = coverages.pop(AVERAGE)
    worst = min(coverages.values(), key=lambda cell: cell.median)
    size = next(cell for cell in own if cell.metric == "size")
    return Standing(
        preset=mean.preset,
        dataset=mean.shown,
        method=mean.method,
        coverage=mean.median,
        half=mean.half,
        worst=worst.median,
        worst_agent=worst.agent,
        size=size.median,
        seeds=mean.seeds,
    )
