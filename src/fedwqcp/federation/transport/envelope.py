"""What an engine carries between the server and a site: requests, replies and fixed codes.

A request holds a nonce and the bytes that any other transport would carry. A reply holds the same
nonce, and an answer or one of a few fixed codes: no other text about a site travels.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from fedwqcp.errors import InputError
from fedwqcp.wire.codec import MAX_BYTES
from fedwqcp.wire.messages import NAME_BYTES

ASK = "fedwqcp_ask"
"""Action of a request for an answer."""
RELEASE = "fedwqcp_release"
"""Action of a request that hands over the release."""
OK = "ok"
"""Status of a reply that holds what was asked for."""

CODES = {
    "terms": "the round cannot be followed with what is installed at the site",
    "roster": "the site's agent is not in the roster",
    "round": "the site knows other terms, or another release, under the id of this round",
    "folder": "the record of what the site sent is missing: a person there must renew it",
    "required": "the site insists on another method, target or smaller level",
    "approval": "the round waits at the site for a person's approval: open it again later",
    "data": "the site's outputs could not be read, or do not fit the round",
    "classes": "the site's model has other classes than the round, or another order of them",
    "size": "the site has more calibration points than the round's max-n allows",
    "answer": "the site does not answer this question, or may not",
    "budget": "the site's privacy budget does not allow the answer",
    "secure": "the site takes part in secure rounds alone, or the terms say that this is one",
    "masks": "the site does not take part in a sum of so few agents, or with other masks",
    "shares": "the site cannot open the key shares that another site made for it",
    "deadline": "the site's watchdog ended the computation",
    "died": "the computation at the site ended without a result",
    "failed": "the site could not answer; only the site's own log says why",
    "nonce": "the reply must carry the nonce of its question",
    "malformed": "the reply must hold exactly the fields of a reply",
    "engine": "the engine reports that the site did not reply",
    "silent": "no reply came in time",
    "offline": "no node that was online answered for this agent",
    "signature": "the reply is not signed with the key of the agent that it names",
    "internal": "the server failed on the reply: please report this",
}
"""Every status that a reply can have besides ``ok``."""
_SERVER_CODES = frozenset(
    {"nonce", "malformed", "engine", "silent", "offline", "signature", "internal"}
)
"""What the server finds itself: no site can say it."""

NodeId: TypeAlias = int | str
"""How an engine names a node."""


class Request(msgspec.Struct, frozen=True):
    """What the server sends to a site; a carrier sets the nonce, which is to be sent back."""

    nonce: str
    round: bytes  # the encoded terms; empty where a release is handed over
    body: bytes  # the encoded question or release; empty for the first question, which is implied
    seconds: float  # how long the site may compute

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Request:
        """Read the fields of a request."""
        try:
            return msgspec.convert(dict(fields), cls, builtin_types=(bytes,))
        except msgspec.ValidationError as error:
            raise InputError(f"a request must hold its fields: {error}") from None

    def fields(self) -> dict[str, str | bytes | float]:
        """Return the fields that travel."""
        return {**msgspec.structs.asdict(self), "seconds": float(self.seconds)}


@dataclass(frozen=True)
class Reply:
    """What a site replied, as the server sees it."""

    node: NodeId  # the node that was asked
    agent: str  # who it says it is; empty where that cannot be read
    status: str  # ``ok`` or one of `CODES`
    body: bytes = b""  # the encoded answer, or the digest of the release
    detail: str = ""  # the engine's own code of what it reports

    @classmethod
    def of(cls, node: NodeId, nonce: str, fields: object) -> Reply:
        """Read the fields of a reply; where they break a rule, the status says which."""
        names = ("nonce", "agent", "status", "body")
        if not isinstance(fields, Mapping) or set(fields) != set(names):
            return cls(node, "", "malformed")
        theirs, agent, status, body = (fields[name] for name in names)
        if not isinstance(theirs, str) or not secrets.compare_digest(ascii(theirs), ascii(nonce)):
            return cls(node, "", "nonce")
        if not isinstance(agent, str) or len(agent) > NAME_BYTES:
            return cls(node, "", "malformed")
        if not isinstance(body, bytes) or len(body) > MAX_BYTES:
            return cls(node, agent, "malformed")
        known = isinstance(status, str) and (status == OK or status in CODES)
        if not known or status in _SERVER_CODES or (status == OK and not agent):
            return cls(node, agent, "malformed")
        return cls(node, agent, str(status), body)


def reason_of(reply: Reply) -> str:
    """Say why a reply holds no answer, by its status."""
    detail = f" ({reply.detail})" if reply.detail else ""
    return f"{reply.status}: {CODES[reply.status]}{detail}"


def reply_fields(nonce: str, agent: str, status: str, body: bytes) -> dict[str, str | bytes]:
    """Return the fields of a reply as they travel."""
    return {"nonce": nonce, "agent": agent, "status": status, "body": body}


def new_nonce() -> str:
    """Return a nonce that nobody can guess."""
    return secrets.token_hex(16)
