"""What masked sums need: the numbers as whole words, and a threshold with its margin.

Masks hide whole numbers modulo 2^32, so whatever is summed becomes a whole number first. Rounding
goes up, and only up: a threshold made of sums is never below the one made of the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, isfinite, nextafter

from fedwqcp.errors import InputError, OutOfRangeError
from fedwqcp.wire.payload import ToAll, check_score

MODULUS = 2**32
"""Masked words are whole numbers modulo this."""
FEWEST = 3
"""Fewest agents of a masked sum: with two, each would know the other's number."""


@dataclass(frozen=True)
class FixedPoint:
    """How numbers become whole words that can be summed under masks.

    The terms of a round imply it. A word of one agent is below 2^bits, with the largest bits such
    that agents * 2^bits <= 2^32.

    Parameters
    ----------
    low, high : float
        Range of the thresholds.
    max_n : int
        Largest sample size of an agent.
    agents : int
        Most agents that one sum can hold.

    Examples
    --------
    >>> scale = FixedPoint(low=-1.0, high=1.0, max_n=1000, agents=6)
    >>> scale.bits, scale.word(10, 0.5)
    (29, 4026532)
    >>> margin = scale.margin(agents=1, weight=10)
    >>> 0.5 <= scale.mean(scale.word(10, 0.5), 10) <= 0.5 + margin < 0.5000004
    True
    """

    low: float
    high: float
    max_n: int
    agents: int

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low < self.high):
            raise InputError(
                "masked sums need finite bounds of the score, the lower one first, got "
                f"{self.low:g} to {self.high:g}",
                field="range",
            )
        if self.agents < FEWEST:
            raise InputError(
                f"a masked sum needs at least {FEWEST}, got {self.agents}", field="agents"
            )
        if not 1 <= self.max_n < 2**self.bits:
            raise InputError(
                f"must be below 2^{self.bits} for {self.agents} agents, got {self.max_n}; "
                "open the round with a smaller max_n",
                field="max_n",
            )

    @property
    def bits(self) -> int:
        """Bits of one agent's word."""
        return (MODULUS // self.agents).bit_length() - 1

    def word(self, weight: int, value: float) -> int:
        """Return weight * (value - low) in units of this scale, rounded up.

        Parameters
        ----------
        weight : int
            From 0 to ``max_n``.
        value : float
            A number within the range.

        Returns
        -------
        int
            From 0 to 2^bits - 1.

        Raises
        ------
        OutOfRangeError
            If weight or value lies outside, since a mask would hide it from everyone.
        """
        if not 0 <= weight <= self.max_n:
            raise OutOfRangeError(f"must be from 0 to the round's max_n = {self.max_n}", field="n")
        if not self.low <= value <= self.high:
            raise OutOfRangeError(
                f"must lie between {self.low:g} and {self.high:g}, the range of this "
                "round; ask the server for a round with a wider one",
                field="threshold",
            )
        return ceil(weight * (Fraction(value) - Fraction(self.low)) / self._unit)

    def mean(self, total: int, weight: int) -> float:
        """Return the weighted mean that a total of words stands for, rounded up.

        Parameters
        ----------
        total : int
            Sum of the agents' words.
        weight : int
            Sum of their weights, at least 1.

        Returns
        -------
        float
            At least the mean of the values, at most `margin` above it, and never above ``high``.
        """
        exact = Fraction(self.low) + total * self._unit / weight
        return min(_rounded_up(exact), self.high)

    def margin(self, agents: int, weight: int) -> float:
        """Return how far `mean` can lie above the mean of the values.

        Parameters
        ----------
        agents : int
            How many words were summed.
        weight : int
            Sum of the weights.

        Returns
        -------
        float
            One unit for each agent, over the weight; rounding to a float is left out.
        """
        return _rounded_up(agents * self._unit / weight)

    @property
    def _unit(self) -> Fraction:
        """What one unit of a word stands for."""
        width = Fraction(self.high) - Fraction(self.low)
        return width * Fraction(self.max_n, 2**self.bits - 1)


@dataclass(frozen=True)
class ToAllWithin(ToAll):
    """One threshold for every agent, found from masked sums.

    Parameters
    ----------
    value : float or tuple of float
        The threshold: never below the one that the same method finds without masks.
    margin : float
        How far it can lie above that one.
    """

    margin: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_score(self.margin, "margin")
        if not 0 <= self.margin < inf:
            raise InputError(f"must be a number of at least 0, got {self.margin}", field="margin")


def _rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is not below a number."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else nextafter(nearest, inf)
