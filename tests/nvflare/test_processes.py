"""Rounds between real FLARE processes with mutual TLS, whose sites refuse code that a job brings.

Every process is stopped by its id when the tests end, also when one fails.
"""

from __future__ import annotations

import json
import os
import re

import numpy as np
import pytest
from local_federation import (
    SERVER,
    FlareFederation,
    demo,
    descendants,
    round_ended,
    wait_until,
    write_job,
)

import fedwqcp as fw
from engine import SHORT, equals_the_one_within_a_process, finished, in_process, same
from fedwqcp.federation.audit import audit
from worked import drawn

pytestmark = pytest.mark.nvflare

SITES = ("st-mary", "lakeside", "north")
PAIR = SITES[:2]
FOUR = ("fedwq-cp", "fcp", "fedls-cp", "fed-crc")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Folder of the whole federation."""
    return tmp_path_factory.mktemp("flare")


@pytest.fixture(scope="module")
def federation(root, stops_when_terminated):
    """Three sites that refuse foreign code, and a coordinator that would let it pass."""
    made = FlareFederation(root / "federation", SITES)
    policies = made.kits / SERVER / "local"
    (policies / "authorization.json").unlink()
    resources = json.loads((policies / "resources.json").read_text())
    (policies / "resources.json").write_text(json.dumps({**resources, "class_allow_list": ["*"]}))
    with made as running:
        for n, name in enumerate(SITES):
            home = root / "sites" / name
            home.mkdir(parents=True)
            write_outputs(home / "cal.npz", 60 + 20 * n)
            start(running, root, name)
        running.wait_online(len(SITES))
        yield running
        pids = [process.pid for process in running.processes._running.values()]
    for pid in pids:
        assert not descendants(pid), "a process outlived the federation"


def write_outputs(path, n):
    rng = np.random.default_rng(n)
    probs, labels = drawn(rng, n)
    np.savez(path, probs=probs, labels=labels, features=rng.normal(size=(n, 2)))


def start(federation, root, name):
    home = root / "sites" / name
    here = {"outputs": home / "cal.npz", "folder": home / "kept", "allow-samples": True}
    federation.start_site(name, {**here, "min-class": 1})


def submitted(federation, root, name, settings=None, **config):
    """Submit a job on these terms, with its records in a folder of its own."""
    terms = {"agents": ",".join(SITES), "score": "lac", "n-classes": 3, "deadline": 60.0}
    terms |= {"records": str(root / "records" / name), **config}
    terms |= {f"method-setting.{key}": value for key, value in (settings or {}).items()}
    return federation.submit(write_job(root / f"job-{name}", terms))


@pytest.fixture(scope="module")
def jobs(federation, root):
    """One job for each of the four methods, at the same time."""
    return {m: submitted(federation, root, m, SHORT.get(m), method=m) for m in FOUR}


@pytest.mark.parametrize("method", FOUR)
def test_the_release_between_processes_equals_the_one_within_a_process(
    federation, root, jobs, method
):
    status, record = finished(federation, root / "records" / method, jobs[method])
    release = equals_the_one_within_a_process(root, SITES, status, record)
    public = (record / "release.json").read_bytes()
    for name in SITES:
        kept = root / "sites" / name / "kept" / "rounds" / release.round.id
        assert (kept / "release.json").read_bytes() == public
        sent = (record / "answers" / "step-0" / f"{name}.json").read_bytes()
        assert (kept / "step-0.json").read_bytes() == sent


@pytest.mark.parametrize(
    ("executor", "reason"),
    [
        ("mine.Mine", "BYOC not permitted"),
        ("json.JSONDecoder", "is not in allow_list"),
        (f"{FlareFederation.__module__}.FlareFederation", "is not in allow_list"),
    ],
)
def test_a_job_that_brings_code_is_refused(federation, root, executor, reason):
    """Each site refuses by itself, also other classes that it has installed, ours too."""
    folder = write_job(root / executor.rpartition(".")[2], {"agents": ",".join(SITES)})
    client = folder / "app" / "config" / "config_fed_client.json"
    config = json.loads(client.read_text())
    config["executors"][0]["executor"] = {"path": executor}
    client.write_text(json.dumps(config))
    shown = root / "code-was-run"
    if executor == "mine.Mine":
        (folder / "app" / "custom").mkdir()
        code = f"import pathlib\npathlib.Path({str(shown)!r}).touch()\nclass Mine: pass\n"
        (folder / "app" / "custom" / "mine.py").write_text(code)
    federation.submit(folder)

    def refused(name):
        """Tell whether a site said no, in its own log or to the coordinator."""
        found = re.search(f"{name}: [^',]*{reason}", federation.processes.output(SERVER))
        return bool(found) or reason in federation.processes.output(name)

    wait_until(lambda: all(map(refused, SITES)), 120, "the refusal of each site")
    assert not shown.exists()


def test_a_job_that_is_aborted_says_so_in_its_record(federation, root):
    job = submitted(federation, root, "aborted", agents="st-mary,nobody", deadline=300.0)
    records = root / "records" / "aborted"
    wait_until(lambda: any(records.glob("*/round.json")), 90, "the round", every=0.02)
    federation.nvflare("job", "abort", job, "--force")
    wait_until(lambda: round_ended(records), 60, "the end of the record")
    (log,) = records.glob("*/log.jsonl")
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["event"] == "failed"
    assert last["reason"].startswith("the job was")


def test_a_site_killed_during_the_round_is_missing_and_the_quorum_decides(federation, root):
    submitted(federation, root, "killed", quorum=2, grace=2.0)
    records = root / "records" / "killed"
    wait_until(lambda: any(records.glob("*/round.json")), 90, "the round", every=0.02)
    federation.processes.stop("north", gently=False)
    wait_until(lambda: round_ended(records), 90, "the release")  # FLARE waits longer for the site
    (record,) = records.iterdir()
    release = fw.load(record / "record.json")
    assert (release.used, release.missing) == (PAIR, SITES[2:])
    assert release.outcomes == in_process(root, release.round, PAIR).outcomes
    assert audit(record).matches


def test_after_the_server_was_killed_a_new_round_works(federation, root):
    submitted(federation, root, "interrupted", agents="st-mary,nobody")
    records = root / "records" / "interrupted"
    wait_until(lambda: any(records.glob("*/round.json")), 90, "the round", every=0.02)
    federation.processes.stop(SERVER, gently=False)
    (record,) = records.iterdir()
    assert not audit(record).matches
    assert not (record / "release.json").exists()
    federation.start()
    federation.wait_online(len(PAIR))
    again = submitted(federation, root, "again", agents=",".join(PAIR))
    status, record = finished(federation, root / "records" / "again", again)
    assert status == "FINISHED:COMPLETED"
    assert fw.load(record / "record.json").used == PAIR


def test_the_demo_releases_what_one_process_releases_and_stops_every_process(tmp_path):
    before = descendants(os.getpid())
    found = demo(FlareFederation, tmp_path / "demo")
    assert not descendants(os.getpid()).keys() - before.keys()
    assert found["matches"]
    assert len(found["sites"]) >= 3
    assert all(site["stored"] for site in found["sites"])
    (record,) = (tmp_path / "demo" / "records").iterdir()
    release = fw.load(record / "record.json")
    assert same(release, in_process(tmp_path / "demo", release.round, release.used))
