from __future__ import annotations

import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.embedded import breast_cancer, digits, friedman


def test_digits_are_whole_and_scaled():
    data = digits()
    assert len(data) == 1797
    assert data.n_classes == 10
    assert data.inputs.shape == (1797, 64)
    assert (data.inputs.min(), data.inputs.max()) == (0.0, 1.0)
    assert np.unique(data.targets).tolist() == list(range(10))


def test_some_digits_are_the_first_ones():
    assert (digits(50).inputs == digits().inputs[:50]).all()


def test_tumours_are_whole_and_scaled():
    data = breast_cancer()
    assert data.inputs.shape == (569, 30)
    assert (data.inputs.min(axis=0) == 0).all()
    assert (data.inputs.max(axis=0) == 1).all()
    assert np.bincount(data.targets).tolist() == [212, 357]


def test_friedman_is_called_synthetic_and_follows_its_formula():
    data = friedman(4000, np.random.default_rng(0))
    assert "synthetic" in data.name
    assert data.n_classes is None
    x = data.inputs
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    noise = data.targets - (mean + 10 * x[:, 3] + 5 * x[:, 4])
    assert abs(noise.mean()) < 5 / np.sqrt(4000)
    assert abs(noise.std() - 1) < 5 / np.sqrt(2 * 4000)


def test_friedman_needs_rows():
    with pytest.raises(InputError, match="rows must be at least 1"):
        friedman(0, np.random.default_rng(0))
