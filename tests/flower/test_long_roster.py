"""Many sites: what each is sent does not grow with their number."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from inprocess import InProcessGrid
from rounds import terms

import fedwqcp as fw
from fedwqcp.federation.audit import audit
from fedwqcp.federation.transport.flower import Pace, calibrate, client_app

SITES = 300


def test_every_site_is_sent_a_few_hundred_bytes(tmp_path):
    data = {f"agent-{i}": fw.Calibration([i / 400, 0.8, 0.9]) for i in range(SITES)}
    app = client_app(lambda context: data[context.node_config["agent"]], watchdog=False)
    configs = {i: {"agent": f"agent-{i}", "folder": ""} for i in range(SITES)}
    configs[7]["folder"] = str(tmp_path / "seven")
    configs[SITES] = {"agent": "stranger", "folder": str(tmp_path / "stranger")}
    data["stranger"] = fw.Calibration([0.0])
    grid = InProcessGrid(dict.fromkeys(configs, app), configs)
    names = tuple(f"agent-{i}" for i in range(SITES))
    round = replace(terms(quorum=1), agents=names)
    found = calibrate(grid, round, pace=Pace(5.0, 1.0), record=tmp_path / "record")

    sizes = [len(m.content["fedwqcp"]["round"] + m.content["fedwqcp"]["body"]) for m in grid.sent]
    assert max(sizes) < 1200
    assert found.release.used == names
    assert list(found.strangers) == [SITES], "the server alone knows who is in the roster"
    known = {name: data[name] for name in names}
    assert found.release.outcomes == fw.calibrate(known, alpha=0.2).outcomes
    assert audit(tmp_path / "record").matches
    at_site = fw.load(tmp_path / "seven" / "release.json")
    assert at_site.threshold("agent-7") == found.release.threshold("agent-7")
    whole = (tmp_path / "record" / "release.json").read_bytes()
    assert at_site.census.used == SITES
    assert at_site.census.sha256 == sha256(whole).hexdigest()
