"""The recomputation of a release by anyone who holds the record of its round."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fedwqcp._io import LOG_BYTES, from_json, is_file, is_folder, read
from fedwqcp.errors import FedwqcpError, RecordError
from fedwqcp.federation.predict import other_terms
from fedwqcp.federation.record import (
    LOG,
    START,
    Accepted,
    Closed,
    Failed,
    FileLine,
    LogLine,
    MaskedTotals,
    Missing,
    Recorded,
    Refused,
    Released,
    Stored,
    line_bytes,
    load_release,
    with_reasons,
)
from fedwqcp.federation.release import Release
from fedwqcp.federation.secure import replay_sums
from fedwqcp.federation.server import Server
from fedwqcp.wire.codec import MAX_BYTES, decode, encode
from fedwqcp.wire.messages import Round

_RELEASES = ("record.json", "release.json")
"""Files of a round that ended with a release."""
_STOPPED = (
    "interrupted: the round still runs, or its coordinator was stopped (a log whose last lines "
    "were cut off looks the same); keep the folder, and start the round again"
)


@dataclass(frozen=True)
class Audit:
    """What a recomputation found.

    Parameters
    ----------
    difference : str
        The first difference between record and recomputation; empty where there is none.
    answers : int
        How many accepted answers were read.
    release : Release or None
        The release as recomputed.
    sums : int
        Of a secure round, how many sums were read in place of answers.
    failed : str
        Why the round ended without a release, as the server states; empty where there is one.
    missing : dict of str to str
        Why nothing of an agent came, as the server states.
    """

    difference: str
    answers: int = 0
    release: Release | None = None
    sums: int = 0
    failed: str = ""
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def matches(self) -> bool:
        """Whether the record is whole and gives the release that was sent."""
        return not self.difference


def audit(folder: Path, terms: Round | None = None) -> Audit:
    """Recompute a release from the answers that were accepted, and say what differs.

    ``terms`` are those that an agent answered; a record of others differs. Without them the record
    says itself whether its answers are signed, and with which keys.
    """
    if is_file(folder):
        try:
            kept = load_release(folder)
            _check_answered(kept.round, terms, folder.name)
            return _from_first_answers(kept, folder)
        except FedwqcpError as error:
            return Audit(str(error))
    if is_folder(folder) and not is_file(folder / LOG):
        return Audit(f"{LOG}: is missing: restore it, or move away what is no record of a round")
    log = read(folder / LOG, LOG_BYTES)
    try:
        lines = list(_lines(folder, log))
        if _is_stopped(folder, lines):
            lines.append(Failed(reason=_STOPPED))
        else:
            _check_end(lines, log)
        round = decode(read(folder / "round.json"), Round, source=Path("round.json"))
        _check_answered(round, terms, "round.json")
        return _recomputed(folder, round, lines)
    except FedwqcpError as error:
        return Audit(str(error))


def _from_first_answers(kept: Release, path: Path) -> Audit:
    """Admit the first answers of a record again, signatures too, and combine them."""
    name, server = path.name, Server(kept.round)
    server.asks()
    for agent, answers in kept.received.items():
        signature = next(iter(kept.signatures.get(agent, ())), "")
        answer = server.plan.answer(agent, answers, signature=signature)
        refusal = server.receive(encode(answer), agent)
        if refusal is not None:
            return Audit(f"{name}: {refusal}")
    if not server.ended:
        server.close_step()
    ours = _with_recorded_facts(server.release(), kept)
    other = difference(ours, read(path))
    return Audit(f"{name}: {other}" if other else "", len(kept.received), ours)


def _with_recorded_facts(ours: Release, kept: Release) -> Release:
    """Copy from the record what no answer shows: why agents were refused, and the bytes sent."""
    ours = with_reasons(ours, kept.refused)
    agents = zip(ours.agents, kept.agents, strict=True)
    bounded = (
        replace(our, bytes_up=their.bytes_up) if 0 <= their.bytes_up <= MAX_BYTES else our
        for our, their in agents
    )
    return replace(ours, agents=tuple(bounded), provenance=kept.provenance)


def _lines(folder: Path, log: bytes) -> Iterator[LogLine]:
    """Read the log, and check its digests of the line before and of each file that it names."""
    previous = START
    for number, data in enumerate(log.splitlines(keepends=True), start=1):
        line: LogLine | None = from_json(data, LogLine)  # type: ignore[arg-type]  # a union
        if line is None:
            raise RecordError(f"{LOG}, line {number}: cannot be read")
        if line.previous != previous:
            raise RecordError(f"{LOG}, line {number}: does not follow from the line before")
        if isinstance(line, FileLine):
            _check_file(folder, line.file, line.sha256)
        previous = sha256(data).hexdigest()
        yield line


def _is_stopped(folder: Path, lines: list[LogLine]) -> bool:
    """Tell whether a log breaks off before there was a release."""
    ended = not lines or isinstance(lines[-1], Failed | Stored)
    return not ended and not any(is_file(folder / name) for name in _RELEASES)


def _check_end(lines: list[LogLine], log: bytes) -> None:
    """Refuse a log whose last lines are missing, which the chain of digests does not show."""
    last = lines[-1] if lines else None
    whole = {Recorded, Released} <= {type(line) for line in lines}
    if not isinstance(last, Failed) and not (isinstance(last, Stored) and whole):
        event = "nothing" if last is None else last.__struct_config__.tag
        raise RecordError(
            f"{LOG}: must end with who stored the release, or why there is none; it ends with "
            f"{event!r}: the round has not ended, its coordinator was stopped, or lines were cut "
            "off"
        )
    # No digest covers the last line, so it must at least be as a server writes it.
    if not log.endswith(b"\n" + line_bytes(last)):
        raise RecordError(f"{LOG}, line {len(lines)}: is not as a server writes it")


def _check_stored(lines: list[LogLine], round: Round) -> None:
    """Refuse a list of who stored the release that names an agent twice, or one of no roster."""
    for names in (line.agents for line in lines if isinstance(line, Stored)):
        if len(set(names)) != len(names) or not set(names) <= set(round.agents):
            raise RecordError(f"{LOG}: those who stored the release must be agents, each once")


def _check_file(folder: Path, name: str, digest: str) -> None:
    """Refuse a file that is not the one of the log, or lies outside the record."""
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, or a name that no file has
        raise RecordError(f"{name!a}: cannot be read") from None
    if not inside:
        raise RecordError(f"{name}: must lie in the folder of the record")
    if sha256(read(path)).hexdigest() != digest:
        raise RecordError(f"{name}: is not the file that the log names")


def _check_answered(round: Round, terms: Round | None, name: str) -> None:
    """Refuse a record whose terms, public keys included, are not those that agents answered."""
    if terms is not None and (other := other_terms(round, terms)):
        raise RecordError(f"{name}: {', '.join(other)}: not as in the round that was answered")


def _recomputed(folder: Path, round: Round, lines: list[LogLine]) -> Audit:
    """Run the round again on the accepted answers, and compare the release with the record."""
    _check_stored(lines, round)
    server = Server(round)
    reasons: dict[str, str] = {}
    missing: dict[str, str] = {}
    answers = 0
    server.asks()
    for line in lines:
        if server.ended and isinstance(line, Accepted | Closed):
            raise RecordError(f"{LOG}: goes on after the last step")
        if isinstance(line, Refused):
            reasons[line.agent] = line.reason
        elif isinstance(line, Missing):
            missing[line.agent] = line.reason
        elif isinstance(line, Accepted):
            refusal = server.receive(read(folder / line.file), line.agent)
            if refusal is not None:
                return Audit(f"{line.file}: was accepted, and would be refused: {refusal}")
            answers += 1
        elif isinstance(line, Closed):
            server.close_step()
            server.asks()
        elif isinstance(line, Failed):
            if any(is_file(folder / name) for name in _RELEASES):
                raise RecordError(f"{LOG}: ends without a release, and there is one")
            return Audit(
                f"the round ended without a release: {line.reason}", answers, failed=line.reason
            )
    kept = [line.file for line in lines if isinstance(line, MaskedTotals)]
    sums = len(kept)
    release = with_reasons(replay_sums(folder, round, kept) if sums else server.release(), reasons)
    made = from_json(read(folder / "record.json"), _Made)
    release = replace(release, provenance={} if made is None else made.provenance)
    for name, ours in (("record.json", release), ("release.json", release.public())):
        if other := difference(ours, read(folder / name)):
            return Audit(f"{name}: {other}", answers, release, sums)
    return Audit("", answers, release, sums, missing=missing)


class _Made(msgspec.Struct):
    """When and with which software a release was made: the server's word."""

    provenance: dict[str, str] = {}


