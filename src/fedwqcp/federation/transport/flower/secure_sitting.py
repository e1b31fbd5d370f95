"""One secure round over Flower: who can take part is asked plainly, every number under masks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from fedwqcp.errors import QuorumError
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.secure import SecureServer
from fedwqcp.federation.transport.flower.drive import Pace, collect
from fedwqcp.federation.transport.flower.letters import CODES, OK, READY, Ask, Reply
from fedwqcp.federation.transport.flower.secure_carrier import Carrier, LostError
from fedwqcp.federation.transport.flower.secure_sum import add
from fedwqcp.federation.transport.flower.sitting import Sitting
from fedwqcp.wire.codec import encode
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Round


class SecureSitting(Sitting):
    """One secure round while it runs.

    Parameters
    ----------
    grid : Grid
        Flower's way to the nodes.
    round : Round
        The terms, with the range of the thresholds.
    pace : Pace
        Deadline and grace of each stage.
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
        self.sums = SecureServer(Plan.of(round))  # before anything is written
        super().__init__(grid, round, pace, nodes, record)
        self.grid = grid
        self.trips = 0
        self.up: Counter[int] = Counter()
        self.down: Counter[int] = Counter()

    def _released(self, model: ArrayRecord | None) -> Release:
        """Ask who is there, add until the thresholds are known, and keep the release."""
        self._first_step(self.sums.ask(), model)
        self.post.forget()
        there = {name: node for name, node in self.bound.items() if name not in self.reasons}
        while not self.sums.ended:
            there = self._added(there)
        names = {node: name for name, node in self.bound.items()}
        release = self.sums.release(
            1 + self.trips,
            self.reasons,
            {names[node]: size for node, size in self.up.items()},
            {names[node]: size for node, size in self.down.items()},
        )
        if self.ledger:
            self.ledger.released(release)
        return release

    def _added(self, there: dict[str, int]) -> dict[str, int]:
        """Get the totals of one sum; where sites are lost too early, try again without them."""
        names = {node: name for name, node in there.items()}
        if len(there) < self.round.quorum:
            raise QuorumError(
                f"{len(there)} of {len(self.round.agents)} agents can take part in the sum, the "
                f"round needs {self.round.quorum}"
            )
        ask = Ask("", encode(self.round), self.sums.ask(), self.pace.deadline)
        width = self.sums.width + 1  # and CHECK
        carrier = Carrier(self.grid, self.pace, names, self.round.quorum, ask, width)
        try:
            nodes, totals = add(carrier, list(names), self.sums.scale)
            left = {names[node]: node for node in nodes}
            if self.ledger:
                self.ledger.summed(self.sums.sums, tuple(left), totals)
            self.sums.receive(tuple(left), totals)
        except LostError:
            left = {name: there[name] for name in there if there[name] in carrier.answered}
        finally:
            self.trips += carrier.trips
            self.up += carrier.up
            self.down += carrier.down
            for node, reason in carrier.reasons.items():
                self._refuse(names[node], reason)
        return left

    def _first_step(self, data: bytes, model: ArrayRecord | None) -> None:
        """Ask every node whether it can take part; names that two claim are refused."""
        claims: dict[str, dict[int, Reply]] = {}
        ask = Ask("", encode(self.round), data, self.pace.deadline)

        def _hear() -> Iterator[tuple[str, bool]]:
            """Ask nodes that are new or back, and hear those that replied."""
            self._ask_new(READY, ask, model)
            for reply in self.post.hear():
                if not self._is_strange(reply):
                    claims.setdefault(reply.agent, {})[reply.node] = reply
                    yield reply.agent, reply.status == OK

        collect(_hear, self.round.agents, self.round.quorum, self.pace)
        for name, replies in claims.items():
            (first, *others) = replies.values()
            if others:
                self._refuse(name, "agent: two nodes claim this name")
            elif first.status != OK:
                if first.status != "engine":
                    self._refuse(name, f"{first.status}: {CODES[first.status]}")
            else:
                self.bound[name] = first.node
                self.down[first.node] += len(ask.round) + len(ask.body)
