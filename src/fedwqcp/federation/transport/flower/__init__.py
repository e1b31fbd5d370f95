"""Rounds over Flower: a ServerApp and a ClientApp that carry the same bytes as a file would.

Needs the extra ``flower``. The server asks by push and pull with a quorum, a deadline and a grace
period; every answer must carry the nonce of its question; a site answers with a summary or with one
of a few fixed codes, never with the text of an error.

Here lies what is Flower's own: its messages, its apps, SecAgg+, and a federation of processes. The
round itself, timeouts, replies and the site's folder are shared with other engines
(`fedwqcp.federation.transport`).
"""

from __future__ import annotations

from fedwqcp.federation.transport.flower.deployment import unusable_flower
from fedwqcp.federation.transport.logs import configure_logs
from fedwqcp.federation.transport.session import SessionResult
from fedwqcp.federation.transport.settings import Timeouts, round_of, timeouts_of

try:
    from fedwqcp.federation.transport.flower.client_app import answer_with, client_app, from_files
    from fedwqcp.federation.transport.flower.server_app import calibrate, calibrate_as, server_app
except ImportError as error:
    raise unusable_flower(error) from None
configure_logs("flwr")

__all__ = [
    "SessionResult",
    "Timeouts",
    "answer_with",
    "calibrate",
    "calibrate_as",
    "client_app",
    "from_files",
    "round_of",
    "server_app",
    "timeouts_of",
]
