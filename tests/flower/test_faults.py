"""Sites that fail in every way, each a process of its own: the round goes on and says who did what.

Two rounds with eight sites: six show a fault each, one has no calibration points at all.
A second answer to one question cannot be shown here: Flower drops it before it reaches the server.
"""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import numpy as np
import pytest
from federated import SITES, nodes, start, submitted

import fedwqcp as fw
from engine import finished, in_process
from fedwqcp.federation.audit import audit
from fedwqcp.federation.transport.flower.deployment import new_app
from fedwqcp.federation.transport.processes import wait_until

pytestmark = pytest.mark.flower

SOUND = ("agent-0", "agent-1")
VALUES = {
    "site-0": ("sends garbage", "message: "),
    "site-1": ("sends nothing", "message: "),
    "site-2": ("claims NaN", "message: "),
    "site-3": ("claims infinity", "message: "),
    "site-4": ("claims an impossible threshold", "threshold: must lie between 0 and 1"),
    "site-5": ("claims an absurd n", "n: must be an integer from 0 to 1000000"),
}
DEEDS = {
    "site-0": ("hangs", "deadline: "),
    "site-1": ("raises", "failed: "),
    "site-2": ("dies", "died: "),
    "site-3": ("has another nonce", "nonce: "),
    "site-4": ("is late", None),
    "site-5": ("is gone", None),
}


@pytest.fixture(scope="module")
def root(shared_root):
    """Folder of the whole federation."""
    return shared_root


@pytest.fixture(scope="module")
def federation(shared_federation, root):
    """Six more sites; the first has the key that the mistrustful node had, and is let in with it.

    They run an app that shows faults. One of the two sound sites has no calibration points.
    """
    new_app(root / "faulty-app")
    own = root / "faulty-app" / "faulty_app" / "client_app.py"
    copyfile(Path(__file__).with_name("faulty.py"), own)
    for at, name in enumerate(SITES):
        config = {"max-seconds": 2} if DEEDS[name][0] == "hangs" else {}
        start(shared_federation, root, name, 30 + 10 * at, **config)
    path = root / "sites" / "agent-1" / "cal.npz"
    good = path.read_bytes()
    np.savez(path, probs=np.empty((0, 3)), labels=np.empty(0, int))
    try:
        output = shared_federation.processes.output
        wait_until(lambda: all("SuperNode ID" in output(name) for name in SITES), 90, "six nodes")
        yield shared_federation
    finally:
        path.write_bytes(good)
        for name in SITES:
            shared_federation.processes.stop(name, gently=False)


def begun(federation, root, name, faults, **config):
    """Start a round in which sites show their faults; the first sound site answers last."""
    for site, (fault, _) in {"agent-0": ("answers last", None), **faults}.items():
        home = root / "sites" / site
        (home / "shown.txt").unlink(missing_ok=True)
        (home / "fault.txt").write_text(fault)
        (home / "secret.txt").write_text("patient Miller, score 0.77123")
    everyone = (*SOUND, *faults)
    config = {"agents": ",".join(everyone), "nodes": nodes(federation, everyone), **config}
    return submitted(
        federation, root, name, "faulty-app", method="fedwq-cp", score="lac", quorum=2, **config
    )


def checked(federation, root, record, faults):
    """The release names who was used, refused and why, and missing; nothing else got through."""
    release = fw.load(record / "record.json")
    assert release.used == SOUND
    wanted = {site: why for site, (_, why) in faults.items() if why}
    assert list(release.refused) == list(wanted)
    for site, why in wanted.items():
        assert release.refused[site].startswith(why), (site, release.refused[site])
    assert release.missing == tuple(s for s, (_, why) in faults.items() if why is None)
    assert release.outcomes == in_process(root, release.round, SOUND).outcomes
    assert [summary.n for (summary,) in release.received.values()] == [60, 0]
    assert audit(record).matches
    kept = [*record.rglob("*.json*"), *federation.folder.glob("state.db*")]
    everything = b"".join(path.read_bytes() for path in kept)
    everything += federation.processes.output("superlink").encode()
    assert b"fedwqcp: site-0: refused" in everything, "what the server's app logs is in there"
    for secret in (b"Miller", b"0.77123"):
        assert secret not in everything


def test_unsound_values_are_refused_by_name_and_the_quorum_closes_the_round(federation, root):
    run = begun(federation, root, "values", VALUES, deadline=60.0)
    status, record = finished(federation, root / "records" / "values", run)
    assert status == "finished:completed"
    checked(federation, root, record, VALUES)


def test_sites_that_hang_raise_die_or_come_late_do_not_stop_the_round(federation, root):
    run = begun(federation, root, "deeds", DEEDS, deadline=60.0, grace=6.0)
    records = root / "records" / "deeds"
    wait_until(lambda: any(records.glob("*/release.json")), 90, "the release", every=0.05)
    closed = {path: path.read_bytes() for path in records.glob("*/re*.json")}
    status, record = finished(federation, root / "records" / "deeds", run)
    assert status == "finished:completed"
    sent = "Sending: query.fedwqcp_ask"  # once in each of the two rounds, now after the release
    wait_until(lambda: federation.processes.output("site-4").count(sent) == 2, 20, "a late answer")
    checked(federation, root, record, DEEDS)
    assert {path: path.read_bytes() for path in records.glob("*/re*.json")} == closed
    note = (root / "sites" / "site-1" / "kept" / "last-error.txt").read_text()
    assert "RuntimeError" in note
    assert "Miller" not in note
