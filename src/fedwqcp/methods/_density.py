"""Gaussian mixtures in feature space: fitting, evaluating, and writing down as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Bools, Floats, Labels, as_floats, as_labels
from fedwqcp.errors import InputError

MAX_DIMENSIONS = 32
"""Covariances of more dimensions are neither estimated well nor sent."""

LARGEST = 1e100
"""No number of a law is larger, and no standard deviation smaller than 1 / sqrt of it."""

RIDGE = 1e-3
"""Share of the mean variance that is added to the diagonal of a covariance."""

FEWEST = 2
"""A component has at least this many points; the mean of one would be that person's features."""


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A mixture of k Gaussians in d dimensions.

    Parameters
    ----------
    weights : Floats, shape (k,)
        Positive, with sum 1.
    means : Floats, shape (k, d)
        Means.
    covariances : Floats, shape (k, d, d)
        Positive definite.
    """

    weights: Floats
    means: Floats
    covariances: Floats

    @cached_property
    def inverses(self) -> Floats:
        """Inverses of the covariances' lower Cholesky factors, shape (k, d, d)."""
        return np.asarray(np.linalg.inv(np.linalg.cholesky(self.covariances)))

    def log_density(self, x: Floats) -> Floats:
        """Return the logarithm of the density.

        Parameters
        ----------
        x : Floats, shape (n, d)
            Where.

        Returns
        -------
        Floats, shape (n,)
            Log density; no value underflows.
        """
        halves = np.log(np.diagonal(self.inverses, axis1=1, axis2=2)).sum(axis=1)
        constants = np.log(self.weights) + halves - 0.5 * x.shape[1] * np.log(2 * np.pi)
        terms = [
            constant - 0.5 * np.square((x - mean) @ inverse.T).sum(axis=1)
            for constant, mean, inverse in zip(constants, self.means, self.inverses, strict=True)
        ]
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def numbers(self) -> tuple[float, ...]:
        """Write the mixture down: k, d, weights, means, upper triangles of the covariances.

        Returns
        -------
        tuple of float
            2 + k (1 + d + d (d + 1) / 2) numbers; `read_mixture` is the inverse.
        """
        k, d = self.means.shape
        upper = self.covariances[:, *np.triu_indices(d)]
        parts = (np.array([k, d]), self.weights, self.means.ravel(), upper.ravel())
        return tuple(np.concatenate(parts).tolist())


def fit_mixture(features: Floats, labels: Labels | None = None) -> GaussianMixture | None:
    """Fit one Gaussian for each label, or a single one without labels.

    Component y has weight n_y / n, the label's mean, and the label's covariance (divided by n_y)
    plus eps I, eps = 1e-3 tr / d. All labels with fewer than two points take mean and covariance of
    the whole sample, in one component.

    Parameters
    ----------
    features : Floats, shape (n, d)
        Features.
    labels : Labels, shape (n,), optional
        Labels.

    Returns
    -------
    GaussianMixture or None
        None where there are fewer than two points: one point has no law.

    Raises
    ------
    InputError
        If there are no dimensions or more than 32.

    Examples
    --------
    >>> fit_mixture(np.array([[0.0], [2.0]])).covariances
    array([[[1.001]]])
    """
    n, d = features.shape
    if not 1 <= d <= MAX_DIMENSIONS:
        raise InputError(
            f"features must have 1 to {MAX_DIMENSIONS} dimensions, got {d}: "
            f"reduce features to at most {MAX_DIMENSIONS} dimensions, for example by PCA"
        )
    if n < FEWEST:
        return None
    groups = (
        np.zeros(n, dtype=np.int64) if labels is None else np.unique(labels, return_inverse=True)[1]
    )
    sizes = np.bincount(groups)
    common = np.mean(np.var(features, axis=0)) or 1.0  # stands in where a label's points coincide
    parts = [_component(features, groups == g, common) for g in np.flatnonzero(sizes >= FEWEST)]
    if rest := int(sizes[sizes < FEWEST].sum()):
        _, mean, covariance = _component(features, np.ones(n, dtype=np.bool_), common)
        parts.append((rest / n, mean, covariance))
    weights, means, covariances = zip(*parts, strict=True)
    return GaussianMixture(np.array(weights), np.stack(means), np.stack(covariances))


def read_mixture(numbers: tuple[float, ...]) -> GaussianMixture:
    """Read what `GaussianMixture.numbers` wrote.

    Parameters
    ----------
    numbers : tuple of float
        k, d, weights, means, upper triangles.

    Returns
    -------
    GaussianMixture
        The mixture.

    Raises
    ------
    InputError
        If the numbers are too large, too many or too few, or no mixture has them.
    """
    values = np.array(numbers, dtype=np.float64)
    if not (np.abs(values) <= LARGEST).all():
        raise InputError(f"density: must hold numbers of at most {LARGEST:g}: scale the features")
    if len(values) < 2 or not (values[:2] % 1 == 0).all():
        raise InputError("density: must begin with two whole numbers, k and d")
    k, d = int(values[0]), int(values[1])
    triangle = d * (d + 1) // 2
    if k < 1 or not 1 <= d <= MAX_DIMENSIONS or len(values) != 2 + k * (1 + d + triangle):
        raise InputError("density: must hold k weights, means and upper triangles of d dimensions")
    weights, means, upper = np.split(values[2:], [k, k + k * d])
    if not (weights > 0).all() or abs(weights.sum() - 1) > 1e-9:
        raise InputError("density: weights must be positive and sum to 1")
    rows, columns = np.triu_indices(d)
    covariances = np.empty((k, d, d))
    covariances[:, rows, columns] = covariances[:, columns, rows] = upper.reshape(k, triangle)
    mixture = GaussianMixture(weights, means.reshape(k, d), covariances)
    _check_definite(mixture)
    return mixture


def law_of(features: npt.ArrayLike, labels: npt.ArrayLike | None = None) -> tuple[float, ...]:
    """Write down the law of some inputs as a target: one Gaussian per label.

    Parameters
    ----------
    features : array_like, shape (n, d)
        Features, at most 32 dimensions.
    labels : array_like, shape (n,), optional
        Labels.

    Returns
    -------
    tuple of float
        For the setting ``target`` of `cphet`.

    Raises
    ------
    InputError
        If there are fewer than two rows, or more than 32 dimensions.

    Examples
    --------
    >>> law_of([[0.0], [2.0]])
    (1.0, 1.0, 1.0, 1.0, 1.001)
    """
    x = as_floats(features, "features", (None, None))
    y = None if labels is None else as_labels(labels, len(x), np.iinfo(np.int64).max)
    mixture = fit_mixture(x, y)
    if mixture is None:
        raise InputError(f"features must have at least {FEWEST} rows, got {len(x)}")
    return mixture.numbers()


def _check_definite(mixture: GaussianMixture) -> None:
    """Refuse covariances without an inverse, or with one so large that densities overflow."""
    try:
        largest = np.abs(mixture.inverses).max()
    except np.linalg.LinAlgError:
        raise InputError("density: covariances must be positive definite") from None
    if not largest <= np.sqrt(LARGEST):
        raise InputError("density: covariances must not be so narrow: scale the features")


def _component(features: Floats, chosen: Bools, common: float) -> tuple[float, Floats, Floats]:
    """Return share, mean and regularised covariance of some of the points."""
    x = features[chosen]
    mean = x.mean(axis=0)
    covariance = (x - mean).T @ (x - mean) / len(x)
    eps = RIDGE * (np.trace(covariance) / x.shape[1] or common)
    return len(x) / len(features), mean, covariance + eps * np.eye(x.shape[1])
