"""The server of a round: it admits answers, keeps the quorum and releases thresholds.

It does no input or output of its own. A transport sends what `asks` gives, hands what comes back to
`receive`, and calls `close_step`, until `ended`.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from fedwqcp._validation import named
from fedwqcp.errors import (
    INTERNAL,
    FedwqcpError,
    ImplausibleValueError,
    InputError,
    MalformedMessageError,
    MessageError,
    QuorumError,
    RoundError,
    WrongRoundError,
    internal,
    traced,
)
from fedwqcp.federation.plan import Plan, stamp
from fedwqcp.federation.release import Release
from fedwqcp.federation.signing import check_signature, ed25519
from fedwqcp.methods import PerAgentQuestions, UnfitAnswerError
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Answer, Ask, Outcome, Question, Round, SharedThreshold, Summary
from fedwqcp.wire.release import AgentRecord

_log = logging.getLogger("fedwqcp")

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(slots=True)
class _AgentState:
    """The state of one agent: its first and last answer, and the step of the last.

    ``bound`` is what its earlier answers commit the later ones to, for each task (`Method.check`).
    ``proved``: the refused message is known to be the agent's own, by its signature where answers
    are signed.
    """

    refusal: MessageError | None = None
    proved: bool = False
    step: int = -1
    first: tuple[Summary | None, ...] = ()
    last: tuple[Summary | None, ...] = ()
    bound: tuple[Any, ...] = ()
    bytes_up: int = 0
    bytes_down: int = 0
    signatures: tuple[str, ...] = ()


class Server:
    """The side of the dialogue that sees only summaries."""

    def __init__(self, round: Round | Plan) -> None:
        self.plan = round if isinstance(round, Plan) else Plan.of(round)
        self.round = self.plan.round
        if self.round.keys:
            ed25519()  # a missing extra is no fault of an answer
        self.step = 0
        self.refusals: list[MessageError] = []
        self._states = {name: _AgentState() for name in self.round.agents}
        self._positions = {
            name: position for position, name in enumerate(self.round.agents)
        }  # who takes part
        self._dialogue = _Dialogue(self.plan)
        self._encoded: tuple[int, tuple[Question | None, ...], bytes] | None = None

    @property
    def ended(self) -> bool:
        """Whether the round has its outcome."""
        return self._dialogue.ended

    @property
    def lost(self) -> tuple[str, ...]:
        """The agents that take no further part because what they sent was refused."""
        states = self._states.items()
        return tuple(n for n, state in states if state.refusal and n not in self._positions)

    def asks(self) -> dict[str, bytes]:
        """Return the encoded question for each agent that takes part.

        In the first step this is the round itself: its terms imply the first question.
        """
        if self.ended:
            return {}
        messages = {}
        first = encode(self.round.brief()) if self.step == 0 else None
        for name, position in self._positions.items():
            messages[name] = first or self._ask(position)
            self._states[name].bytes_down += len(messages[name])
        return messages

    def receive(self, data: bytes, sender: str | Path) -> MessageError | None:
        """Admit an answer, or record and return why it is refused; a refusal never stops the round.

        ``sender`` is the agent that sent it, and the answer must name the same one; or its file,
        where the transport does not know the agent. What nobody foresaw is a refusal too, with the
        field ``internal``.
        """
        proved = False
        try:
            answer = decode(data, Answer, self.plan.kinds, sender)
            sender = answer.agent if isinstance(sender, Path) else sender
            state = self._check_sender(answer, sender)
            proved = True
            bound = self._admit(answer, state)
        except MessageError as refusal:
            return self.refuse(refusal, proved=proved)
        except Exception as error:
            _log.error("an answer of %r was refused: %s", str(sender), traced(error))
            return self.refuse(internal(sender, error), proved=proved)
        state.step, state.last, state.bound = self.step, answer.answers, bound
        if self.step == 0:
            state.first = answer.answers
        if answer.signature:
            state.signatures += (answer.signature,)
        state.bytes_up += len(data)
        return None

    def admissible(self, data: bytes, sender: str | Path) -> Answer | None:
        """Return the answer that `receive` would admit now, or None; nothing is recorded."""
        try:
            answer = decode(data, Answer, self.plan.kinds, sender)
            named = answer.agent if isinstance(sender, Path) else sender
            self._admit(answer, self._check_sender(answer, named))
        except Exception:  # `receive` says why
            return None
        return answer

    def refuse(self, refusal: MessageError, *, proved: bool = False) -> MessageError:
        """Record a refusal, for the agent it names if that has no sound answer in this step.

        Where answers are signed, one that is not ``proved`` to be the agent's own may be anybody's:
        the agent then counts as missing.
        """
        self.refusals.append(refusal)
        proved = proved or not self.round.keys
        if refusal.agent in self._positions and not refusal.from_file:
            state = self._states[refusal.agent]
            if self.step != state.step and (proved or not state.proved):
                state.refusal, state.proved = refusal, proved
        return refusal

    def close_step(self) -> None:
        """Go on with the answers that came, if they are enough.

        An agent without a sound answer takes no further part, and neither does one whose answer
        does not fit. Where one is lost so, the dialogue begins again without it, on the first
        answers of the others.
        """
        there = [name for name in self._positions if self.step == self._states[name].step]
        anew = self.step > 0 and len(there) < len(self._positions)
        while True:
            if len(there) < len(self._positions):
                self._positions = {name: position for position, name in enumerate(there)}
            if len(there) < self.round.quorum:
                raise QuorumError(self._no_quorum())
            if anew:
                self._dialogue = _Dialogue(self.plan)
            states = [self._states[name] for name in there]
            try:
                self._dialogue.hear([state.first if anew else state.last for state in states])
                break
            except UnfitAnswerError as error:
                name = there.pop(error.position)
                self._lose(MalformedMessageError(name, "answers", str(error)))
                anew = True
            except QuorumError:  # the answers together cannot keep the promise: none is at fault
                raise
            except Exception as error:
                first = anew or self.step == 0  # a later answer cannot be tried alone
                for position in self._at_fault(states if first else (), error):
                    self._lose(internal(there.pop(position), error))
                anew = True
        self.step += 1

    def release(self) -> Release:
        """Return what the round ended with, and what each used agent sent first, for the record."""
        if not self.ended:
            raise QuorumError("the round has not ended: answers of this step are still to come")
        used = {name: self._states[name] for name in self._positions}
        return Release(
            round=self.round,
            guarantee=self.plan.method.guarantee,
            assumption=self.plan.assumption,
            rounds=self.step,
            agents=tuple([self._record(name) for name in self.round.agents]),
            outcomes=self._dialogue.outcomes,
            received={name: state.first for name, state in used.items() if state.first},
            absent=self._absent(),
            provenance=stamp(),
            signatures={n: state.signatures for n, state in used.items() if self.round.keys},
        )

    def _absent(self) -> dict[str, tuple[str, ...]]:
        """Return who took no part in each group, by its name."""
        used, absent = list(self._positions), {}
        for number, task in enumerate(self.plan.tasks):
            there = self._dialogue.places[number]
            if there is not None and task.group is not None:
                out = tuple(name for position, name in enumerate(used) if position not in there)
                absent[self.round.group_names[task.group]] = out
        return absent

    def _check_sender(self, answer: Answer, sender: str) -> _AgentState:
        """Refuse an answer of another agent or other terms, or without its agent's signature."""
        agent = answer.agent
        state = self._states.get(agent)
        if state is None:
            raise WrongRoundError(agent, "agent", "is not in the roster of this round")
        if agent != sender:
            raise WrongRoundError(sender, "agent", f"the message names {agent!r} as its sender")
        _check_terms(answer, self.plan, self.step)
        if agent not in self._positions:
            raise WrongRoundError(agent, "agent", "takes no further part in this round")
        asked = self._ask(self._positions[agent]) if self.round.keys and self.step else b""
        check_signature(answer, self.plan, asked)
        return state

    def _admit(self, answer: Answer, state: _AgentState) -> tuple[Any, ...]:
        """Check an answer against the agent's earlier ones; return what binds later ones."""
        agent = answer.agent
        if self.step == state.step:
            raise WrongRoundError(agent, "agent", "has already answered; the first answer stands")
        questions = self._dialogue.questions(self._positions[agent])
        return check_answers(answer, self.plan, questions, state.bound)

    def _lose(self, refusal: MessageError) -> None:
        """Record that an answer was admitted, but does not fit the others."""
        self.refusals.append(refusal)
        state = self._states[refusal.agent]
        state.refusal, state.proved = refusal, True

    def _at_fault(self, states: Sequence[_AgentState], error: Exception) -> list[int]:
        """Return the places, last one first, of agents whose first answer fails even alone.

        Where all or none do, no agent can be named, and the round ends.
        """
        _log.error("the answers could not be combined: %s", traced(error))
        positions = [position for position, state in enumerate(states) if self._fails_alone(state)]
        if 0 < len(positions) < len(states):
            return positions[::-1]
        if isinstance(error, FedwqcpError):
            raise error
        raise RoundError(
            f"{INTERNAL}: {type(error).__name__} while the answers were combined, and no single "
            "answer is the cause: please report this"
        ) from error

    def _fails_alone(self, state: _AgentState) -> bool:
        """Tell whether a dialogue with one agent fails on its first answer."""
        try:
            _Dialogue(self.plan).hear([state.first])
        except Exception as error:
            return not isinstance(error, UnfitAnswerError)
        return False

    def _ask(self, position: int) -> bytes:
        """Encode what one agent is asked after the first step, once if all are asked the same."""
        questions, last = self._dialogue.questions(position), self._encoded
        if last is None or last[0] != self.step or last[1] is not questions:
            data = encode(Ask(self.round.id, self.step, questions))
            self._encoded = last = self.step, questions, data
        return last[2]

    def _record(self, name: str) -> AgentRecord:
        """Return what became of one agent."""
        state = self._states[name]
        if name in self._positions:
            status: Literal["used", "not asked"] = "used" if self.step else "not asked"
            return AgentRecord(name, status, "", state.bytes_up, state.bytes_down)
        if state.refusal is None or not state.proved:
            return AgentRecord(name, "missing", "", state.bytes_up, state.bytes_down)
        reason = f"{state.refusal.field}: {state.refusal.reason}"
        return AgentRecord(name, "refused", reason, state.bytes_up, state.bytes_down)

    def _no_quorum(self) -> str:
        """Say who is missing and why."""
        known, lost = self._states, self.lost
        others = [
            refusal for refusal in self.refusals if refusal.from_file or refusal.agent not in known
        ]
        reasons = [*(known[name].refusal for name in lost), *others]
        refused = dict.fromkeys(f"{r.agent} ({r.field}: {r.reason})" for r in reasons if r)
        heard = {*self._positions, *lost}
        silent = [name for name in known if name not in heard]
        parts = [("refused", list(refused)), ("no valid answer", silent)]
        reasons_text = "; ".join(f"{what}: {named(names, 12)}" for what, names in parts if names)
        return (
            f"{len(self._positions)} of {len(self._states)} agents sent a valid answer, the round "
            f"needs {self.round.quorum}; {reasons_text}"
        )


