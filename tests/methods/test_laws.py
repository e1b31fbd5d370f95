"""Laws that several methods obey, on samples of any size, with ties and infinite scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import fedwqcp as fw
from strategies import alphas
from worked import samples

ALL = [
    ("split-cp", {}),
    ("fedwq-cp", {}),
    ("fedwq-cp", {"overflow": "exclude"}),
    ("fedwq-cp", {"overflow": "clip"}),
    ("fedavgq-cp", {}),
    ("fedavgq-cp", {"overflow": "exclude"}),
    ("max-cp", {}),
    ("fcp", {}),
    ("fcp", {"sketch": "order"}),
    ("fedcp-qq", {}),
]
RANKS = [(name, found) for name, found in ALL if name in ("split-cp", "max-cp", "fcp", "fedcp-qq")]
NESTED = [case for case in ALL if case[0] != "fedcp-qq" and case[1].get("overflow") != "exclude"]


def thresholds(agents, case, alpha):
    """The threshold of each agent."""
    name, given_settings = case
    method = fw.methods.get(name, **given_settings)
    release = fw.calibrate(agents, method=method, alpha=alpha, allow_large_alpha=True)
    return np.array([release.threshold(agent) for agent in sorted(agents)])


@pytest.mark.parametrize("case", NESTED, ids=str)
@settings(max_examples=15)
@given(agents=samples(infinite=True), one=alphas(2), two=alphas(2))
def test_it_never_grows_with_alpha(case, agents, one, two):
    loose, strict = (thresholds(agents, case, a) for a in (max(one, two), min(one, two)))
    assert ((loose <= strict) | np.isclose(loose, strict, rtol=1e-12)).all()


@pytest.mark.parametrize("case", RANKS, ids=str)
@settings(max_examples=15)
@given(agents=samples(), alpha=alphas(2))
def test_it_commutes_with_increasing_functions(case, agents, alpha):
    mapped = {name: np.exp(sample) for name, sample in agents.items()}
    assert (thresholds(mapped, case, alpha) == np.exp(thresholds(agents, case, alpha))).all()
