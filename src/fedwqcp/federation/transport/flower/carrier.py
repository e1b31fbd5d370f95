"""Requests and replies as Flower's messages, and the grid as a carrier of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from msgspec.structs import replace

from fedwqcp.errors import traced
from fedwqcp.federation.transport.envelope import NodeId, Reply, Request, new_nonce
from fedwqcp.federation.transport.session import Carrier
from fedwqcp.federation.transport.settings import Timeouts

READY = "fedwqcp_ready"
"""Action of a request that asks whether a site can take part in a secure round."""
SUM = "fedwqcp_sum"
"""Action of the requests of a masked sum."""
RECORD = "fedwqcp"
"""Record that holds our fields of a message."""
MODEL = "fedwqcp.model"
"""Record with the parameters of a model that was trained in the same run."""
_log = logging.getLogger("fedwqcp")
_SPARE = 30.0
"""Seconds that a message outlives its deadline, so that clocks may differ a little."""


class GridCarrier(Carrier):
    """Carries requests over Flower's grid."""

    def __init__(self, grid: Grid, timeouts: Timeouts) -> None:
        self.grid = grid
        self.gone = set()
        self._timeouts = timeouts
        self.open: dict[str, tuple[NodeId, str]] = {}  # node and nonce, by message

    def online(self) -> set[NodeId]:
        self.names = {node.node_id: node.name for node in self.grid.get_nodes()}
        return set(self.names)

    def send(self, action: str, requests: Mapping[NodeId, Request], model: Any = None) -> None:
        beside = {} if model is None else {MODEL: model}
        self.push(action, requests, dict.fromkeys(requests, beside))

    def push(
        self,
        action: str,
        requests: Mapping[NodeId, Request],
        records: Mapping[NodeId, Mapping[str, Any]],
    ) -> list[Message]:
        """Send each node its request with a fresh nonce, and records of its own beside it."""
        if not requests:
            return []
        sent = {node: replace(ask, nonce=new_nonce()) for node, ask in requests.items()}
        ttl = self._timeouts.deadline + _SPARE
        messages = [write_request(n, action, ask, ttl, records.get(n)) for n, ask in sent.items()]
        ids = self.grid.push_messages(messages)
        for (node, request), message_id in zip(sent.items(), ids, strict=False):
            if message_id:
                self.open[message_id] = (node, request.nonce)
        return messages

    def pull(self) -> Iterator[tuple[Message, NodeId, str]]:
        """Return the replies that came, each with the node that was asked, and its nonce."""
        for message in self.grid.pull_messages(list(self.open)) if self.open else ():
            asked = self.open.pop(message.metadata.reply_to_message_id, None)
            if asked is not None:
                yield message, *asked

    def receive(self) -> list[Reply]:
        replies = []
        for message, node, nonce in self.pull():
            replies.append(read_reply(message, node, nonce))
            if message.has_error() and message.error.code == ErrorCode.NODE_UNAVAILABLE:
                self.gone.add(node)
        return replies

    def clear(self) -> None:
        self.open.clear()
        self.gone.clear()


def write_request(
    node: NodeId,
    action: str,
    request: Request,
    ttl: float,
    records: Mapping[str, Any] | None = None,
) -> Message:
    """Return a request as a message to one node; Flower keeps it so many seconds."""
    content = RecordDict({RECORD: ConfigRecord(dict(request.fields()))})
    content.update(records or {})
    return Message(content, dst_node_id=int(node), message_type=f"query.{action}", ttl=ttl)


def read_request(message: Message) -> Request:
    """Return the request that a message holds."""
    return Request.of(message.content[RECORD])


def write_reply(message: Message, fields: Mapping[str, str | bytes]) -> Message:
    """Return the reply to a message."""
    return Message(RecordDict({RECORD: ConfigRecord(dict(fields))}), reply_to=message)


def _error_name(code: int) -> str:
    """Return Flower's name of an error; its text stays unread, since it may quote data."""
    names = (name for name, value in vars(ErrorCode).items() if value == code)
    return next(names, f"code {code:d}")


def read_reply(message: Message, node: NodeId, nonce: str, *, alone: bool = True) -> Reply:
    """Return what a node replied, or which rule the reply breaks.

    It has the name of the agent only where the nonce is right. It never raises: an unexpected error
    gives the status ``internal``. Unless it is to be ``alone``, SecAgg+ may have records beside it.
    """
    try:
        if not message.has_content():
            return Reply(node, "", "engine", detail=_error_name(message.error.code))
        if alone and len(message.content) != 1:
            return Reply(node, "", "malformed")
        return Reply.of(node, nonce, message.content.get(RECORD))
    except Exception as error:
        _log.error("a reply of node %s was refused: %s", node, traced(error))
        return Reply(node, "", "internal")
