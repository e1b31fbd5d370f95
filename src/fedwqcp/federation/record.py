"""The server's record of a round, written while it runs.

A record is a folder: ``round.json``, ``answers/step-K/AGENT.json`` exactly as they came (in a
secure round ``sums/K.json``, since the server has no more than totals),
``record.json`` and ``release.json`` at the end, and ``log.jsonl``, which only grows: each line
holds the digest of the line before it and of the file it speaks of. No line holds the last one,
who acknowledged the release: that is the server's word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from fedwqcp import methods
from fedwqcp._io import LOG_BYTES, append_line, exists, make_folder, read, to_json, write_atomic
from fedwqcp._validation import checked
from fedwqcp.errors import InputError, MalformedMessageError, RecordError
from fedwqcp.federation.plan import Plan, kinds_of
from fedwqcp.federation.release import Release
from fedwqcp.serve.predictor import is_predictor
from fedwqcp.serve.predictor import parse as parse_predictor
from fedwqcp.wire.codec import decode, encode, method_of
from fedwqcp.wire.messages import Round, SharedThreshold
from fedwqcp.wire.release import AgentRecord

LOG = "log.jsonl"
"""Name of the log within a record."""
START = "0" * 64
"""What the first line of a log says of the line before it."""


@checked
def save(release: Release, path: str | Path) -> None:
    """Write a release to a file, whole or not at all.

    The file also holds what every agent sent, and is for its owner alone. For sites, save
    ``release.public()``, which others can read as far as the umask lets them.

    Parameters
    ----------
    release : Release
        What a round ended with. What agents of this process found for themselves (``local``) is
        not written: an agent takes such a threshold from its own data, never from a file.
    path : str or Path
        Where; an existing file is replaced.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    data = encode(replace(release, local={}))
    write_atomic(Path(path), data, shared=not release.received)


@checked
def load(path: str | Path) -> Any:
    """Read a release, or a site's predictor, from a file.

    Parameters
    ----------
    path : str or Path
        A file that `save`, a server or `Predictor.save` wrote.

    Returns
    -------
    Release or Predictor
        Whichever the file holds.

    Raises
    ------
    InputError
        If there is no such file.
    RecordError
        If it is damaged, of another version or an unknown method, or holds what no round of its
        method ends with.
    """
    data = read(Path(path))
    return parse_predictor(data, str(path)) if is_predictor(data) else parse(data, str(path))


def load_release(path: Path) -> Release:
    """Read a release from a file; anything else, a predictor too, is refused."""
    return parse(read(path), str(path))


def parse(data: bytes, source: str) -> Release:
    """Read a release that someone handed over."""
    try:
        method = methods.find(method_of(data, source))
    except InputError as error:
        raise RecordError(f"{source}: {error}") from None
    try:
        release = decode(data, Release, kinds_of(method), source)
    except MalformedMessageError as error:
        raise RecordError(f"{source} is damaged: {error.field}: {error.reason}") from None
    _check(release, source)
    return release


class Ledger:
    """The record of one round, written while it runs, in a folder that holds none yet.

    Without a folder nothing is kept.
    """

    def __init__(self, folder: Path | None, round: Round) -> None:
        if folder is not None and exists(folder / LOG):
            raise InputError(f"{folder} holds the record of a round already: choose another folder")
        self.folder = folder
        self._last = START
        self._write(Opened, "round.json", encode(round))

    @classmethod
    def reopened(cls, folder: Path, round: Round) -> Ledger:
        """Go on with a record that ended."""
        ledger = cls(None, round)
        ledger.folder = folder
        last = read(folder / LOG, LOG_BYTES).splitlines(keepends=True)[-1]
        ledger._last = sha256(last).hexdigest()
        return ledger

    def accepted(self, step: int, agent: str, data: bytes) -> None:
        """Keep an answer that was admitted."""
        name = f"answers/step-{step}/{agent}.json"
        self._write(Accepted, name, data, step=step, agent=agent)

    def refused(self, step: int, agent: str, reason: str, node: str = "") -> None:
        """Note that something of an agent was refused, and where an engine had it from."""
        self._append(Refused(step=step, agent=agent, reason=reason, node=node))

    def missing(self, step: int, agent: str, reason: str, node: str = "") -> None:
        """Note that a node brought no answer of an agent, or that no node answered for it."""
        self._append(Missing(step=step, agent=agent, reason=reason, node=node))

    def summed(self, number: int, agents: Sequence[str], totals: Sequence[int]) -> None:
        """Keep the totals of one masked sum."""
        kept = {"agents": [*agents], "totals": [*totals]}
        self._write(MaskedTotals, f"sums/{number}.json", to_json(kept))

    def closed(self, step: int) -> None:
        """Note that a step is closed: nothing that comes later belongs to it."""
        self._append(Closed(step=step))

    def failed(self, reason: str) -> None:
        """Note that the round ended without a release."""
        self._append(Failed(reason=reason))

    def released(self, release: Release) -> None:
        """Keep the release."""
        self._write(Recorded, "record.json", encode(release))
        self._write(Released, "release.json", encode(release.public()))

    def stored(self, agents: Sequence[str], reason: str = "") -> None:
        """Note which agents acknowledged that they have the release."""
        self._append(Stored(agents=tuple(agents), reason=reason))

    def _write(self, kind: Callable[..., LogLine], name: str, data: bytes, **more: object) -> None:
        """Write a file, then the line that speaks of it."""
        if self.folder is None:
            return
        make_folder((self.folder / name).parent)
        write_atomic(self.folder / name, data)
        self._append(kind(file=name, sha256=sha256(data).hexdigest(), **more))

    def _append(self, line: LogLine) -> None:
        """Add a line that holds the digest of the one before."""
        if self.folder is None:
            return
        data = line_bytes(replace(line, previous=self._last))
        append_line(self.folder / LOG, data.removesuffix(b"\n"))
        self._last = sha256(data).hexdigest()


