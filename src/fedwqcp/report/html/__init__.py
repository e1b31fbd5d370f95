"""Reports as one HTML file: what was agreed, who is covered, what was sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedwqcp.federation.files import write_atomic
from fedwqcp.report.html.page import Page
from fedwqcp.report.html.render import render
from fedwqcp.report.html.sources.kinds import read
from fedwqcp.report.html.vega import require_report, unchecked
from fedwqcp.report.html.wanted import Wanted


def write(source: Path, out: Path, wanted: Wanted | None = None) -> Path:
    """Write the report of whatever lies at a place.

    Parameters
    ----------
    source : Path
        A folder or file that one of the sources knows.
    out : Path
        Where to; a file that is there is replaced.
    wanted : Wanted, optional
        What the owner of the data adds or asks for.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If no source knows it, something in it is wrong, or the report would be too large.
    MissingExtraError
        If Altair, vl-convert or Jinja are not installed.
    """
    return save(lambda: read(source, wanted or Wanted()), out)


def save(make: Callable[[], Page], out: Path) -> Path:
    """Make a page and write it as one HTML file, or refuse where an extra is missing."""
    require_report()
    with unchecked():
        page = make()
    write_atomic(out, render(page).encode())
    return out


__all__ = ["Wanted", "save", "write"]
