"""Tables and figure of the study of Byzantine agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from fedwqcp.files import write_atomic
from fedwqcp.report.figures import COLOURS, MARKERS, STYLE, require_matplotlib, save
from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.studies.byzantine import NOBODY, AttackResult

LEGEND = """\
Six agents, of whom one, two or three are Byzantine. A change is the coverage of the worst honest
agent less what the worst of the same agents has without an attack; over every choice of the
Byzantine agents and all seeds. CPhet: over three choices."""

KEPT = 0.02
"""How far the worst honest agent's coverage may move for a method to have kept it."""

BOUNDED = ", max_n set"
"""What is added to an attack's name where sizes were bounded."""

FIGURE_METHODS = (
    "fedwq-cp",
    "fcp",
    "weighted-median-cp",
    "trimmed-mean-cp",
    "rob-fcp",
    "guarded-median-cp",
)
"""The methods of the figure."""


def all_tables(records: Sequence[AttackResult]) -> dict[str, str]:
    """Return every table by its heading."""
    found = {}
    for preset in sorted({record.preset for record in records}, reverse=True):
        found[f"No attack, preset `{preset}`"] = cost(records, preset)
        for byzantine in sorted({record.byzantine for record in records if record.byzantine}):
            where = f"{byzantine} of six, preset `{preset}`"
            found[f"Coverage, {where}"] = effect(records, preset, byzantine)
            found[f"Size, {where}"] = sizes(records, preset, byzantine)
            found[f"Robust methods by dataset, {where}"] = coverage_by_dataset(
                records, preset, byzantine
            )
    return found


def write_tables(records: Sequence[AttackResult], out: Path) -> tuple[Path, ...]:
    """Write ``tables.md`` and ``two-byzantine-agents.svg``."""
    parts = ["# Effect of Byzantine agents", LEGEND]
    for heading, table in all_tables(records).items():
        parts += [f"## {heading}", table]
    page = out / "tables.md"
    write_atomic(page, ("\n\n".join(parts) + "\n").encode())
    return page, draw_attacks(records, "sound", 2, out / "two-byzantine-agents.svg")


def attacks_of(records: Iterable[AttackResult]) -> list[str]:
    """Return the attacks in the order of the tables; a bounded one follows the same without."""
    order = ("too high", "too low", "huge n", f"huge n{BOUNDED}", "colluding", "copying")
    there = {_attack(record) for record in records}
    return [name for name in order if name in there]


def cost(records: Sequence[AttackResult], preset: str) -> str:
    """Return what every method gives when everyone is honest."""
    own = [r for r in records if r.attack == NOBODY and r.preset == preset]
    datasets = _titles(own)
    rows = [["method", *(f"{title}: {what}" for title in datasets for what in ("worst", "size"))]]
    for method in _methods(own):
        row = [method]
        for title in datasets:
            here = [r for r in own if (r.method, r.display_title) == (method, title)]
            row.append(_number([r.coverage[0] for r in here], "{:.3f}"))
            row.append(_number([r.size[0] for r in here], "{:.2f}"))
        rows.append(row)
    return markdown_table(rows)


def effect(records: Sequence[AttackResult], preset: str, byzantine: int) -> str:
    """Return how far attacks moved the worst honest agent's coverage."""

    def _cell(here: Sequence[AttackResult]) -> str:
        """Show the median change and the largest loss."""
        changes = _pooled(here)
        return f"{_signed(median(changes))} ({_signed(min(0.0, *changes))})"

    return _by_attack([r for r in records if (r.preset, r.byzantine) == (preset, byzantine)], _cell)


def sizes(records: Sequence[AttackResult], preset: str, byzantine: int) -> str:
    """Return how much larger or smaller attacks made the honest agents' sets."""

    def _cell(here: Sequence[AttackResult]) -> str:
        """Show the median ratio and the largest."""
        pairs = [pair for r in here for pair in zip(r.size, r.truthful_size, strict=True)]
        ratios = [_ratio(*pair) for pair in pairs]
        return f"{median(ratios):.2f} ({max(ratios):.2f})"

    return _by_attack([r for r in records if (r.preset, r.byzantine) == (preset, byzantine)], _cell)


def _by_attack(own: Sequence[AttackResult], cell: Callable[[Sequence[AttackResult]], str]) -> str:
    """Return a table with a row for each method and a column for each attack."""
    attacks = attacks_of(own)
    rows = [["method", *attacks]]
    for method in _methods(own):
        here = [r for r in own if r.method == method]
        rows.append(
            [method, *(cell([r for r in here if _attack(r) == attack]) for attack in attacks)]
        )
    return markdown_table(rows)


