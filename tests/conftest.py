"""Fixtures of several rooms."""

from __future__ import annotations

import os
import shutil
import signal
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from fedwqcp.federation import plan


@pytest.fixture(scope="session", autouse=True)
def one_moment():
    """Everything is made within one second, so that the same round releases the same bytes."""
    now = datetime.now(UTC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "datetime", SimpleNamespace(now=lambda _: now))
        yield


@pytest.fixture(scope="session")
def stops_when_terminated():
    """Let a test run that is terminated from outside stop its processes too."""
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", 143))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def node():
    """Return the path of Node; with FEDWQCP_REQUIRE_NODE=1 its absence is a failure, not a skip."""
    path = shutil.which("node")
    if path is None:
        (pytest.fail if os.environ.get("FEDWQCP_REQUIRE_NODE") else pytest.skip)("needs node")
    return path