class _Line(
    msgspec.Struct, kw_only=True, tag_field="event", omit_defaults=True, forbid_unknown_fields=True
):
    """A line of the log; ``previous`` is the digest of the line before."""

    previous: str = ""


class FileLine(_Line):
    """A line that speaks of a file, with the digest of its bytes."""

    file: str
    sha256: str


class Opened(FileLine, tag="opened"):
    """The terms."""


class Accepted(FileLine, tag="accepted"):
    """An answer that was admitted."""

    step: int
    agent: str


class _NoAnswer(_Line):
    """An answer that does not count, and the node of an engine that it came from."""

    step: int
    agent: str
    reason: str
    node: str = ""


class Refused(_NoAnswer, tag="refused"):
    """Something of an agent that was refused."""


class Missing(_NoAnswer, tag="missing"):
    """An answer that did not come: a node that brought none, or an agent without a node.

    Where nobody prescribed which agent the node is, the name is the operator's for the node.
    """


class MaskedTotals(FileLine, tag="summed"):
    """The totals of one masked sum."""


class Closed(_Line, tag="closed"):
    """A step that was closed."""

    step: int


class Failed(_Line, tag="failed"):
    """A round that ended without a release."""

    reason: str


class Recorded(FileLine, tag="recorded"):
    """The server's own record."""


class Released(FileLine, tag="released"):
    """The release as agents get it."""


class Stored(_Line, tag="stored"):
    """Who acknowledged the release, and why not everybody."""

    agents: tuple[str, ...]
    reason: str = ""


LogLine: TypeAlias = (
    Opened
    | Accepted
    | Refused
    | Missing
    | MaskedTotals
    | Closed
    | Failed
    | Recorded
    | Released
    | Stored
)
"""Every line that a log may hold."""


def line_bytes(line: LogLine) -> bytes:
    """Return a line as a server writes it."""
    return msgspec.json.format(msgspec.json.encode(line), indent=0) + b"\n"


def with_reasons(release: Release, reasons: Mapping[str, str]) -> Release:
    """Return a release whose unused agents are refused for a reason, or missing."""

    def _named(record: AgentRecord) -> AgentRecord:
        if record.status in ("used", "not asked"):
            return record
        reason = reasons.get(record.name, record.reason)
        return replace(record, status="refused" if reason else "missing", reason=reason)

    return replace(release, agents=tuple(_named(record) for record in release.agents))


def _check(release: Release, source: str) -> None:
    """Refuse a release that no server of this method can have made."""
    if release.local:
        raise RecordError(
            f"{source}: local: must be empty: an agent takes a threshold of its own from its own "
            "calibration data, never from a file"
        )
    try:
        plan = Plan.of(release.round)
    except InputError as error:
        raise RecordError(f"{source}: {error}") from None
    guarantee, tasks = plan.method.guarantee, len(plan.tasks)
    if len(release.outcomes) != tasks:
        raise RecordError(
            f"{source}: outcomes: must be {tasks}, one for each level, group and column of the "
            f"score, got {len(release.outcomes)}"
        )
    if release.guarantee != guarantee:
        raise RecordError(
            f"{source}: guarantee: {release.round.method.name} with these settings has "
            f"'{guarantee}', the release says '{release.guarantee}': it was changed"
        )
    for task, outcome in enumerate(release.outcomes):
        nobody_has_points = release.round.by is not None and outcome == SharedThreshold(inf)
        if type(outcome) not in plan.method.outcomes and not nobody_has_points:
            known = ", ".join(kind.kind for kind in plan.method.outcomes)
            raise RecordError(
                f"{source}: outcomes: must be of the kinds that {release.round.method.name} ends "
                f"with ({known}), got {getattr(outcome, 'kind', 'none')!r}"
            )
        there = release.count_in(task)
        if outcome.agents not in (None, there):
            raise RecordError(
                f"{source}: outcomes: must hold one threshold for each of {there} agents, got "
                f"{outcome.agents}"
            )
        if plan.traits.floors and outcome.threshold(0) not in (None, inf):
            raise RecordError(
                f"{source}: outcomes: {release.round.method.name} leaves thresholds to the agents"
            )
