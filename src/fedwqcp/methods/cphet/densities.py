"""Densities of the agents' features, and the density ratios that reweight their scores.

A density is a Gaussian mixture. It is sent as numbers: k, d, weights, means, upper triangles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, exp, inf, isfinite

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, Labels, as_floats, as_labels
from fedwqcp.errors import InputError, UnfitAnswerError
from fedwqcp.methods._answers import most_common
from fedwqcp.methods._base import check_label_target
from fedwqcp.wire.messages import Payload, Summary, Target, check_size, check_sizes

_MAX_DIMENSIONS = 32
"""Covariances of more dimensions are neither estimated well nor sent."""

LARGEST = 1e100
"""No number of a density is larger, and no standard deviation smaller than 1 / sqrt of it."""

_RIDGE = 1e-3
"""Share of the mean variance that is added to the diagonal of a covariance."""

MIN_POINTS = 2
"""A component has at least this many points; the mean of one would be that person's features."""

_BLOCK = 2**16
"""Numbers that are held for the densities of several agents at once, unless one has more."""


@dataclass(frozen=True, eq=False)
class GaussianMixture:
    """A mixture of k Gaussians in d dimensions."""

    weights: Floats  # (k,), positive, with sum 1
    means: Floats  # (k, d)
    covariances: Floats  # (k, d, d), positive definite

    @cached_property
    def inverses(self) -> Floats:
        """Inverses of the covariances' lower Cholesky factors, shape (k, d, d)."""
        return np.asarray(np.linalg.inv(np.linalg.cholesky(self.covariances)))

    @cached_property
    def constants(self) -> Floats:
        """Logarithm of each component's weight and of its density at its mean, shape (k,)."""
        halves = np.log(np.diagonal(self.inverses, axis1=1, axis2=2)).sum(axis=1)
        scale = 0.5 * self.means.shape[1] * np.log(2 * np.pi)
        return np.asarray(np.log(self.weights) + halves - scale)

    def log_density(self, x: Floats) -> Floats:
        """Return the logarithm of the density: x (n, d) -> (n,)."""
        parts = self.constants[None], self.means[None], self.inverses[None]
        return np.asarray(_log_densities(*parts, x)[0])

    def numbers(self) -> tuple[float, ...]:
        """Write the mixture down: k, d, weights, means, upper triangles of the covariances."""
        k, d = self.means.shape
        upper = self.covariances[:, *np.triu_indices(d)]
        parts = (np.array([k, d]), self.weights, self.means.ravel(), upper.ravel())
        return tuple(np.concatenate(parts).tolist())


