"""Order statistics from counts alone: a search over the ordered float64 numbers.

Float64 numbers in their order are as good as integers: `to_key` numbers them without gaps. A search
over these integers ends at one number, whatever the scale, sign and ties of the scores.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan

from fedwqcp.errors import InputError

_MAGNITUDE = 2**63 - 1


def to_key(value: float) -> int:
    """Return the place of a number among all float64 numbers; 0 and -0 share the place 0.

    Parameters
    ----------
    value : float
        A number; infinities have a place too.

    Returns
    -------
    int
        ``a < b`` exactly where ``to_key(a) < to_key(b)``; neighbours differ by 1.

    Raises
    ------
    InputError
        If the value is NaN.

    Examples
    --------
    >>> to_key(0.0), to_key(5e-324), to_key(-5e-324)
    (0, 1, -1)
    """
    if isnan(value):
        raise InputError("value must be a number, got NaN")
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits) if bits >= 0 else -(int(bits) & _MAGNITUDE)


def from_key(key: int) -> float:
    """Return the number at a place, the inverse of `to_key`.

    Parameters
    ----------
    key : int
        A place from ``to_key(-inf)`` to ``to_key(inf)``.

    Returns
    -------
    float
        The number.

    Raises
    ------
    InputError
        If no number has this place.

    Examples
    --------
    >>> from_key(to_key(0.1)), from_key(-1)
    (0.1, -5e-324)
    """
    if abs(key) > to_key(inf):
        raise InputError(f"key must be at most {to_key(inf)} in magnitude, got {key}")
    (value,) = struct.unpack("<d", struct.pack("<q", abs(key)))
    return float(value) if key >= 0 else -float(value)


@dataclass(frozen=True)
class Bracket:
    """Where the smallest number with enough scores at or below it can be: from place low to high.

    It begins with every number that a score can be, +inf included, and each step cuts it into
    ``probes + 1`` parts, so about 64 / log2(probes + 1) steps end it at one number.

    Parameters
    ----------
    low, high : int, optional
        The first and the last place.

    Examples
    --------
    >>> scores, bracket = [0.3, -2.0, 0.1, float("inf")], Bracket()
    >>> while bracket.open:
    ...     values = bracket.probes(15)
    ...     counts = [sum(score <= value for score in scores) for value in values]
    ...     bracket = bracket.narrow(values, counts, rank=2)
    >>> bracket.value
    0.1
    """

    low: int = to_key(-inf) + 1  # a score is never -inf
    high: int = to_key(inf)

    @classmethod
    def steps(cls, probes: int) -> int:
        """Return how many questions of so many probes close a bracket, whatever the counts."""
        width, found = cls().high - cls().low, 0
        while width:
            width, found = width // (probes + 1), found + 1
        return found

    @property
    def open(self) -> bool:
        """Whether more than one place is left."""
        return self.low < self.high

    @property
    def value(self) -> float:
        """The largest number left; the result, once the bracket is closed."""
        return from_key(self.high)

    def probes(self, count: int) -> tuple[float, ...]:
        """Return values that cut the bracket evenly.

        Parameters
        ----------
        count : int
            How many, at least 1; fewer are given where fewer places are left.

        Returns
        -------
        tuple of float
            Strictly increasing, all below the last place.
        """
        width = self.high - self.low
        keys = {self.low + width * j // (count + 1) for j in range(1, count + 1)}
        return tuple(from_key(key) for key in sorted(keys))

    def narrow(self, values: Sequence[float], counts: Sequence[int], rank: int) -> Bracket:
        """Return the part that holds the smallest number whose count reaches a rank.

        Parameters
        ----------
        values : sequence of float
            What `probes` gave.
        counts : sequence of int
            How many scores are at most each of them.
        rank : int
            At least 1.

        Returns
        -------
        Bracket
            A smaller bracket.
        """
        first = sum(count < rank for count in counts)
        low = to_key(values[first - 1]) + 1 if first else self.low
        high = to_key(values[first]) if first < len(values) else self.high
        return Bracket(low, high)
