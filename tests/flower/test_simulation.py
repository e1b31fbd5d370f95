"""The same app, unchanged, in Flower's simulation engine."""

from __future__ import annotations

import os

import pytest
from simulated import simulate

import fedwqcp as fw
from fedwqcp.federation.audit import audit

pytestmark = pytest.mark.nightly

SITES = int(os.environ.get("FEDWQCP_SIMULATED", "300"))


def test_many_simulated_sites(tmp_path):
    pytest.importorskip("ray")
    record = simulate(tmp_path, SITES, seconds=100.0 + 2 * SITES)
    release = fw.load(record / "release.json")
    assert list(release.used) == [f"agent-{i}" for i in range(SITES)]
    assert audit(record).matches
