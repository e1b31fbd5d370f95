"""Secure rounds between real processes, on two scores, with one site killed."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
from local_federation import LocalFederation, wait_until

import fedwqcp as fw
from engine import finished
from fedwqcp.demo.hospitals import hospitals
from fedwqcp.federation.audit import audit
from fedwqcp.federation.transport.flower.deployment import new_app

pytestmark = pytest.mark.flower

SITES = ("north", "south", "east", "west")
LOST = "west"
CLIENT = """
from pathlib import Path

import numpy as np

import fedwqcp as fw
from fedwqcp.federation.transport.flower import client_app


def outputs(context):
    home = Path(context.node_config["folder"]).parent
    return fw.Calibration(np.load(home / f"{context.run_config['score']}.npy"))


app = client_app(outputs)
"""
RANGE = {"aps": {}, "cqr": {"score-low": -1.0, "score-high": 40.0}}


@pytest.fixture(scope="module")
def scores():
    """Each score at each site; scores of CQR may be negative."""
    held = {"aps": {}, "cqr": {}}
    rng = np.random.default_rng(0)
    for name, one in zip(SITES, hospitals(), strict=True):
        part = one.calibration
        u = fw.uniforms("secure", part.ids)
        held["aps"][name] = fw.APS().of(part.values, part.labels, u=u)
        held["cqr"][name] = np.abs(rng.normal(scale=3.0, size=len(part.ids))) - 1.0
    return held


@pytest.fixture(scope="module")
def root(tmp_path_factory, scores):
    """Folder of the federation, with every site's scores."""
    root = tmp_path_factory.mktemp("secure")
    for score, sites in scores.items():
        for name, values in sites.items():
            (root / "sites" / name).mkdir(parents=True, exist_ok=True)
            np.save(root / "sites" / name / f"{score}.npy", values)
    new_app(root / "app")
    (root / "app" / "app" / "client_app.py").write_text(CLIENT)
    return root


@pytest.fixture(scope="module")
def runs(root, stops_when_terminated):
    """One secure run for each score at the same time; a site is killed once all began."""
    terms = {
        "agents": ",".join(SITES),
        "method": "fedwq-cp",
        "quorum": 3,
        "secure": True,
        "max-n": 5000,
        "deadline": 180.0,
        "grace": 30.0,  # on a busy machine sites begin seconds apart, and one more lost ends it
    }
    with LocalFederation(root / "federation", SITES) as federation:
        for name in SITES:
            federation.start_site(name, {"folder": root / "sites" / name / "kept"})
        federation.wait_online(len(SITES))
        started = {}
        for score, range in RANGE.items():
            config = {**terms, **range, "score": score, "records": root / "records" / score}
            started[score] = federation.submit(root / "app", config)
        # Once it has sent that it is ready in both. While it sends, Flower would wait minutes for
        # the rest of its reply.
        said = partial(federation.processes.output, LOST)
        wait_until(lambda: said().count("Sent successfully") >= len(RANGE), 90, "all begun")
        federation.processes.stop(LOST, gently=False)
        yield {
            score: finished(federation, root / "records" / score, run)
            for score, run in started.items()
        }


@pytest.mark.parametrize("score", RANGE)
def test_the_threshold_is_that_of_the_others_within_the_margin(runs, scores, score):
    status, record = runs[score]
    assert status == "finished:completed", (record / "log.jsonl").read_text()
    release = fw.load(record / "record.json")
    others = {name: scores[score][name] for name in SITES if name != LOST}
    assert (release.used, release.missing) == (tuple(others), (LOST,))
    plain = fw.calibrate(others, method="fedwq-cp", alpha=0.1).threshold("north")
    (outcome,) = release.outcomes
    assert plain <= outcome.value <= plain + outcome.margin
    assert 0 < outcome.margin < 1e-5
    assert release.rounds >= 5
    assert audit(record).matches
    assert set((record / "sums").iterdir()) == {record / "sums" / "0.json"}, "totals are all it has"
    assert not (record / "answers").exists()
    stored = json.loads((record / "log.jsonl").read_text().splitlines()[-1])
    assert (stored["event"], stored["agents"]) == ("stored", list(others))
