"""The server of a round: it admits answers, keeps the quorum and releases thresholds.

It does no input or output of its own. A transport sends what `asks` gives, hands what comes back to
`receive`, and calls `close_step`, until `ended`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from fedwqcp.errors import (
    ImplausibleValueError,
    MalformedMessageError,
    MessageError,
    QuorumError,
    WrongRoundError,
)
from fedwqcp.federation.dialogue import Dialogue
from fedwqcp.federation.plan import Plan
from fedwqcp.wire.codec import decode, encode, terms
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.payload import Summary
from fedwqcp.wire.release import AgentRecord, Release
from fedwqcp.wire.round import Round


@dataclass
class _Seat:
    """What is known of one agent of the roster."""

    taking_part: bool = True
    reason: str = ""
    answers: dict[int, Answer] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0


class Server:
    """The side of the dialogue that sees only summaries.

    Parameters
    ----------
    round : Round
        The terms.
    """

    def __init__(self, round: Round) -> None:
        self.round = round
        self.plan = Plan.of(round)
        self.step = 0
        self.refusals: list[MessageError] = []
        self._terms = terms(round)
        self._seats = {name: _Seat() for name in round.agents}
        self._dialogue = Dialogue(self.plan)

    @property
    def ended(self) -> bool:
        """Whether the round has its outcome."""
        return self._dialogue.ended

    def asks(self) -> dict[str, bytes]:
        """Return the encoded question for each agent that takes part.

        In the first step this is the round itself: its terms imply the first question.

        Returns
        -------
        dict
            By agent; empty once the round has ended.
        """
        if self.ended:
            return {}
        messages = {}
        for position, name in enumerate(self._taking_part()):
            messages[name] = self._ask(position)
            self._seats[name].bytes_down += len(messages[name])
        return messages

    def receive(self, data: bytes, source: str, sender: str | None = None) -> MessageError | None:
        """Admit an answer, or record why it is refused.

        Parameters
        ----------
        data : bytes
            What came.
        source : str
            What the transport calls it: the agent asked, or the name of a file.
        sender : str, optional
            Who sent it, where the transport knows; the answer must name the same agent.

        Returns
        -------
        MessageError or None
            The refusal, which never stops the round.
        """
        try:
            answer = decode(data, Answer, self.plan.kinds, source)
            self._admit(answer, sender)
        except MessageError as refusal:
            self.refusals.append(refusal)
            seat = self._seats.get(refusal.agent)
            if seat is not None and seat.taking_part and self.step not in seat.answers:
                seat.reason = f"{refusal.field}: {refusal.reason}"
            return refusal
        seat = self._seats[answer.agent]
        seat.answers[self.step] = answer
        seat.bytes_up += len(data)
        return None

    def close_step(self) -> None:
        """Go on with the answers that came, if they are enough.

        An agent without a sound answer takes no further part. Where one is lost after the first
        step, the dialogue begins again without it, on the first answers of the others.

        Raises
        ------
        QuorumError
            If fewer agents than the quorum answered soundly.
        """
        asked = self._taking_part()
        for name in asked:
            self._seats[name].taking_part = self.step in self._seats[name].answers
        there = self._taking_part()
        if len(there) < self.round.quorum:
            raise QuorumError(self._no_quorum(len(there)))
        if self.step and len(there) < len(asked):
            self._dialogue = Dialogue(self.plan)
            self._dialogue.hear([self._seats[name].answers[0].answers for name in there])
        else:
            self._dialogue.hear([self._seats[name].answers[self.step].answers for name in there])
        self.step += 1

    def release(self) -> Release:
        """Return what the round ended with.

        Returns
        -------
        Release
            With what each used agent sent first, for the server's own record.

        Raises
        ------
        QuorumError
            If the round has not ended.
        """
        if not self.ended:
            raise QuorumError("the round has not ended: answers of this step are still to come")
        received = {
            name: self._seats[name].answers[0].answers
            for name in self._taking_part()
            if 0 in self._seats[name].answers
        }
        return Release(
            round=self.round,
            guarantee=self.plan.method.guarantee,
            assumption=self.plan.method.assumption,
            rounds=self.step,
            agents=tuple(self._record(name) for name in self.round.agents),
            outcomes=self._dialogue.outcomes,
            received=received,
        )

    def _admit(self, answer: Answer, sender: str | None) -> None:
        """Hold an answer against the round; what fits its own type may still not belong here."""
        agent = answer.agent
        if agent not in self._seats:
            raise WrongRoundError(agent, "agent", "is not in the roster of this round")
        if sender is not None and agent != sender:
            raise WrongRoundError(sender, "agent", f"the message names {agent!r} as its sender")
        for what, ours, theirs in (
            ("version", self.round.version, answer.version),
            ("round", self.round.id, answer.round),
            ("method", self.round.method.name, answer.method),
            ("score", self.round.score.name, answer.score),
            ("alpha", _listed(self.round.alphas), _listed(answer.alphas)),
            ("terms", self._terms, answer.terms),
            ("step", self.step, answer.step),
        ):
            if ours != theirs:
                raise WrongRoundError(
                    agent, what, f"this round uses {ours}, the message was made for {theirs}"
                )
        if self.step in self._seats[agent].answers:
            raise WrongRoundError(agent, "agent", "has already answered; the first answer stands")
        if not self._seats[agent].taking_part:
            raise WrongRoundError(agent, "agent", "takes no further part in this round")
        questions = self._dialogue.questions(self._taking_part().index(agent))
        if [a is None for a in answer.answers] != [q is None for q in questions]:
            raise MalformedMessageError(agent, "answers", "must hold one summary for each question")
        for summary in answer.answers:
            if summary is not None:
                self._check_claims(agent, summary)

    def _check_claims(self, agent: str, summary: Summary) -> None:
        """Hold claimed sizes and scores against the round's bounds."""
        low, high = self.plan.bounds
        if any(n > self.round.max_n for n in summary.sizes()):
            raise ImplausibleValueError(
                agent, "n", f"must be an integer from 0 to {self.round.max_n}"
            )
        if not all(low <= score <= high or score == inf for score in summary.scores()):
            raise ImplausibleValueError(
                agent, "threshold", f"must lie between {low:g} and {high:g}, or be +inf"
            )

    def _ask(self, position: int) -> bytes:
        """Encode what one agent is sent in this step."""
        if self.step == 0:
            return encode(self.round)
        return encode(Ask(self.round.id, self.step, self._dialogue.questions(position)))

    def _taking_part(self) -> list[str]:
        """Return the agents still in the round, in the order of the roster."""
        return [name for name, seat in self._seats.items() if seat.taking_part]

    def _record(self, name: str) -> AgentRecord:
        """Return what became of one agent."""
        seat = self._seats[name]
        if seat.taking_part:
            return AgentRecord(name, "used", "", seat.bytes_up, seat.bytes_down)
        return AgentRecord(
            name,
            "refused" if seat.reason else "missing",
            seat.reason,
            seat.bytes_up,
            seat.bytes_down,
        )

    def _no_quorum(self, sound: int) -> str:
        """Say who is missing and why."""
        lost = [
            f"{name} ({seat.reason.partition(':')[0] or 'no answer'})"
            for name, seat in self._seats.items()
            if not seat.taking_part
        ]
        return (
            f"{sound} of {len(self._seats)} agents answered soundly, the round needs "
            f"{self.round.quorum}; refused: {', '.join(lost)}"
        )


def _listed(alphas: tuple[float, ...]) -> str:
    """Write levels for people."""
    return ", ".join(f"{alpha:g}" for alpha in alphas)
