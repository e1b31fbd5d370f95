"""What a report is made of, whatever it reports on.

A source turns what it reads into a `Page`; the template knows nothing of sources. A page has one
view for each dataset or level, a view has sections, and a section has blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedwqcp.report.html.blocks import Block, Tone


@dataclass(frozen=True)
class Verdict:
    """The report in one sentence.

    Parameters
    ----------
    tone : Tone
        How it is meant.
    word : str
        The same in a word or two.
    text : str
        The sentence, with its uncertainty.
    """

    tone: Tone
    word: str
    text: str


@dataclass(frozen=True)
class Section:
    """A part of a view.

    Parameters
    ----------
    key, title : str
        Its name in links, and its heading.
    lead : str
        What it is about.
    blocks : sequence of Block
        What it shows.
    """

    key: str
    title: str
    lead: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class View:
    """All about one dataset, or one level.

    Parameters
    ----------
    title : str
        Its name.
    methods, agents : sequence of str
        What can be chosen from.
    method : str
        The one that is chosen first.
    verdicts : mapping of str to Verdict
        By method.
    sections : sequence of Section
        What it shows.
    stand_in : str, optional
        What the data stand in for, where they are not what their name says.
    """

    title: str
    methods: Sequence[str]
    agents: Sequence[str]
    method: str
    verdicts: Mapping[str, Verdict]
    sections: Sequence[Section]
    stand_in: str = ""


@dataclass(frozen=True)
class Page:
    """A report.

    Parameters
    ----------
    kind, title : str
        What is reported on.
    facts : sequence of (str, str)
        Terms and origin.
    views : sequence of View
        At least one.
    """

    kind: str
    title: str
    facts: Sequence[tuple[str, str]]
    views: Sequence[View]
