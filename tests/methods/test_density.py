"""Gaussian mixtures in feature space."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from fedwqcp.errors import InputError
from fedwqcp.methods.cphet.densities import fit_mixture, law_of, read_mixture

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]])


def test_one_gaussian_by_hand():
    law = fit_mixture(SQUARE)
    assert law.weights.tolist() == [1.0]
    assert law.means.tolist() == [[1.0, 2.0]]
    eps = 1e-3 * (1 + 4) / 2
    assert law.covariances[0] == pytest.approx(np.diag([1 + eps, 4 + eps]))


def test_one_gaussian_for_each_label():
    x = np.array([[0.0], [2.0], [10.0], [10.5], [11.0]])
    law = fit_mixture(x, np.array([7, 7, 3, 3, 3]))
    assert law.weights == pytest.approx([0.6, 0.4])
    assert law.means.ravel() == pytest.approx([10.5, 1.0])
    assert law.covariances.ravel() == pytest.approx([1.001 / 6, 1.001])


def test_single_points_share_the_law_of_the_sample():
    x = np.array([[0.0], [2.0], [10.0], [20.0]])
    law = fit_mixture(x, np.array([0, 0, 1, 2]))
    assert law.weights == pytest.approx([0.5, 0.5])
    assert law.means.ravel() == pytest.approx([1.0, 8.0])  # no mean is a person's features
    assert law.covariances.ravel() == pytest.approx([1.001, 1.001 * np.var(x)])


def test_coinciding_points_keep_a_width():
    two = fit_mixture(np.array([[5.0], [5.0], [9.0], [7.0]]), np.array([0, 0, 1, 1]))
    assert two.covariances[0, 0, 0] == pytest.approx(1e-3 * np.var([5, 5, 9, 7]))
    assert fit_mixture(np.full((3, 2), 5.0)).covariances[0] == pytest.approx(1e-3 * np.eye(2))


def test_too_few_points_have_no_law():
    assert fit_mixture(np.zeros((1, 2))) is None
    assert fit_mixture(np.zeros((0, 2))) is None
    with pytest.raises(InputError, match="at least 2 rows, got 1"):
        law_of([[1.0]])


@pytest.mark.parametrize("d", [0, 33])
def test_dimensions_are_limited(d):
    with pytest.raises(InputError, match="reduce features to at most 32 dimensions, for example"):
        fit_mixture(np.zeros((40, d)))


def test_log_density_agrees_with_scipy_and_does_not_underflow():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    law = fit_mixture(x, y)
    at = np.vstack([x, [[300.0, 0.0, 0.0]]])
    expected = np.logaddexp.reduce(
        [
            np.log(w) + multivariate_normal(m, c).logpdf(at)
            for w, m, c in zip(law.weights, law.means, law.covariances, strict=True)
        ]
    )
    assert law.log_density(at) == pytest.approx(expected)
    assert expected[-1] < -800  # exp of it is 0


def test_numbers_and_back():
    law = law_of(SQUARE, [0, 0, 1, 1])
    assert len(law) == 2 + 2 * (1 + 2 + 3)
    assert read_mixture(law).numbers() == law
    assert law_of(SQUARE)[:5] == (1.0, 2.0, 1.0, 1.0, 2.0)


@pytest.mark.parametrize(
    "numbers",
    [
        (),
        (1.0,),
        (1.5, 1.0, 1.0, 0.0, 1.0),
        (0.0, 1.0),
        (1.0, 33.0),
        (1.0, 1.0, 1.0, 0.0),
        (1.0, 1.0, 1.0, 0.0, np.nan),
        (1.0, 1.0, 0.9, 0.0, 1.0),
        (2.0, 1.0, 2.0, -1.0, 0.0, 0.0, 1.0, 1.0),
        (1.0, 1.0, 1.0, 0.0, -1.0),
        (1.0, 2.0, 1.0, 0.0, 0.0, 1.0, 2.0, 1.0),
        (1.0, 1.0, 1.0, 1.7e308, 1.0),
        (1.0, 1.0, 1.0, 0.0, 1e101),
        (1.0, 1.0, 1.0, 0.0, 1e-101),
        (1.0, 2.0, 1.0, 0.0, 0.0, 1e-100, 1 - 1e-15, 1e100),
        (1.0, np.inf, 1.0, 0.0, 1.0),
    ],
)
def test_numbers_that_are_no_mixture_are_refused(numbers):
    with pytest.raises(InputError, match=r"^density: "):
        read_mixture(numbers)
