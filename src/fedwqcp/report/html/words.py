"""Numbers and names as a report writes them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

from fedwqcp.metrics import Rate
from fedwqcp.report.html.blocks import Tone
from fedwqcp.report.tables import LEVEL


def number(value: float) -> str:
    """Write a number in three digits.

    Parameters
    ----------
    value : float
        The number; +inf is written in a word.

    Returns
    -------
    str
        Such as ``"0.783"``, ``"1.43"`` or ``"infinite"``.

    Examples
    --------
    >>> number(0.78349), number(1.5), number(12345.6), number(float("inf"))
    ('0.783', '1.5', '12,346', 'infinite')
    """
    if abs(value) == inf:
        return "infinite" if value > 0 else "-infinite"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def thresholds(values: float | Sequence[float]) -> str:
    """Write one threshold, or the range of those of all labels.

    Parameters
    ----------
    values : float or sequence of float
        The threshold, or one for each label.

    Returns
    -------
    str
        Such as ``"0.783"`` or ``"0.6 to 0.9, by label"``.
    """
    if isinstance(values, float | int):
        return number(values)
    return f"{number(min(values))} to {number(max(values))}, by label"


def interval(rate: Rate) -> str:
    """Write an exact interval.

    Parameters
    ----------
    rate : Rate
        Hits among trials.

    Returns
    -------
    str
        Such as ``"exact 99 % interval 0.748 to 0.815"``.
    """
    return f"exact {100 * rate.level:.3g} % interval {rate.low:.3f} to {rate.high:.3f}"


def judge(low: float, high: float, nominal: float) -> tuple[Tone, str]:
    """Tell a deviation from noise.

    Parameters
    ----------
    low, high : float
        Interval of a coverage.
    nominal : float
        What was asked for.

    Returns
    -------
    tuple of (Tone, str)
        Whether the interval lies below, above or around it.
    """
    if high < nominal:
        return "bad", "below nominal"
    return ("caution", "above nominal") if low > nominal else ("good", "on target")


def rate_of(hits: int, n: int) -> Rate:
    """Return a coverage with the interval that all reports use.

    Parameters
    ----------
    hits, n : int
        Covered points, and all.

    Returns
    -------
    Rate
        With its exact interval.
    """
    return Rate(n=n, hits=hits, level=LEVEL)


def some(names: Iterable[str]) -> str:
    """Name a few, and count the others.

    Parameters
    ----------
    names : iterable of str
        The names.

    Returns
    -------
    str
        Such as ``"S0, S1 and S2"``.

    Examples
    --------
    >>> some(["a"]), some("abc"), some("abcdefgh")
    ('a', 'a, b and c', 'a, b, c, d, e and 3 more')
    """
    listed = list(names)
    if len(listed) > 6:
        return f"{', '.join(listed[:5])} and {len(listed) - 5} more"
    return " and ".join(part for part in (", ".join(listed[:-1]), listed[-1]) if part)


def counted(count: int, what: str) -> str:
    """Write how many there are of something.

    Parameters
    ----------
    count : int
        How many.
    what : str
        One of them.

    Returns
    -------
    str
        Such as ``"1 agent"`` or ``"1,797 points"``.
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Write a table that a spreadsheet opens.

    Parameters
    ----------
    columns : sequence of str
        Headings.
    rows : iterable of sequence
        Its lines. A text that a spreadsheet would take for a formula gets an apostrophe in front.

    Returns
    -------
    str
        The table as CSV.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: object) -> object:
    """Keep a spreadsheet from running a text."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell
