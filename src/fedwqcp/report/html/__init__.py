"""Reports as one HTML file: what was agreed, who is covered, what was sent.

``rounds`` turns a round into a `Page`, ``after_release`` a monitor; ``render`` turns a page into
HTML and knows nothing of where it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedwqcp._io import in_folder, is_file, is_folder, write_atomic
from fedwqcp.errors import InputError
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release
from fedwqcp.outputs import Outputs
from fedwqcp.report.html.after_release import holds_state, monitor_page
from fedwqcp.report.html.page import Page
from fedwqcp.report.html.render import require_report, to_html
from fedwqcp.report.html.rounds import agent_page, release_page


def load_page(
    source: Path,
    *,
    agent: str | None = None,
    outputs: Path | None = None,
    labels: Path | None = None,
    calibration: Path | None = None,
    title: str = "",
) -> Page:
    """Return the page of a monitor, or of a round: the server's, or an agent's own.

    Parameters
    ----------
    source : Path
        A monitor's state; the release or record of a round, or a folder with one.
    agent : str, optional
        Whose own report of a round it is.
    outputs, labels : Path, optional
        That agent's model outputs on labelled test points; labels where the outputs carry none.
    calibration : Path, optional
        That agent's calibration outputs, with labels.
    title : str, optional
        Title of the page.

    Raises
    ------
    InputError
        If the source is none of these, an agent's own report has no outputs, or another report is
        given data of an agent.
    """
    data, monitored = (outputs, labels, calibration), holds_state(source)
    if (monitored or agent is None) and data != (None, None, None):
        raise InputError(
            "must name whose data these are; the server's report and a monitor's take no data",
            field="--agent",
        )
    if monitored:
        return monitor_page(source, title)
    release = load_release(_release_file(source))
    if agent is None:
        return release_page(release, {}, title)
    if outputs is None:
        raise InputError("must hold labelled test rows, got none", field="--outputs")
    return agent_page(release, agent, outputs, labels=labels, calibration=calibration, title=title)


def _release_file(source: Path) -> Path:
    """Return the one record in a folder, else its release; a file as it is."""
    if not is_folder(source):
        return source
    release = source / "release.json"
    records = in_folder(source, "*record.json") or ([release] if is_file(release) else [])
    if len(records) != 1:
        names = ", ".join(file.name for file in records) or "none"
        raise InputError(f"{source} must hold one record of a round, got {names}: name the file")
    return records[0]


def write_release(
    release: Release, out: Path, tests: Mapping[str, Outputs], title: str = ""
) -> Path:
    """Write the report of a release that a process holds, with coverage on labelled test points."""
    return save(release_page(release, tests, title, "from Python"), out)


def save(page: Page, out: Path) -> Path:
    """Write a page as one HTML file."""
    write_atomic(out, to_html(page).encode(), shared=True)
    return out


__all__ = ["load_page", "require_report", "save", "write_release"]
