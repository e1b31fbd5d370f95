"""The server's side of a secure round over Flower: SecAgg+ adds the sites' words under masks.

Who can take part is asked plainly; every number travels under masks. Each sum runs Flower's
SecAgg+ workflow over a grid of ours, which checks every reply before SecAgg+ sees it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from msgspec.structs import replace

from fedwqcp._io import from_json
from fedwqcp._validation import fits
from fedwqcp.errors import FedwqcpError, InputError, QuorumError, RoundError, traced
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.release import Release
from fedwqcp.federation.secure import SecureServer
from fedwqcp.federation.transport.envelope import OK, NodeId, Reply, Request, reason_of
from fedwqcp.federation.transport.flower.carrier import (
    READY,
    SUM,
    GridCarrier,
    read_reply,
)
from fedwqcp.federation.transport.flower.secagg import (
    LONGEST,
    RECORD_KEY_CONFIGS,
    Key,
    MaskedTotal,
    Stage,
    are_shares,
    fit_reply,
    is_key,
)
from fedwqcp.federation.transport.session import Session, collect
from fedwqcp.methods import MODULUS
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Round

_log = logging.getLogger("fedwqcp")
_FIELDS: dict[str, dict[str, Any]] = {
    Stage.SETUP: {Key.PUBLIC_KEY_1: bytes, Key.PUBLIC_KEY_2: bytes},
    Stage.SHARE_KEYS: {Key.DESTINATION_LIST: list[int], Key.CIPHERTEXT_LIST: list[bytes]},
    Stage.COLLECT_MASKED_VECTORS: {Key.MASKED_PARAMETERS: list[bytes]},
    Stage.UNMASK: {Key.NODE_ID_LIST: list[int], Key.SHARE_LIST: list[bytes]},
}
"""What a reply of each stage holds."""
_RULES = {
    Stage.SETUP: "two different public keys on the curve P-384",
    Stage.SHARE_KEYS: f"key shares of at most {LONGEST} bytes, one for each other site",
    Stage.COLLECT_MASKED_VECTORS: "the words of the sum modulo 2^32",
    Stage.UNMASK: "one share for each site that was named, in their order",
}
"""How they must be."""
_EARLY = (Stage.SETUP, Stage.SHARE_KEYS)
"""Stages in which a lost site has not shared its keys yet: the sum begins again without it."""


class SecureSession(Session):
    """One secure round while it runs; its terms state the range of the thresholds."""

    carrier: GridCarrier

    def __init__(self, carrier: GridCarrier, round: Round, *more: Any) -> None:
        self.sums = SecureServer(Plan.of(round))  # before anything is written
        super().__init__(carrier, round, *more)
        self.trips = 0
        self.up: Counter[str] = Counter()  # bytes by agent
        self.down: Counter[str] = Counter()

    def _release(self, model: ArrayRecord | None) -> Release:
        """Ask who can take part, and add until the thresholds are known."""
        names = self._ask_ready(model)
        while not self.sums.ended:
            names = self._add(names)
        return self.sums.release(1 + self.trips, self.up, self.down)

    def _ask_ready(self, model: ArrayRecord | None) -> dict[int, str]:
        """Ask every node whether it can take part, and return the agents that can, by node."""
        request, names = self.request(), dict[int, str]()
        for reply in self._identify(READY, request, model):
            self.bound[reply.agent] = reply.node
            if reply.status == OK:
                names[int(reply.node)] = reply.agent
                self.down[reply.agent] += len(request.round) + len(request.body)
            else:
                self.refuse(reply.agent, reason_of(reply))
        self.carrier.clear()
        return names

    def _is_sound(self, reply: Reply) -> bool:
        return reply.status == OK  # it holds no answer

    def request(self) -> Request:
        """Return what sites are asked at this point of the round."""
        return Request("", encode(self.round), self.sums.ask(), self.timeouts.deadline)

    def _add(self, names: dict[int, str]) -> dict[int, str]:
        """Get the totals of one sum; where sites are lost too early, go on without them."""
        if len(names) < self.round.quorum:
            raise QuorumError(
                f"{len(names)} of {len(self.round.agents)} agents can take part in the sum, the "
                f"round needs {self.round.quorum}"
            )
        grid, total = SecAggGrid(self, names), MaskedTotal(names, self.sums.scale)
        try:
            total.add(grid)
        except LostSitesError:
            return {node: names[node] for node in names if node in grid.answered}
        except (ValueError, TypeError, ArithmeticError) as error:
            if grid.stage != Stage.UNMASK or isinstance(error, FedwqcpError):
                raise
            raise RoundError(
                "masks: they do not cancel: at least one site did not follow the protocol, and a "
                "masked sum cannot tell which"
            ) from None
        if not total.nodes:
            raise QuorumError("too few agents were left to remove the masks of the sum")
        left = {node: names[node] for node in total.nodes}
        self.ledger.summed(self.sums.sums, tuple(left.values()), total.totals)
        self.sums.receive(tuple(left.values()), total.totals)
        return left


class LostSitesError(Exception):
    """Sites were lost before their masks could be recovered: the sum must begin again."""


class SecAggGrid:
    """The grid that SecAgg+ sends the stages of one sum over; it needs one method of a grid.

    SecAgg+ itself trusts what sites send. Here every reply is read first: one that breaks the
    protocol is refused with its node, and SecAgg+ gets a clean copy of the others.
    """

    def __init__(self, session: SecureSession, names: Mapping[int, str]) -> None:
        self.session = session
        self.names = names  # the agents of this sum, by node
        self.request = session.request()  # its body goes with the stage in which it is answered
        self.answered: set[int] = set()  # nodes that can take part in what comes next
        self.stage = ""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send the messages of one stage, one for each site, and return the sound replies.

        The round's own timeouts hold, not SecAgg+'s. Raises `LostSitesError` if a site is lost
        before it shared its keys, or shared keys that nobody can use; `QuorumError` if too few are
        left to unmask a sum; `RoundError` if sites contradict each other, and nobody can tell which
        of them is at fault.
        """
        del timeout
        self.session.trips += 1
        quorum = self.session.round.quorum
        sent = {message.metadata.dst_node_id: message for message in messages}
        asked = {node: _configs(message) for node, message in sent.items()}
        self.stage = str(next(iter(asked.values()))[Key.STAGE])
        body = self.request.body if self.stage == Stage.COLLECT_MASKED_VECTORS else b""
        requests: dict[NodeId, Request] = dict.fromkeys(sent, replace(self.request, body=body))
        carrier = self.session.carrier
        records: dict[NodeId, dict[str, Any]] = {
            node: {**message.content, RECORD_KEY_CONFIGS: ConfigRecord(dict(asked[node]))}
            for node, message in sent.items()
        }  # SecAgg+ gives all sites one record, and a site may change its own
        for message in carrier.push(SUM, requests, records):
            self.session.down[self.names[message.metadata.dst_node_id]] += _size(message.content)
        sound: dict[int, Message] = {}
        disputes: list[tuple[int, int]] = []  # who accuses whom

        def _receive() -> Iterator[tuple[str, bool]]:
            for message, asked_node, nonce in carrier.pull():
                node = int(asked_node)
                checked = self._check(message, node, nonce, asked[node])
                if isinstance(checked, Message):
                    sound[node] = checked
                elif checked is not None:
                    disputes.extend((node, other) for other in checked)
                yield str(node), isinstance(checked, Message)

        expected = {str(node) for node, _ in carrier.open.values()}
        collect(_receive, expected, quorum, self.session.timeouts)
        carrier.clear()
        if self.stage == Stage.SETUP:
            self._refuse_shared_keys(sound)
        self.answered = set(sound)
        if disputes:
            self._judge(disputes, len(sent))
        if len(sound) < len(sent) and self.stage in _EARLY:
            raise LostSitesError
        if len(sound) < quorum and self.stage == Stage.COLLECT_MASKED_VECTORS:
            raise QuorumError(f"{len(sound)} masked answers came, the round needs {quorum}")
        return list(sound.values())

    def _check(
        self, message: Message, node: int, nonce: str, asked: ConfigRecord
    ) -> Message | list[int] | None:
        """Return a sound reply, or the nodes that the site accuses; otherwise record why not."""
        try:
            if message.has_content():
                self.session.up[self.names[node]] += _size(message.content)
            reply = read_reply(message, node, nonce, alone=False)
            if reply.status == "shares" and self.stage == Stage.COLLECT_MASKED_VECTORS:
                return _accused(reply.body, asked)
            if reply.status not in (OK, "engine"):
                self._refuse(node, reason_of(reply))
            if reply.status != OK:
                return None
            if message.metadata.src_node_id != node:
                raise InputError("the reply must come from the node that was asked")
            width = self.session.sums.width + 1  # and CHECK
            message.content = _stage_reply(self.stage, node, asked, message.content, width)
            return message
        except InputError as error:
            self._refuse(node, f"malformed: {error}")
        except Exception as error:
            _log.error("a reply of node %s was refused: %s", node, traced(error))
            self._refuse(node, reason_of(Reply(node, "", "internal")))
        return None

    def _refuse(self, node: int, reason: str) -> None:
        self.session.refuse(self.names[node], reason)

    def _refuse_shared_keys(self, sound: dict[int, Message]) -> None:
        """Refuse nodes with keys that others have too: keys are random, and no site saw another's.

        Left in, they would make every honest site refuse the next stage.
        """
        keys = {node: set(_configs(message).values()) for node, message in sound.items()}
        for node, pair in keys.items():
            if any(pair & theirs for other, theirs in keys.items() if other != node):
                self._refuse(node, "malformed: public keys must be of one site alone")
                del sound[node]

    def _judge(self, disputes: Sequence[tuple[int, int]], count: int) -> None:
        """Leave out a node in dispute with most others; a lesser dispute ends the round.

        Of two sites in dispute one is at fault, and only they know which. If more than half of the
        sites follow the protocol, one in dispute with more than half of them does not.
        """
        against: dict[int, set[int]] = {}
        for accuser, node in disputes:
            against.setdefault(node, set()).add(accuser)
            against.setdefault(accuser, set()).add(node)
        guilty = {node for node, others in against.items() if 2 * len(others) > count}
        for accuser, node in disputes:
            if not guilty & {node, accuser}:
                raise RoundError(
                    f"masks: {self.names[accuser]} says that it cannot open the key shares of "
                    f"{self.names[node]}; one of the two is at fault, and nobody else can tell "
                    "which"
                )
        for node in guilty:
            self._refuse(node, "malformed: its key shares and those of most sites do not fit")
        self.answered = (self.answered | set(against)) - guilty
        raise LostSitesError


