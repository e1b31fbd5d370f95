"""Messages as small readable files, carried by whatever carries files.

The server writes ``round.json``. Each agent writes one answer. The server closes the round with
the answers it was given and writes ``round.record.json``, which it keeps, and ``release.json`` for
everyone. A round that has a record is closed: the answers that it was closed with give the same
record once more, and others are refused. Every file is written whole or not at all, and running a
command twice changes nothing. Methods that ask more than once are for engines.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from fedwqcp._io import (
    check_file_name,
    exists,
    in_folder,
    is_absent,
    is_folder,
    locked,
    read,
    same_file,
    same_name,
    write_atomic,
)
from fedwqcp._validation import named
from fedwqcp.errors import (
    InputError,
    MalformedMessageError,
    MessageError,
    WrongRoundError,
)
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.audit import difference
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release
from fedwqcp.federation.server import Server
from fedwqcp.wire.codec import MAX_BYTES, decode, encode, holds, mistaken_for
from fedwqcp.wire.messages import Answer, Round


@dataclass(frozen=True)
class ClosedRound:
    """What a round that was closed gave.

    ``already``: the round had been closed before, and the answers give its record once more.
    ``replaced``: another file stood in the place of the release.
    ``lost``: agents of the roster that were refused.
    ``repeated``: files with an answer that another file holds as well; it counts once.
    """

    release: Release
    refusals: tuple[MessageError, ...] = ()
    already: bool = False
    replaced: bool = False
    lost: tuple[str, ...] = ()
    repeated: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _AnswerFile:
    """A file that should hold an answer: whose it seems to be, and its sender.

    ``data`` is the answer as an agent writes it, so that equal answers are equal bytes in whatever
    form a file has them; of what is no answer the file's own bytes.
    """

    file: Path
    source: str | Path
    data: bytes
    agent: str | Path
    unread: MessageError | None = None


def open_round(round: Round, path: Path) -> None:
    """Write the terms of a round; an existing file is never replaced."""
    check_file_name(path)
    _check_one_step(round)  # refuses terms that nobody could follow
    taken = {file.name.casefold() for file in (path, record_file(path))}
    for name in round.agents:
        file = f"{name}.json".casefold()
        if file in taken or re.match(r"(round|release)[.]", file):
            raise InputError(
                f"agent {name!r}: {name}.json, its answer, would have the name of one of the "
                "round's own files: give the agent another name, or choose another --out"
            )
    with locked(path.parent):
        if exists(record_file(path)):
            raise InputError(
                f"{record_file(path)} is left over from an earlier round, and would be taken for "
                "this one's: move it away, or choose another --out"
            )
        if not write_atomic(path, encode(round), replace=False, shared=True):
            raise InputError(f"{path} exists; a round is opened once: choose another --out")


def _check_one_step(round: Round) -> None:
    """Refuse a method that asks its agents more than once."""
    method = Plan.of(round).method
    steps = sum(often for _, often in method.schedule(len(round.agents), round.n_classes))
    if steps > 1:
        raise InputError(
            f"{round.method.name} with these settings asks up to {steps} times, by files an agent "
            "answers once: hold the round over an engine, or choose another method or --setting "
            "(fcp: sketch=order)",
            field="method",
        )


def read_round(path: Path) -> Round:
    """Read the terms of a round."""
    data = read(path)
    kind = mistaken_for("round", data)
    if kind is None and not data.lstrip().startswith(b"{"):
        kind = "a roster" if path.suffix == ".toml" else "another kind of file"
    if kind is not None:
        raise InputError(
            f"{path} is {kind}, not a round: pass the file that `server open` wrote (round-ID.json)"
        )
    return decode(data, Round, source=path)


def write_answer(agent: Agent, path: Path) -> bool:
    """Write an agent's answer, ready to be read before it is sent.

    An answer that is there already is never replaced: one that differs may come from other data,
    and a second one with fresh noise would reveal more.
    """
    if agent.plan.round.secure is not None:
        raise InputError("the terms say that this round is secure: its answers go under masks")
    if agent.plan.round.roster is not None:
        raise InputError(
            "this round holds a digest in place of its agents' names and keys; by files a round "
            "names them all, so that a site sees who takes part: ask the server for that file"
        )
    _check_one_step(agent.plan.round)
    answer = agent.answer()
    with locked(path.parent):
        if write_atomic(path, answer, replace=False):
            return True
    if read(path) == answer:
        return False
    raise InputError(
        f"{path} exists and is another answer or file; if the data were corrected, delete it "
        "and answer again, or choose another --out"
    )


def close_round(path: Path, answers: Sequence[Path], out: Path) -> ClosedRound:
    """Read the answers, and release the thresholds.

    The same answer given twice, spaced alike or not, counts once; of different ones of an agent
    none counts, since files have no order. The record goes beside the round. Without a quorum
    nothing is written.
    """
    with locked(path.parent):
        round = read_round(path)
        _check_one_step(round)
        record = record_file(path)
        if _is_of_round(out, path):
            raise InputError(f"{out} is one of the round's own files: choose another --out")
        check_file_name(out)
        if exists(out) and load_release(out).round.id != round.id:
            raise InputError(f"{out} belongs to another round: choose another --out")
        server, already = Server(round), exists(record)
        replies, repeated = _without_copies([_read_answer(file, server) for file in answers])
        _admit(server, replies)
        release = server.release()
        if already:  # nothing in the record is believed: who can write it can write a release too
            release = replace(release, provenance=load_release(record).provenance)
            kept = load_release(record).agents
            used = [agent.name for agent in kept if agent.status == "used"]
            if gone := [name for name in used if release.status(name) == "no answer"]:
                raise InputError(
                    f"{record}: this round was closed with an answer of {named(gone)} that is not "
                    "among these: give it again, or open a new round"
                )
            if why := difference(release, read(record)):
                raise InputError(
                    f"{record}: this round is closed, and the answers do not give its record: "
                    f"{why}; to count others, open a new round"
                )
        elif not write_atomic(record, encode(release), replace=False):  # now it is closed
            raise InputError(f"{record} cannot be written: something is in its place")
        replaced, refusals = _released(release, out), tuple(server.refusals)
        return ClosedRound(release, refusals, already, replaced, server.lost, repeated)


def _without_copies(
    replies: Sequence[_AnswerFile],
) -> tuple[list[_AnswerFile], tuple[Path, ...]]:
    """Return each answer once, and the files that hold one of them once more.

    What is named after another agent than its sender is no copy: it is refused.
    """
    seen: dict[tuple[str | Path, str | Path, bytes], _AnswerFile] = {}
    copies = []
    for reply in replies:
        whose = reply.agent if isinstance(reply.source, Path) else reply.source
        key = whose, reply.agent, reply.data
        if key in seen:
            copies.append(reply.file)
        else:
            seen[key] = reply
    return list(seen.values()), tuple(copies)


def answer_files(round: Path, given: Sequence[Path], out: Path) -> list[Path]:
    """Return the files of answers; of a folder all that it holds but the round's own."""
    answers: list[Path] = []
    for path in given:
        if not is_folder(path):
            answers.append(path)
            continue
        files = [
            file
            for file in in_folder(path, "*.json")
            if not same_file(file, out) and not _is_of_round(file, round) and not _is_sent(file)
        ]
        if not files:
            raise InputError(f"{path} must hold answers, files that end in .json; it holds none")
        answers += files
    return answers


