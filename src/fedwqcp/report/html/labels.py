"""Where the names of agents stand beside their marks, so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log
from typing import Any

LINE = 14.0
"""Pixels from one name to the next below it."""

MARK, LETTER = 0.03, 0.02
"""Shares of the picture's width that a mark and a letter take on a phone."""

MOST = 12
"""Agents that are all named; of more, those with the lowest and the highest coverage are."""


def named(rows: Sequence[dict[str, Any]], bottom: float, height: int) -> list[dict[str, Any]]:
    """Add to each mark the name that is written beside it, and at which coverage.

    Parameters
    ----------
    rows : sequence of dict
        Marks with method, agent, coverage and size.
    bottom : float
        Coverage at the lower end of the picture; the upper end is 1.
    height : int
        Pixels of the picture.

    Returns
    -------
    list of dict
        The rows with ``name`` and ``at``.
    """
    pixel = (1 - bottom) / height
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = sorted(
            (row for row in rows if row["method"] == method), key=lambda row: -row["coverage"]
        )
        told = own if len(own) <= MOST else own[: MOST // 2] + own[-(MOST // 2) :]
        near = MARK + LETTER * max(len(row["agent"]) for row in told)
        marks = [(_across(row, rows), (1 - row["coverage"]) / pixel) for row in told]
        down = apart(marks, near, height)
        places = {row["agent"]: round(1 - y * pixel, 5) for row, y in zip(told, down, strict=True)}
        for row in own:
            name = row["agent"] if row["agent"] in places else ""
            found.append({**row, "name": name, "at": places.get(row["agent"], row["coverage"])})
    return found


def apart(places: Sequence[tuple[float, float]], near: float, height: float) -> list[float]:
    """Push names apart that would cover each other.

    Parameters
    ----------
    places : sequence of (float, float)
        Across, as a share of the width; and down, in pixels.
    near : float
        Names that are closer across than this would touch.
    height : float
        Pixels of the picture.

    Returns
    -------
    list of float
        The places down, a line apart where they are near each other.

    Examples
    --------
    >>> apart([(0.5, 100.0), (0.5, 100.0), (0.9, 100.0)], 0.1, 360)
    [93.0, 107.0, 100.0]
    """
    down = [y for _, y in places]
    for _ in range(200):
        moved = False
        for a, b in combinations(range(len(places)), 2):
            lacking = LINE - abs(down[b] - down[a])
            if abs(places[a][0] - places[b][0]) < near and lacking > 1e-6:
                sign = 1 if down[b] >= down[a] else -1
                down[a] -= sign * lacking / 2
                down[b] += sign * lacking / 2
                moved = True
        down = [min(max(y, 0.0), height - LINE / 2) for y in down]
        if not moved:
            break
    return down


def _across(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> float:
    """Return where a mark stands, as a share of the width; sizes differ by factors."""
    sizes = [log(max(one["size"], 1e-9)) for one in rows]
    wide = max(sizes) - min(sizes)
    return (log(max(row["size"], 1e-9)) - min(sizes)) / wide if wide else 0.5
