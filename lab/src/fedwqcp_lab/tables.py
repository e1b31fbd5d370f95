"""Tables of an experiment: Markdown and CSV files, and tables for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf
from pathlib import Path

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedwqcp.files import to_csv, write_atomic
from fedwqcp_lab.comparison import (
    ALL,
    AVERAGE,
    INTERVAL,
    READINGS,
    MethodRow,
    TableCell,
    ablation_rows,
    against_published,
    agents_of,
    cells,
    count_verdicts,
    coverage_rows,
    markdown_table,
    size_rows,
)
from fedwqcp_lab.figures import draw_ablation, draw_partition
from fedwqcp_lab.results import AgentPartition, Journal, make_out, read_results

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

MARKDOWN_MARKS = {"inside": "=", "overlapping": "~", "outside": "x", "": ""}
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

READINGS_FOLDER = "readings"
"""The folder beside a run's records with those of `readings.toml`."""

VERDICTS = ("inside", "overlapping", "outside")

EXPLAINED = """\
Every coverage and size that the paper prints is held against one row of ours for its method, the
same on all datasets. A row that is not the method is a reading: what may have been computed. It
shows that the figures can arise so, not that they did."""


def write(folder: Path, out: Path, *, against: bool = True) -> tuple[Path, ...]:
    """Write all tables and figures of a run; the same records give the same bytes."""
    results = read_results(folder)
    found = cells(results, against=against)
    make_out(out)
    texts = {
        "tables.md": markdown_page(found, ablation_rows(found)),
        "cells.csv": cells_csv(found),
        "verdicts.csv": to_csv(verdict_rows(found)),
    }
    if against and (folder / READINGS_FOLDER).exists():
        texts["explained.md"] = explained_page(paper_cells(folder))
    for name, text in texts.items():
        write_atomic(out / name, text.encode())
    figures: tuple[Path, ...] = ()
    for preset in dict.fromkeys(cell.preset for cell in found):
        own = [cell for cell in found if cell.preset == preset]
        figures += draw_ablation(own, 1 - results[0].alpha, out / f"ablation-{preset}")
    partitions = Journal(folder / "partitions.jsonl", AgentPartition).read()
    figures += draw_partition(partitions, out / "partitions")
    return (*(out / name for name in texts), *figures)


def paper_cells(folder: Path) -> tuple[TableCell, ...]:
    """Return the cells of the preset `paper`, those of the readings among them."""
    results = read_results(folder), read_results(folder / READINGS_FOLDER)
    return tuple(cell for own in results for cell in cells(own) if cell.preset == "paper")


def explained_page(found: Sequence[TableCell]) -> str:
    """Return which published coverages and sizes a named reading gives, and which none does."""
    parts = ["# Published cells and the reading that gives them", EXPLAINED]
    parts += [markdown_table(explained_rows(found)), "## Not explained"]
    parts += [markdown_table(unexplained_rows(found)), "## Every reading that was tried"]
    return "\n\n".join([*parts, markdown_table(tried_rows(found))]) + "\n"


def explained_rows(found: Sequence[TableCell]) -> list[list[str]]:
    """Return, for each published row, its reading and how many cells that gives."""
    rows = [["published row", "our row", "what that is", "cells", *VERDICTS]]
    total: Counter[str] = Counter()
    for method, row, words in READINGS:
        tally = _tally(found, method, row)
        rows.append([method, row, words, *_counts(tally)])
        total += tally
    rows.append(["all", "", "", *_counts(total)])
    return rows


def unexplained_rows(found: Sequence[TableCell]) -> list[list[str]]:
    """Return the cells that are outside under the reading of their row, and who else gives them."""
    head = ["published row", "dataset", "metric", "agent", "our row gives", "published"]
    rows = [[*head, "other rows tried", "of these inside or overlapping"]]
    for method, row, _ in READINGS:
        others = [name for name in tried(found, method) if name != row]
        judged = {name: against_published(found, method, name) for name in others}
        for cell in against_published(found, method, row):
            if cell.verdict == "outside" and cell.figure is not None:
                places = 4 if cell.metric == "coverage" else 2
                ours = f"{cell.median:.{places}f} ± {cell.half:.{places}f}"
                printed = f"{cell.figure.median:.{places}f} ± {cell.figure.half:.{places}f}"
                where = cell.dataset, cell.metric, cell.agent
                gives = sum(
                    (c.dataset, c.metric, c.agent) == where and c.verdict != "outside"
                    for own in judged.values()
                    for c in own
                )
                line = [method, cell.display_title, cell.metric, cell.agent, ours, printed]
                rows.append([*line, str(len(others)), str(gives)])
    return rows


def tried_rows(found: Sequence[TableCell]) -> list[list[str]]:
    """Return how every row of ours stands to the published row of its method."""
    rows = [["published row", "our row", "cells", *VERDICTS]]
    for method, chosen, _ in READINGS:
        for row in tried(found, method) if chosen != method else ():
            rows.append([method, row, *_counts(_tally(found, method, row))])
    return rows


def _tally(found: Sequence[TableCell], method: str, row: str) -> Counter[str]:
    """Count how the cells of one of our rows stand to the published row of a method."""
    return Counter(cell.verdict for cell in against_published(found, method, row))


def _counts(tally: Counter[str]) -> list[str]:
    """Write how many cells there are, and how many have each verdict."""
    return [str(tally.total()), *(str(tally[verdict]) for verdict in VERDICTS)]


def tried(found: Sequence[TableCell], method: str) -> list[str]:
    """Return the rows of ours that were held against the published row of a method."""
    others = {row.partition(" (")[0]: row for published, row, _ in READINGS if published == method}
    others.pop(method, None)
    own = dict.fromkeys(c.method for c in found if c.method.partition(" (")[0] == method)
    return [*others.values(), *own]


