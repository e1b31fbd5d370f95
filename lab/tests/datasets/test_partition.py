from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwqcp_lab.datasets.partition import (
    by_label,
    by_mix,
    iid,
)

seeds = st.integers(0, 2**32)
betas = st.floats(0.01, 100)


def rng(seed=0):
    return np.random.default_rng(seed)


def assert_divides(parts, n):
    """Every row in exactly one part, in increasing order."""
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert all((np.diff(part) > 0).all() for part in parts)


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 8), seeds, betas)
def test_by_label_divides_every_row_once(labels, agents, seed, beta):
    parts = by_label(np.array(labels, dtype=np.int64), agents, rng(seed), beta=beta)
    assert len(parts) == agents
    assert_divides(parts, len(labels))


@given(
    seed=st.integers(0, 99), agents=st.integers(1, 7), points=st.integers(1, 8), tiny=st.booleans()
)
@settings(max_examples=30, deadline=None)
def test_every_agent_has_as_many_rows_and_no_row_is_given_twice(seed, agents, points, tiny):
    labels = np.random.default_rng(seed).integers(0, 3, 60)
    beta = 1e-6 if tiny else 1.0
    parts = by_mix(labels, agents, points, np.random.default_rng(seed), beta=beta)
    assert [len(part) for part in parts] == [points] * agents
    assert len(np.unique(np.concatenate(parts))) == agents * points


@given(st.integers(0, 100), st.lists(st.floats(0.1, 5), min_size=1, max_size=6), seeds)
def test_iid_divides_by_the_shares(n, shares, seed):
    parts = iid(n, shares, rng(seed))
    assert_divides(parts, n)
    wanted = np.array(shares) / sum(shares) * n
    assert np.all(np.abs([len(part) for part in parts] - wanted) <= 1)