def _is_sent(file: Path) -> bool:
    """Tell whether a file is a round or a release, such as the copy that an agent was sent."""
    try:
        return holds(read(file)) in ("round", "release")
    except InputError:  # refused by its name when answers are read
        return False


def default_name(round: Round, what: str, *, agent: str = "", end: str = ".json") -> Path:
    """Return a file name that ends with the round's id, so that no other round has it."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", round.id):
        raise InputError(
            f"the id of a round has letters, digits, '_' and '-' only, got {round.id!r}: choose "
            "--out, and ask the server for another round"
        )
    return Path("-".join(part for part in (what, agent, round.id) if part) + end)


def _admit(server: Server, replies: Sequence[_AnswerFile]) -> None:
    """Hand the answers to the server, and close its step; of different sound ones none counts."""
    if server.ended:  # nobody was asked
        why = f"{server.round.method.name} asks for no answers"
        for reply in replies:
            server.refuse(reply.unread or WrongRoundError(reply.agent, "step", why))
        return
    server.asks()
    several = Counter(reply.agent for reply in replies)
    sound = [
        reply
        for reply in replies
        if several[reply.agent] > 1 and server.admissible(reply.data, reply.source) is not None
    ]
    different = Counter(reply.agent for reply in sound)  # copies were taken out before
    for agent, count in different.items():
        if count > 1:
            why = "gave different answers to one question, and nothing says which one counts"
            server.refuse(WrongRoundError(agent, "agent", why), proved=True)
    for reply in replies:
        if reply.unread is not None:
            server.refuse(reply.unread)
        elif (count := different[reply.agent]) > 1 and reply in sound:
            why = f"is one of {count} different answers of agent {reply.agent!r}: give one alone"
            server.refuse(WrongRoundError(reply.file, "agent", why))
        else:
            server.receive(reply.data, reply.source)
    server.close_step()


def record_file(round: Path) -> Path:
    """Return where the record of a round lies."""
    return round.with_suffix(".record.json")


def _is_of_round(file: Path, round: Path) -> bool:
    """Tell whether a name is that of the terms or the record of a round."""
    return any(same_name(file, other) for other in (round, record_file(round)))


def _released(release: Release, out: Path) -> bool:
    """Write the release for the agents; tell whether it replaced another file."""
    data = encode(release.public())
    there = exists(out)
    other = there and read(out) != data
    if other or not there:
        write_atomic(out, data, shared=True)
    return other


def _read_answer(path: Path, server: Server) -> _AnswerFile:
    """Read one answer; the server refuses what cannot be read."""
    if is_absent(path):
        raise InputError(f"cannot read {path}: there is no such file")
    source = _sender(path, server.round)
    try:
        data = read(path, MAX_BYTES)
    except InputError as error:
        unread: MessageError | None = MalformedMessageError(source, "file", error.reason)
        return _AnswerFile(path, source, b"", source, unread)
    try:
        answer = decode(data, Answer, server.plan.kinds)
        written = encode(answer)
    except Exception:  # the server reads it again, and refuses it by name
        kind = mistaken_for("answer", data)
        why = f"must be an agent's answer, which `agent calibrate` wrote; it is {kind}"
        unread = MalformedMessageError(source, "message", why) if kind else None
        return _AnswerFile(path, source, data, source, unread)
    return _AnswerFile(path, source, written, answer.agent)


def _sender(path: Path, round: Round) -> str | Path:
    """Return the agent that a file is named after; the file's own name where no agent has it."""
    stem = unicodedata.normalize("NFC", path.stem)  # some systems keep names in another form
    name = stem.removesuffix(f"-{round.id}")
    return name if round.expects(name) else Path(path.name)
