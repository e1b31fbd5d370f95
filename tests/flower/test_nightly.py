"""What takes minutes: training before the round, a frozen node, a restart."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from local_federation import LocalFederation, wait_until

import fedwqcp as fw
from engine import finished
from fedwqcp.federation.audit import audit
from fedwqcp.federation.disclosure_ledger import DisclosureLedger
from fedwqcp.federation.transport.flower.deployment import new_app

pytestmark = pytest.mark.nightly

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower-train-then-calibrate"
AGENTS = ("agent-0", "agent-1")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Folder of the whole federation."""
    return tmp_path_factory.mktemp("nightly")


@pytest.fixture(scope="module")
def federation(root, stops_when_terminated):
    """Two sites."""
    new_app(root / "my-app")
    with LocalFederation(root / "federation", AGENTS) as running:
        for at, name in enumerate(AGENTS):
            config = {"partition-id": at, "folder": root / "sites" / name}
            running.start_site(name, config)
        running.wait_online(2)
        yield running


def ran(federation, root, app, name, prefix=""):
    """Run an app with its records in a folder of its own."""
    records = root / "records" / name
    run = federation.submit(app, {f"{prefix}records": str(records)})
    ended, record = finished(federation, records, run)
    assert ended == "finished:completed"
    assert audit(record).matches
    return fw.load(record / "release.json")


def test_training_then_one_more_round(federation, root):
    release = ran(federation, root, EXAMPLE, "example", prefix="calibration.")
    assert release.used == AGENTS


def test_a_frozen_node_is_missing_and_healthy_again_afterwards(federation, root):
    frozen = federation.processes._running["agent-1"]
    os.killpg(frozen.pid, signal.SIGSTOP)
    try:
        records = root / "records" / "frozen"
        config = {"records": str(records), "quorum": 1, "deadline": 25.0, "grace": 5.0}
        run = federation.submit(root / "my-app", config)
        ended, record = finished(federation, records, run)
        assert ended == "finished:completed"
    finally:
        os.killpg(frozen.pid, signal.SIGCONT)
    assert fw.load(record / "release.json").missing == ("agent-1",)
    time.sleep(5)
    assert ran(federation, root, root / "my-app", "thawed").used == AGENTS


def test_after_a_restart_of_the_superlink_a_new_round_works(federation, root):
    records = root / "records" / "interrupted"
    interrupted = federation.submit(root / "my-app", {"records": str(records)})
    wait_until(records.exists, 60, "the interrupted round")
    federation.processes.stop("superlink", gently=False)
    federation.start_superlink()
    federation.flwr("stop", interrupted, "fed", "--format", "json")
    federation.wait_online(2)
    time.sleep(5)
    assert ran(federation, root, root / "my-app", "after").used == AGENTS
    (record,) = records.iterdir()
    assert not audit(record).matches
    assert not (record / "release.json").exists()


def test_a_site_tells_a_fifth_over_rounds_and_restarts(federation, root):
    """15 of 200 and of 250 scores a round: the third is one too many for the first site."""
    used = []
    for i in range(4):
        if i % 2 == 0:
            for at, name in enumerate(AGENTS):
                federation.processes.stop(name)
                config = {"partition-id": at, "folder": root / "sites" / name, "data-set": "many"}
                federation.start_site(name, config)
            time.sleep(5)
            federation.wait_online(2)
        records = root / "records" / f"many-{i}"
        alphas = ",".join(f"{(1.5 + i + 6 * j) / 201:.4f}" for j in range(15))
        config = {"method": "fedwq-cp", "alpha": alphas, "quorum": 1, "records": str(records)}
        _, record = finished(federation, records, federation.submit(root / "my-app", config))
        found = record / "release.json"
        used.append(fw.load(found).used if found.exists() else ())
    assert used == [AGENTS, AGENTS, AGENTS[1:], ()]
    ledgers = (DisclosureLedger(root / "sites" / name / "ledger" / "many") for name in AGENTS)
    assert [ledger.accounts[0].told for ledger in ledgers] == [30, 45]