def _configs(message: Message) -> ConfigRecord:
    """Return the fields of SecAgg+ in a message."""
    return message.content.config_records[RECORD_KEY_CONFIGS]


def _accused(body: bytes, asked: ConfigRecord) -> list[int]:
    """Read whose shares a site cannot open."""
    nodes = from_json(body, list[int])
    if not nodes or not set(nodes) <= set(cast(list[int], asked[Key.SOURCE_LIST])):
        raise InputError("a site that cannot open shares must name the nodes they came from")
    return nodes


def _stage_reply(
    stage: str, node: int, asked: ConfigRecord, content: RecordDict, width: int
) -> RecordDict:
    """Return what SecAgg+ may read of a reply: the fields of its stage, each as it must be."""
    kinds, fields = _FIELDS[stage], dict[str, Any]()
    fields.update(content.config_records.get(RECORD_KEY_CONFIGS, {}))
    sound = fields.keys() == kinds.keys() and all(fits(fields[k], kinds[k]) for k in kinds)
    if sound and stage == Stage.SETUP:
        first, second = fields.values()
        sound = first != second and is_key(first) and is_key(second)
    elif sound and stage == Stage.SHARE_KEYS:
        others = {int(key) for key in asked if key != Key.STAGE} - {node}
        to, ciphertexts = fields[Key.DESTINATION_LIST], fields[Key.CIPHERTEXT_LIST]
        sound = len(to) == len(ciphertexts) == len(others) and set(to) == others
        sound = sound and all(len(ciphertext) <= LONGEST for ciphertext in ciphertexts)
    elif sound and stage == Stage.COLLECT_MASKED_VECTORS:
        vectors = fields[Key.MASKED_PARAMETERS]
        sound = len(vectors) == 2 and _is_words(vectors[0], 1) and _is_words(vectors[1], width)
    elif sound:
        active, dead = (
            cast(list[int], asked[key]) for key in (Key.ACTIVE_NODE_ID_LIST, Key.DEAD_NODE_ID_LIST)
        )
        shares, here = fields[Key.SHARE_LIST], len(active)
        sound = fields[Key.NODE_ID_LIST] == [*active, *dead] and len(shares) == here + len(dead)
        sound = sound and are_shares(shares[:here], shares[here:])
    if not sound:
        raise InputError(f"a reply of the stage {stage} must hold {_RULES[stage]}")
    clean = fit_reply() if stage == Stage.COLLECT_MASKED_VECTORS else RecordDict()
    clean[RECORD_KEY_CONFIGS] = ConfigRecord(fields)
    return clean


def _is_words(data: bytes, count: int) -> bool:
    """Tell whether bytes are an array of ``count`` words, as NumPy writes it."""
    file = BytesIO()
    np.save(file, np.zeros(count, dtype=np.int64))
    zeros = file.getvalue()
    start = len(zeros) - 8 * count
    if len(data) != len(zeros) or data[:start] != zeros[:start]:
        return False
    words = np.frombuffer(data[start:], dtype=np.int64)
    return bool(((words >= 0) & (words < MODULUS)).all())


def _size(content: RecordDict) -> int:
    """Return the bytes that a message carries, without what Flower adds."""
    values = [value for record in content.values() for value in record.values()]
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    return sum(len(v) if isinstance(v, bytes | str) else 8 for v in flat)
