"""Rows that are easy or hard to tell apart, and their sets by sorting, to test fast paths."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS

Rows = npt.NDArray[np.floating]

RANKED = [
    APS(),
    APS(randomized=False),
    RAPS(penalty=0.3, k_reg=2),
    RAPS(penalty=0.01, randomized=False),
    SAPS(),
    SAPS(penalty=0.0, randomized=False),
]
"""Scores whose sets are the first few labels of a row."""


def many_rows(C: int, n: int = 70) -> Iterator[Rows]:
    """Probabilities that are spread, tied, steep, flat, saturated, or halved at each label."""
    rng = np.random.default_rng(C)
    halves = rng.permuted(np.tile(2.0 ** -np.arange(C), (n, 1)), axis=1)
    for weights in (
        rng.exponential(size=(n, C)),
        rng.integers(0, 4, (n, C)) + np.eye(C)[rng.integers(0, C, n)],
        np.exp(8 * rng.normal(size=(n, C))),
        np.ones((n, C)),
        np.where(rng.random((n, C)) < 0.05, 1, 1e-18),
        halves,
    ):
        yield weights / weights.sum(axis=1, keepdims=True)
