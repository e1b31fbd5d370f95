"""Laws that several methods obey, on samples of any size, with ties and infinite scores."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings

import fedwqcp as fw
from strategies import alphas
from worked import EMPTY, samples

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
    ("fcp", {"sketch": "exact"}),
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


@pytest.mark.parametrize("case", ALL, ids=str)
@settings(max_examples=15)
@given(agents=samples(infinite=True), alpha=alphas(2))
def test_order_does_not_matter(case, agents, alpha):
    turned = {name: agents[name][::-1] for name in reversed(agents)}
    assert (thresholds(turned, case, alpha) == thresholds(agents, case, alpha)).all()


@pytest.mark.parametrize("case", [c for c in ALL if c[1].get("sketch") != "order"], ids=str)
@settings(max_examples=15)
@given(agents=samples(max_agents=1, infinite=True), alpha=alphas(2))
def test_one_agent_alone_is_split_cp(case, agents, alpha):
    overflow = case[1].get("overflow", "propagate")
    own = thresholds(agents, ("split-cp", {"overflow": overflow}), alpha)
    assert (thresholds(agents, case, alpha) == own).all()


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


@pytest.mark.parametrize("case", ALL, ids=str)
def test_nobody_with_scores_gives_infinity_and_ties_are_kept(case):
    assert (thresholds({"a": EMPTY, "b": EMPTY}, case, 0.2) == inf).all()
    assert (thresholds({"a": np.full(30, -2.0), "b": np.full(25, -2.0)}, case, 0.2) == -2).all()