def coverage_by_dataset(records: Sequence[AttackResult], preset: str, byzantine: int) -> str:
    """Return how far attacks move the worst honest agent's coverage, by robust method and dataset.

    In bold where a single choice of Byzantine agents moves it by more than `KEPT`.
    """
    own = [r for r in records if (r.preset, r.byzantine) == (preset, byzantine) and r.robust]
    attacks = attacks_of(own)
    rows = [["method", "dataset", *attacks]]
    for method, title in product(_methods(own), _titles(own)):
        row = [method, title]
        for attack in attacks:
            changes = _pooled(r for r in own if _place(r) == (method, title, attack))
            mark = "" if max(map(abs, changes)) <= KEPT else "**"
            ends = f"{_signed(min(changes))} to {_signed(max(changes))}"
            row.append(f"{mark}{_signed(median(changes))}{mark} ({ends})")
        rows.append(row)
    return markdown_table(rows)


def pooled_coverage(records: Iterable[AttackResult], method: str, attack: str) -> list[float]:
    """Return the worst honest agent's coverage for every seed and choice of Byzantine agents."""
    own = (r for r in records if r.method == method and _attack(r) == attack)
    return [value for record in own for value in record.coverage]


def _methods(records: Iterable[AttackResult]) -> list[str]:
    """Return the methods, those that are not meant to withstand attacks first."""
    return [method for _, method in sorted({(r.robust, r.method) for r in records})]


def _titles(records: Iterable[AttackResult]) -> list[str]:
    """Return the datasets as tables show them."""
    return sorted({r.display_title for r in records})


def _place(record: AttackResult) -> tuple[str, str, str]:
    """Return a record's method, dataset and attack."""
    return record.method, record.display_title, _attack(record)


def _attack(record: AttackResult) -> str:
    """Return the name of an attack, with its bound."""
    return record.attack + (BOUNDED if record.bounded else "")


def _pooled(records: Iterable[AttackResult]) -> list[float]:
    """Return the changes of all choices of Byzantine agents."""
    return [change for record in records for change in record.changes]


def _ratio(size: float, truthful: float) -> float:
    """Return how many times as large sets are."""
    if size == truthful:
        return 1.0
    return inf if truthful == 0 else size / truthful


def _number(values: Sequence[float], form: str) -> str:
    """Write the median of some values."""
    return form.format(median(values)) if values else ""


def _signed(value: float) -> str:
    """Write a change; what rounds to nothing has no sign."""
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text


def draw_attacks(records: Sequence[AttackResult], preset: str, byzantine: int, path: Path) -> Path:
    """Draw the worst honest agent's coverage under every attack, one panel for each dataset."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    own = [r for r in records if r.preset == preset and r.byzantine == byzantine and not r.bounded]
    titles = _titles(own)
    with rc_context(STYLE):
        figure = Figure(figsize=(3.6 * len(titles), 3.6), layout="constrained")
        panels = figure.subplots(1, len(titles), sharey=True, squeeze=False)[0]
        for panel, title in zip(panels, titles, strict=True):
            _panel(panel, [r for r in own if r.display_title == title])
            panel.set_title(title, loc="left", fontweight="bold")
        panels[0].set_ylabel("coverage of the worst honest agent")
        handles = [
            Line2D([], [], label=name, linestyle="none", **_marker_style(place))
            for place, name in enumerate(FIGURE_METHODS)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
        return save(figure, path)


def _panel(panel: Any, records: Sequence[AttackResult]) -> None:
    """Draw one dataset: the median, and a line from the lowest to the highest coverage."""
    panel.axhline(1 - records[0].alpha, color="0.35", linestyle="--", linewidth=1)
    attacks = attacks_of(records)
    for place, method in enumerate(FIGURE_METHODS):
        for at, attack in enumerate(attacks):
            found = pooled_coverage(records, method, attack)
            if not found:
                continue
            x = at + (place - (len(FIGURE_METHODS) - 1) / 2) * 0.15
            colour = COLOURS[place % len(COLOURS)]
            panel.plot([x, x], [min(found), max(found)], color=colour, linewidth=1.2)
            panel.plot([x], [median(found)], linestyle="none", **_marker_style(place))
    panel.set_xticks(range(len(attacks)), attacks, rotation=30, ha="right")
    panel.set_ylim(-0.02, 1.02)


def _marker_style(place: int) -> dict[str, Any]:
    """Return how a method is marked."""
    return {
        "marker": MARKERS[place % len(MARKERS)],
        "color": COLOURS[place % len(COLOURS)],
        "markersize": 5.0,
    }
