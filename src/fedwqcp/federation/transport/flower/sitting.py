"""One round over Flower while it runs: who was asked, who said what, who is who."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from fedwqcp.errors import INTERNAL, FedwqcpError, RoundError, traced
from fedwqcp.federation.record import Ledger, with_reasons
from fedwqcp.federation.server import Server
from fedwqcp.federation.signing import check_signature
from fedwqcp.federation.transport.flower.drive import Pace, Post, collect
from fedwqcp.federation.transport.flower.letters import ASK, CODES, OK, RELEASE, Ask, Reply
from fedwqcp.wire.codec import brief, decode, encode
from fedwqcp.wire.envelope import Answer
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round

_log = logging.getLogger("flwr")


@dataclass(frozen=True)
class Calibrated:
    """What a round over Flower ended with.

    Parameters
    ----------
    release : Release
        The thresholds; it names who was used, refused and missing.
    stored : tuple of str
        Agents that acknowledged that they have the release.
    strangers : dict
        Nodes whose replies were refused without a name that can be trusted, with the reason.
    """

    release: Release
    stored: tuple[str, ...]
    strangers: dict[int, str] = field(default_factory=dict)


class Sitting:
    """One round while it runs.

    Parameters
    ----------
    grid : Grid
        Flower's way to the nodes.
    round : Round
        The terms.
    pace : Pace
        Deadline and grace of each step.
    nodes : mapping of str to int, or None
        Which node each agent must be.
    record : Path or None
        Folder for the record.
    """

    def __init__(
        self,
        grid: Grid,
        round: Round,
        pace: Pace,
        nodes: Mapping[str, int] | None,
        record: Path | None,
    ) -> None:
        self.server = Server(round)
        self.round = round
        self.pace = pace
        self.post = Post(grid, pace)
        self.allowed = None if nodes is None else {node: name for name, node in nodes.items()}
        self.ledger = None if record is None else Ledger(record, round)
        self.reasons: dict[str, str] = {}
        self.strangers: dict[int, str] = {}
        self.bound: dict[str, int] = {}
        self.asked: set[int] = set()

    def run(self, model: ArrayRecord | None) -> Calibrated:
        """Hold the dialogue to its end, and hand over the release.

        Parameters
        ----------
        model : ArrayRecord or None
            Parameters that go with the first question.

        Returns
        -------
        Calibrated
            The release, and who has it.

        Raises
        ------
        QuorumError
            If too few agents answered soundly in time.
        RoundError
            If the round ended without a release for another reason.
        """
        try:
            release = self._released(model)
        except BaseException as error:
            reason = self._why(error)
            if self.ledger:
                with contextlib.suppress(FedwqcpError, OSError):  # the disk may be what failed
                    self.ledger.failed(reason)
            if isinstance(error, RoundError):
                raise type(error)(reason) from None
            if isinstance(error, FedwqcpError) or not isinstance(error, Exception):
                raise
            raise RoundError(reason) from None
        return Calibrated(release, self._handed_over(release), dict(self.strangers))

    def _why(self, error: BaseException) -> str:
        """Say why a round ended without a release; an error that is not ours may quote data."""
        if not isinstance(error, Exception):
            return f"interrupted: {type(error).__name__}"
        if not isinstance(error, FedwqcpError):
            _log.error("fedwqcp: the round failed: %s", traced(error))
            return f"{INTERNAL}: {type(error).__name__}"
        said = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        return f"{error} ({said})" if said else str(error)

    def _released(self, model: ArrayRecord | None) -> Release:
        """Go through the steps, and keep the release."""
        while not self.server.ended:
            asks = self.server.asks()
            if self.server.step == 0:
                self._first_step(encode(self.round.brief()), model)
            else:
                self._later_step(asks)
            self.post.forget()
            step = self.server.step
            self.server.close_step()
            if self.ledger:
                self.ledger.closed(step)
        release = with_reasons(self.server.release(), self.reasons)
        if self.ledger:
            self.ledger.released(release)
        for agent in release.agents:
            _log.info("fedwqcp: %s: %s %s", agent.name, agent.status, agent.reason)
        return release

    def _first_step(self, data: bytes, model: ArrayRecord | None) -> None:
        """Ask every node; its answer says which agent it is. Names that two claim are refused."""
        trial = Server(self.round)  # tells whether an answer is sound while names are still open
        claims: dict[str, dict[int, Reply]] = {}

        def _hear() -> Iterator[tuple[str, bool]]:
            """Ask nodes that are new or back, and hear those that replied."""
            self._ask_new(ASK, Ask("", data, b"", self.pace.deadline), model)
            for reply in self.post.hear():
                if self._is_strange(reply) or self._is_unsigned(reply):
                    continue
                claims.setdefault(reply.agent, {})[reply.node] = reply
                sound = reply.status == OK
                if sound and len(claims[reply.agent]) == 1:
                    sound = trial.receive(reply.body, reply.agent, reply.agent) is None
                yield reply.agent, sound

        collect(_hear, self.round.agents, self.round.quorum, self.pace)
        for name in self.round.agents:
            replies = list(claims.get(name, {}).values())
            if len(replies) > 1:
                self._refuse(name, "agent: two nodes claim this name")
            elif replies:
                self.bound[name] = replies[0].node
                self._admit(replies[0])

    def _later_step(self, asks: Mapping[str, bytes]) -> None:
        """Ask the agents that still take part, each at the node that answered for it."""
        terms = encode(self.round.brief())
        names = {self.bound[name]: name for name in asks}
        questions = {
            self.bound[name]: Ask("", terms, ask, self.pace.deadline) for name, ask in asks.items()
        }
        self.post.send(ASK, questions)

        def _hear() -> Iterator[tuple[str, bool]]:
            """Ask nodes that are back again, and hear those that replied."""
            self.post.send(ASK, {node: questions[node] for node in self.post.back()})
            for reply in self.post.hear():
                if reply.node in self.post.gone:
                    continue
                name = names[reply.node]
                status = reply.status
                if reply.agent != name and status == OK:
                    status = "malformed"
                yield name, self._admit(replace(reply, agent=name, status=status))

        collect(_hear, asks, self.round.quorum, self.pace)

    def _handed_over(self, release: Release) -> tuple[str, ...]:
        """Hand over the release, and keep who has it, whatever happens on the way."""
        stored: set[str] = set()
        reason = ""
        try:
            self._hand_over(release, stored)
        except BaseException as error:
            reason = self._why(error)
            raise
        finally:
            has_it = tuple(name for name in self.round.agents if name in stored)
            if self.ledger:
                self.ledger.stored(has_it, reason)
        return has_it

    def _hand_over(self, release: Release, stored: set[str]) -> None:
        """Send the release to every node that was asked, again to one that is back; count acks."""
        data = encode(brief(release))
        digest = sha256(data).hexdigest().encode()
        ask = Ask("", b"", data, self.pace.deadline)
        self.post.send(RELEASE, dict.fromkeys(self.asked or self._eligible(), ask))

        def _hear() -> Iterator[tuple[str, bool]]:
            """Send the release again to nodes that are back, and hear acknowledgements."""
            self.post.send(RELEASE, dict.fromkeys(sorted(self.post.back()), ask))
            for reply in self.post.hear():
                has_it = reply.status == OK and reply.body == digest
                bound = self.bound.get(reply.agent, reply.node) == reply.node
                if has_it and bound and self._name_of(reply) == reply.agent:
                    stored.add(reply.agent)
                    yield reply.agent, True

        collect(_hear, release.used, min(self.round.quorum, len(release.used)), self.pace)
        self.post.forget()

    def _ask_new(self, action: str, ask: Ask, model: ArrayRecord | None) -> None:
        """Ask the nodes that were not asked yet, and those that are back."""
        fresh = self._eligible() - self.asked | self.post.back()
        self.asked |= fresh
        self.post.send(action, dict.fromkeys(sorted(fresh), ask), model)

    def _eligible(self) -> set[int]:
        """Return the nodes online that may take part."""
        online = self.post.online()
        return online if self.allowed is None else online & set(self.allowed)

    def _name_of(self, reply: Reply) -> str:
        """Return the agent that a node must be, or says it is where none is prescribed."""
        return reply.agent if self.allowed is None else self.allowed[reply.node]

    def _is_strange(self, reply: Reply) -> bool:
        """Tell whether a reply has no name that can be trusted, and note why."""
        name = self._name_of(reply)
        if reply.agent and reply.agent == name and self.round.expects(name):
            self.strangers.pop(reply.node, None)  # it may have been lost before
            return False
        reason = reply.status if not reply.agent else "roster"
        self.strangers[reply.node] = f"{reason}: {CODES[reason]}"
        if self.ledger:
            self.ledger.refused(0, "", self.strangers[reply.node])
        if self.allowed is not None and reason != "engine":
            self._refuse(name, self.strangers[reply.node])
        return True

    def _is_unsigned(self, reply: Reply) -> bool:
        """Tell whether a node names an agent whose key it does not hold, and note it.

        Where names are bound to nodes, no other node can take one, and the server refuses by name.
        """
        if not self.round.keys or self.allowed is not None:
            return False
        plan = self.server.plan
        try:
            answer = decode(reply.body, Answer, plan.kinds, reply.agent)
            check_signature(answer, plan)
            if answer.agent == reply.agent:
                return False
        except FedwqcpError:  # refused like any other that has no name
            pass
        status = "signature" if reply.status == OK else reply.status
        self.strangers[reply.node] = f"{status}: {CODES[status]}"
        if self.ledger:
            self.ledger.refused(0, "", self.strangers[reply.node])
        return True

    def _admit(self, reply: Reply) -> bool:
        """Hand an answer to the server, or note why not."""
        if reply.status == "engine":  # it was lost on the way: missing, not refused
            return False
        if reply.status != OK:
            self._refuse(reply.agent, f"{reply.status}: {CODES[reply.status]}")
            return False
        refusal = self.server.receive(reply.body, reply.agent, reply.agent)
        if refusal is not None:
            self._refuse(reply.agent, f"{refusal.field}: {refusal.reason}")
        elif self.ledger:
            self.ledger.accepted(self.server.step, reply.agent, reply.body)
        return refusal is None

    def _refuse(self, agent: str, reason: str) -> None:
        """Note why an agent's answer does not count."""
        self.reasons[agent] = reason
        if self.ledger:
            self.ledger.refused(self.server.step, agent, reason)
