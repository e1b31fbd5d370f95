"""Flower tests need the extra; those with processes of their own carry the marker ``flower``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
sys.path.insert(0, str(Path(__file__).parent))

if importlib.util.find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def shared_root(tmp_path_factory):
    """Folder of the federation that tests share."""
    return tmp_path_factory.mktemp("federation")


@pytest.fixture(scope="session")
def shared_federation(shared_root, stops_when_terminated):
    """A SuperLink and three sites with TLS and keys; every process is stopped by its id."""
    from federated import federation_in
    from local_federation import descendants

    with federation_in(shared_root) as running:
        yield running
        pids = [process.pid for process in running.processes._running.values()]
    for pid in pids:
        assert not descendants(pid), "a process outlived the federation"
