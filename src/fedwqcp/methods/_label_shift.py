"""The quantile problems of DP-FedCP: one for each target and label, and its questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._asked import check_probes
from fedwqcp.methods._weighted_search import LIMIT, most_probes
from fedwqcp.wire.limits import NUMBER
from fedwqcp.wire.payload import Question, check_size


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
            raise InputError("probes: must be strictly increasing")


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
            raise InputError(f"q: must be one number of at most {NUMBER.most:g} for each weight")
        if not all(0 <= w <= NUMBER.most for w in (*self.weights, self.share)):
            raise InputError(f"weights: must be from 0 to {NUMBER.most:g}, as share must")


def check_extent(question: Question, n_classes: int, *, subsample: bool, shared: bool) -> None:
    """Refuse a question about other points, or more probes or problems, than the settings need.

    Parameters
    ----------
    question : Question
        What the server asks.
    n_classes : int
        C.
    subsample : bool
        Whether only an agent's first points count.
    shared : bool
        Whether there is one target; otherwise an agent does not know how many there are.

    Raises
    ------
    InputError
        If no honest server asks it.
    """
    if not isinstance(question, CountFirst | CountsAt | DescendFrom):
        return
    if (question.size is None) == subsample:
        raise InputError("the server must ask about the first points with subsample, and only then")
    if isinstance(question, CountsAt):
        problems = n_classes if shared else LIMIT
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

    Parameters
    ----------
    counts : Floats, shape (M, C)
        Label counts of the agents.
    seed : int
        Seed of the draw.

    Returns
    -------
    tuple of int
        One size for each agent.
    """
    n = counts.sum(axis=1)
    N = n.sum()
    parts = n / N if N else np.full(len(n), 1 / len(n))
    drawn = np.random.default_rng(seed).multinomial(int(N) // 2, parts)
    return tuple(int(size) for size in np.minimum(n, drawn))
