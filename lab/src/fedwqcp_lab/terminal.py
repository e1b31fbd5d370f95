"""Bars for the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor

_SIGNS = ("·", "─", "●", "┃", "◂")


PLAIN = (".", "-", "o", "|", "<")
"""Nothing, the interval, the rate, what was asked for, and a rate further to the left."""


_REACH = 0.25
"""How far below what was asked for a scale begins at most."""


@dataclass(frozen=True)
class Scale:
    """The scale of all bars of a table: values at its first and last column, and the nominal."""

    left: float
    right: float
    nominal: float
    width: int = 28
    ascii: bool = False

    def bar(self, low: float, rate: float, high: float) -> str:
        """Draw one rate.

        >>> Scale(0.8, 1.0, 0.9, width=21, ascii=True).bar(0.92, 0.95, 0.97)
        '..........|.---o--...'
        """
        nothing, line, dot, mark, less = PLAIN if self.ascii else _SIGNS
        signs = [nothing] * self.width
        for at in range(self._at(low), self._at(high) + 1):
            signs[at] = line
        signs[self._at(self.nominal)] = mark
        signs[self._at(rate)] = dot if rate >= self.left else less
        return "".join(signs)

    def _at(self, value: float) -> int:
        share = (value - self.left) / (self.right - self.left)
        return round(min(1.0, max(0.0, share)) * (self.width - 1))


def scale(rates: Iterable[float], nominal: float, *, ascii: bool = False) -> Scale:
    """Return a scale for rates around what was asked for; one outlier hides nothing (`_REACH`)."""
    values = (*rates, nominal)
    left = max(0.0, nominal - _REACH, (ceil(min(values) * 20 - 1e-9) - 1) / 20)
    right = min(1.0, (floor(max(values) * 20 + 1e-9) + 1) / 20)
    return Scale(left, right, nominal, ascii=ascii)
