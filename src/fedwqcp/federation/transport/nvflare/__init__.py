"""Rounds over NVIDIA FLARE: a controller and an executor that carry the same bytes as a file.

Needs the extra ``nvflare``. The coordinator's job names two classes of this package and the terms
of the round; it brings no code. What a site allows stands in a file of its own, which no job can
change, and an agent is the site of that name, as its certificate says.

Here lies what is FLARE's own: tasks and replies, and a federation of processes. The round itself,
timeouts, replies and the site's folder are shared with other engines
(`fedwqcp.federation.transport`).
"""

from __future__ import annotations

from fedwqcp.errors import MissingExtraError
from fedwqcp.federation.transport.session import SessionResult
from fedwqcp.federation.transport.settings import Timeouts

try:
    from fedwqcp.federation.transport.nvflare.controller import CalibrationController
    from fedwqcp.federation.transport.nvflare.executor import CalibrationExecutor
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "nvflare":
        raise
    raise MissingExtraError("a federation over NVIDIA FLARE", "nvflare") from None

__all__ = ["CalibrationController", "CalibrationExecutor", "SessionResult", "Timeouts"]