def cells_csv(found: Sequence[TableCell]) -> str:
    """Return every cell as a line of CSV."""
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
    return to_csv(rows)


def markdown_page(found: Sequence[TableCell], ablation: Sequence[Sequence[str]]) -> str:
    """Return all tables as one page."""
    parts = ["# Results beside the published figures", LEGEND]
    for preset in dict.fromkeys(cell.preset for cell in found):
        own = [cell for cell in found if cell.preset == preset]
        parts += [f"## Coverage, preset `{preset}`", _markdown_coverage(coverage_rows(own))]
        parts += [f"## Size, preset `{preset}`", SIZES, _markdown_sizes(size_rows(own))]
    verdicts = verdict_rows(found)
    none = "There is no published figure to compare with."
    parts += ["## Verdicts", markdown_table(verdicts) if len(verdicts) > 1 else none]
    if len(ablation) > 1:
        parts += ["## Ablation: FedAvgQ-CP against FedWQ-CP", markdown_table(ablation)]
    return "\n\n".join(parts) + "\n"


def verdict_rows(found: Iterable[TableCell]) -> list[list[str]]:
    """Return the number of cells of each row with each verdict."""
    rows = [["preset", "method", "metric", "cells", *VERDICTS, "share"]]
    for (preset, method, metric), tally in count_verdicts(found).items():
        good = tally["inside"] + tally["overlapping"]
        share = f"{100 * good / tally.total():.0f} %"
        rows.append([preset, method, metric, *_counts(tally), share])
    return rows


def terminal_tables(found: Sequence[TableCell]) -> tuple[Table, ...]:
    """Return one table for each preset and dataset."""
    summaries = method_summaries(found)
    tables = []
    for preset, dataset in dict.fromkeys((row.preset, row.dataset) for row in summaries):
        own = [row for row in summaries if (row.preset, row.dataset) == (preset, dataset)]
        title = f"{dataset}, preset {preset}: medians over {own[0].seeds} seeds ± {INTERVAL}"
        rows = [["method", "coverage", "worst agent", "size"]]
        for row in own:
            coverage = f"{row.coverage:.3f} ± {row.half:.3f}"
            worst = f"{row.worst_agent} {row.worst:.3f}"
            rows.append([row.method, coverage, worst, number(row.size, 2)])
        tables.append(terminal_table(title, rows))
    return tuple(tables)


def terminal_table(title: str, rows: Sequence[Sequence[str]]) -> Table:
    """Return rows, of which the first is the head, as a table for the terminal."""
    head, *body = rows
    table = Table(*head, title=escape(title), title_justify="left")
    for row in body:
        table.add_row(*map(Text, row))  # as it is: "[subset]" must stay
    return table


def method_summaries(found: Sequence[TableCell]) -> tuple[MethodSummary, ...]:
    """Return every method on every dataset."""
    rows: dict[tuple[str, str, str], list[TableCell]] = {}
    for cell in found:
        rows.setdefault((cell.preset, cell.display_title, cell.method), []).append(cell)
    summaries = []
    for (preset, dataset, method), own in rows.items():
        coverages = {cell.agent: cell for cell in own if cell.metric == "coverage"}
        mean = coverages.pop(AVERAGE)
        worst = min(coverages.values(), key=lambda cell: cell.median)
        summaries.append(
            MethodSummary(
                preset,
                dataset,
                method,
                coverage=mean.median,
                half=mean.half,
                worst=worst.median,
                worst_agent=worst.agent,
                size=next(cell.median for cell in own if cell.metric == "size"),
                seeds=mean.seeds,
            )
        )
    return tuple(summaries)


@dataclass(frozen=True)
class MethodSummary:
    """One method on one dataset, as medians over seeds."""

    preset: str
    dataset: str
    method: str
    coverage: float  # mean over agents
    half: float  # 1.96 sd / sqrt(seeds) of it
    worst: float  # coverage of the worst agent
    worst_agent: str
    size: float
    seeds: int


def number(value: float, decimals: int) -> str:
    """Write a number with fixed decimals."""
    return "inf" if isinf(value) else f"{value:.{decimals}f}"


def _markdown_coverage(rows: Sequence[MethodRow]) -> str:
    """Return dataset, method, coverage of each agent and seconds of each row."""
    agents = agents_of(rows)
    lines = [["dataset", "method", *agents, "seconds"]]
    for row in rows:
        covered = (_markdown_cell(row.cells.get(agent), 4) for agent in agents)
        lines.append([row.dataset, row.method, *covered, _markdown_cell(row.cells.get(ALL), 3)])
    return markdown_table(lines)


def _markdown_sizes(rows: Sequence[MethodRow]) -> str:
    ordinal = any("labels" in row.cells for row in rows)
    extra = {"clipped": "within range", "labels": "labels inside"} if ordinal else {}
    lines = [["dataset", "method", "size", "less", *extra.values()]]
    for row in rows:
        less = "" if row.less is None else f"{100 * row.less:.1f} %"
        if row.published_less is not None:
            less += f" ({100 * row.published_less:.1f} %)"
        more = [_markdown_cell(row.cells.get(name), 2) for name in extra]
        lines.append([row.dataset, row.method, _markdown_cell(row.cells["size"], 2), less, *more])
    return markdown_table(lines)


def _markdown_cell(cell: TableCell | None, decimals: int) -> str:
    if cell is None:
        return ""
    text = f"{number(cell.median, decimals)} ± {number(cell.half, decimals)}"
    if cell.figure is None:
        return text
    printed = f"{cell.figure.median:.{decimals}f} ± {cell.figure.half:.{decimals}f}"
    return f"{text} ({printed} {MARKDOWN_MARKS[cell.verdict]}".rstrip() + ")"
