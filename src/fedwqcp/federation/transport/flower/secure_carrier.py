"""How the stages of SecAgg+ travel: as queries with nonces, under a pace and a quorum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.serverapp import Grid

from fedwqcp.errors import QuorumError
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

_EARLY = (Stage.SETUP, Stage.SHARE_KEYS)
_SPARE = 30.0
"""Seconds that a message outlives its deadline, so that clocks may differ a little."""


class LostError(Exception):
    """Sites were lost before their masks could be recovered: the sum must begin again."""


@dataclass
class Carrier:
    """Carries the stages of one sum; SecAgg+ takes it for its grid, of which it needs one method.

    Parameters
    ----------
    grid : Grid
        Flower's way to the nodes.
    pace : Pace
        Deadline and grace of each stage.
    quorum : int
        How many sites must take part in every stage.
    ask : Ask
        The question, for the stage in which it is answered.
    bare : bytes
        What goes in the place of its body with the other stages.
    trips : int, optional
        Round trips so far.
    up, down : Counter, optional
        Bytes by node.
    reasons : dict, optional
        Why sites refused, by node.
    answered : set, optional
        Nodes that took part in the last stage.
    """

    grid: Grid
    pace: Pace
    quorum: int
    ask: Ask
    bare: bytes
    trips: int = 0
    up: Counter[int] = field(default_factory=Counter)
    down: Counter[int] = field(default_factory=Counter)
    reasons: dict[int, str] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)

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
            Replies that carry the nonce of their question and refuse nothing.

        Raises
        ------
        LostError
            If a site is lost before it shared its keys.
        QuorumError
            If too few sites are left to unmask a sum.
        """
        del timeout
        self.trips += 1
        sent = list(messages)
        stage = sent[0].content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
        waiting = self._push(sent)
        nodes = {str(node) for node, _ in waiting.values()}
        sound: list[Message] = []

        def _hear() -> Iterator[tuple[str, bool]]:
            """Take the replies that came."""
            for message in self.grid.pull_messages(list(waiting)) if waiting else ():
                asked = waiting.pop(message.metadata.reply_to_message_id, None)
                if asked is not None:
                    is_sound = self._is_sound(message, *asked)
                    sound.extend([message] if is_sound else [])
                    yield str(asked[0]), is_sound

        collect(_hear, nodes, self.quorum, self.pace)
        self.answered = {message.metadata.src_node_id for message in sound}
        if len(sound) < len(sent) and stage in _EARLY:
            raise LostError
        if len(sound) < self.quorum and stage == Stage.COLLECT_MASKED_VECTORS:
            raise QuorumError(f"{len(sound)} masked answers came, the round needs {self.quorum}")
        return sound

    def _push(self, messages: Sequence[Message]) -> dict[str, tuple[int, str]]:
        """Send each message as a query of ours with a nonce."""
        asked, queries = [], []
        for message in messages:
            node, nonce = message.metadata.dst_node_id, new_nonce()
            content = RecordDict(dict(message.content))
            stage = message.content.config_records[RECORD_KEY_CONFIGS]
            content[RECORD_KEY_CONFIGS] = ConfigRecord(dict(stage))  # sites may change their own
            asks = stage[Key.STAGE] == Stage.COLLECT_MASKED_VECTORS
            body = self.ask.body if asks else self.bare
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

    def _is_sound(self, message: Message, node: int, nonce: str) -> bool:
        """Tell whether a reply carries its nonce and is from the node that was asked."""
        if message.has_content():
            self.up[node] += _size(message.content)
            only = RecordDict({RECORD: message.content.get(RECORD, ConfigRecord())})
            reply = read_reply(Message(only, reply_to=message), node, nonce)
        else:
            reply = read_reply(message, node, nonce)
        if reply.status not in (OK, "engine"):
            self.reasons[node] = f"{reply.status}: {CODES[reply.status]}"
        return reply.status == OK and message.metadata.src_node_id == node


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
