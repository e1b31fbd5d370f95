"""Messages as small readable files, carried by whatever carries files.

The server writes ``round.json``. Each agent writes one answer. The server closes the round with
the answers it was given and writes ``round.record.json``, which it keeps, and ``release.json`` for
everyone. A round that has a record is closed: the answers that it was closed with give the same
record once more, and others are refused. Methods of several steps
go on with ``round.ask-1.json``, ``round.ask-2.json``, ...: closing the round again with the answers
of all steps so far takes the next step. Every file is written whole or not at all, and running a
step twice changes nothing. ``round.closed-0.json`` and so on keep the digests of the answers that a
step was closed with: what comes later is refused by name, and changes no question.
"""

from __future__ import annotations

import glob
import re
import unicodedata
from collections.abc import Container, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from fedwqcp._io import (
    check_file_name,
    exists,
    from_json,
    in_folder,
    is_absent,
    is_folder,
    locked,
    read,
    same_file,
    same_name,
    to_json,
    write_atomic,
)
from fedwqcp._validation import shown
from fedwqcp.errors import (
    InputError,
    MalformedMessageError,
    MessageError,
    QuorumError,
    RecordError,
    WrongRoundError,
)
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.audit import difference
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release
from fedwqcp.federation.server import Server
from fedwqcp.wire.codec import MAX_BYTES, decode, encode, holds, mistaken_for
from fedwqcp.wire.messages import Answer, Ask, Round

_CLOSED = "this round is closed, and the answers do not give its record"


@dataclass(frozen=True)
class ClosedStep:
    """Where a round stands after its answers were read: a release, or the next questions.

    ``already``: the round had been closed before, and the answers give its record once more.
    ``replaced``: another file stood in the place of the release.
    ``lost``: agents of the roster that were refused, and take no further part.
    ``repeated``: files with an answer that another file holds as well; it counts once.
    """

    release: Release | None
    asks: tuple[Path, ...] = ()
    refusals: tuple[MessageError, ...] = ()
    already: bool = False
    replaced: bool = False
    lost: tuple[str, ...] = ()
    repeated: tuple[Path, ...] = ()


@dataclass(frozen=True)
class _AnswerFile:
    """A file that should hold an answer: whose it seems to be, its step and sender.

    ``data`` is the answer as an agent writes it, so that equal answers are equal bytes in whatever
    form a file has them; of what is no answer the file's own bytes.
    """

    file: Path
    source: str | Path
    data: bytes
    step: int
    agent: str | Path
    unread: MessageError | None = None

    @property
    def digest(self) -> str:
        """The digest by which a closed step knows its answers."""
        return sha256(self.data).hexdigest()


def open_round(round: Round, path: Path) -> None:
    """Write the terms of a round; an existing file is never replaced."""
    check_file_name(path)
    Server(round)  # refuses terms that nobody could follow
    taken = {file.name.casefold() for file in (path, record_file(path))}
    for name in round.agents:
        file = f"{name}.json".casefold()
        if file in taken or re.match(r"(round|release)[.]", file) or _is_step(file, path):
            raise InputError(
                f"agent {name!r}: {name}.json, its answer, would have the name of one of the "
                "round's own files: give the agent another name, or choose another --out"
            )
    with locked(path.parent):
        steps = [f"{glob.escape(path.stem)}.{what}-*" for what in ("ask", "closed")]
        left = [file for pattern in steps for file in in_folder(path.parent, pattern)]
        for other in (record_file(path), *left):
            if exists(other):
                raise InputError(
                    f"{other} is left over from an earlier round, and would be taken for this "
                    "one's: move it away, or choose another --out"
                )
        if not write_atomic(path, encode(round), replace=False, shared=True):
            raise InputError(f"{path} exists; a round is opened once: choose another --out")


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


def write_answer(agent: Agent, path: Path, ask: Path | None = None) -> bool:
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
    _step_of(agent, ask)
    answer = agent.answer(None if ask is None else read(ask))
    with locked(path.parent):
        if write_atomic(path, answer, replace=False):
            return True
    if read(path) == answer:
        return False
    raise InputError(
        f"{path} exists and is another answer or file; if the data were corrected, delete it "
        "and answer again, or choose another --out"
    )


def answer_name(agent: Agent, ask: Path | None = None) -> Path:
    """Return the name of an agent's answer: one for each step, whatever the question's file is."""
    step = _step_of(agent, ask)
    end = f".step-{step}.json" if step else ".json"
    return default_name(agent.plan.round, agent.name, end=end)


