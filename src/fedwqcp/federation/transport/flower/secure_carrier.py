"""How the stages of SecAgg+ travel: as queries with nonces, under a pace and a quorum."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, TypeGuard, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common import Code, FitRes, Parameters, Status
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common.recorddict_compat import fitres_to_recorddict
from flwr.serverapp import Grid
from flwr.supercore.primitives.asymmetric import bytes_to_public_key
from numpy.lib import format as npy

from fedwqcp.errors import InputError, QuorumError, RoundError, traced
from fedwqcp.federation.transport.flower.drive import Pace, collect
from fedwqcp.federation.transport.flower.letters import (
    CODES,
    OK,
    RECORD,
    SUM,
    Ask,
    new_nonce,
    read_reply,
)
from fedwqcp.wire.masked import MODULUS

CHECK = 1
"""A word that every site adds: its total tells whether the masks cancel."""
_FIELDS = {
    Stage.SETUP: {Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2},
    Stage.SHARE_KEYS: {Key.DESTINATION_LIST, Key.CIPHERTEXT_LIST},
    Stage.COLLECT_MASKED_VECTORS: {Key.MASKED_PARAMETERS},
    Stage.UNMASK: {Key.NODE_ID_LIST, Key.SHARE_LIST},
}
"""What a reply of each stage holds."""
_LONGEST = 4096
"""Bytes of the longest key, share or ciphertext: honest ones have less than 1024."""
_SEED_SHARE = 4 + 48
"""Bytes of a share of a seed: 32 bytes, padded to blocks of 16, behind the number of the share."""
_log = logging.getLogger("fedwqcp")
_EARLY = (Stage.SETUP, Stage.SHARE_KEYS)
_SPARE = 30.0
"""Seconds that a message outlives its deadline, so that clocks may differ a little."""


class LostError(Exception):
    """Sites were lost before their masks could be recovered: the sum must begin again."""


@dataclass
class Carrier:
    """Carries the stages of one sum; SecAgg+ takes it for its grid, of which it needs one method.

    SecAgg+ itself trusts what sites send. Here every reply is read first: one that breaks the
    protocol is refused with its node, and SecAgg+ gets a clean copy of the others.

    Parameters
    ----------
    grid : Grid
        Flower's way to the nodes.
    pace : Pace
        Deadline and grace of each stage.
    names : mapping of int to str
        The agents, by node.
    quorum : int
        How many sites must take part in every stage.
    ask : Ask
        The question; its body goes with the stage in which it is answered.
    width : int
        How many words the answer has.
    trips : int, optional
        Round trips so far.
    up, down : Counter, optional
        Bytes by node.
    reasons : dict, optional
        Why sites were refused, by node.
    answered : set, optional
        Nodes that can take part in the next stage, or when the sum begins again.
    stage : str, optional
        The last stage.
    """

    grid: Grid
    pace: Pace
    names: Mapping[int, str]
    quorum: int
    ask: Ask
    width: int
    trips: int = 0
    up: Counter[int] = field(default_factory=Counter)
    down: Counter[int] = field(default_factory=Counter)
    reasons: dict[int, str] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    stage: str = ""

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send the messages of one stage, and return the sound replies.

        Parameters
        ----------
        messages : iterable of Message
            One for each site.
        timeout : float, optional
            Not used: the pace says how long to wait.

        Returns
        -------
        list of Message
            Replies that carry the nonce of their question and are sound.

        Raises
        ------
        LostError
            If a site is lost before it shared its keys, or shared keys that nobody can use.
        QuorumError
            If too few sites are left to unmask a sum.
        RoundError
            If sites contradict each other, and nobody can tell which of them is at fault.
        """
        del timeout
        self.trips += 1
        sent = {message.metadata.dst_node_id: message for message in messages}
        asked = {node: _configs(message) for node, message in sent.items()}
        self.stage = str(next(iter(asked.values()))[Key.STAGE])
        waiting = self._push(sent)
        sound: dict[int, Message] = {}
        accused: dict[int, set[int]] = {}

        def _hear() -> Iterator[tuple[str, bool]]:
            """Take the replies that came."""
            for message in self.grid.pull_messages(list(waiting)) if waiting else ():
                node, nonce = waiting.pop(message.metadata.reply_to_message_id, (0, ""))
                if nonce:
                    said = self._heard(message, node, nonce, asked[node])
                    if isinstance(said, Message):
                        sound[node] = said
                    for other in said if isinstance(said, list) else ():
                        accused.setdefault(other, set()).add(node)
                    yield str(node), isinstance(said, Message)

        collect(_hear, {str(node) for node, _ in waiting.values()}, self.quorum, self.pace)
        if self.stage == Stage.SETUP:
            self._refuse_shared_keys(sound)
        self.answered = set(sound)
        if accused:
            self._judge(accused, len(sent))
        if len(sound) < len(sent) and self.stage in _EARLY:
            raise LostError
        if len(sound) < self.quorum and self.stage == Stage.COLLECT_MASKED_VECTORS:
            raise QuorumError(f"{len(sound)} masked answers came, the round needs {self.quorum}")
        return list(sound.values())

    def _push(self, messages: Mapping[int, Message]) -> dict[str, tuple[int, str]]:
        """Send each message as a query of ours with a nonce."""
        asked, queries = [], []
        for node, message in messages.items():
            nonce = new_nonce()
            content = RecordDict(dict(message.content))
            stage = _configs(message)
            content[RECORD_KEY_CONFIGS] = ConfigRecord(dict(stage))  # sites may change their own
            asks = stage[Key.STAGE] == Stage.COLLECT_MASKED_VECTORS
            body = self.ask.body if asks else b""
            seconds = float(self.ask.seconds)
            content[RECORD] = ConfigRecord(
                {"nonce": nonce, "round": self.ask.round, "body": body, "seconds": seconds}
            )
            query = f"query.{SUM}"
            ttl = self.pace.deadline + _SPARE
            queries.append(Message(content, dst_node_id=node, message_type=query, ttl=ttl))
            asked.append((node, nonce))
            self.down[node] += _size(content)
        ids = self.grid.push_messages(queries)
        return {found: who for found, who in zip(ids, asked, strict=False) if found}

    def _heard(
        self, message: Message, node: int, nonce: str, asked: ConfigRecord
    ) -> Message | list[int] | None:
        """Return a sound reply, or the nodes that the site accuses; otherwise note why not."""
        try:
            if message.has_content():
                self.up[node] += _size(message.content)
                only = RecordDict({RECORD: message.content.get(RECORD, ConfigRecord())})
                reply = read_reply(Message(only, reply_to=message), node, nonce)
            else:
                reply = read_reply(message, node, nonce)
            if reply.status == "shares" and self.stage == Stage.COLLECT_MASKED_VECTORS:
                return _accused(reply.body, asked)
            if reply.status not in (OK, "engine"):
                self.reasons[node] = f"{reply.status}: {CODES[reply.status]}"
            if reply.status != OK:
                return None
            if message.metadata.src_node_id != node:
                raise InputError("the reply must come from the node that was asked")
            message.content = _stage_reply(self.stage, node, asked, message.content, self.width)
            return message
        except InputError as error:
            self.reasons[node] = f"malformed: {error}"
        except Exception as error:
            _log.error("a reply of node %s was refused: %s", node, traced(error))
            self.reasons[node] = f"internal: {CODES['internal']}"
        return None

    def _refuse_shared_keys(self, sound: dict[int, Message]) -> None:
        """Refuse nodes with keys that others have too: keys are random, and no site saw another's.

        Left in, they would make every honest site refuse the next stage.
        """
        keys = {node: set(_configs(message).values()) for node, message in sound.items()}
        for node, own in keys.items():
            if any(own & theirs for other, theirs in keys.items() if other != node):
                self.reasons[node] = "malformed: public keys must be of one site alone"
                del sound[node]

    def _judge(self, accused: Mapping[int, set[int]], count: int) -> None:
        """Leave out a node in dispute with most others; a lesser dispute ends the round.

        Of two sites in dispute one is at fault, and only they know which. If more than half of the
        sites follow the protocol, one in dispute with more than half of them does not.
        """
        against: dict[int, set[int]] = {}
        for node, accusers in accused.items():
            for accuser in accusers:
                against.setdefault(node, set()).add(accuser)
                against.setdefault(accuser, set()).add(node)
        guilty = {node for node, others in against.items() if 2 * len(others) > count}
        for node, accusers in accused.items():
            for accuser in accusers:
                if not guilty & {node, accuser}:
                    raise RoundError(
                        f"masks: {self.names[accuser]} says that it cannot open the key shares of "
                        f"{self.names[node]}; one of the two is at fault, and nobody else can tell "
                        "which"
                    )
        for node in guilty:
            self.reasons[node] = "malformed: its key shares and those of most sites do not fit"
        self.answered = (self.answered | set(against)) - guilty
        raise LostError


