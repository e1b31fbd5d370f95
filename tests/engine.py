"""The smallest engine: a carrier that hands every request to a site of this process at once.

Beside it, the round without any engine that tests of all of them compare with, and how a run
between processes is awaited.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from local_federation import round_ended

import fedwqcp as fw
from changed import replace
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.audit import audit
from fedwqcp.federation.predict import calibration_of
from fedwqcp.federation.server import Server
from fedwqcp.federation.site_folder import make_site_folder
from fedwqcp.federation.transport.envelope import (
    ASK,
    NodeId,
    Reply,
    Request,
    new_nonce,
    reply_fields,
)
from fedwqcp.federation.transport.session import Carrier
from fedwqcp.federation.transport.site import Site, SiteOutputs, accept_release, answer
from fedwqcp.readers import load_outputs
from fedwqcp.wire.codec import encode

SHORT = {
    "fcp": {"sketch": "order"},
    "dp-fedcp": {"rounds": 2},
    "private-fedwq-cp": {"epsilon": 10.0},
}
"""Settings of methods that keep the dialogue between processes short."""


class InMemoryCarrier(Carrier):
    """Nodes by name, each a site with its data; `lose` takes one offline with its next request."""

    def __init__(self, sites: Mapping[NodeId, tuple[Site, SiteOutputs]]) -> None:
        self.sites = sites
        for site, _ in sites.values():
            if site.folder is not None:
                make_site_folder(site.folder)
        self.gone = set()
        self.sent: list[tuple[NodeId, str]] = []
        self._losing: dict[NodeId, int] = {}
        self._replies: list[Reply] = []

    def lose(self, node: NodeId, polls: int = 3) -> None:
        """Lose the next request to a node, which is online again after so many polls."""
        self._losing[node] = polls

    def online(self) -> set[NodeId]:
        for node in self.gone & set(self._losing):
            self._losing[node] -= 1
        away = {node for node in self.gone if self._losing.get(node, 0) > 0}
        return set(self.sites) - away

    def send(self, action: str, requests: Mapping[NodeId, Request], model: Any = None) -> None:
        for node, request in requests.items():
            self.sent.append((node, action))
            if self._losing.get(node, 0) > 0:
                self.gone.add(node)
                self._replies.append(Reply(node, "", "engine"))
                continue
            nonce = new_nonce()
            fields = self._handle(node, action, replace(request, nonce=nonce))
            self._replies.append(Reply.of(node, nonce, fields))

    def receive(self) -> list[Reply]:
        replies, self._replies = self._replies, []
        return replies

    def clear(self) -> None:
        self._replies.clear()
        self.gone.clear()

    def _handle(self, node: NodeId, action: str, request: Request) -> dict[str, str | bytes]:
        """Do at the site what its engine's worker would do."""
        site, data = self.sites[node]
        work = (
            (lambda: answer(site, request, lambda: data))
            if action == ASK
            else (lambda: accept_release(site, request))
        )
        status, body = site.perform(work, request, watchdog=False)
        return reply_fields(request.nonce, site.agent, status, body)


def in_process(root, round, names=None):
    """The same round over the same files without an engine."""
    sides = {}
    for name in round.agents if names is None else names:
        outputs = load_outputs(root / "sites" / name / "cal.npz")
        sides[name] = Agent(name, round, calibration_of(round, outputs), limit=None)
    return hold(Server(round), sides)


def hold(server, agents, on_the_way=lambda name, ask, answer: answer):
    """Hold a round with the agents that are here; the others never answer.

    `on_the_way` may change an answer, lose it (None), or answer for who is not here.
    """
    while not server.ended:
        for name, ask in server.asks().items():
            said = agents[name].answer(ask if server.step else None) if name in agents else None
            if (answer := on_the_way(name, ask, said)) is not None:
                server.receive(answer, name)
        server.close_step()
    return server.release()


def same(release, other):
    """Whether two releases are the same to the last byte, but for when they were made."""
    assert release.provenance.keys() == other.provenance.keys()
    return encode(release) == encode(replace(other, provenance=release.provenance))


def finished(federation, records, run):
    """Status and record of a run between processes, once it ended; a busy machine takes long."""
    status = federation.wait(run, 300.0, lambda: round_ended(records))
    (record,) = records.iterdir()
    return status, record


def equals_the_one_within_a_process(root, agents, status, record):
    """Check the release of a round between processes, and return it."""
    assert status.lower() == "finished:completed", (record / "log.jsonl").read_text()
    release = fw.load(record / "record.json")
    assert release.used == agents
    expected = in_process(root, release.round, agents)
    assert release.rounds == expected.rounds
    assert same(release, expected)
    assert audit(record).matches
    assert json.loads((record / "log.jsonl").read_text().splitlines()[-1])["agents"] == [*agents]
    return release
