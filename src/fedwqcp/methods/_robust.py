"""What agents of Rob-FCP say first, and what it ends with."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fedwqcp.errors import InputError
from fedwqcp.wire.payload import Outcome, Summary, check_score, check_size


@dataclass(frozen=True)
class Span(Summary):
    """Where an agent's scores lie, and how many there are.

    Parameters
    ----------
    low, high : float
        Its alpha- and (1 - alpha)-quantile; +inf where there are no scores.
    n : int
        Sample size, at least 0.
    """

    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        for name in ("low", "high"):
            check_score(getattr(self, name), name)
        if self.low > self.high:
            raise InputError("low: must not be above high")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)

    def scores(self) -> tuple[float, ...]:
        return (self.low, self.high)


@dataclass(frozen=True)
class RobustThreshold(Outcome):
    """One threshold for every agent, and whose answers it does not rest on.

    Parameters
    ----------
    value : float
        The threshold.
    left_out : tuple of int
        Places of the agents whose answers were left out, among those that were used.
    loss : float
        Most coverage that liars cost, with probability 0.95, if honest scores share one law; 1 says
        nothing.
    """

    value: float
    left_out: tuple[int, ...]
    loss: float

    same_for_all = True

    def __post_init__(self) -> None:
        check_score(self.value, "value")
        for place in self.left_out:
            check_size(place, "left_out")
        if not 0 <= self.loss <= 1:
            raise InputError(f"loss: must be from 0 to 1, got {self.loss}")

    def threshold(self, position: int | None) -> float:
        del position  # it is the same for all
        return self.value


NOTHING = RobustThreshold(inf, (), 1.0)
"""Without finite scores there is no finite threshold."""