def are_shares(seeds: Sequence[bytes], keys: Sequence[bytes]) -> bool:
    """Tell whether bytes can be shares of secrets: a number, and blocks of 16 bytes.

    Parameters
    ----------
    seeds, keys : sequence of bytes
        What sites made of the seeds of their masks, and of their private keys.

    Returns
    -------
    bool
        Whether they have the form of shares, which says nothing of their values.
    """
    return all(len(share) == _SEED_SHARE for share in seeds) and all(
        20 <= len(share) <= _LONGEST and len(share) % 16 == 4 for share in keys
    )


def _configs(message: Message) -> ConfigRecord:
    """Return what SecAgg+ says in a message."""
    return message.content.config_records[RECORD_KEY_CONFIGS]


def _accused(body: bytes, asked: ConfigRecord) -> list[int]:
    """Read whose shares a site cannot open."""
    try:
        nodes = json.loads(body)
    except (ValueError, RecursionError):
        nodes = None
    if not _is_list(nodes, int) or not nodes or not set(nodes) <= set(asked[Key.SOURCE_LIST]):  # type: ignore[arg-type]  # we sent a list
        raise InputError("a site that cannot open shares must name the nodes they came from")
    return list(nodes)


def _stage_reply(
    stage: str, node: int, asked: ConfigRecord, content: RecordDict, width: int
) -> RecordDict:
    """Return what SecAgg+ may read of a reply: the fields of its stage, each as it must be."""
    record = content.config_records.get(RECORD_KEY_CONFIGS)
    fields = dict(record) if record is not None else {}
    if set(fields) != _FIELDS[stage]:
        raise InputError(f"a reply of the stage {stage} must hold {', '.join(_FIELDS[stage])}")
    clean = RecordDict()
    if stage == Stage.SETUP:
        first, second = fields.values()
        if first == second or not (_is_key(first) and _is_key(second)):
            raise InputError("public keys must be two keys on the curve P-384")
    elif stage == Stage.SHARE_KEYS:
        others = {int(key) for key in asked if key != Key.STAGE} - {node}
        to, ciphertexts = fields[Key.DESTINATION_LIST], fields[Key.CIPHERTEXT_LIST]
        if not _is_list(to, int) or len(to) != len(others) or set(to) != others:
            raise InputError("key shares must be for every other site, once")
        if not _is_list(ciphertexts, bytes, len(to)) or max(map(len, ciphertexts)) > _LONGEST:
            raise InputError(f"key shares must be at most {_LONGEST} bytes for each other site")
    elif stage == Stage.COLLECT_MASKED_VECTORS:
        vectors = fields[Key.MASKED_PARAMETERS]
        if not _is_list(vectors, bytes, 2) or not (
            _is_words(vectors[0], 1) and _is_words(vectors[1], width)
        ):
            raise InputError(f"a masked answer must hold {width} words modulo 2^32")
        clean = fitres_to_recorddict(FitRes(Status(Code.OK, ""), Parameters([], ""), 1, {}), False)
    else:
        listed = [*asked[Key.ACTIVE_NODE_ID_LIST], *asked[Key.DEAD_NODE_ID_LIST]]  # type: ignore[misc]  # we sent lists
        shares = fields[Key.SHARE_LIST]
        if not _is_list(fields[Key.NODE_ID_LIST], int) or fields[Key.NODE_ID_LIST] != listed:
            raise InputError("shares must be of the sites that were named")
        active = len(cast(list[int], asked[Key.ACTIVE_NODE_ID_LIST]))
        if not _is_list(shares, bytes, len(listed)) or not are_shares(
            shares[:active], shares[active:]
        ):
            raise InputError("shares must be one for each site that was named")
    clean[RECORD_KEY_CONFIGS] = ConfigRecord(fields)
    return clean