def difference(ours: Release, kept: bytes) -> str:
    """Return the first place where a stored release is not the recomputed one; empty if none."""
    try:
        theirs = json.loads(kept)
    except (ValueError, RecursionError):
        return "cannot be read"
    text = _difference(json.loads(encode(ours)), theirs, "")
    return re.sub(r"^(outcomes\[\d+\]\.values?\b[^:]*):", r"threshold (\1):", text)


def _difference(ours: Any, theirs: Any, path: str) -> str:
    """Return the first place where two JSON values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        both = [key for key in ours if key in theirs]
        alone = dict.fromkeys(ours, "is missing") | dict.fromkeys(theirs, "must not be there")
        differences: Iterator[str] = chain(
            (_difference(ours[key], theirs[key], f"{path}.{key}") for key in both),
            (f"{path}.{key}".lstrip(".") + f": {alone[key]}" for key in alone if key not in both),
        )
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        differences = (
            _difference(o, t, f"{path}[{o.get('name', i) if isinstance(o, dict) else i}]")
            for i, (o, t) in enumerate(zip(ours, theirs, strict=True))
        )
    else:
        same = ours == theirs and type(ours) is type(theirs)
        values = f"recomputed {reprlib.repr(ours)}, the record says {reprlib.repr(theirs)}"
        return "" if same else f"{path.lstrip('.')}: {values}"
    return next((difference for difference in differences if difference), "")
