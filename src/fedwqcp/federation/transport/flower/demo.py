"""A whole round between real processes on this machine: calibrate, release, predict."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedwqcp.errors import QuorumError
from fedwqcp.federation.outputs import load_outputs
from fedwqcp.federation.predict import calibration_of, predict
from fedwqcp.federation.record import load
from fedwqcp.federation.transport.flower.loopback import Loopback
from fedwqcp.federation.transport.flower.scaffold import new_app
from fedwqcp.wire.release import Release


@dataclass(frozen=True)
class Row:
    """What one site has after the round.

    Parameters
    ----------
    agent : str
        The site.
    status, reason : str
        Whether the release rests on its answer, and why not.
    bytes_up, bytes_down : int
        What it sent, and what it was asked, in encoded bytes.
    stored : bool
        Whether it has the release.
    coverage, size : float
        Share of test points covered, and mean size of the sets; NaN without a release.
    """

    agent: str
    status: str
    reason: str
    bytes_up: int
    bytes_down: int
    stored: bool
    coverage: float = float("nan")
    size: float = float("nan")


@dataclass(frozen=True)
class Shown:
    """What the demo showed.

    Parameters
    ----------
    release : Release
        As the server keeps it.
    rows : tuple of Row
        One for each site.
    record : Path
        The server's record of the round.
    seconds : dict
        How long each part took.
    """

    release: Release
    rows: tuple[Row, ...]
    record: Path
    seconds: dict[str, float]


def show(
    folder: Path,
    sites: Sequence[str],
    terms: Mapping[str, object],
    on_step: Callable[[str], None] = lambda _: None,
) -> Shown:
    """Start a SuperLink and a SuperNode for each site, run one round, and stop everything.

    Parameters
    ----------
    folder : Path
        Holds ``sites/NAME/cal.npz`` and ``sites/NAME/test.npz``; all else is written here too.
    sites : sequence of str
        Names of the sites.
    terms : mapping
        Run configuration of the round besides ``agents`` and ``records``.
    on_step : callable, optional
        Told what comes next.

    Returns
    -------
    Shown
        The release, and what each site made of it.

    Raises
    ------
    QuorumError
        If the round ended without a release.
    """
    folder = folder.resolve()
    records = folder / "records"
    new_app(folder / "app")
    clock, seconds = time.monotonic(), {}
    on_step("starting a SuperLink with TLS, registering the sites' keys")
    with Loopback(folder / "federation", sites) as federation:
        on_step(f"starting {len(sites)} SuperNodes")
        for name in sites:
            home = folder / "sites" / name
            federation.start_node(name, {"outputs": home / "cal.npz", "folder": home / "kept"})
        federation.wait_online(len(sites))
        seconds["start"] = time.monotonic() - clock
        on_step("calibrating; then handing over the release")
        config = {**terms, "agents": ",".join(sites), "records": str(records)}
        clock = time.monotonic()
        run = federation.commands.submit(folder / "app", config)
        ended = federation.commands.wait(run, 180.0, lambda: is_over(records))
        seconds["run"] = time.monotonic() - clock
        on_step("stopping every process")
    found = sorted(records.glob("*/record.json"))
    if ended.status != "finished:completed" or not found:
        raise QuorumError(f"the run ended as {ended.status}; see {folder / 'federation' / 'logs'}")
    release = load(found[0])
    rows = tuple(_row(release, name, folder / "sites" / name) for name in sites)
    return Shown(release, rows, found[0].parent, seconds)


def is_over(records: Path) -> bool:
    """Tell whether a round whose record is kept here has come to its end.

    Parameters
    ----------
    records : Path
        Folder with one folder for each round.

    Returns
    -------
    bool
        True once a release was handed over, or a round failed.
    """
    logs = (path.read_text() for path in records.glob("*/log.jsonl"))
    return any('"event": "stored"' in log or '"event": "failed"' in log for log in logs)


def _row(release: Release, name: str, home: Path) -> Row:
    """Predict at one site with the release that it stored itself."""
    record = next(agent for agent in release.agents if agent.name == name)
    plain = (name, record.status, record.reason, record.bytes_up, record.bytes_down)
    path = home / "kept" / "release.json"
    if not path.exists():
        return Row(*plain, stored=False)
    stored = load(path)
    test = load_outputs(home / "test.npz")
    own = calibration_of(stored.round, load_outputs(home / "cal.npz"))
    sets = predict(stored, name, test, calibration=own)
    labels = np.asarray(test.labels)
    return Row(*plain, True, float(sets.cover(labels).mean()), float(sets.sizes().mean()))
