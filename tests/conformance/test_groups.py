"""Every method has a form by label and by group: a round of its own for each group."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import new_round
from fedwqcp.federation.predict import thresholds
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.local import run

SETTINGS = {"dp-fedcp": {"solver": "exact"}}
METHODS = [fw.methods.get(name, **SETTINGS.get(name, {})) for name in fw.methods.built_in()]
IDS = [fw.methods.name_of(method) for method in METHODS]

every_method = pytest.mark.parametrize("method", METHODS, ids=IDS)
EXACT = [m for m in METHODS if m.traits.spends == inf]  # noise differs between two rounds
exact_method = pytest.mark.parametrize("method", EXACT, ids=fw.methods.name_of)


def agents():
    """Three agents with labels, features and groups; the second has nobody of group w."""
    rng = np.random.default_rng(3)
    found = {}
    for index, n in enumerate((60, 45, 80)):
        scores = np.round(rng.beta(2 + index, 3, size=n), 3)
        labels, groups = rng.permutation(np.arange(n) % 3), np.array([*"vw"])[np.arange(n) % 2]
        if index == 1:
            groups[:] = "v"
        features = rng.normal(size=(n, 2))
        found[f"agent-{index}"] = fw.Calibration(scores, labels, features, 3, groups=groups)
    return found


@exact_method
def test_each_group_is_a_round_of_its_own(method):
    all_agents = agents()
    release = fw.calibrate(all_agents, method=method, alpha=0.2, by="group", rng=1)
    for group, names in (("v", tuple(all_agents)), ("w", ("agent-0", "agent-2"))):
        own = {k: all_agents[k].take(all_agents[k].groups == group) for k in names}
        alone = fw.calibrate(own, method=method, alpha=0.2, rng=1)
        for name in names:
            found = release.threshold(name, group=group)
            np.testing.assert_allclose(found, alone.threshold(name), rtol=0, atol=1e-9)
    if release.rounds:
        assert release.absent == {"w": ("agent-1",)}


@every_method
def test_a_round_by_group_survives_a_file(method, tmp_path):
    options = {"n_classes": 3, "by": "group", "groups": tuple("vwx"), "max_n": 1000}
    round = new_round(tuple(agents()), method, "custom", (0.2,), **options)
    sites = {n: Agent(n, round, cal, allow_samples=True) for n, cal in agents().items()}
    release = run(Server(round), sites)
    fw.save(release, tmp_path / "release.json")
    again = fw.load(tmp_path / "release.json")
    assert again == release
    for name, cal in agents().items():
        assert np.all(thresholds(again, name, calibration=cal, group="x") == inf)  # nobody has any
        for group in "vw":
            found = thresholds(again, name, calibration=cal, group=group)
            kept = thresholds(release, name, calibration=cal, group=group)
            np.testing.assert_array_equal(found, kept)


def test_thresholds_by_label_are_all_infinite_in_a_group_without_points():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), 60)
    labels, groups = np.arange(60) % 3, np.array([*"vw"])[np.arange(60) // 3 % 2]
    sites = {name: fw.Outputs(probs, labels, groups=groups) for name in "ab"}
    sites["c"] = fw.Outputs(probs, labels, groups=["v"] * 60)
    method = fw.methods.get("dp-fedcp", solver="exact")
    release = fw.calibrate(sites, method=method, alpha=0.2, by="group", score="lac")
    sets = release.predict_set("c", fw.Outputs(probs, groups=groups))
    assert sets.mask[groups == "w"].all()
    assert not sets.mask[groups == "v"].all()
