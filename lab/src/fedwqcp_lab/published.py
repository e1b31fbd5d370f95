"""The figures that the paper prints, as they ship with the software."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeAlias

Place: TypeAlias = tuple[str, str, str, str]
"""Dataset, method, metric and agent, written without hyphens in small letters, agents apart."""

DECIMALS = {"coverage": 4, "size": 2, "runtime_s": 3}
"""Decimals that the paper prints."""


@dataclass(frozen=True)
class Figure:
    """A printed median and half the width of its interval.

    Parameters
    ----------
    median, half : float
        As printed.
    decimals : int
        To how many decimals.
    """

    median: float
    half: float
    decimals: int

    @property
    def low(self) -> float:
        """Lower end of the interval, lowered by what rounding may have taken."""
        return round(self.median - self.half - 0.5 * 10.0**-self.decimals, self.decimals + 1)

    @property
    def high(self) -> float:
        """Upper end of the interval, raised by what rounding may have taken."""
        return round(self.median + self.half + 0.5 * 10.0**-self.decimals, self.decimals + 1)


def place(dataset: str, method: str, metric: str, agent: str) -> Place:
    """Return where a figure stands, whatever the spelling.

    Parameters
    ----------
    dataset, method : str
        Names; what stands in brackets behind a method does not count.
    metric, agent : str
        As in the file.

    Returns
    -------
    tuple of str
        A key of `published`.

    Examples
    --------
    >>> place("cifar10", "fedcp-qq (exact)", "size", "Avg")
    ('cifar10', 'fedcpqq', 'size', 'Avg')
    """
    return plain(dataset), plain(method.partition(" (")[0]), metric, agent


def plain(name: str) -> str:
    """Return a name in small letters without hyphens.

    Parameters
    ----------
    name : str
        Such as ``"CIFAR-10"``.

    Returns
    -------
    str
        Such as ``"cifar10"``.
    """
    return name.lower().replace("-", "")


@cache
def published() -> dict[Place, Figure]:
    """Return all printed figures.

    Returns
    -------
    dict
        By place, in the order of the file.
    """
    text = (files("fedwqcp_lab") / "published.csv").read_text(encoding="utf-8")
    return {
        place(row["dataset"], row["method"], row["metric"], row["agent"]): Figure(
            float(row["median"]), float(row["ci95_half_width"]), DECIMALS[row["metric"]]
        )
        for row in csv.DictReader(text.splitlines())
    }
