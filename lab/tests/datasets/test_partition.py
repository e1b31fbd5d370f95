from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.partition import (
    by_label,
    by_mix,
    by_quantity,
    fit_clusters,
    iid,
    stream,
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


def test_mixes_follow_the_concentration_and_rows_must_suffice():
    labels = np.arange(6000) % 3
    rng = np.random.default_rng(0)
    skew = {
        beta: np.mean(
            [
                np.bincount(labels[part], minlength=3).max() / 100
                for part in by_mix(labels, 20, 100, rng, beta=beta)
            ]
        )
        for beta in (1e-3, 1e6)
    }
    assert skew[1e-3] > 0.95  # one class each, almost
    assert skew[1e6] < 0.45  # a third of each
    with pytest.raises(InputError):
        by_mix(labels[:60], 2, 31, rng, beta=1.0)


@given(st.integers(0, 100), st.lists(st.floats(0.1, 5), min_size=1, max_size=6), seeds)
def test_iid_divides_by_the_shares(n, shares, seed):
    parts = iid(n, shares, rng(seed))
    assert_divides(parts, n)
    wanted = np.array(shares) / sum(shares) * n
    assert np.all(np.abs([len(part) for part in parts] - wanted) <= 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: by_label([0, 1], 0, rng(), beta=1),
        lambda: by_label([0, 1], 2, rng(), beta=0),
        lambda: by_label([0, 1], 2, rng(), beta=float("inf")),
        lambda: by_label([[0, 1]], 2, rng(), beta=1),
        lambda: iid(4, (1, -1), rng()),
        lambda: iid(4, (0, 0), rng()),
        lambda: fit_clusters([[0.0]], rng(), n_clusters=0),
        lambda: fit_clusters([0.0], rng(), n_clusters=1),
    ],
)
def test_wrong_numbers_are_refused(call):
    with pytest.raises(InputError):
        call()


def test_quantity_skew_is_in_size_and_not_in_content():
    sizes = [len(part) for part in by_quantity(6000, 6, stream(0, "parts"), beta=1e6)]
    assert max(sizes) - min(sizes) < 60
    assert_divides(by_quantity(100, 6, stream(0, "parts"), beta=0.3), 100)
    skewed = by_quantity(6000, 6, stream(0, "parts"), beta=0.3)
    assert max(len(part) for part in skewed) > 2 * min(len(part) for part in skewed)
    large = max(skewed, key=len)
    assert abs(large.mean() - 2999.5) < 5 * 1732 / len(large) ** 0.5  # rows from the whole range


names = st.lists(st.text(max_size=5), max_size=3)


def draws(seed, *parts):
    return stream(seed, *parts).integers(2**63, size=4).tolist()


@given(st.integers(0, 2**64), names, names)
def test_other_names_give_other_numbers(seed, one, other):
    assert (draws(seed, *one) == draws(seed, *other)) == (one == other)
