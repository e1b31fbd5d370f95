"""Rounds over Flower: a ServerApp and a ClientApp that carry the same bytes as a file would.

Needs the extra ``flower``. The server asks by push and pull with a quorum, a deadline and a grace
period; every answer must carry the nonce of its question; a site answers with a summary or with one
of a few fixed codes, never with the text of an error.
"""

from __future__ import annotations

from fedwqcp.errors import MissingExtraError

try:
    from fedwqcp.federation.transport.flower.client_app import answer_with, client_app
    from fedwqcp.federation.transport.flower.drive import Pace
    from fedwqcp.federation.transport.flower.server_app import (
        calibrate,
        calibrate_as,
        server_app,
    )
    from fedwqcp.federation.transport.flower.sitting import Calibrated
    from fedwqcp.federation.transport.flower.terms import pace_of, round_of
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "flwr":
        raise
    raise MissingExtraError("a federation over Flower", "flower") from None

__all__ = [
    "Calibrated",
    "Pace",
    "answer_with",
    "calibrate",
    "calibrate_as",
    "client_app",
    "pace_of",
    "round_of",
    "server_app",
]
