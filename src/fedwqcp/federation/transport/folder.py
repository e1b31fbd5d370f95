"""Messages as small readable files, carried by whatever carries files.

The server writes ``round.json``. Each agent writes one answer. The server closes the round with
the answers it was given and writes ``release.json`` for everyone and ``record.json`` for itself.
Methods of several steps go on with ``ask-1.json``, ``ask-2.json``, ...: closing the round again
with all answers so far takes the next step. Every file is written whole or not at all, and running
a step twice changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedwqcp.errors import InputError, MessageError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.files import read, write_atomic
from fedwqcp.federation.server import Server
from fedwqcp.federation.store import load
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round


@dataclass(frozen=True)
class Closed:
    """Where a round stands after its answers were read.

    Parameters
    ----------
    release : Release or None
        What the round ended with; None while it goes on.
    asks : tuple of Path
        The next questions, where it goes on.
    refusals : tuple of MessageError
        What was refused, with the reason.
    already : bool
        Whether the round had been closed before; then no file was read.
    """

    release: Release | None
    asks: tuple[Path, ...] = ()
    refusals: tuple[MessageError, ...] = ()
    already: bool = False


def open_round(round: Round, path: Path) -> None:
    """Write the terms of a round.

    Parameters
    ----------
    round : Round
        The terms.
    path : Path
        Where; an existing file is never replaced.

    Raises
    ------
    InputError
        If the file exists.
    """
    if path.exists():
        raise InputError(f"{path} exists; a round is opened once: choose another --out")
    Server(round)  # refuses terms that nobody could follow
    write_atomic(path, encode(round))


def read_round(path: Path) -> Round:
    """Read the terms of a round.

    Parameters
    ----------
    path : Path
        What `open_round` wrote.

    Returns
    -------
    Round
        The terms.

    Raises
    ------
    MalformedMessageError
        If the file holds no sound round.
    """
    return decode(read(path), Round, source=str(path))


def write_answer(agent: Agent, path: Path, ask: Path | None = None) -> bool:
    """Write an agent's answer, ready to be read before it is sent.

    An answer that is there already is kept: a second one with fresh noise would tell more.

    Parameters
    ----------
    agent : Agent
        The agent.
    path : Path
        Where.
    ask : Path, optional
        The question; the first one of a round needs none.

    Returns
    -------
    bool
        True if it was written, False if the same step's answer was there.

    Raises
    ------
    InputError
        If another file is in the way.
    """
    question = None if ask is None else read(ask)
    step = 0 if question is None else decode(question, Ask, agent.plan.kinds, str(ask)).step
    if path.exists():
        there = _answer(agent.plan.kinds, path)
        round = agent.plan.round.id
        if there and (there.round, there.step, there.agent) == (round, step, agent.name):
            return False
        raise InputError(f"{path} exists and is no answer to this question: choose another --out")
    write_atomic(path, agent.answer(question))
    return True


def close_round(round: Round, answers: Sequence[Path], out: Path) -> Closed:
    """Read the answers, take the steps they allow, and release where the dialogue ends.

    Parameters
    ----------
    round : Round
        The terms.
    answers : sequence of Path
        Files of agents, of all steps so far, in any order of steps; of two answers of one agent to
        one step the first given stands.
    out : Path
        Where the release goes; the record and further questions go beside it.

    Returns
    -------
    Closed
        The release, or the next questions.

    Raises
    ------
    QuorumError
        If too few agents answered soundly; nothing is written then.
    InputError
        If the release of another round is in the way.
    """
    if out.exists():
        release = load(out)
        if release.round != round:
            raise InputError(f"{out} belongs to another round: choose another --out")
        return Closed(release, already=True)
    server = Server(round)
    files = [(_sender(path, round), read(path)) for path in answers]
    steps = [_step(server, data) for _, data in files]
    while not server.ended:
        asks = server.asks()
        of_step = [f for f, step in zip(files, steps, strict=True) if step == server.step]
        if server.step and not of_step:
            return Closed(None, _write_asks(server.step, asks, out), tuple(server.refusals))
        for source, data in of_step:
            server.receive(data, source)
        server.close_step()
    release = server.release()
    write_atomic(out.with_name("record.json"), encode(release))
    write_atomic(out, encode(release.public()))
    return Closed(release, (), tuple(server.refusals))


def _write_asks(step: int, asks: dict[str, bytes], out: Path) -> tuple[Path, ...]:
    """Write the next questions: one file where all agents are asked the same."""
    if len(set(asks.values())) == 1:
        named = {out.with_name(f"ask-{step}.json"): next(iter(asks.values()))}
    else:
        named = {out.with_name(f"ask-{step}.{name}.json"): ask for name, ask in asks.items()}
    for path, ask in named.items():
        write_atomic(path, ask)
    return tuple(named)


def _step(server: Server, data: bytes) -> int:
    """Return the step that an answer belongs to; what cannot be read counts for the first."""
    try:
        return decode(data, Answer, server.plan.kinds).step
    except MessageError:
        return 0


def _answer(kinds: tuple[type, ...], path: Path) -> Answer | None:
    """Return the answer that a file holds, if it holds one."""
    try:
        return decode(read(path), Answer, kinds)
    except MessageError:
        return None


def _sender(path: Path, round: Round) -> str:
    """Return whom a file's name speaks of: an agent of the roster, or just the file."""
    name = re.sub(r"\.step-\d+$", "", path.stem)
    return name if name in round.agents else path.name