def _log_densities(constants: Floats, means: Floats, inverses: Floats, x: Floats) -> Floats:
    """Return the log densities of M mixtures of k components each.

    Shapes: constants (M, k), means (M, k, d), inverses (M, k, d, d), x (n, d) -> (M, n).
    """
    (M, k), (n, d) = constants.shape, x.shape
    if d != means.shape[2]:
        dimensions = f"{means.shape[2]} dimensions, as the round's densities have"
        raise InputError(f"must have {dimensions}, got {d}", field="features")
    logs = np.empty((M, n))
    at_once = max(1, _BLOCK // max(1, k * n * d))
    for i in range(0, M, at_once):
        block = slice(i, i + at_once)
        z = (x - means[block, :, None]) @ inverses[block].swapaxes(2, 3)  # (block, k, n, d)
        terms = constants[block, :, None] - 0.5 * np.square(z).sum(axis=3)
        logs[block] = np.logaddexp.reduce(terms, axis=1)
    return logs


def fit_mixture(features: Floats, labels: Labels | None = None) -> GaussianMixture | None:
    """Fit one Gaussian for each label, or a single one without labels.

    Component y has weight n_y / n, the label's mean, and the label's covariance (divided by n_y)
    plus eps I, eps = 1e-3 tr / d. All labels with fewer than two points take mean and covariance of
    the whole sample, in one component. None where there are fewer than two points in all.

    Shapes: features (n, d), labels (n,).

    Examples
    --------
    >>> fit_mixture(np.array([[0.0], [2.0]])).covariances
    array([[[1.001]]])
    """
    n, d = features.shape
    if not 1 <= d <= _MAX_DIMENSIONS:
        most = f"at most {_MAX_DIMENSIONS} dimensions, for example by PCA"
        raise InputError(f"must have {most}, got {d}", field="features")
    if n < MIN_POINTS:
        return None
    groups = (
        np.zeros(n, dtype=np.int64) if labels is None else np.unique(labels, return_inverse=True)[1]
    )
    sizes = np.bincount(groups)
    if np.abs(features).max() > LARGEST:  # squares and their sums stay finite
        raise InputError("features must lie between -1e100 and 1e100: scale them")
    common = np.mean(np.var(features, axis=0)) or 1.0  # stands in where a label's points coincide
    parts = [_component(features, groups == g, common) for g in np.flatnonzero(sizes >= MIN_POINTS)]
    if rest := int(sizes[sizes < MIN_POINTS].sum()):
        _, mean, covariance = _component(features, np.ones(n, dtype=np.bool_), common)
        parts.append((rest / n, mean, covariance))
    weights, means, covariances = zip(*parts, strict=True)
    return GaussianMixture(np.array(weights), np.stack(means), np.stack(covariances))


def read_mixture(numbers: tuple[float, ...]) -> GaussianMixture:
    """Read what `GaussianMixture.numbers` wrote."""
    values = np.array(numbers, dtype=np.float64)
    if not (np.abs(values) <= LARGEST).all():
        raise InputError("must hold numbers of at most 1e100: scale features", field="density")
    if len(values) < 2 or not (values[:2] % 1 == 0).all():
        raise InputError("must begin with two whole numbers, k and d", field="density")
    k, d = int(values[0]), int(values[1])
    triangle = d * (d + 1) // 2
    if k < 1 or not 1 <= d <= _MAX_DIMENSIONS or len(values) != 2 + k * (1 + d + triangle):
        raise InputError("must hold k weights, means and upper triangles", field="density")
    weights, means, upper = np.split(values[2:], [k, k + k * d])
    if not (weights > 0).all() or abs(weights.sum() - 1) > 1e-9:
        raise InputError("weights must be positive and sum to 1", field="density")
    rows, columns = np.triu_indices(d)
    covariances = np.empty((k, d, d))
    covariances[:, rows, columns] = covariances[:, columns, rows] = upper.reshape(k, triangle)
    mixture = GaussianMixture(weights, means.reshape(k, d), covariances)
    try:
        largest = np.abs(mixture.inverses).max()
    except np.linalg.LinAlgError:
        raise InputError("covariances must be positive definite", field="density") from None
    if not largest <= np.sqrt(LARGEST):  # densities would overflow
        raise InputError("covariances must not be so narrow: scale the features", field="density")
    return mixture


@lru_cache(maxsize=2)  # every question of a round holds the same ones
def _read_mixtures(densities: tuple[tuple[float, ...], ...]) -> list[GaussianMixture | None]:
    """Read those of all agents; None for an agent without one."""
    return [read_mixture(density) if density else None for density in densities]


def density_of(features: npt.ArrayLike, labels: npt.ArrayLike | None = None) -> tuple[float, ...]:
    """Fit the density of some inputs, one Gaussian per label, as numbers for ``target``.

    Shapes: features (n, d) with d of at most 32 and n of at least 2, labels (n,).

    Examples
    --------
    >>> density_of([[0.0], [2.0]])
    (1.0, 1.0, 1.0, 1.0, 1.001)
    """
    x = as_floats(features, "features", (None, None))
    y = None if labels is None else as_labels(labels, len(x), None)
    mixture = fit_mixture(x, y)
    if mixture is None:
        raise InputError(f"features must have at least {MIN_POINTS} rows, got {len(x)}")
    return mixture.numbers()


def _component(features: Floats, chosen: Bools, common: float) -> tuple[float, Floats, Floats]:
    """Return share, mean and regularised covariance of some of the points."""
    x = features[chosen]
    mean = x.mean(axis=0)
    covariance = (x - mean).T @ (x - mean) / len(x)
    eps = _RIDGE * (np.trace(covariance) / x.shape[1] or common)
    return len(x) / len(features), mean, covariance + eps * np.eye(x.shape[1])


class FittedDensity(Summary):
    """An agent's size N_i and the density of its features."""

    n: int
    density: tuple[float, ...]  # in numbers; empty where points are too few or none is needed

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        if self.density:
            read_mixture(self.density)

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)


