"""Rounds in which the server hears sums over the agents and no agent's own numbers.

Like `Server`, nothing here does input or output. Whoever carries the sums gives each agent what
`SumServer.ask` returns, lets it make its words (`words_of`), adds the words of all agents under
masks, and hands the totals to `SumServer.hear`, until it has ended.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from fedwqcp.errors import QuorumError
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.secure.contribution import scale_of, summed_method
from fedwqcp.methods import Total
from fedwqcp.wire.codec import encode
from fedwqcp.wire.envelope import Ask
from fedwqcp.wire.masked import ToAllWithin
from fedwqcp.wire.payload import Outcome, Question
from fedwqcp.wire.release import AgentRecord, Release


class SumServer:
    """The side of the dialogue that sees only sums.

    Parameters
    ----------
    plan : Plan
        What the round computes; its terms are those of a secure round.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.scale = scale_of(plan)
        self.sums = 0
        self.used: tuple[str, ...] = ()
        self._method = summed_method(plan)
        self._begin()

    @property
    def ended(self) -> bool:
        """Whether every task has its outcome."""
        return all(outcome is not None for outcome in self._outcomes)

    @property
    def width(self) -> int:
        """How many words the current sum has."""
        return sum(self._method.width(question) for question in self._pending if question)

    def ask(self) -> bytes:
        """Return the encoded question, the same for every agent.

        Returns
        -------
        bytes
            One question for each task that has not ended.
        """
        return encode(Ask(self.plan.round.id, self.sums, tuple(self._pending)))

    def hear(self, agents: Sequence[str], totals: Sequence[int]) -> None:
        """Take the totals of one sum and go one step on.

        All sums of a round are over the same agents. Where one was lost since the last sum, the
        dialogue begins again without it.

        Parameters
        ----------
        agents : sequence of str
            Whose words were added.
        totals : sequence of int
            The sums.

        Raises
        ------
        QuorumError
            If fewer agents than the quorum took part.
        """
        self.sums += 1
        there = tuple(name for name in self.plan.round.agents if name in set(agents))
        if len(there) < self.plan.round.quorum:
            raise QuorumError(
                f"{len(there)} of {len(self.plan.round.agents)} agents took part in the sum, the "
                f"round needs {self.plan.round.quorum}"
            )
        anew = bool(self.used) and there != self.used
        self.used = there
        if anew:
            self._begin()
            return
        at = 0
        for task, question in enumerate(self._pending):
            if question is not None:
                end = at + self._method.width(question)
                self._advance(task, Total(tuple(totals[at:end]), len(there)))
                at = end

    def release(
        self,
        rounds: int,
        reasons: Mapping[str, str] | None = None,
        bytes_up: Mapping[str, int] | None = None,
        bytes_down: Mapping[str, int] | None = None,
    ) -> Release:
        """Return what the round ended with.

        Parameters
        ----------
        rounds : int
            Round trips that were needed.
        reasons : mapping of str to str, optional
            Why agents were refused.
        bytes_up, bytes_down : mapping of str to int, optional
            What each agent sent and received.

        Returns
        -------
        Release
            Its assumption says what the sums add to the method's own.
        """
        reasons, up, down = reasons or {}, bytes_up or {}, bytes_down or {}

        def _record(name: str) -> AgentRecord:
            """Return what became of one agent."""
            status = "used" if name in self.used else "refused" if name in reasons else "missing"
            reason = "" if status == "used" else reasons.get(name, "")
            return AgentRecord(name, status, reason, up.get(name, 0), down.get(name, 0))  # type: ignore[arg-type]  # one of three

        outcomes = tuple(outcome for outcome in self._outcomes if outcome is not None)
        margin = max(o.margin if isinstance(o, ToAllWithin) else 0.0 for o in outcomes)
        return Release(
            round=self.plan.round,
            guarantee=self.plan.method.guarantee,
            assumption=f"{self.plan.method.assumption}; {told(self.sums, margin)}",
            rounds=rounds,
            agents=tuple(_record(name) for name in self.plan.round.agents),
            outcomes=outcomes,
        )

    def _begin(self) -> None:
        """Begin the dialogue of every task."""
        self._talks: list[Generator[Question, Total, Outcome]] = []
        self._pending: list[Question | None] = []
        self._outcomes: list[Outcome | None] = []
        for task in self.plan.tasks:
            self._talks.append(self._method.from_sums(task.alpha, self.scale))
            self._pending.append(next(self._talks[-1]))
            self._outcomes.append(None)

    def _advance(self, task: int, total: Total) -> None:
        """Move one task to its next question or its outcome."""
        try:
            self._pending[task] = self._talks[task].send(total)
        except StopIteration as end:
            self._pending[task], self._outcomes[task] = None, end.value


def told(sums: int, margin: float) -> str:
    """Say what masked sums add to a method's assumption.

    Parameters
    ----------
    sums : int
        How many there were.
    margin : float
        How far a threshold can lie above the one without masks.

    Returns
    -------
    str
        In words.
    """
    exact = f"at most {margin:.3g} above it" if margin else "equal to it"
    found = "one masked sum" if sums == 1 else f"{sums} masked sums"
    return f"found from {found}: never below the threshold without masks, and {exact}"
