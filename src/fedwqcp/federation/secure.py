"""Secure aggregation: rounds in which the server learns sums over the agents, and nothing else.

An agent turns its answer into whole numbers modulo 2^32, its words (`words_of`). The words leave
it under masks that cancel in the sum over all agents. `SecureServer` sees only the totals. Like
`Server` it does no input or output: a transport gives each agent what `SecureServer.ask` returns,
adds the masked words and hands the totals to `SecureServer.receive`, until the round has ended.
Over Flower, SecAgg+ does so; `run_sums` does it without masks, for agents of one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import shake_256
from math import isfinite
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from fedwqcp import methods
from fedwqcp._io import from_json, read
from fedwqcp._validation import fits
from fedwqcp.errors import InputError, QuorumError, RecordError, WrongRoundError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, stamp
from fedwqcp.federation.release import Release
from fedwqcp.federation.server import TaskDialogue
from fedwqcp.methods import MODULUS, FixedPoint, Summed, Total
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Answer, Ask, Begin, Question, Round, SharedThresholdWithin
from fedwqcp.wire.release import AgentRecord
from fedwqcp.words.rounds import accuracy

Words: TypeAlias = npt.NDArray[np.int64]
"""Whole numbers modulo 2^32."""
MIN_MASKED_AGENTS = 3
"""Fewest agents of a masked sum: with two, each would know the other's number."""


# The terms of a secure round.


def secure_round(round: Round, secure: bool | tuple[float, float] = True) -> Round:
    """Return a round with secure aggregation; `secure` is the range of its thresholds.

    True takes the score's own range. The range is one of the terms: agents answer for no other.
    """
    plan = Plan.of(round)
    low, high = plan.bounds
    if not isinstance(secure, bool):
        if not fits(secure, tuple[float, ...]) or len(secure) != 2:
            raise InputError(f"secure must be True, or two numbers (low, high), got {secure!r}")
        low, high = max(low, secure[0]), min(high, secure[1])
    _summed_method(plan)
    if not (isfinite(low) and isfinite(high)):
        raise InputError(
            f"{round.score.name} has no finite range, and masked sums need one: state bounds "
            "that every agent's threshold keeps, such as secure=(-50, 50)"
        )
    ranged = replace(round, secure=(float(low), float(high)))
    scale_of(Plan.of(ranged))
    return ranged


def scale_of(plan: Plan) -> FixedPoint:
    """Return how the numbers of a round become words, with as many bits as the roster allows."""
    _summed_method(plan)
    round = plan.round
    if round.quorum < MIN_MASKED_AGENTS:
        raise InputError(
            f"a secure round needs at least {MIN_MASKED_AGENTS} agents, got {round.quorum}: with "
            "two, each would know the other's number",
            field="quorum",
        )
    if round.secure is None:
        raise InputError(
            "the terms of a secure round state the range of its thresholds", field="secure"
        )
    low, high = round.secure
    return FixedPoint(low, high, round.max_n, len(round.agents))


def _summed_method(plan: Plan) -> Summed:
    """Return the method of a round, if its server needs no more than sums."""
    method, name = plan.method, plan.round.method.name
    if plan.round.by is not None:
        raise InputError("a secure round has one threshold for all groups: leave `by` out")
    if plan.round.signed:
        raise InputError(
            "a secure round cannot require signatures: an agent's numbers leave it under masks, "
            "and no signature of theirs can be checked; leave the keys out"
        )
    if isinstance(method, Summed) and method.traits.maskable:
        return method
    fit = [known for known in methods.available() if issubclass(methods.find(known), Summed)]
    what = f"{name} with these settings" if isinstance(method, Summed) else name
    raise InputError(
        f"{what} cannot be secure: masks hide every single value, and it does more than add them "
        f"up. Methods that can: {', '.join(fit)} (fcp with sketch='bisection'; means "
        "with overflow='propagate' or 'clip')"
    )


# What an agent adds to a sum.


def plain_ask(plan: Plan, ask: bytes) -> bytes | None:
    """Return the question of a sum as a plain round puts it; None for the first one."""
    asked = _asked(plan, ask)
    first = all(isinstance(question, Begin) for question in asked.questions)
    return None if first else ask


def words_of(plan: Plan, ask: bytes, answer: bytes) -> tuple[int, ...]:
    """Return the words of an agent's answer to `plain_ask`; only their masked form may leave it.

    Raises `OutOfRangeError` if its sample size or threshold lies outside the round's range.
    """
    method, scale = _summed_method(plan), scale_of(plan)
    answers = decode(answer, Answer, plan.kinds, "own").answers
    return tuple(
        word
        for summary, question in zip(answers, _asked(plan, ask).questions, strict=True)
        if summary is not None and question is not None
        for word in method.words(summary, question, scale)
    )


def words_out_of_range(plan: Plan, ask: bytes) -> tuple[int, ...]:
    """Return the words of an agent whose numbers lie outside the round's range.

    They are masked like any others, so nobody else learns which agent added them.
    """
    method = _summed_method(plan)
    questions = _asked(plan, ask).questions
    return tuple(
        word for question in questions if question for word in method.out_of_range(question)
    )


def _asked(plan: Plan, ask: bytes) -> Ask:
    """Read the questions of a sum."""
    asked = decode(ask, Ask, plan.kinds, "server")
    if asked.round != plan.round.id or len(asked.questions) != len(plan.tasks):
        raise WrongRoundError("server", "round", f"the question is not of round {plan.round.id}")
    return asked


