"""A round over an engine, driven from the server: ask, collect replies, admit, hand over.

`Session` knows the round and no engine. A `Carrier` brings requests to nodes and replies back; an
engine such as Flower implements it, and everything else is shared.
"""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedwqcp._io import in_folder, is_file
from fedwqcp._validation import named
from fedwqcp.errors import INTERNAL, FedwqcpError, InputError, RecordError, RoundError, traced
from fedwqcp.federation.audit import audit
from fedwqcp.federation.record import LOG, Ledger, load_release, with_reasons
from fedwqcp.federation.release import Release
from fedwqcp.federation.server import Server
from fedwqcp.federation.signing import check_signature
from fedwqcp.federation.transport.envelope import (
    ASK,
    OK,
    RELEASE,
    NodeId,
    Reply,
    Request,
    reason_of,
)
from fedwqcp.federation.transport.settings import Timeouts
from fedwqcp.wire.codec import brief, decode, encode
from fedwqcp.wire.messages import Answer, Round

_log = logging.getLogger("fedwqcp")


@dataclass(frozen=True)
class SessionResult:
    """What a round over an engine ended with.

    Parameters
    ----------
    release : Release
        The thresholds; it names who was used, refused and missing.
    stored : tuple of str
        Agents that acknowledged that they have the release.
    unknown_nodes : dict
        Nodes of which no answer counts, with the reason, after the agent where it is known.
    failed : dict
        Every agent and node of which nothing counts, by its name as logs have it, with the reason.
    """

    release: Release
    stored: tuple[str, ...]
    unknown_nodes: dict[NodeId, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        release = self.release
        lists = {"used": release.used, "missing": release.missing, "stored by": self.stored}
        lines = [f"{what}: {named(names, 12) or 'none'}" for what, names in lists.items()]
        return "\n".join([*lines, *(f"{who}: {why}" for who, why in self.failed.items())])


class Carrier(ABC):
    """How an engine brings requests to nodes and replies back; at most one reply to each counts."""

    gone: set[NodeId]
    """Nodes that the engine lost after they were asked."""

    names: Mapping[NodeId, str] = MappingProxyType({})
    """What the engine's operator calls nodes, also those that never reply."""

    @abstractmethod
    def online(self) -> set[NodeId]:
        """Return the nodes that are online."""

    @abstractmethod
    def send(self, action: str, requests: Mapping[NodeId, Request], model: Any = None) -> None:
        """Send each node its request with a fresh nonce, and the parameters of a model with it."""

    @abstractmethod
    def receive(self) -> list[Reply]:
        """Return the replies that came since the last call; a second one is dropped unread."""

    @abstractmethod
    def clear(self) -> None:
        """Forget every open request: a reply that comes after its step is closed never counts."""

    def returned(self) -> set[NodeId]:
        """Return the lost nodes that are online again, each once: they are to be asked again."""
        returned = self.gone & self.online() if self.gone else set()
        self.gone -= returned
        return returned


CLAIMED_TWICE = (
    "agent: two nodes claim this name, so neither answer counts, and nothing tells which of them "
    "is right; nodes= or signed answers would"
)
"""The reason in a release; it blames nobody, since any node can claim any name."""


class Session:
    """One round while it runs: who was asked, who replied what, which node is which agent.

    `nodes` says which node each agent must be; None lets nodes name their agent, and a name that
    two nodes claim is refused for both. `record` is the folder for the record, or None.
    """

    def __init__(
        self,
        carrier: Carrier,
        round: Round,
        timeouts: Timeouts,
        nodes: Mapping[str, NodeId] | None,
        record: Path | None,
    ) -> None:
        if nodes is not None and (unnamed := [name for name in round.agents if name not in nodes]):
            raise InputError(
                f"must name the node of every agent, or none; it lacks {named(unnamed, 12)}: a "
                "node that it does not name is not asked",
                field="nodes",
            )
        self.server = Server(round)
        self.carrier = carrier
        self.round = round
        self.timeouts = timeouts
        self.allowed = None if nodes is None else {node: name for name, node in nodes.items()}
        self.ledger = Ledger(record, round)
        self.reasons: dict[str, str] = {}
        self.lost: dict[tuple[str, NodeId], str] = {}  # why, by agent and node
        self.bound: dict[str, NodeId] = dict(nodes or {})
        self.asked: set[NodeId] = set()

    def run(self, model: Any = None) -> SessionResult:
        """Hold the dialogue to its end, and hand over the release.

        The parameters of a model, in the engine's own form, go with the first question.
        """
        round = self.round
        terms = f"{len(round.agents)} agents, quorum {round.quorum}"
        _log.info("fedwqcp: round %s begins: %s", round.id, terms, extra={"round": round.id})
        try:
            release = with_reasons(self._release(model), self.reasons)
            self.ledger.released(release)
        except BaseException as error:
            reason = self._reason(error)
            with contextlib.suppress(FedwqcpError, OSError):  # the disk may be what failed
                self.ledger.failed(reason)
            if isinstance(error, RoundError):
                raise type(error)(reason) from None
            if isinstance(error, FedwqcpError) or not isinstance(error, Exception):
                raise
            raise RoundError(reason) from None
        told = {*self.reasons, *(agent for agent, _ in self.lost)}
        for agent in release.agents:
            if agent.status == "used" or agent.name not in told:
                node = self.bound.get(agent.name, "")
                self._tell(logging.INFO, agent.name, node, agent.status, agent.reason)
        return self.hand_over(release, release.used, min(round.quorum, len(release.used)))

    def _reason(self, error: BaseException) -> str:
        """Say why a round ended without a release; an error that is not ours may quote data."""
        if not isinstance(error, Exception):
            return f"interrupted: {type(error).__name__}"
        if not isinstance(error, FedwqcpError):
            _log.error("fedwqcp: the round failed: %s", traced(error))
            return f"{INTERNAL}: {type(error).__name__}"
        failed = self._failed(self.reasons)
        text = named((f"{who}: {why}" for who, why in failed.items()), 12)
        return f"{error} ({text})" if text else str(error)

    def _failed(self, refused: Mapping[str, str]) -> dict[str, str]:
        """Return why nothing counts of agents that were refused, and of what was lost."""
        failed = {_who(name, self.bound.get(name)): why for name, why in refused.items()}
        return failed | {_who(name, node): why for (name, node), why in self.lost.items()}

    def _release(self, model: Any) -> Release:
        """Go through the steps to the release."""
        terms = encode(self.round.brief())
        while not self.server.ended:
            asks = self.server.asks()
            if self.server.step == 0:
                self._first_step(terms, model)
            else:
                self._later_step(terms, asks)
            self.carrier.clear()
            step = self.server.step
            self.server.close_step()
            self.ledger.closed(step)
        return self.server.release()

    def _first_step(self, terms: bytes, model: Any) -> None:
        """Ask every node; its answer says which agent it is."""
        request = Request("", terms, b"", self.timeouts.deadline)
        for reply in self._identify(ASK, request, model):
            self.bound[reply.agent] = reply.node
            self._admit(reply)

    def _is_sound(self, reply: Reply) -> bool:
        """Tell whether a first reply would be admitted; nothing is recorded yet."""
        return self.server.admissible(reply.body, reply.agent) is not None

    def _identify(self, action: str, request: Request, model: Any) -> list[Reply]:
        """Ask every node who it is, and return one reply for each agent.

        A name that two nodes claim counts for neither: nothing tells which of them is right.
        """
        claims: dict[str, dict[NodeId, Reply]] = {}
        silent: set[NodeId] = set()

        def _receive() -> Iterator[tuple[str, bool]]:
            """Ask nodes that are new or back, and take the replies."""
            silent.update(self._send_to_new(action, request, model))
            for reply in self.carrier.receive():
                silent.discard(reply.node)
                if self._is_unknown(reply) or self._is_unsigned(reply):
                    continue
                claims.setdefault(reply.agent, {})[reply.node] = reply
                first = len(claims[reply.agent]) == 1
                yield reply.agent, reply.status == OK and (not first or self._is_sound(reply))

        collect(_receive, self.round.agents, self.round.quorum, self.timeouts)
        self._lose_silent(silent)
        self._lose_absent(claims)
        identified = []
        for name in self.round.agents:
            replies = list(claims.get(name, {}).values())
            if len(replies) > 1:
                self.refuse(name, CLAIMED_TWICE, ", ".join(str(reply.node) for reply in replies))
            else:
                identified += replies
        return identified

    def _later_step(self, terms: bytes, asks: Mapping[str, bytes]) -> None:
        """Ask the agents that still take part, each at the node that answered for it."""
        names = {self.bound[name]: name for name in asks}
        silent, seconds = set(names), self.timeouts.deadline
        requests = {node: Request("", terms, asks[name], seconds) for node, name in names.items()}
        self.carrier.send(ASK, requests)

        def _receive() -> Iterator[tuple[str, bool]]:
            """Ask nodes that are back again, and take the replies."""
            self.carrier.send(ASK, {node: requests[node] for node in self.carrier.returned()})
            for reply in self.carrier.receive():
                silent.discard(reply.node)
                if reply.node in self.carrier.gone:
                    self._lose(reply)
                    continue
                name = names[reply.node]
                status = reply.status
                if reply.agent != name and status == OK:
                    status = "malformed"
                yield name, self._admit(replace(reply, agent=name, status=status))

        collect(_receive, asks, self.round.quorum, self.timeouts)
        self._lose_silent(silent)

    def hand_over(self, release: Release, expected: Iterable[str], quorum: int) -> SessionResult:
        """Hand over the release, and record who has it, whatever happens on the way."""
        stored: set[str] = set()
        reason = ""
        try:
            self._send_release(release, stored, expected, quorum)
        except BaseException as error:
            reason = self._reason(error)
            raise
        finally:
            has_it = tuple(name for name in self.round.agents if name in stored)
            self.ledger.stored(has_it, reason)
        nodes = {
            node: f"{agent}: {reason}" if agent else reason
            for (agent, node), reason in self.lost.items()
            if node != ""
        }
        return SessionResult(release, has_it, nodes, self._failed(release.refused))

    def _send_release(
        self, release: Release, stored: set[str], expected: Iterable[str], quorum: int
    ) -> None:
        """Send the release to every node that was asked, again to one that is back; count acks."""
        data = encode(brief(release))
        digest = sha256(data).hexdigest().encode()
        request = Request("", b"", data, self.timeouts.deadline)
        self.carrier.send(RELEASE, dict.fromkeys(_in_order(self.asked), request))

        def _receive() -> Iterator[tuple[str, bool]]:
            """Send the release to nodes that are new or back, and take acknowledgements."""
            self._send_to_new(RELEASE, request)
            for reply in self.carrier.receive():
                has_it = reply.status == OK and reply.body == digest
                bound = self.bound.get(reply.agent, reply.node) == reply.node
                if has_it and bound and self._name_of(reply) == reply.agent:
                    stored.add(reply.agent)
                    yield reply.agent, True

        collect(_receive, expected, quorum, self.timeouts)
        self.carrier.clear()

    def _send_to_new(self, action: str, request: Request, model: Any = None) -> set[NodeId]:
        """Send a request to the nodes that are new or back and may take part; return them."""
        online = self.carrier.online()
        new = (online if self.allowed is None else online & set(self.allowed)) - self.asked
        new |= self.carrier.returned()
        self.asked |= new
        self.carrier.send(action, dict.fromkeys(_in_order(new), request), model)
        return new

    def _name_of(self, reply: Reply) -> str:
        """Return the agent that a node must be, or says it is where none is prescribed."""
        return reply.agent if self.allowed is None else self.allowed[reply.node]

    def _is_unknown(self, reply: Reply) -> bool:
        """Tell whether a reply has no name that can be trusted, and record why."""
        name = self._name_of(reply)
        if reply.agent and reply.agent == name and self.round.expects(name):
            self._found(reply.node)
            return False
        unread = reply if not reply.agent else replace(reply, status="roster", detail="")
        if self.allowed is None or unread.status == "engine":
            self._lose(unread)
        else:
            self.refuse(name, reason_of(unread))
        return True

    def _is_unsigned(self, reply: Reply) -> bool:
        """Tell whether a node names an agent whose key it does not hold, and record it.

        Where names are bound to nodes, no other node can take one, and the server refuses by name.
        """
        if not self.round.keys or self.allowed is not None:
            return False
        plan = self.server.plan
        try:
            answer = decode(reply.body, Answer, plan.kinds, reply.agent)
            check_signature(answer, plan)
            is_own = answer.agent == reply.agent
        except FedwqcpError:  # refused like any other that has no name
            is_own = False
        if is_own:
            return False
        self._lose(replace(reply, status="signature") if reply.status == OK else reply)
        return True

    def _admit(self, reply: Reply) -> bool:
        """Hand an answer to the server, or record why not."""
        if reply.status == "engine":  # it was lost on the way: missing, not refused
            self._lose(reply)
            return False
        if reply.status != OK:
            self.refuse(reply.agent, reason_of(reply))
            return False
        refusal = self.server.receive(reply.body, reply.agent)
        if refusal is not None:
            self.refuse(reply.agent, f"{refusal.field}: {refusal.reason}")
        else:
            self._found(reply.node)  # it may have been lost before
            self.ledger.accepted(self.server.step, reply.agent, reply.body)
        return refusal is None

    def refuse(self, agent: str, reason: str, nodes: str = "") -> None:
        """Record why an agent's answer does not count."""
        self.reasons[agent] = reason
        node = nodes or str(self.bound.get(agent, ""))
        self.ledger.refused(self.server.step, agent, reason, node)
        self._tell(logging.WARNING, agent, node, "refused", reason)

    def _lose_silent(self, nodes: Iterable[NodeId]) -> None:
        """Record which nodes were asked and never replied."""
        for node in _in_order(nodes):
            self._lose(Reply(node, "", "silent"))

    def _lose_absent(self, heard: Iterable[str]) -> None:
        """Record the agents for which no node replied, and none was lost either."""
        known = {*heard, *self.reasons, *(agent for agent, _ in self.lost)}
        for name in self.round.agents:
            if name not in known:
                self._lose(Reply(self.bound.get(name, ""), "", "offline"), name)

    def _lose(self, reply: Reply, agent: str = "") -> None:
        """Record why nothing that a node replied counts for an agent."""
        node, reason = reply.node, reason_of(reply)
        agent = agent or self._agent_at(node)
        self._found(node)  # its last reason counts
        self.lost[agent, node] = reason
        self.ledger.missing(self.server.step, agent, reason, str(node))
        self._tell(logging.WARNING, agent, node, "missing", reason)

    def _found(self, node: NodeId) -> None:
        """Forget why a node was lost."""
        if node != "":
            self.lost = {key: why for key, why in self.lost.items() if key[1] != node}

    def _agent_at(self, node: NodeId) -> str:
        """Return which agent a node is, or what the operator calls it."""
        agents = {bound: name for name, bound in self.bound.items()}
        return agents.get(node) or self.carrier.names.get(node, "")

    def _tell(self, level: int, agent: str, node: NodeId, status: str, reason: str) -> None:
        """Tell the engine's operator of an agent, with the facts for a program that reads logs."""
        text = f"{_who(agent, node)}: {reason or status}"
        facts = {"agent": agent, "node": str(node), "status": status, "reason": reason}
        _log.log(level, "fedwqcp: %s", text, extra={"round": self.round.id, **facts})


def hand_over(
    carrier: Carrier, record: Path, timeouts: Timeouts, nodes: Mapping[str, NodeId] | None
) -> SessionResult:
    """Hand over the release of a recorded round to sites that were late, away or restored."""
    if not is_file(record / LOG):
        known = [folder.name for folder in in_folder(record.parent) if is_file(folder / LOG)]
        held = named(known, 12) or "it holds none"
        raise InputError(
            f"must be the id of a round in {record.parent} ({held}), got {record.name!r}",
            field="hand-over",
        )
    if difference := audit(record).difference:
        raise RecordError(f"{record} does not match: {difference}")
    release = load_release(record / "record.json")
    timeouts = replace(timeouts, poll=max(timeouts.poll, timeouts.deadline / 1000))
    session = Session(carrier, release.round, timeouts, nodes, None)
    session.ledger = Ledger.reopened(record, release.round)
    agents = release.round.agents
    text = f"waits {timeouts.deadline:g} seconds at most for {named(agents, 12)}"
    facts = {"round": release.round.id}
    _log.info("fedwqcp: hand-over of round %s %s", release.round.id, text, extra=facts)
    return session.hand_over(release, agents, len(agents))


def collect(
    receive: Callable[[], Iterable[tuple[str, bool]]],
    expected: Iterable[str],
    quorum: int,
    timeouts: Timeouts,
) -> None:
    """Take replies until all have come, or the quorum and its grace, or the deadline.

    `receive` takes what has come, and returns each agent with whether its answer was sound. An
    engine may keep it waiting for a reply that a dying site did not send whole: what the others
    sent meanwhile is taken once more, even after the end.
    """
    open_, sound = set(expected), set()
    deadline = time.monotonic() + timeouts.deadline
    grace_end = inf
    while True:
        began = time.monotonic()
        for agent, is_sound in receive():
            open_.discard(agent)
            if is_sound:
                sound.add(agent)
        now = time.monotonic()
        if grace_end == inf and len(sound) >= quorum:
            grace_end = now + timeouts.grace
        end = min(deadline, grace_end)
        if not open_ or began >= end:
            return
        time.sleep(min(timeouts.poll, max(0.0, end - now)))


def _who(agent: str, node: NodeId | None) -> str:
    """Name an agent with its node, where they are known; the node is None where none is meant."""
    if node is None:
        return agent
    return f"{agent or 'no name'} ({f'node {node}' if node != '' else 'no node'})"


def _in_order(nodes: Iterable[NodeId]) -> list[NodeId]:
    """Sort nodes, so that requests leave in the same order each time."""
    return sorted(nodes, key=lambda node: (isinstance(node, str), node))
