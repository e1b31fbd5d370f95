"""Rows that are easy or hard to tell apart, and their sets by sorting, to test fast paths."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS

Rows = npt.NDArray[np.floating]
KINDS = [
    "spread",
    "steep",
    "even",
    "nearly even",
    "closer than fixed point",
    "equal but for float32",
    "tied",
    "one and dust",
    "sure",
    "changing",
]

RANKED = [
    APS(),
    APS(randomized=False),
    RAPS(penalty=0.3, k_reg=2),
    RAPS(penalty=0.01, randomized=False),
    SAPS(),
    SAPS(penalty=0.0, randomized=False),
]
"""Scores whose sets are the first few labels of a row."""


def rows(kind: str, n: int, C: int, seed: int = 0) -> Rows:
    """Probabilities that are easy, or hard, to tell apart."""
    rng = np.random.default_rng((seed, C))
    logits = rng.normal(size=(n, C))
    if kind == "equal but for float32" and C > 2:
        half, rest = 0.375 + 2.0**-26, np.exp(logits[:, 2:])
        pair = np.tile([half - 2.0**-54, half + 2.0**-54], (n, 1))
        return np.hstack([pair, (1 - 2 * half) * rest / rest.sum(axis=1, keepdims=True)])
    weights = {
        "spread": np.exp(2 * logits),
        "steep": np.exp(30 * logits),
        "even": np.ones((n, C)),
        "nearly even": 1 + 1e-7 * logits,
        "equal but for float32": np.ones((n, C)),
        "closer than fixed point": 1 + 3e-16 * rng.integers(-2, 3, (n, C)),
        "tied": rng.integers(0, 4, (n, C)) + np.eye(C)[rng.integers(0, C, n)],
        "one and dust": np.eye(C)[rng.integers(0, C, n)] + 1e-12,
        "sure": np.where(rng.random((n, C)) < 2 / C, 1.0, 1e-12) + 1e-14,
        "changing": np.exp(rng.choice([0, 0.01, 2, 30], (n, 1)) * logits),
    }[kind]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


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
