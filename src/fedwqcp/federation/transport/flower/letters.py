"""What one Flower message holds: a nonce, and the bytes that any other transport would carry."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass

from flwr.app import ArrayRecord, ConfigRecord, ConfigRecordValues, Message, RecordDict

from fedwqcp.errors import InputError, traced
from fedwqcp.wire.codec import MAX_BYTES

ASK = "fedwqcp_ask"
"""Action of a query that asks for an answer."""
RELEASE = "fedwqcp_release"
"""Action of a query that hands over the release."""
READY = "fedwqcp_ready"
"""Action of a query that asks whether a site can take part in a secure round."""
SUM = "fedwqcp_sum"
"""Action of the queries of a masked sum."""
MODEL = "fedwqcp.model"
"""Record with the parameters of a model that was trained in the same run."""
OK = "ok"
"""Status of a reply that holds what was asked for."""

CODES = {
    "terms": "the round cannot be followed with what is installed at the site",
    "roster": "the site's agent is not in the roster",
    "round": "the site knows other terms, or another release, under the id of this round",
    "data": "the site's outputs could not be read, or do not fit the round",
    "answer": "the site does not answer this question, or may not",
    "budget": "the site's privacy budget does not allow the answer",
    "secure": "the site takes part in secure rounds alone, or the terms say that this is one",
    "masks": "the site does not take part in a sum of so few agents, or with other masks",
    "shares": "the site cannot open the key shares that another site made for it",
    "deadline": "the site's watchdog ended the computation",
    "died": "the computation at the site ended without a result",
    "failed": "something else failed at the site; its own folder tells more",
    "nonce": "the reply must carry the nonce of its question",
    "malformed": "the reply must hold exactly the fields of a reply",
    "engine": "the engine reports that the site did not reply",
    "signature": "the reply is not signed with the key of the agent that it names",
    "internal": "the server failed on the reply: please report this",
}
"""Every status that a reply can have besides ``ok``; no other text about a site travels."""
_JUDGED_HERE = frozenset({"nonce", "malformed", "engine", "signature", "internal"})
"""What the server finds itself: no site can say it."""

RECORD = "fedwqcp"
"""Record that holds our fields of a message."""
_NAME_LENGTH = 64
_log = logging.getLogger("fedwqcp")


@dataclass(frozen=True)
class Ask:
    """A question as it travels.

    Parameters
    ----------
    nonce : str
        To be sent back.
    round : bytes
        The encoded terms; empty where a release is handed over.
    body : bytes
        The encoded question or release; empty for the first question, which the terms imply.
    seconds : float
        How long the site may compute.
    """

    nonce: str
    round: bytes
    body: bytes
    seconds: float


@dataclass(frozen=True)
class Reply:
    """A reply as the server sees it.

    Parameters
    ----------
    node : int
        The node that was asked.
    agent : str
        Who it says it is; empty where that cannot be read.
    status : str
        ``ok`` or one of `CODES`.
    body : bytes
        The encoded answer, or the digest of the release.
    """

    node: int
    agent: str
    status: str
    body: bytes = b""


def new_nonce() -> str:
    """Return a nonce that nobody can guess.

    Returns
    -------
    str
        Thirty-two hexadecimal digits.
    """
    return secrets.token_hex(16)


def write_ask(node: int, action: str, ask: Ask, ttl: float, model: ArrayRecord | None) -> Message:
    """Return a question as a message to one node.

    Parameters
    ----------
    node : int
        The node.
    action : str
        `ASK` or `RELEASE`.
    ask : Ask
        The question.
    ttl : float
        Seconds after which it is worth nothing.
    model : ArrayRecord or None
        Parameters of a model that was trained in the same run.

    Returns
    -------
    Message
        Ready to be pushed.
    """
    fields: dict[str, ConfigRecordValues] = {
        "nonce": ask.nonce,
        "round": ask.round,
        "body": ask.body,
        "seconds": float(ask.seconds),
    }
    content = RecordDict({RECORD: ConfigRecord(fields)})
    if model is not None:
        content[MODEL] = model
    return Message(content, dst_node_id=node, message_type=f"query.{action}", ttl=ttl)


def read_ask(message: Message) -> Ask:
    """Return the question that a message holds.

    Parameters
    ----------
    message : Message
        What came from the server.

    Returns
    -------
    Ask
        The question.

    Raises
    ------
    InputError
        If a field is of another type.
    """
    record = message.content[RECORD]
    nonce, round, body, seconds = (record[key] for key in ("nonce", "round", "body", "seconds"))
    if not (isinstance(nonce, str) and isinstance(round, bytes) and isinstance(body, bytes)):
        raise InputError("a question must hold a nonce and bytes")
    if not isinstance(seconds, float):
        raise InputError("a question must say how long the site may compute")
    return Ask(nonce, round, body, seconds)


def write_reply(message: Message, nonce: str, agent: str, status: str, body: bytes) -> Message:
    """Return the reply to a message.

    Parameters
    ----------
    message : Message
        The question.
    nonce : str
        Its nonce.
    agent : str
        Who replies.
    status : str
        ``ok`` or one of `CODES`.
    body : bytes
        The encoded answer, or the digest of the release; empty without ``ok``.

    Returns
    -------
    Message
        The reply.
    """
    fields: dict[str, ConfigRecordValues]
    fields = {"nonce": nonce, "agent": agent, "status": status, "body": body}
    return Message(RecordDict({RECORD: ConfigRecord(fields)}), reply_to=message)


def read_reply(message: Message, node: int, nonce: str) -> Reply:
    """Return what a node replied, or which rule the reply breaks.

    Parameters
    ----------
    message : Message
        What came.
    node : int
        The node that was asked.
    nonce : str
        The nonce of the question.

    Returns
    -------
    Reply
        With the name of the agent only where the nonce is right. It never raises: what nobody
        foresaw has the status ``internal``.
    """
    try:
        return _read_reply(message, node, nonce)
    except Exception as error:
        _log.error("a reply of node %s was refused: %s", node, traced(error))
        return Reply(node, "", "internal")


def _read_reply(message: Message, node: int, nonce: str) -> Reply:
    """Read a reply, or say which rule it breaks."""
    if not message.has_content():
        return Reply(node, "", "engine")
    record = message.content.get(RECORD)
    if len(message.content) != 1 or not isinstance(record, ConfigRecord):
        return Reply(node, "", "malformed")
    if set(record) != {"nonce", "agent", "status", "body"}:
        return Reply(node, "", "malformed")
    theirs, agent, status, body = (record[key] for key in ("nonce", "agent", "status", "body"))
    if not isinstance(theirs, str) or not secrets.compare_digest(ascii(theirs), ascii(nonce)):
        return Reply(node, "", "nonce")
    if not isinstance(agent, str) or len(agent) > _NAME_LENGTH:
        return Reply(node, "", "malformed")
    if not isinstance(body, bytes) or len(body) > MAX_BYTES:
        return Reply(node, agent, "malformed")
    known = isinstance(status, str) and (status == OK or status in CODES)
    if not known or status in _JUDGED_HERE or (status == OK and not agent):
        return Reply(node, agent, "malformed")
    return Reply(node, agent, str(status), body)
