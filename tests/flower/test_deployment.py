"""Rounds between real processes with TLS and authenticated nodes, on a federation tests share.

Every process is stopped by its id when the tests end, also when one fails.
"""

from __future__ import annotations

import json
import os
import re
import time

import pytest
from federated import AGENTS, app_with, nodes, submitted
from local_federation import round_ended, wait_until

import fedwqcp as fw
from engine import SHORT, equals_the_one_within_a_process, finished, in_process
from fedwqcp.federation.audit import audit

pytestmark = pytest.mark.flower

PAIR = AGENTS[:2]
PATIENT = {"deadline": 120.0}
NOISY = "private-fedwq-cp"
FEW = ("fcp", "fedls-cp", "fed-crc")  # a dialogue, a floor, long vectors; conformance has all


@pytest.fixture(scope="module")
def root(shared_root):
    """Folder of the whole federation."""
    return shared_root


@pytest.fixture(scope="module")
def federation(shared_federation):
    """Three sites online."""
    return shared_federation


@pytest.fixture(scope="module")
def failed(federation, root):
    """A run while the file of one site is damaged, and a quorum that needs all of them."""
    path = root / "sites" / "agent-1" / "cal.npz"
    good = path.read_bytes()
    path.write_bytes(b"not an archive, patient Miller")
    try:
        return finished(
            federation, root / "records" / "failed", submitted(federation, root, "failed", quorum=3)
        )
    finally:
        path.write_bytes(good)


@pytest.fixture(scope="module")
def runs(federation, root, failed):
    """Sound rounds, all at the same time, after one that failed."""
    started = {"clean": submitted(federation, root, "clean", alpha="0.1,0.2", **PATIENT)}
    started |= {method: begun(federation, root, method) for method in (*FEW, NOISY)}
    started["template"] = federation.submit(root / "my-app", {})
    return started


def begun(federation, root, method):
    """Start a round of two sites with a method."""
    two = {"agents": ",".join(PAIR), "nodes": nodes(federation, PAIR), "n-classes": 3, **PATIENT}
    app_with(root, f"app-{method}", **SHORT.get(method, {}))
    return submitted(federation, root, method, f"app-{method}", method=method, score="lac", **two)


def test_a_round_that_misses_its_quorum_says_so_and_why(federation, failed):
    status, record = failed
    assert status == "finished:failed"
    assert not (record / "release.json").exists()
    difference = audit(record).difference
    assert "2 of 3" in difference
    assert re.search(r"agent-1 \(node \d+\): data: ", difference)
    assert "Miller" not in difference + federation.processes.output("superlink")


def test_it_can_be_run_again_and_equals_the_one_within_a_process(federation, root, runs, failed):
    status, record = finished(federation, root / "records" / "clean", runs["clean"])
    release = equals_the_one_within_a_process(root, AGENTS, status, record)
    public = (record / "release.json").read_bytes()
    for name in AGENTS:
        kept = root / "sites" / name / "kept"
        rounds = kept / "rounds"
        assert (rounds / release.round.id / "release.json").read_bytes() == public
        sent = (rounds / release.round.id / "step-0.json").read_bytes()
        assert sent == (record / "answers" / "step-0" / f"{name}.json").read_bytes()
        before = rounds / failed[1].name / "step-0.json"
        assert before.exists() == (name != "agent-1"), "what left before is still written down"


@pytest.mark.parametrize("method", FEW)
def test_the_release_between_processes_equals_the_one_within_a_process(
    federation, root, runs, method
):
    run = finished(federation, root / "records" / method, runs[method])
    equals_the_one_within_a_process(root, PAIR, *run)


def test_a_private_release_is_what_the_noisy_answers_give(federation, root, runs):
    status, record = finished(federation, root / "records" / NOISY, runs[NOISY])
    assert status == "finished:completed"
    release = fw.load(record / "record.json")
    assert (release.used, release.rounds) == (PAIR, 1)
    spent = {answer.epsilon for answers in release.received.values() for answer in answers}
    assert spent == set(SHORT[NOISY].values())
    assert audit(record).matches


def test_the_template_runs_as_it_is(federation, runs):
    ended, record = finished(federation, federation.folder / "records", runs["template"])
    assert ended == "finished:completed"
    assert fw.load(record / "release.json").used == PAIR


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
    assert why in federation.processes.output(name)
    assert federation.online() == len(AGENTS)


def test_a_node_killed_mid_round_is_missing_and_the_quorum_decides(federation, root):
    run = submitted(federation, root, "killed", quorum=2)
    records = root / "records" / "killed"
    wait_until(lambda: any(records.glob("*/round.json")), 60, "the round", every=0.05)
    federation.processes.stop("agent-2", gently=False)  # it was asked and has not answered
    status, record = finished(federation, root / "records" / "killed", run)
    kept = root / "sites" / "agent-2" / "kept" / "rounds" / record.name
    assert not (kept / "step-0.json").exists(), "it must die before it answers"
    assert status == "finished:completed"
    release = fw.load(record / "record.json")
    assert (release.used, release.missing) == (PAIR, AGENTS[2:])
    assert release.outcomes == in_process(root, release.round, PAIR).outcomes
    assert audit(record).matches


def test_a_round_that_is_stopped_says_so(federation, root):
    run = submitted(federation, root, "stopped", agents="nobody", deadline=300.0)
    records = root / "records" / "stopped"
    wait_until(lambda: any(records.glob("*/log.jsonl")), 60, "the record")
    federation.flwr("stop", run, "fed")
    wait_until(lambda: round_ended(records), 60, "the end of the record")
    (log,) = records.glob("*/log.jsonl")
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["event"], last["reason"]) == ("failed", "interrupted: SystemExit")


def test_nothing_speaks_to_the_outside(federation):
    env = federation.env
    assert (env["FLWR_TELEMETRY_ENABLED"], env["FLWR_DISABLE_UPDATE_CHECK"]) == ("0", "1")
    assert env["FLWR_HOME"].startswith(str(federation.folder))
    assert env["PATH"].split(os.pathsep)[0].endswith("bin")
