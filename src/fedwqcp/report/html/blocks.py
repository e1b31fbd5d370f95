"""What sections are made of: text, cards, charts, tables, examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from fedwqcp.report.html.examples import Gallery

Tone: TypeAlias = Literal["good", "caution", "bad", "plain"]
"""How a statement is meant; a word always says the same as the colour."""


@dataclass(frozen=True)
class Bar:
    """An interval on a line from ``start`` to 1, beside the nominal coverage.

    Parameters
    ----------
    low, value, high : float
        The interval and what it belongs to.
    nominal : float
        What was asked for.
    start : float
        Left end of the line.
    """

    low: float
    value: float
    high: float
    nominal: float
    start: float

    def at(self, value: float) -> float:
        """Return the place of a value on the line.

        Parameters
        ----------
        value : float
            The value.

        Returns
        -------
        float
            Percent from the left.
        """
        return round(100 * min(1.0, max(0.0, (value - self.start) / (1 - self.start))), 2)


@dataclass(frozen=True)
class Card:
    """One agent.

    Parameters
    ----------
    agent : str
        Its name.
    note : str
        What is special about it.
    tone, word : Tone, str
        What is to be thought of it.
    figure, label : str
        Its most important number, and what it is.
    interval : str
        How sure that number is.
    facts : sequence of (str, str)
        Further numbers by name.
    bar : Bar, optional
        The interval as a picture.
    """

    agent: str
    note: str
    tone: Tone
    word: str
    figure: str
    label: str
    interval: str
    facts: Sequence[tuple[str, str]]
    bar: Bar | None = None


@dataclass(frozen=True)
class Text:
    """Paragraphs, or a list under a heading.

    Parameters
    ----------
    lines : sequence of str
        The paragraphs.
    tone : Tone, optional
        How they are meant.
    word : str, optional
        The same in a word.
    title : str, optional
        Heading; then each line is an entry of a list.
    """

    lines: Sequence[str]
    tone: Tone = "plain"
    word: str = ""
    title: str = ""
    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Cards:
    """The agents under each method.

    Parameters
    ----------
    groups : mapping of str to sequence of Card
        By method.
    """

    groups: Mapping[str, Sequence[Card]]
    kind: ClassVar[str] = "cards"


@dataclass(frozen=True)
class Chart:
    """A picture, the same in words, and its data.

    Parameters
    ----------
    name : str
        Name of the file that its data are downloaded as.
    title : str
        Heading.
    alt : str
        The text alternative: what the picture shows.
    spec : dict
        In Vega-Lite's terms.
    columns : sequence of str
        Names of the columns of its data.
    rows : sequence of sequence
        Its data.
    note : str, optional
        What to know when reading it.
    """

    name: str
    title: str
    alt: str
    spec: dict[str, Any]
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int]]
    note: str = ""
    kind: ClassVar[str] = "chart"


@dataclass(frozen=True)
class Charts:
    """Small charts side by side, one for each agent.

    Parameters
    ----------
    charts : mapping of str to Chart
        By agent.
    """

    charts: Mapping[str, Chart]
    kind: ClassVar[str] = "charts"


@dataclass(frozen=True)
class Row:
    """A line of a table.

    Parameters
    ----------
    cells : sequence of str
        What stands in it.
    agent, method : str, optional
        Whose it is; a filter hides the others.
    """

    cells: Sequence[str]
    agent: str = ""
    method: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    name : str
        Name of the file that it is downloaded as.
    caption : str
        What it shows.
    columns : sequence of str
        Headings.
    rows : sequence of Row
        Its lines.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Row]
    kind: ClassVar[str] = "table"


Block: TypeAlias = Text | Cards | Chart | Charts | Table | Gallery
"""What a section is made of."""
