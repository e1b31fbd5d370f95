"""FLARE tests need the extra; those with processes of their own carry the marker ``nvflare``."""

from __future__ import annotations

import importlib.util
import signal

import pytest

if importlib.util.find_spec("nvflare.apis") is None:  # without it, `nvflare` is this folder
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def stops_when_terminated():
    """Let a test run that is terminated from outside stop its processes too."""
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("terminated", 143))
    yield
    signal.signal(signal.SIGTERM, before)