# The server, which sees the totals.


class SecureServer:
    """The server of a secure round: it sees the totals of each sum and no agent's own numbers."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scale = scale_of(plan)
        self.sums = 0
        self.used: tuple[str, ...] = ()
        self._method = _summed_method(plan)
        self._begin()

    @property
    def ended(self) -> bool:
        """Whether every task has its outcome."""
        return all(task.outcome is not None for task in self._tasks)

    @property
    def width(self) -> int:
        """How many words the current sum has."""
        questions = (question for question in self._questions() if question)
        return sum(len(self._method.out_of_range(question)) for question in questions)

    def ask(self) -> bytes:
        """Return the encoded questions of the current sum, the same for every agent."""
        return encode(Ask(self.plan.round.id, self.sums, self._questions()))

    def receive(self, agents: Sequence[str], totals: Sequence[int]) -> None:
        """Take the totals over some agents, and go one step on.

        All sums of a round must be over the same agents. Where one was lost since the last sum,
        the dialogue begins again without it.
        """
        self.sums += 1
        heard = set(agents)
        present = tuple(name for name in self.plan.round.agents if name in heard)
        if len(present) < self.plan.round.quorum:
            raise QuorumError(
                f"{len(present)} of {len(self.plan.round.agents)} agents took part in the sum, the "
                f"round needs {self.plan.round.quorum}"
            )
        lost_one = bool(self.used) and present != self.used
        self.used = present
        if lost_one:
            self._begin()
            return
        start = 0
        for task in self._tasks:
            if task.question is not None:
                end = start + len(self._method.out_of_range(task.question))
                task.hear(Total(tuple(totals[start:end]), len(present)))
                start = end

    def release(self, rounds: int, up: Mapping[str, int], down: Mapping[str, int]) -> Release:
        """Return what the round ended with; the transport states its round trips and bytes."""

        def _record(name: str) -> AgentRecord:
            status: Literal["used", "missing"] = "used" if name in self.used else "missing"
            return AgentRecord(name, status, "", up.get(name, 0), down.get(name, 0))

        outcomes = tuple(task.outcome for task in self._tasks if task.outcome is not None)
        margin = max(o.margin if isinstance(o, SharedThresholdWithin) else 0.0 for o in outcomes)
        return Release(
            round=self.plan.round,
            guarantee=self.plan.method.guarantee,
            assumption=f"{self.plan.assumption}; {accuracy(self.sums, margin)}",
            rounds=rounds,
            agents=tuple(_record(name) for name in self.plan.round.agents),
            outcomes=outcomes,
            provenance=stamp(),
        )

    def _begin(self) -> None:
        self._tasks = [
            TaskDialogue(self._method.from_sums(task.alpha, self.scale)) for task in self.plan.tasks
        ]

    def _questions(self) -> tuple[Question | None, ...]:
        return tuple(task.question for task in self._tasks)


def mask_stream(seed: bytes, count: int) -> Words:
    """Return the mask of a secret seed: SHAKE-256 of the whole seed, read as words."""
    digest = shake_256(b"fedwqcp mask" + seed).digest(4 * count)
    return np.frombuffer(digest, dtype="<u4").astype(np.int64)


def sum_words(vectors: npt.ArrayLike) -> tuple[int, ...]:
    """Add the words of some agents modulo 2^32."""
    return tuple((np.asarray(vectors, dtype=np.int64).sum(axis=0) % MODULUS).tolist())


def run_sums(server: SecureServer, agents: Mapping[str, Agent]) -> Release:
    """Hold a round with agents of this process, from which masks would hide nothing.

    Each sum is one round trip of four bytes a word.
    """
    up, down = dict.fromkeys(agents, 0), dict.fromkeys(agents, 0)
    while not server.ended:
        ask, vectors = server.ask(), []
        for name, agent in agents.items():
            try:
                words = words_of(agent.plan, ask, agent.answer(plain_ask(agent.plan, ask)))
            except InputError as error:
                raise error.within(f"agent {name!r}") from None
            vectors.append(words)
            up[name] += 4 * len(words)
            down[name] += len(ask)
        server.receive(tuple(agents), sum_words(vectors))
    return server.release(server.sums, up, down)


# The audit: the release again, from the sums that the server recorded.


class _RecordedSum(msgspec.Struct):
    """One sum as `Ledger.summed` writes it."""

    agents: list[str]
    totals: list[Annotated[int, msgspec.Meta(ge=0, lt=MODULUS)]]


def replay_sums(folder: Path, round: Round, files: Sequence[str]) -> Release:
    """Compute the release of a secure round again from its record, given the files of its sums.

    Round trips and bytes are taken from the record: sums do not show them.
    """
    plan = Plan.of(round)
    server = SecureServer(plan)
    for file in files:
        recorded = from_json(read(folder / file), _RecordedSum)
        if recorded is None:
            raise RecordError(f"{file}: must hold agents and their totals modulo 2^32")
        if server.ended:
            raise RecordError(f"{file}: comes after the last step")
        if len(recorded.totals) != server.width:
            raise RecordError(f"{file}: must hold {server.width} sums")
        server.receive(recorded.agents, recorded.totals)
    if not server.ended:
        raise RecordError("sums: are missing from the record")
    stated = decode(read(folder / "record.json"), Release, plan.kinds, Path("record.json"))
    up = {name: stated.bytes_up(name) for name in round.agents}
    down = {name: stated.bytes_down(name) for name in round.agents}
    return server.release(stated.rounds, up, down)
