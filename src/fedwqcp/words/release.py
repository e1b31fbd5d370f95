"""A release as text: its title, the table of its agents, who is not shown and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedwqcp.words.commands import wrapped
from fedwqcp.words.findings import lines
from fedwqcp.words.rounds import rounded_down


def printed(
    release: Any, agents: Mapping[str, Sequence[Any]], promised: Sequence[str], left: int
) -> str:
    """Return a release as it prints, with what is known of some agents; ``left`` are not shown."""
    notes = [f"and {left} more agents"] if left > 0 else []
    notes += [f"warning: {line}" for line in lines(release.findings)]
    parts = [_title(release), wrapped(*promised), *_aligned(table(agents)), wrapped(*notes)]
    return "\n".join(filter(None, parts))


def table(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Return columns of values as text by heading, without those that are empty."""
    texts = {heading: [_cell(heading, cell) for cell in columns[heading]] for heading in columns}
    if "sent" in texts and texts["sent"] == texts["threshold"]:
        del texts["sent"]
    return {heading: cells for heading, cells in texts.items() if any(cells)}


def _title(release: Any) -> str:
    """Return method, score, levels and round trips in one line."""
    round = release.round
    by = f" by {round.by}" if round.by else ""
    rule = "" if round.rule == "leq" else f", rule {round.rule}"
    levels = ", ".join(f"{alpha:g}" for alpha in round.alphas)
    trips = f"{release.rounds} round trip" + ("" if release.rounds == 1 else "s")
    return f"{round.method.name} with score {round.score.name}, alpha {levels}{by}{rule}; {trips}"


def _cell(heading: str, value: Any) -> str:
    """Write one value; of several thresholds the range."""
    if value is None or value == ():
        return ""
    if heading in ("proved", "risk proved"):
        return rounded_down(value, risk=heading != "proved")
    if isinstance(value, tuple):
        low, high = f"{min(value):.4g}", f"{max(value):.4g}"
        return low if low == high else f"{low} to {high}"
    if isinstance(value, int):
        return f"{value:,}{' agents' if heading == 'agent' else ''}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _aligned(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a table whose columns are aligned: the first two on the left, numbers on the right."""
    head, *rows = (tuple(columns), *zip(*columns.values(), strict=True))
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    ]
