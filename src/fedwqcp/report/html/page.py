"""What a report is made of: page, view, section, block; and how it writes numbers.

A page has one view for each level, a view has sections, a section has blocks (text,
cards, tables). The template renders these and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar, Literal, TypeAlias

from fedwqcp.findings import Finding
from fedwqcp.words.coverage import SECTIONS

Tone: TypeAlias = Literal["good", "caution", "bad", "plain"]
"""How a statement is meant; a word always says the same as the colour."""


@dataclass(frozen=True)
class Page:
    """A report: its kind and title, terms and origin as facts, and at least one view.

    ``findings`` are repeated on the terminal.
    """

    kind: str
    title: str
    facts: Sequence[tuple[str, str]]
    views: Sequence[View]
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class View:
    """All about one level."""

    title: str
    agents: Sequence[str]
    verdict: ViewVerdict
    sections: Sequence[Section]


@dataclass(frozen=True)
class ViewVerdict:
    """The report in a word or two, and in one sentence with its uncertainty."""

    tone: Tone
    word: str
    text: str


@dataclass(frozen=True)
class Section:
    """A part of a view: its name in links, its heading, what it is about, what it shows."""

    key: str
    title: str
    lead: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Text:
    """Paragraphs; under a title, the entries of a list."""

    lines: Sequence[str]
    tone: Tone = "plain"
    word: str = ""
    title: str = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Cards:
    """The agents, a card for each."""

    cards: Sequence[Card]
    kind: ClassVar[str] = "cards"


@dataclass(frozen=True)
class Card:
    """One agent: its coverage with its interval, and further facts."""

    agent: str
    tone: Tone
    word: str
    figure: str
    facts: Sequence[tuple[str, str]]
    interval: str
    bar: Bar


@dataclass(frozen=True)
class Bar:
    """An interval on a line from ``start`` to 1, beside the nominal coverage."""

    low: float
    value: float
    high: float
    nominal: float
    start: float

    def at(self, value: float) -> float:
        """Return the place of a value on the line, in percent from the left."""
        return round(100 * min(1.0, max(0.0, (value - self.start) / (1 - self.start))), 2)


@dataclass(frozen=True)
class Table:
    """A table; ``name`` is that of its download, ``agents`` the column of the agents, if any.

    The filter hides the rows of other agents. ``tones``, one a row, colour ``coloured`` columns and
    ``bars``, which are drawn behind the rows.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    agents: int | None = None
    tones: Sequence[Tone] = ()
    coloured: Sequence[str] = ()
    bars: Sequence[Bar] = ()
    kind: ClassVar[str] = "table"

    def toned(self, tones: Sequence[Tone], *columns: str) -> Table:
        """Return the table with columns in the tone of their row."""
        return replace(self, tones=tones, coloured=columns)

    def filled(self) -> Table:
        """Return the table without the columns that say nothing."""
        kept = [i for i in range(len(self.columns)) if any(row[i] for row in self.rows)]
        rows = [tuple(row[i] for i in kept) for row in self.rows]
        return replace(self, columns=[self.columns[i] for i in kept], rows=rows)


Block: TypeAlias = Text | Cards | Table
"""What a section is made of."""


def section(key: str, blocks: Sequence[Block], lead: str = "") -> Section:
    """Return a section under its heading."""
    title, usual = SECTIONS[key]
    return Section(key, title, lead or usual, blocks)


def number(value: float) -> str:
    """Write a number in three digits.

    >>> number(0.78349), number(1.5), number(12345.6), number(float("inf"))
    ('0.783', '1.5', '12,346', 'infinite')
    """
    if abs(value) == inf:
        return "infinite" if value > 0 else "-infinite"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def threshold_range(values: Sequence[float], by: str | None) -> str:
    """Write one threshold, or the range of those of all labels or groups.

    >>> threshold_range([0.5], None), threshold_range([0.25, 0.75], "label")
    ('0.5', '0.25 to 0.75, by label')
    """
    low, high = number(min(values)), number(max(values))
    if low == high:
        return low
    return f"{low} to {high}" + (f", by {by}" if by else "")
