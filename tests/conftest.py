"""Fixtures of several rooms."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(scope="session")
def stops_when_terminated():
    """Let a test run that is terminated from outside stop its processes too."""
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", 143))
    yield
    signal.signal(signal.SIGTERM, before)