_TERMS = ("version", "round", "method", "score", "alpha", "terms", "step")


def _check_terms(answer: Answer, plan: Plan, step: int) -> None:
    """Refuse an answer that was made for other terms or another step."""
    a, r = answer, plan.round
    made_for = (a.version, a.round, a.method, a.score, a.alphas, a.terms, a.step)
    uses = (r.version, r.id, r.method.name, r.score.name, r.alphas, plan.terms, step)
    if made_for == uses:
        return
    for what, ours, theirs in zip(_TERMS, uses, made_for, strict=True):
        if ours != theirs:
            raise WrongRoundError(
                answer.agent,
                what,
                f"this round uses {_quoted(ours)}, the message was made for {_quoted(theirs)}: "
                "calibrate again with this round's file",
            )


def check_answers(
    answer: Answer,
    plan: Plan,
    questions: tuple[Question | None, ...],
    earlier: tuple[Any, ...] = (),
) -> tuple[Any, ...]:
    """Refuse answers that do not fit their questions, or claim numbers out of bounds.

    ``earlier`` is, for each task, what binds the agent since its last answer (`Method.check`); what
    binds its later answers is returned.
    """
    answers = answer.answers
    fits = [*map(bool, answers)] == [*map(bool, questions)]
    if not fits and not (answer.step == 0 and _leaves_groups_out(answers, plan)):
        raise MalformedMessageError(
            answer.agent, "answers", "must hold one summary for each question"
        )
    bound = list(earlier) or [None] * len(answers)
    for task, summary in enumerate(answers):
        question = questions[task]
        if summary is None or question is None:
            continue
        _check_claims(answer.agent, plan, summary)
        try:
            bound[task] = plan.method.check(question, summary, bound[task], plan.task_terms[task])
        except InputError as error:
            field = error.field or "answers"
            raise ImplausibleValueError(answer.agent, field, error.reason) from None
    return tuple(bound)