def close_round(path: Path, answers: Sequence[Path], out: Path) -> ClosedStep:
    """Read the answers, take the steps they allow, and release where the dialogue ends.

    The answers are those of all steps so far. The same answer given twice, spaced alike or not,
    counts once; of different ones of an agent to one step none counts, since files have no order.
    The record and further questions go beside the round. Without a quorum nothing is written.
    """
    with locked(path.parent):
        round = read_round(path)
        record = record_file(path)
        if _is_of_round(out, path):
            raise InputError(f"{out} is one of the round's own files: choose another --out")
        check_file_name(out)
        if exists(out) and load_release(out).round.id != round.id:
            raise InputError(f"{out} belongs to another round: choose another --out")
        server = Server(round)
        replies, repeated = _without_copies([_read_answer(file, server) for file in answers])
        already, counted = exists(record), list[str]()
        asks = _take_steps(path, server, replies, counted)
        if asks is not None:
            if already:
                raise InputError(f"{record}: {_CLOSED}: no answer to step {server.step} is given")
            closed = path.with_suffix(f".closed-{server.step - 1}.json")
            write_atomic(closed, to_json(sorted(counted), indent=1), replace=False)
            for file, ask in asks.items():  # what is there already is the same
                write_atomic(file, ask, shared=True)
            refusals = tuple(server.refusals)
            return ClosedStep(None, tuple(asks), refusals, lost=server.lost, repeated=repeated)
        release = server.release()
        if already:  # nothing in the record is believed: who can write it can write a release too
            release = replace(release, provenance=load_release(record).provenance)
            if why := difference(release, read(record)):
                raise InputError(f"{record}: {_CLOSED}: {why}; to count others, open a new round")
        elif not write_atomic(record, encode(release), replace=False):  # now it is closed
            raise InputError(f"{record} cannot be written: something is in its place")
        replaced = _released(release, out)
        refusals = tuple(server.refusals)
        return ClosedStep(release, (), refusals, already, replaced, server.lost, repeated)


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


def _take_steps(
    path: Path, server: Server, replies: Sequence[_AnswerFile], counted: list[str]
) -> dict[Path, bytes] | None:
    """Take the steps that the answers allow; return the next questions, or None at the end."""
    seen: set[_AnswerFile] = set()
    while not server.ended:
        asks = server.asks()
        now = [reply for reply in replies if reply.step == server.step]
        if server.step:
            files = _ask_files(path, server.step, asks)
            asked = all(exists(file) for file in files)
            _check_unchanged(files)
            if not asked or not now:
                for reply in () if asked else replies:  # nobody can answer what was not asked
                    if reply.step >= server.step and reply not in seen:
                        why = (
                            f"answers question {shown(reply.step)}, and question {server.step} is "
                            "sent only now"
                        )
                        server.refuse(WrongRoundError(reply.agent, "step", why))
                return files
        if not now and any(reply.step > 0 for reply in replies):
            raise QuorumError(f"no answer to step {server.step}: pass the answers of all steps")
        seen.update(now)
        now = _in_time(path, server, now)
        heard = {reply.agent for reply in now}
        others = [reply for reply in replies if reply.agent not in heard and reply not in seen]
        unasked = [reply for reply in others if not 0 <= reply.step <= server.step]
        seen.update(unasked)
        for reply in (*now, *unasked):  # what is of no step so far is refused by name
            if reply.unread is not None:
                server.refuse(reply.unread)
                continue
            if server.receive(reply.data, reply.source) is None:
                counted.append(reply.digest)
        server.close_step()
    for reply in replies:
        if reply not in seen:
            server.refuse(reply.unread or _unasked(reply, server))
    return None


def _step_of(agent: Agent, ask: Path | None) -> int:
    """Return the step that a file asks; a name that says another is refused.

    What a round may learn is counted by steps, so that one of them has one question.
    """
    if ask is None:
        return 0
    step = decode(read(ask), Ask, agent.plan.kinds, ask).step
    named = re.search(r"\.ask-(\d+)", ask.name)
    if named is not None and int(named[1]) != step:
        raise WrongRoundError(
            ask, "step", f"the question is of step {step}, its file is named as of {named[1]}"
        )
    return step


def record_file(round: Path) -> Path:
    """Return where the record of a round lies."""
    return round.with_suffix(".record.json")


def _is_of_round(file: Path, round: Path) -> bool:
    """Tell whether a name is that of the terms, the record, a question or a step of a round."""
    files = round, record_file(round)
    return _is_step(file.name, round) or any(same_name(file, other) for other in files)


def _is_step(name: str, round: Path) -> bool:
    """Tell whether a name is that of a question, or of what a step was closed with."""
    steps = rf"{re.escape(round.stem)}\.(ask|closed)-\d+(\..*)?\.json"
    return re.fullmatch(steps, name, re.IGNORECASE) is not None