class FeatureDensities(Payload, dict=True):
    """Sizes N_i and feature densities of all agents, as they go to every agent."""

    sizes: tuple[int, ...]
    mixtures: tuple[tuple[float, ...], ...]  # in numbers; empty for an agent without a density

    def __post_init__(self) -> None:
        check_sizes(self.sizes, "sizes")
        if not self.sizes or len(self.sizes) != len(self.mixtures):
            raise InputError("must be at least one, and as many as sizes", field="mixtures")
        if any(
            density and (len(density) < 2 or not isfinite(density[1])) for density in self.mixtures
        ):
            raise InputError("must each be empty or begin with two whole numbers", field="mixtures")
        dimensions = {int(density[1]) for density in self.mixtures if density}
        if len(dimensions) > 1:
            raise InputError(f"must be of one dimension, got {dimensions}", field="mixtures")

    @cached_property
    def numbers(self) -> int:
        """How many numbers the densities of all agents are."""
        return sum(map(len, self.mixtures))

    @cached_property
    def fitted_sizes(self) -> Floats:
        """N_i, 0 for an agent without a density."""
        pairs = zip(self.sizes, self.mixtures, strict=True)
        return np.array([n if density else 0 for n, density in pairs], np.float64)

    @cached_property
    def _by_components(self) -> list[tuple[list[int], Floats, Floats, Floats]]:
        """The agents whose mixtures have equally many components, with these side by side."""
        groups: dict[int, list[tuple[int, GaussianMixture]]] = {}
        for position, mixture in enumerate(_read_mixtures(self.mixtures)):
            if mixture is not None:
                groups.setdefault(len(mixture.weights), []).append((position, mixture))
        return [
            (
                [position for position, _ in group],
                np.stack([mixture.constants for _, mixture in group]),
                np.stack([mixture.means for _, mixture in group]),
                np.stack([mixture.inverses for _, mixture in group]),
            )
            for group in groups.values()
        ]

    def log_densities(self, x: Floats) -> Floats:
        """Return every agent's log density: x (n, d) -> (M, n); -inf for an agent without one."""
        logs = np.full((len(self.mixtures), len(x)), -inf)
        for agents, constants, means, inverses in self._by_components:
            logs[agents] = _log_densities(constants, means, inverses, x)
        return logs

    def log_mixture(self, log_densities: Floats) -> Floats:
        """Return the log density of the agents' mixture with shares N_i / N; -inf without any.

        Shapes: log_densities (M, n) -> (n,).
        """
        sizes = self.fitted_sizes
        with np.errstate(divide="ignore"):
            parts = log_densities + np.log(sizes / max(1, sizes.sum()))[:, None]
        return np.asarray(np.logaddexp.reduce(np.sort(parts, axis=0), axis=0))


def gather_densities(answers: Sequence[FittedDensity]) -> FeatureDensities:
    """Return the densities of all agents, whose features must have the dimension that most have."""
    dimensions = [int(answer.density[1]) for answer in answers if answer.density]
    d = most_common(dimensions) if dimensions else 0
    for position, answer in enumerate(answers):
        if answer.density and int(answer.density[1]) != d:
            raise UnfitAnswerError(position, f"features must have {d} dimensions, as most have")
    return FeatureDensities(tuple(a.n for a in answers), tuple(a.density for a in answers))


_LARGEST_LOG_RATIO = 100.0
"""Log density ratios are cut here, so that weights and their squares stay finite."""


def check_target(target: Target) -> None:
    """Refuse a target that is neither a known word nor a density in numbers."""
    if not isinstance(target, str):
        read_mixture(target)
    else:
        check_label_target(target)


def pooled_ratios(target: Target, densities: FeatureDensities, x: Floats) -> Floats:
    """Return lambda(x) = P*(x) / sum_i (N_i / N) P_i(x) for each target.

    Shapes: x (n, d) -> (T, n), T = M where each agent's own density is a target, else 1.
    """
    logs = densities.log_densities(x)
    mixture = densities.log_mixture(logs)
    return ratio(logs if isinstance(target, str) else _log_named(target, x), mixture)


def largest_ratios(target: Target, densities: FeatureDensities) -> Floats:
    """Return what no ratio of `pooled_ratios` passes, for each target, shape (T,).

    The mixture holds (N_t / N) P_t, so towards agent t's own density a ratio is at most N / N_t,
    wherever the point lies. Towards a density that the caller names there is only the cut.
    """
    if not isinstance(target, str):
        return np.array([exp(_LARGEST_LOG_RATIO)])
    sizes = densities.fitted_sizes
    top = np.full(len(sizes), sizes.sum())
    return np.asarray(np.divide(top, sizes, out=np.zeros(len(sizes)), where=sizes > 0))


def local_ratios(
    target: Target, source: GaussianMixture | None, densities: FeatureDensities | None, x: Floats
) -> Floats:
    """Return P*(x) / P_i(x), which reweights the scores of agent i alone; 0 without a P_i.

    Shapes: x (n, d) -> (1, n).
    """
    if source is None:
        return np.zeros((1, len(x)))
    if densities is not None:
        return ratio(densities.log_mixture(densities.log_densities(x))[None], source.log_density(x))
    if isinstance(target, str):
        raise InputError("the agents' mixture needs the densities of all agents")
    return ratio(_log_named(target, x), source.log_density(x))


def ratio(log_target: Floats, log_source: Floats) -> Floats:
    """Return the density ratio target / source, at most exp(100); 0 where the target has none."""
    with np.errstate(invalid="ignore"):
        logs = np.minimum(log_target - log_source, _LARGEST_LOG_RATIO)
    return np.where(np.isneginf(log_target), 0.0, np.exp(logs))


def clip_weights(weights: Floats, level: float) -> Floats:
    """Cut each target's weights (T, n) at their own quantile of a level; 1 cuts nothing."""
    n = weights.shape[1]
    rank = max(1, ceil(level * n - 1e-9))
    if rank >= n:
        return weights
    return np.minimum(weights, np.sort(weights, axis=1)[:, rank - 1 : rank])


def _log_named(target: tuple[float, ...], x: Floats) -> Floats:
    """Return the log density of a density that the caller names, shape (1, n)."""
    return read_mixture(target).log_density(x)[None]