def _leaves_groups_out(answers: tuple[Summary | None, ...], plan: Plan) -> bool:
    """Tell whether answers are missing for whole groups only, of which the agent has no point."""
    if plan.round.by is None or len(answers) != len(plan.tasks):
        return False
    left_out = {
        (task.group, answer is None) for task, answer in zip(plan.tasks, answers, strict=True)
    }
    return len(left_out) == len(plan.round.group_names)


def _check_claims(agent: str, plan: Plan, summary: Summary) -> None:
    """Refuse sizes and scores beyond the round's bounds."""
    low, high = plan.bounds
    most = plan.round.max_n
    for n in summary.sizes():
        if n > most:
            raise ImplausibleValueError(agent, "n", f"must be an integer from 0 to {most}")
    for score in summary.scores():
        if not (low <= score <= high or score == inf):
            raise ImplausibleValueError(
                agent, "threshold", f"must lie between {low:g} and {high:g}, or be +inf"
            )


def _quoted(value: object) -> str:
    """Write a term for people."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


class TaskDialogue(Generic[Q, A]):
    """The dialogue of one task: the question that is open, and the outcome once it has ended."""

    def __init__(self, exchange: Generator[Q, A, Outcome]) -> None:
        self.question: Q | None = None
        self.outcome: Outcome | None = None
        self._exchange = exchange
        self.hear(None)

    def hear(self, answers: A | None) -> None:
        """Take the answers (None: begin), and go on to the next question or the outcome."""
        try:
            self.question = self._exchange.send(answers)  # type: ignore[arg-type]  # None begins
        except StopIteration as end:
            self.question, self.outcome = None, end.value


class _Dialogue:
    """The dialogues of all tasks of a round; each step asks those that have not ended."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tasks: list[TaskDialogue[Question | PerAgentQuestions, Sequence[Any]]] = [
            TaskDialogue(plan.method.exchange(task.alpha)) for task in plan.tasks
        ]
        # for each task, who takes part in it and their places among the answers; None for all
        self.places: list[dict[int, int] | None] = [None] * len(plan.tasks)
        self._share()

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of all tasks, once the dialogue has ended."""
        return tuple([task.outcome for task in self._tasks if task.outcome is not None])

    def questions(self, position: int) -> tuple[Question | None, ...]:
        """Return what one agent is asked now."""
        if self._same is not None:
            return self._same
        return tuple(self._question(number, position) for number in range(len(self._tasks)))

    def _question(self, number: int, position: int) -> Question | None:
        """Return what one agent is asked in one task."""
        ask, places = self._tasks[number].question, self.places[number]
        if places is not None and position not in places:
            return None
        if isinstance(ask, PerAgentQuestions):
            return ask.questions[position if places is None else places[position]]
        return ask

    def _share(self) -> None:
        """Keep the questions once where all agents get the same: there may be a million agents."""
        asks = tuple([task.question for task in self._tasks])
        self.ended = asks.count(None) == len(asks)  # every task has its outcome
        differ = PerAgentQuestions in map(type, asks) or self.places.count(None) < len(asks)
        self._same: tuple[Question | None, ...] | None = None if differ else asks  # type: ignore[assignment]  # of all agents

    def hear(self, answers: Sequence[tuple[Summary | None, ...]]) -> None:
        """Take the answers of all agents and go one step on."""
        for number, task in enumerate(self._tasks):
            if task.question is not None:
                self._hear(number, [answer[number] for answer in answers])
        self._share()

    def _hear(self, number: int, answers: Sequence[Summary | None]) -> None:
        """Go one step on in one task, with those who take part in it."""
        task = self._tasks[number]
        there: Sequence[int] = range(len(answers))
        if self._plan.round.by is not None and any(answer is None for answer in answers):
            there = [position for position, answer in enumerate(answers) if answer is not None]
            self.places[number] = {position: number for number, position in enumerate(there)}
            if not there:  # nobody has a point of the group: nothing can be excluded
                task.question, task.outcome = None, SharedThreshold(inf)
                return
        heard = [answers[position] for position in there]
        absent = len(self._plan.round.agents) - len(heard)
        if (stand_in := self._plan.traits.absent) is not None:
            heard += [stand_in] * absent
        try:
            task.hear(heard)
        except UnfitAnswerError as error:
            raise UnfitAnswerError(there[error.position], str(error)) from None
