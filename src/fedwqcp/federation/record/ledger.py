"""The server's record of a round, written while it runs.

A record is a folder: ``round.json``, ``answers/step-K/AGENT.json`` exactly as they came (in a
secure round ``sums/K.json``, since the server has no more than totals),
``record.json`` and ``release.json`` at the end, and ``log.jsonl``, which only grows: each line
holds the digest of the line before it and of the file it speaks of. No line holds the last one,
who acknowledged the release: that is the server's word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp.federation.files import append_line, write_atomic
from fedwqcp.wire.codec import encode
from fedwqcp.wire.release import AgentRecord, Release
from fedwqcp.wire.round import Round

LOG = "log.jsonl"
"""Name of the log within a record."""
START = "0" * 64
"""What the first line of a log says of the line before it."""


class Ledger:
    """The record of one round, written while it runs.

    Parameters
    ----------
    folder : Path
        Where; it must not hold a record yet.
    round : Round
        The terms.

    Raises
    ------
    InputError
        If the folder holds a record, or cannot be written.
    """

    def __init__(self, folder: Path, round: Round) -> None:
        if (folder / LOG).exists():
            raise InputError(f"{folder} holds the record of a round already: choose another folder")
        _make(folder)
        self.folder = folder
        self._last = START
        self._write("opened", "round.json", encode(round))

    def accepted(self, step: int, agent: str, data: bytes) -> None:
        """Keep an answer that was admitted.

        Parameters
        ----------
        step : int
            Which step it answers.
        agent : str
            Who sent it.
        data : bytes
            What came.
        """
        _make(self.folder / "answers" / f"step-{step}")
        name = f"answers/step-{step}/{agent}.json"
        self._write("accepted", name, data, step=step, agent=agent)

    def refused(self, step: int, agent: str, reason: str) -> None:
        """Note that something was refused.

        Parameters
        ----------
        step : int
            In which step.
        agent : str
            Whose it was.
        reason : str
            Why.
        """
        self._append({"event": "refused", "step": step, "agent": agent, "reason": reason})

    def summed(self, number: int, agents: Sequence[str], totals: Sequence[int]) -> None:
        """Keep the totals of one masked sum.

        Parameters
        ----------
        number : int
            Which sum of the round.
        agents : sequence of str
            Whose words were added.
        totals : sequence of int
            All that the server learned.
        """
        _make(self.folder / "sums")
        kept = {"agents": [*agents], "totals": [*totals]}
        self._write("summed", f"sums/{number}.json", json.dumps(kept).encode() + b"\n")

    def closed(self, step: int) -> None:
        """Note that a step is closed: nothing that comes later belongs to it.

        Parameters
        ----------
        step : int
            Which step.
        """
        self._append({"event": "closed", "step": step})

    def failed(self, reason: str) -> None:
        """Note that the round ended without a release.

        Parameters
        ----------
        reason : str
            Why.
        """
        self._append({"event": "failed", "reason": reason})

    def released(self, release: Release) -> None:
        """Keep the release.

        Parameters
        ----------
        release : Release
            What the round ended with.
        """
        self._write("recorded", "record.json", encode(release))
        self._write("released", "release.json", encode(release.public()))

    def stored(self, agents: Sequence[str], reason: str = "") -> None:
        """Note which agents acknowledged that they have the release.

        Parameters
        ----------
        agents : sequence of str
            Their names.
        reason : str, optional
            Why it was not handed over to its end.
        """
        why = {"reason": reason} if reason else {}
        self._append({"event": "stored", "agents": list(agents), **why})

    def _write(self, event: str, name: str, data: bytes, **more: object) -> None:
        """Write a file, then the line that speaks of it."""
        write_atomic(self.folder / name, data)
        self._append({"event": event, **more, "file": name, "sha256": sha256(data).hexdigest()})

    def _append(self, entry: Mapping[str, object]) -> None:
        """Add a line that holds the digest of the one before."""
        line = json.dumps({**entry, "previous": self._last}).encode()
        append_line(self.folder / LOG, line)
        self._last = sha256(line + b"\n").hexdigest()


def _make(folder: Path) -> None:
    """Make a folder of the record."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror}") from None


def with_reasons(release: Release, reasons: Mapping[str, str]) -> Release:
    """Return a release whose unused agents are refused for a reason, or missing.

    Parameters
    ----------
    release : Release
        As the server computed it.
    reasons : mapping of str to str
        Why agents were refused.

    Returns
    -------
    Release
        The same with every reason.
    """

    def _named(record: AgentRecord) -> AgentRecord:
        """Give one agent its reason."""
        if record.status == "used":
            return record
        reason = reasons.get(record.name, record.reason)
        return replace(record, status="refused" if reason else "missing", reason=reason)

    return replace(release, agents=tuple(_named(record) for record in release.agents))
