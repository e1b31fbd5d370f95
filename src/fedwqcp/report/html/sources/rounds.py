"""A report of a round: the server's, of what it was sent, or an agent's own, with coverage."""

from __future__ import annotations

from pathlib import Path

from fedwqcp.errors import FedwqcpError, InputError
from fedwqcp.federation.record import load
from fedwqcp.report.html.page import Page, View
from fedwqcp.report.html.sources import _own, _server
from fedwqcp.report.html.wanted import Wanted
from fedwqcp.wire.release import Release


def known(path: Path) -> bool:
    """Tell whether a path holds the record or the release of a round.

    Parameters
    ----------
    path : Path
        A folder, or the file itself.

    Returns
    -------
    bool
        Whether it does.
    """
    return bool(_files(path))


def read(path: Path, wanted: Wanted) -> Page:
    """Return the page of a round.

    Parameters
    ----------
    path : Path
        A server's folder or record; or a release, at an agent.
    wanted : Wanted
        Whose own report it is, with that agent's outputs.

    Returns
    -------
    Page
        One view for each level.

    Raises
    ------
    InputError
        If the agent is not in the round, or its outputs do not fit.
    """
    files = _files(path)
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise InputError(f"{path} must hold one record of a round, got {names}: name the file")
    file = files[0]
    release = load(file)
    round = release.round
    if wanted.agent is not None and wanted.agent not in round.agents:
        known = ", ".join(round.agents)
        raise InputError(f"agent {wanted.agent!r} is not in the round; its agents: {known}")
    whose = f"{wanted.agent}'s own report" if wanted.agent else "the server's report"
    return Page(
        kind=f"fedwqcp round, {whose}",
        title=f"{round.method.name} with {len(round.agents)} agents",
        facts=(
            ("Round", round.id),
            ("Score", round.score.name),
            ("Quorum", f"{round.quorum} of {len(round.agents)}"),
            ("Round trips", str(release.rounds)),
            ("Proved", f"{release.guarantee} ({release.assumption})"),
        ),
        views=[_view(release, file, alpha, wanted) for alpha in round.alphas],
    )


def _view(release: Release, file: Path, alpha: float, wanted: Wanted) -> View:
    """Return all about one level."""
    if wanted.agent is not None:
        return _own.view(release, alpha, wanted)
    return _server.view(release, file.parent, alpha)


def _files(path: Path) -> list[Path]:
    """Return the files that may be meant: the server's records, else the release."""
    if not path.is_dir():
        return [path] if path.suffix == ".json" and _holds_release(path) else []
    records = sorted(path.glob("*record.json"))
    release = path / "release.json"
    return records or ([release] if release.is_file() else [])


def _holds_release(file: Path) -> bool:
    """Tell a record or a release from other files."""
    try:
        load(file)
    except InputError:
        return False
    except FedwqcpError:
        return file.name.endswith(("record.json", "release.json"))  # told when it is read
    return True