def _released(release: Release, out: Path) -> bool:
    """Write the release for the agents; tell whether it replaced another file."""
    data = encode(release.public())
    there = exists(out)
    other = there and read(out) != data
    if other or not there:
        write_atomic(out, data, shared=True)
    return other


def _ask_files(round: Path, step: int, asks: dict[str, bytes]) -> dict[Path, bytes]:
    """Return the files of a step's questions: one where all agents are asked the same."""
    if len(set(asks.values())) == 1:
        return {round.with_suffix(f".ask-{step}.json"): next(iter(asks.values()))}
    return {round.with_suffix(f".ask-{step}.{name}.json"): ask for name, ask in asks.items()}


def _check_unchanged(asks: dict[Path, bytes]) -> None:
    """Refuse to go on where a question that was sent would change."""
    for path, ask in asks.items():
        if exists(path) and read(path) != ask:
            raise InputError(
                f"{path} was written before and would change: an answer to an earlier step came "
                "late; close with the answers that were there then"
            )


def _in_time(round: Path, server: Server, replies: list[_AnswerFile]) -> list[_AnswerFile]:
    """Refuse answers that came after their step was closed; the next question leaves them out."""
    closed = round.with_suffix(f".closed-{server.step}.json")
    if not exists(closed):
        return _unambiguous(server, replies)
    counted = from_json(read(closed), set[str])
    if counted is None:
        raise RecordError(f"{closed} is damaged: it must list the answers that counted; restore it")
    kept = []
    for reply in _unambiguous(server, replies, counted):
        # what is unsound was refused for that, in time or not, and is refused for it again
        if reply.digest in counted or server.admissible(reply.data, reply.source) is None:
            kept.append(reply)
            continue
        reason = f"came after step {server.step} was closed"
        server.refuse(WrongRoundError(reply.agent, "step", reason))
    return kept


def _unambiguous(
    server: Server, replies: list[_AnswerFile], counted: Container[str] = ()
) -> list[_AnswerFile]:
    """Refuse different sound answers of one agent to this step, unless one of them has counted."""
    given: dict[str | Path, list[_AnswerFile]] = {}
    for reply in replies:
        given.setdefault(reply.agent, []).append(reply)
    refused: set[_AnswerFile] = set()
    for agent, answers in given.items():
        if len(answers) == 1 or any(reply.digest in counted for reply in answers):
            continue
        sound = [
            reply for reply in answers if server.admissible(reply.data, reply.source) is not None
        ]
        if len(sound) < 2:  # copies were taken out before
            continue
        why = "gave different answers to one question, and nothing says which one counts"
        server.refuse(WrongRoundError(agent, "agent", why), proved=True)
        for reply in sound:
            why = f"is one of {len(sound)} different answers of agent {agent!r}: give one alone"
            server.refuse(WrongRoundError(reply.file, "agent", why))
        refused.update(sound)
    return [reply for reply in replies if reply not in refused]


def _unasked(reply: _AnswerFile, server: Server) -> WrongRoundError:
    """Say that an answer is to a question that the round never asked."""
    if isinstance(reply.agent, Path) or not server.round.expects(reply.agent):
        return WrongRoundError(reply.agent, "agent", "is not in the roster of this round")
    asked = f"only in {server.step} steps" if server.step else "for no answers"
    return WrongRoundError(reply.agent, "step", f"{server.round.method.name} asks {asked}")


def _read_answer(path: Path, server: Server) -> _AnswerFile:
    """Read one answer; what cannot be read counts for the first step, and is refused there."""
    if is_absent(path):
        raise InputError(f"cannot read {path}: there is no such file")
    source = _sender(path, server.round)
    try:
        data = read(path, MAX_BYTES)
    except InputError as error:
        field, why = "file", "must be a plain file that can be read"
        if error.field:
            field, why = "size", error.reason
        unread: MessageError | None = MalformedMessageError(source, field, why)
        return _AnswerFile(path, source, b"", 0, source, unread)
    try:
        answer = decode(data, Answer, server.plan.kinds)
        written = encode(answer)
    except Exception:  # the server reads it again, and refuses it by name
        kind = mistaken_for("answer", data)
        why = f"must be an agent's answer, which `agent calibrate` wrote; it is {kind}"
        unread = MalformedMessageError(source, "message", why) if kind else None
        return _AnswerFile(path, source, data, 0, source, unread)
    return _AnswerFile(path, source, written, answer.step, answer.agent)


def _sender(path: Path, round: Round) -> str | Path:
    """Return the agent that a file is named after; the file's own name where no agent has it."""
    stem = unicodedata.normalize("NFC", path.stem)  # some systems keep names in another form
    name = re.sub(r"\.step-\d+$", "", stem).removesuffix(f"-{round.id}")
    return name if round.expects(name) else Path(path.name)
