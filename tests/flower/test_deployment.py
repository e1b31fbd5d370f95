"""A SuperLink and SuperNodes with TLS and authenticated nodes on this machine, shared by all tests.

Every process is stopped by its id when the module ends, also when a test fails.
"""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.audit import audit
from fedwqcp.federation.certs import make_certs
from fedwqcp.federation.outputs import load_outputs
from fedwqcp.federation.scoring import calibration_of
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport import local
from fedwqcp.federation.transport.flower.demo import is_over
from fedwqcp.federation.transport.flower.loopback import Loopback
from fedwqcp.federation.transport.flower.processes import descendants, wait_until
from fedwqcp.federation.transport.flower.scaffold import new_app
from fedwqcp.wire.codec import encode

pytestmark = pytest.mark.flower

AGENTS = ("agent-0", "agent-1", "agent-2")
SPARE = "agent-3"  # its key is registered, but it has no node of its own
PACE = {"deadline": 15.0, "grace": 3.0}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Folder of the whole federation."""
    return tmp_path_factory.mktemp("federation")


@pytest.fixture(scope="module")
def federation(root):
    """Three sites online; two more nodes are turned away meanwhile."""
    new_app(root / "my-app")
    make_certs(root / "other", ("impostor",), ("localhost", "127.0.0.1"))
    rng = np.random.default_rng(5)
    with Loopback(root / "federation", (*AGENTS, SPARE)) as running:
        for at, name in enumerate(AGENTS):
            home = root / "sites" / name
            home.mkdir(parents=True)
            probs = rng.dirichlet([1.0, 2.0, 3.0], size=60 + 20 * at)
            labels = np.array([rng.choice(3, p=row) for row in probs])
            np.savez(home / "cal.npz", probs=probs, labels=labels)
            running.start_node(
                name, {"partition-id": at, "outputs": home / "cal.npz", "folder": home / "kept"}
            )
        running.start_node("impostor", {}, key=root / "other" / "keys" / "impostor")
        key = root / "federation" / "certs" / "keys" / SPARE
        running.start_node("mistrustful", {}, key=key, ca=root / "other" / "ca.crt")
        running.wait_online(len(AGENTS))
        yield running
        pids = [p.pid for p in running.processes._running.values()]
    for pid in pids:
        assert not descendants(pid), "a process outlived the federation"


def ran(federation, root, name, **config):
    """Run the app with its records in a folder of its own; return status and record."""
    records = root / "records" / name
    config = {"agents": ",".join(AGENTS), **PACE, **config, "records": str(records)}
    run = federation.commands.submit(root / "my-app", config)
    ended = federation.commands.wait(run, 90.0, lambda: is_over(records))
    (record,) = records.iterdir()
    return ended.status, record


def in_process(root, round, names):
    """The same round over the same files without Flower."""
    sides = {}
    for name in names:
        outputs = load_outputs(root / "sites" / name / "cal.npz")
        sides[name] = Agent(name, round, calibration_of(round, outputs))
    return local.run(Server(round), sides)


def test_a_clean_round_equals_the_one_within_a_process(federation, root):
    status, record = ran(federation, root, "clean", alpha="0.1,0.2")
    assert status == "finished:completed"
    release = fw.load(record / "record.json")
    assert release.used == AGENTS
    assert encode(release) == encode(in_process(root, release.round, AGENTS))
    assert audit(record).matches
    public = (record / "release.json").read_bytes()
    for name in AGENTS:
        kept = root / "sites" / name / "kept"
        assert (kept / "release.json").read_bytes() == public
        sent = (kept / "rounds" / release.round.id / "step-0.json").read_bytes()
        assert sent == (record / "answers" / "step-0" / f"{name}.json").read_bytes()
    assert json.loads((record / "log.jsonl").read_text().splitlines()[-1])["agents"] == [*AGENTS]


def test_the_template_runs_as_it_is(federation, root):
    run = federation.commands.submit(root / "my-app", {})
    records = root / "federation" / "records"
    ended = federation.commands.wait(run, 90.0, lambda: is_over(records))
    assert ended.status == "finished:completed"
    (record,) = records.iterdir()
    assert fw.load(record / "release.json").used == ("agent-0", "agent-1")


@pytest.mark.parametrize(
    ("name", "why"),
    [("impostor", "Failed to activate SuperNode"), ("mistrustful", "CERTIFICATE_VERIFY_FAILED")],
)
def test_a_node_without_known_key_or_authority_is_turned_away(federation, name, why):
    end = time.monotonic() + 15
    while federation.processes.alive(name) and time.monotonic() < end:
        time.sleep(0.2)
    assert not federation.processes.alive(name)
    assert federation.processes._running[name].returncode != 0
    assert why in federation.processes.said(name)
    assert federation.commands.online() == len(AGENTS)


def test_the_key_of_the_node_with_another_authority_was_good(federation):
    federation.start_node(SPARE, {})
    federation.wait_online(len(AGENTS) + 1, 40)
    federation.processes.stop(SPARE)
    wait_until(lambda: federation.commands.online() == len(AGENTS), 40, "its farewell")


def test_faults_at_sites_are_named_and_the_round_goes_on(federation, root):
    path = root / "sites" / "agent-1" / "cal.npz"
    good = path.read_bytes()
    path.write_bytes(b"not an archive, patient Miller")
    try:
        status, record = ran(federation, root, "fault", quorum=2)
    finally:
        path.write_bytes(good)
    assert status == "finished:completed"
    release = fw.load(record / "record.json")
    assert release.used == ("agent-0", "agent-2")
    assert release.refused["agent-1"].startswith("data: ")
    assert "Miller" not in federation.processes.said("superlink")


def test_a_node_killed_mid_round_is_missing_and_the_quorum_decides(federation, root):
    records = root / "records" / "killed"
    config = {"agents": ",".join(AGENTS), **PACE, "quorum": 2, "records": str(records)}
    run = federation.commands.submit(root / "my-app", config)
    wait_until(lambda: any(records.glob("*/round.json")), 60, "the round", every=0.05)
    federation.processes.stop("agent-2", gently=False)  # it was asked and has not answered
    status = federation.commands.wait(run, 90.0, lambda: is_over(records)).status
    (record,) = records.iterdir()
    kept = root / "sites" / "agent-2" / "kept" / "rounds" / record.name
    assert not (kept / "step-0.json").exists(), "it must die before it answers"
    assert status == "finished:completed"
    release = fw.load(record / "record.json")
    assert (release.used, release.missing) == (AGENTS[:2], AGENTS[2:])
    assert release.outcomes == outcomes_without(root, release)
    assert audit(record).matches
    status, record = ran(federation, root, "no-quorum", quorum=3, deadline=8.0)
    assert status == "finished:failed"
    assert not (record / "release.json").exists()
    assert "2 of 3 agents answered soundly" in audit(record).difference


def outcomes_without(root, release):
    """What the agents that were used give among themselves."""
    server = Server(release.round)
    server.asks()
    for name in release.used:
        outputs = load_outputs(root / "sites" / name / "cal.npz")
        side = Agent(name, release.round, calibration_of(release.round, outputs))
        server.receive(side.answer(), name)
    server.close_step()
    return server.release().outcomes


def test_nothing_speaks_to_the_outside(federation):
    env = federation.commands._env
    assert (env["FLWR_TELEMETRY_ENABLED"], env["FLWR_DISABLE_UPDATE_CHECK"]) == ("0", "1")
    assert env["FLWR_HOME"].startswith(str(federation.folder))
    assert env["PATH"].split(os.pathsep)[0].endswith("bin")
