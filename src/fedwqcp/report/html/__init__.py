"""Reports as one HTML file: what was agreed, who is covered, what was sent.

`load_page` turns a round or a monitor into a `Page` (``rounds``, ``after_release``); ``render``
turns a page into HTML and knows nothing of where it came from. A new kind of report is one module
and one line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fedwqcp._io import exists, is_file, read, write_atomic
from fedwqcp.errors import InputError
from fedwqcp.federation.release import Release
from fedwqcp.outputs import Outputs
from fedwqcp.report.html import after_release, rounds
from fedwqcp.report.html.page import Page, ReportOptions
from fedwqcp.report.html.render import require_report, to_html
from fedwqcp.wire.codec import mistaken_for

KINDS: dict[str, Callable[[Path, ReportOptions], Page | None]] = {
    "a closed round (its release or record, or a folder with a record)": rounds.round_page,
    "a monitor's state": after_release.monitor_page,
}
"""What a report can be made of, tried in this order: None where a path holds something else."""


def write(source: Path, out: Path, options: ReportOptions | None = None) -> Path:
    """Write the report of a round or a monitor.

    Parameters
    ----------
    source : Path
        A folder or file of one of the `KINDS`.
    out : Path
        Where to; a file that is there is replaced.
    options : ReportOptions, optional
        What the owner of the data adds or asks for.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If it is none of the kinds, or something in it is wrong.
    MissingExtraError
        If Jinja is not installed.
    """
    return save(load_page(source, options or ReportOptions()), out)


def write_release(
    release: Release, out: Path, tests: Mapping[str, Outputs], title: str = ""
) -> Path:
    """Write the report of a release that a process holds, with coverage on labelled test points."""
    return save(rounds.release_page(release, tests, title), out)


def load_page(source: Path, options: ReportOptions) -> Page:
    """Return the page of whatever lies at a path."""
    for page_of in KINDS.values():
        if (page := page_of(source, options)) is not None:
            return page
    mistake = "" if exists(source) else ". It does not exist"
    if is_file(source) and (what := mistaken_for("release", read(source))):
        mistake = f". It is {what}"
    raise InputError(f"{source} must be one of: {'; '.join(KINDS)}{mistake}")


def save(page: Page, out: Path) -> Path:
    """Write a page as one HTML file."""
    write_atomic(out, to_html(page).encode(), shared=True)
    return out


__all__ = ["ReportOptions", "load_page", "require_report", "save", "write", "write_release"]
