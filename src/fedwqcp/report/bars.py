"""Small plots in the terminal: a rate with its interval beside what was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor

SIGNS = ("·", "─", "●", "┃", "◂")
PLAIN = (".", "-", "o", "|", "<")
"""Nothing, the interval, the rate, what was asked for, and a rate further to the left."""

REACH = 0.25
"""How far below what was asked for a scale begins at most."""


@dataclass(frozen=True)
class Scale:
    """What the ends of all bars of a table stand for.

    Parameters
    ----------
    left, right : float
        Values at the first and the last column.
    nominal : float
        What was asked for.
    width : int, optional
        Columns of a bar.
    ascii : bool, optional
        Whether the terminal knows no other characters.
    """

    left: float
    right: float
    nominal: float
    width: int = 28
    ascii: bool = False

    def bar(self, low: float, rate: float, high: float) -> str:
        """Draw one rate.

        Parameters
        ----------
        low, rate, high : float
            The rate within its interval.

        Returns
        -------
        str
            The bar, `width` characters long; the rate's sign lies over that of the nominal value.

        Examples
        --------
        >>> Scale(0.8, 1.0, 0.9, width=21, ascii=True).bar(0.92, 0.95, 0.97)
        '..........|.---o--...'
        """
        nothing, line, dot, mark, less = PLAIN if self.ascii else SIGNS
        signs = [nothing] * self.width
        for at in range(self._at(low), self._at(high) + 1):
            signs[at] = line
        signs[self._at(self.nominal)] = mark
        signs[self._at(rate)] = dot if rate >= self.left else less
        return "".join(signs)

    def _at(self, value: float) -> int:
        """Return the column of a value."""
        share = (value - self.left) / (self.right - self.left)
        return round(min(1.0, max(0.0, share)) * (self.width - 1))


def scale(rates: Iterable[float], nominal: float, *, ascii: bool = False) -> Scale:
    """Return a scale for some rates around what was asked for.

    Parameters
    ----------
    rates : iterable of float
        Rates and ends of their intervals, between 0 and 1.
    nominal : float
        What was asked for.
    ascii : bool, optional
        Whether the terminal knows no other characters.

    Returns
    -------
    Scale
        It begins at most `REACH` below what was asked for, so that one outlier hides nothing.
    """
    values = (*rates, nominal)
    left = max(0.0, nominal - REACH, (ceil(min(values) * 20 - 1e-9) - 1) / 20)
    right = min(1.0, (floor(max(values) * 20 + 1e-9) + 1) / 20)
    return Scale(left, right, nominal, ascii=ascii)
