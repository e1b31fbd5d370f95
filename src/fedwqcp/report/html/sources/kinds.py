"""What a report can be made of. A new kind comes in here: one file, one line in `KINDS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp.report.html.page import Page
from fedwqcp.report.html.sources import demo, monitor, rounds
from fedwqcp.report.html.wanted import Wanted


@dataclass(frozen=True)
class Source:
    """One kind of thing to report on.

    Parameters
    ----------
    what : str
        How it is told to people.
    known : callable
        Whether a path holds one; it must not fail on anything else.
    read : callable
        The page of it.
    """

    what: str
    known: Callable[[Path], bool]
    read: Callable[[Path, Wanted], Page]


KINDS = (
    Source("a round (a record, or a folder with one)", rounds.known, rounds.read),
    Source("the demo's folder", demo.known, demo.read),
    Source("a monitor's state or log", monitor.known, monitor.read),
)
"""Every kind, asked in this order."""


def read(path: Path, wanted: Wanted) -> Page:
    """Return the page of whatever lies at a path.

    Parameters
    ----------
    path : Path
        A folder or file.
    wanted : Wanted
        What the owner adds or asks for.

    Returns
    -------
    Page
        The report.

    Raises
    ------
    InputError
        If no kind knows it.
    """
    for kind in KINDS:
        if kind.known(path):
            return kind.read(path, wanted)
    listed = "; ".join(kind.what for kind in KINDS)
    raise InputError(f"{path} must be one of: {listed}")
