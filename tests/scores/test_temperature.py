"""Temperature: hand-computed fits, the optimum, and what has no best temperature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError


def loss(logits, labels, temperature):
    """Mean negative log-likelihood, as its definition reads."""
    p = fw.softmax(logits, temperature)
    return -np.log(p[np.arange(len(p)), labels]).mean()


def test_softmax_by_hand():
    np.testing.assert_allclose(
        fw.softmax([[np.log(3.0), 0.0], [5.0, 5.0]]), [[0.75, 0.25], [0.5, 0.5]], rtol=1e-15
    )
    np.testing.assert_allclose(fw.softmax([[2.0, 0.0]], 4.0)[0, 0], 1 / (1 + np.exp(-0.5)))
    assert fw.softmax([[1e300, 0.0]]).tolist() == [[1.0, 0.0]]


def test_two_classes_by_hand():
    logits = [[2.0, 0.0]] * 3 + [[0.0, 2.0]]
    # right in k of 4 rows: the odds exp(2 / T) must be k / (4 - k)
    assert fw.fit_temperature(logits, [0, 0, 0, 0]) == pytest.approx(2 / np.log(3), rel=1e-12)


@given(
    scale=st.floats(-3, 3), classes=st.integers(2, 6), n=st.integers(5, 80), seed=st.integers(0, 99)
)
def test_no_other_temperature_is_likelier(scale, classes, n, seed):
    rng = np.random.default_rng(seed)
    logits = 10**scale * rng.normal(size=(n, classes))
    labels = rng.integers(0, classes, n)
    try:
        found = fw.fit_temperature(logits, labels)
    except InputError:
        assume(False)
    least = loss(logits, labels, found)
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert loss(logits, labels, factor * found) >= least
    assert fw.fit_temperature(7 * logits + 3, labels) == pytest.approx(7 * found, rel=1e-6)


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        ([[2.0, 0.0], [0.0, 1.0]], [0, 1]),
        (np.zeros((0, 3)), []),
        ([[0.0, 0.0]], [1]),
        ([[2.0, 0.0], [0.0, 1.0]], [1, 0]),
        ([[1.0, 0.0], [1e-13, 0.0], [1e-14, 0.0]], [0, 0, 1]),
        ([[np.nan, 0.0]], [0]),
        ([[1.0]], [0]),
        ([[1.0, 2.0]], [2]),
    ],
)
def test_what_cannot_be_fitted(logits, labels):
    with pytest.raises(InputError):
        fw.fit_temperature(logits, labels)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_is_positive(temperature):
    with pytest.raises(InputError):
        fw.softmax([[1.0, 2.0]], temperature)
