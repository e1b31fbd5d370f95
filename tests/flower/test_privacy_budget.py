"""A site's privacy budget holds over Flower, and over restarts of the site."""

from __future__ import annotations

import json

import numpy as np
import pytest
from inprocess import sites
from rounds import QUICK, terms

import fedwqcp as fw
from fedwqcp.errors import QuorumError
from fedwqcp.federation.transport.flower import calibrate

NAMES = ("north", "south", "east")


def sites_with_budget(folder, budget):
    """Three sites, started anew, with a budget in their configuration."""
    cals = {
        name: fw.Calibration(np.random.default_rng(at).uniform(size=400), n_classes=3)
        for at, name in enumerate(NAMES)
    }
    return sites(folder, cals, **{"privacy-budget": budget})


def test_a_spent_budget_is_refused_by_a_code(tmp_path):
    for _ in range(2):
        release = calibrate(
            sites_with_budget(tmp_path, 2.0), terms("private-fedwq-cp"), timeouts=QUICK
        ).release
        assert release.used == NAMES
        assert release.threshold("north") < np.inf
    with pytest.raises(QuorumError, match=r"north: budget: the site.s privacy budget"):
        calibrate(sites_with_budget(tmp_path, 2.0), terms("private-fedwq-cp"), timeouts=QUICK)
    kept = sorted((tmp_path / "100" / "privacy").glob("[0-9]*.json"))
    assert [json.loads(path.read_text())["epsilon"] for path in kept] == ["1.0", "1.0"]
    why = (tmp_path / "100" / "last-error.txt").read_text()
    assert "0.0 of 2.0 is left" in why


def test_with_a_budget_other_methods_are_not_answered(tmp_path):
    with pytest.raises(QuorumError, match=r"east: budget: the site.s privacy budget"):
        calibrate(sites_with_budget(tmp_path, 2.0), terms("fedwq-cp"), timeouts=QUICK)