def _is_list(value: object, kind: type, length: int | None = None) -> TypeGuard[list[Any]]:
    """Tell whether a value is a list of one type, and of one length where that is given."""
    return (
        isinstance(value, list)
        and (length is None or len(value) == length)
        and all(type(part) is kind for part in value)
    )


def _is_key(value: object) -> bool:
    """Tell whether a value is a public key that every site can use."""
    if not isinstance(value, bytes) or len(value) > _LONGEST:
        return False
    try:
        return bool(bytes_to_public_key(value).curve.name == "secp384r1")
    except Exception:  # whatever the bytes hold
        return False


def _is_words(data: bytes, count: int) -> bool:
    """Tell whether bytes are an array of so many words; nothing of a stated size is built first."""
    file = BytesIO(data)
    try:
        version = npy.read_magic(file)
        shape, _, dtype = npy.read_array_header_1_0(file)
    except Exception:  # whatever the bytes hold
        return False
    tail = data[file.tell() :]
    if version != (1, 0) or shape != (count,) or dtype != np.int64 or len(tail) != 8 * count:
        return False
    words = np.frombuffer(tail, dtype=np.int64)
    return bool(((words >= 0) & (words < MODULUS)).all())


def _size(content: RecordDict) -> int:
    """Return the bytes that a message carries, without what Flower adds."""
    values: list[object] = []
    for record in content.values():
        if isinstance(record, ArrayRecord):
            values += [array.data for array in record.values()]
        else:
            values += record.values()
    flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
    return sum(len(v) if isinstance(v, bytes | str) else 8 for v in flat)
