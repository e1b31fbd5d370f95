"""The laws of the agents' features, as they travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import usual
from fedwqcp.methods._base import UnfitAnswerError
from fedwqcp.methods._density import read_mixture
from fedwqcp.wire.payload import Payload, Summary, check_size


@dataclass(frozen=True)
class Fitted(Summary):
    """An agent's size and the law of its features.

    Parameters
    ----------
    n : int
        N_i.
    density : tuple of float
        A Gaussian mixture in numbers; empty where there are too few points or none is needed.
    """

    n: int
    density: tuple[float, ...]

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        if self.density:
            read_mixture(self.density)

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)


@dataclass(frozen=True)
class Laws(Payload):
    """Sizes and laws of all agents, as they go to every agent.

    Parameters
    ----------
    sizes : tuple of int
        N_i.
    densities : tuple of tuple of float
        Gaussian mixtures in numbers; an empty one has no law.
    """

    sizes: tuple[int, ...]
    densities: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        for n in self.sizes:
            check_size(n, "sizes")
        if not self.sizes or len(self.sizes) != len(self.densities):
            raise InputError("densities: must be at least one, and as many as sizes")
        if any(law and (len(law) < 2 or not isfinite(law[1])) for law in self.densities):
            raise InputError("densities: must each be empty or begin with two whole numbers")
        dimensions = {int(density[1]) for density in self.densities if density}
        if len(dimensions) > 1:
            raise InputError(
                f"densities: all agents must have features of one dimension, got {dimensions}"
            )

    def log_densities(self, x: Floats) -> Floats:
        """Return every agent's log density.

        Parameters
        ----------
        x : Floats, shape (n, d)
            Where.

        Returns
        -------
        Floats, shape (M, n)
            -inf for an agent without a law.
        """
        none = np.full(len(x), -inf)
        rows = [read_mixture(law).log_density(x) if law else none for law in self.densities]
        return np.stack(rows)

    def log_mixture(self, log_densities: Floats) -> Floats:
        """Return the log density of the agents' mixture with shares N_i / N.

        Parameters
        ----------
        log_densities : Floats, shape (M, n)
            As `log_densities` gives them.

        Returns
        -------
        Floats, shape (n,)
            -inf where no agent has a law.
        """
        sizes = np.array(
            [n if law else 0 for n, law in zip(self.sizes, self.densities, strict=True)]
        )
        with np.errstate(divide="ignore"):
            parts = log_densities + np.log(sizes / max(1, sizes.sum()))[:, None]
        return np.asarray(np.logaddexp.reduce(np.sort(parts, axis=0), axis=0))


def gather_laws(answers: Sequence[Fitted]) -> Laws:
    """Return the laws of all agents.

    Parameters
    ----------
    answers : sequence of Fitted
        What the agents sent.

    Returns
    -------
    Laws
        The same in one.

    Raises
    ------
    UnfitAnswerError
        If an agent's features have another dimension than most agents' have.
    """
    dimensions = [int(answer.density[1]) for answer in answers if answer.density]
    d = usual(dimensions) if dimensions else 0
    for position, answer in enumerate(answers):
        if answer.density and int(answer.density[1]) != d:
            raise UnfitAnswerError(position, f"features must have {d} dimensions, as most have")
    return Laws(tuple(a.n for a in answers), tuple(a.density for a in answers))
