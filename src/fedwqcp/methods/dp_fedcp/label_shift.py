"""Label shift: counts of labels, weights towards a target, and the questions of DP-FedCP.

There is one quantile problem for each of T targets and C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.random import Generator as Random

from fedwqcp._validation import Floats, Labels
from fedwqcp.errors import InputError
from fedwqcp.methods._base import check_probes
from fedwqcp.methods._noise import discrete_gaussian
from fedwqcp.methods._pinball import TAIL
from fedwqcp.methods._search import LARGEST_ANSWER, most_probes
from fedwqcp.wire.limits import NOISE, NUMBER
from fedwqcp.wire.messages import Question, Summary, check_size


@dataclass(frozen=True)
class LabelCounts(Summary):
    """How many calibration points of an agent have each label.

    Parameters
    ----------
    counts : tuple of int
        One for each label.
    """

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        for count in self.counts:
            check_size(count, "counts")

    def sizes(self) -> tuple[int, ...]:
        return (sum(self.counts),)


@dataclass(frozen=True)
class NoisyCounts(Summary):
    """Label counts with discrete Gaussian noise; their sum may pass the agent's size.

    Parameters
    ----------
    counts : tuple of int
        One for each label, at least 1.
    noise : float
        Standard deviation of the noise.
    """

    counts: tuple[int, ...]
    noise: float

    def __post_init__(self) -> None:
        for count in self.counts:
            check_size(count, "counts")
            if count < 1:
                raise InputError("must be at least 1 each, got 0", field="counts")
        if not 0 < self.noise <= NOISE.most:
            raise InputError(f"must be above 0 and at most {NOISE.most:g}", field="noise")

    def sizes(self) -> tuple[int, ...]:
        """Return the least size that these counts can stand for, but once in e^40 draws a label."""
        return (sum(max(0, count - count_margin(self.noise)) for count in self.counts),)


BLOCK = 10
"""The first points that a server asks for are counted in blocks of so many."""


def first_points(size: int | None, n: int) -> int:
    """Return how many of n points count where the first ``size`` are asked for; None for all.

    Whatever sizes are asked, what counts differs by at least ten points or by none.

    Examples
    --------
    >>> [first_points(size, n=35) for size in (0, 9, 10, 19, 25, 26, 99)]
    [0, 0, 10, 10, 20, 20, 35]
    """
    rounded = n if size is None else size - size % BLOCK
    return rounded if n - rounded >= BLOCK else n


def count_margin(noise: float) -> int:
    """Return what discrete Gaussian noise passes less than once in e^40 draws."""
    return ceil(TAIL * noise)  # its tail is no heavier than the normal one


def check_labels(
    sent: LabelCounts | NoisyCounts,
    first: LabelCounts | NoisyCounts | None,
    size: int | None,
    *,
    noise: float,
    n_classes: int | None,
) -> None:
    """Refuse label counts of other classes or noise, or that the agent's first ones rule out.

    ``first`` and ``size`` are given where only the agent's first points were asked for.
    """
    C = n_classes if first is None else len(first.counts)
    if C is not None and len(sent.counts) != C:
        raise InputError(f"must be {C}, one for each class, got {len(sent.counts)}", field="counts")
    if isinstance(sent, NoisyCounts) and sent.noise != noise:
        raise InputError(f"must be the round's {noise:g}", field="noise")
    if first is None or size is None:
        return
    margin = 2 * count_margin(noise) if noise else 0  # two draws
    if any(
        later > before + margin for later, before in zip(sent.counts, first.counts, strict=True)
    ):
        raise InputError("must not pass those of all points, as given before", field="counts")
    most = size + BLOCK - 1 if noise else first_points(size, sum(first.counts))
    if sent.sizes()[0] > most or (not noise and sum(sent.counts) < most):
        raise InputError(f"must be of the first {size} points", field="counts")


def count_labels(
    labels: Labels, n_classes: int, noise: float, rng: Random
) -> LabelCounts | NoisyCounts:
    """Count labels, with noise where it is asked for; noisy counts are floored at 1."""
    counts = np.bincount(labels, minlength=n_classes)
    if not noise:
        return LabelCounts(tuple(counts.tolist()))
    noisy = counts + discrete_gaussian(noise, n_classes, rng)
    return NoisyCounts(tuple(np.maximum(1, noisy).tolist()), noise)


def label_weights(counts: Floats, targets: Floats) -> Floats:
    """Return w_y = (c c*_y) / (c* c_y), how much rarer or commoner a label is at the target.

    Shapes: counts (M, C), targets (T, C) -> (T, C).

    Examples
    --------
    >>> label_weights(np.array([[2.0, 6.0], [2.0, 0.0]]), np.array([[1.0, 1.0]]))
    array([[1.25      , 0.83333333]])
    """
    c_y = counts.sum(axis=0)
    top = c_y.sum() * targets
    bottom = targets.sum(axis=1, keepdims=True) * c_y
    w: Floats = np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
    return w


def counts_at(probes: Sequence[float], scores: Floats, labels: Labels, n_classes: int) -> list[int]:
    """Count, for each probe and label, the points of that label with a score at or below.

    Examples
    --------
    >>> counts_at([0.2, 0.4], np.array([0.4, 0.1, 0.2]), np.array([0, 1, 1]), 2)
    [0, 2, 1, 2]
    """
    first = np.searchsorted(np.asarray(probes), scores)  # the first probe that is not below
    cells = np.bincount(first * n_classes + labels, minlength=(len(probes) + 1) * n_classes)
    table = np.cumsum(cells.reshape(-1, n_classes), axis=0)[:-1]
    return [int(count) for count in table.ravel()]


@dataclass(frozen=True)
class CountFirst(Question):
    """How many of the agent's first points have each label.

    Parameters
    ----------
    size : int
        How many points count.
    """

    size: int

    def __post_init__(self) -> None:
        check_size(self.size, "size")


@dataclass(frozen=True)
class CountsAt(Question):
    """How many points of each label have a score at or below each probe.

    Parameters
    ----------
    probes : tuple of float
        In increasing order.
    size : int or None
        How many of the agent's points count; None for all.
    """

    probes: tuple[float, ...]
    size: int | None

    def __post_init__(self) -> None:
        if self.size is not None:
            check_size(self.size, "size")
        if any(a >= b for a, b in zip(self.probes, self.probes[1:], strict=False)):
            raise InputError("must be strictly increasing", field="probes")


@dataclass(frozen=True)
class DescendFrom(Question):
    """Where an agent gets to from q by its local steps.

    Parameters
    ----------
    q : tuple of float
        For each target and label, where the server stands.
    weights : tuple of float
        For each target and label, w_y.
    share : float
        N_i / N, this agent's share of the mass at 1.
    size : int or None
        How many of the agent's points count; None for all.
    """

    q: tuple[float, ...]
    weights: tuple[float, ...]
    share: float
    size: int | None

    def __post_init__(self) -> None:
        if self.size is not None:
            check_size(self.size, "size")
        if len(self.q) != len(self.weights) or not all(abs(q) <= NUMBER.most for q in self.q):
            raise InputError(
                f"must be one number of at most {NUMBER.most:g} for each weight", field="q"
            )
        if not all(0 <= w <= NUMBER.most for w in (*self.weights, self.share)):
            raise InputError(f"must be from 0 to {NUMBER.most:g}, as share must", field="weights")


def check_extent(question: Question, n_classes: int, *, subsample: bool, shared: bool) -> None:
    """Refuse a question about other points, or more probes or problems, than the settings need."""
    if not isinstance(question, CountFirst | CountsAt | DescendFrom):
        return
    if (question.size is None) == subsample:
        raise InputError("the server must ask about the first points with subsample, and only then")
    if isinstance(question, CountsAt):
        problems = n_classes if shared else LARGEST_ANSWER
        check_probes(len(question.probes), most_probes(problems, n_classes))
    if isinstance(question, DescendFrom):
        targets, rest = divmod(len(question.q), n_classes)
        if rest or targets < 1 or (shared and targets > 1):
            of_each = "label" if shared else "target and label"
            raise InputError(f"the server must ask from one number for each {of_each}")


class LabelShift:
    """Denominators and agents' shares for T targets and C labels.

    Parameters
    ----------
    weights : Floats, shape (T, C)
        w_y of each target.
    counts : Floats, shape (M, C)
        Label counts of the agents, which the weights come from.
    used : Floats, shape (M, C)
        Label counts of the points that are used.

    Attributes
    ----------
    totals : Floats, shape (T, C)
        D_y = w_y + sum_k w_{Y_k}.
    parts : Floats, shape (M,)
        N_i / N.
    shares : Floats, shape (M, T * C)
        lambda_i = (N_i / N) w_y / D_y + sum_k w_{Y_k^i} / D_y; they sum to 1, 0 where D_y is 0.
    """

    def __init__(self, weights: Floats, counts: Floats, used: Floats) -> None:
        N = counts.sum()
        self.weights = weights
        self.parts = counts.sum(axis=1) / N if N else np.full(len(counts), 1 / len(counts))
        self.totals = weights + (weights @ used.sum(axis=0))[:, None]
        mass = self.parts[:, None, None] * weights + (used @ weights.T)[:, :, None]
        shares = np.divide(mass, self.totals, out=np.zeros_like(mass), where=self.totals > 0)
        self.shares = shares.reshape(len(counts), -1)


def draw_sizes(counts: Floats, seed: int) -> tuple[int, ...]:
    """Draw how many points of each agent are used: min(N_i, Nbar_i), Nbar multinomial.

    Shapes: counts (M, C).
    """
    n = counts.sum(axis=1)
    N = n.sum()
    parts = n / N if N else np.full(len(n), 1 / len(n))
    drawn = np.random.default_rng(seed).multinomial(int(N) // 2, parts)
    return tuple(int(size) for size in np.minimum(n, drawn))
