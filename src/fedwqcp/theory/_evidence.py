"""What a diagnosis is made of: the evidence of the summaries, and a finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, inf, isfinite, sqrt
from typing import Literal, TypeAlias

from fedwqcp.quantile import conformal_rank, exact_level
from fedwqcp.wire.payload import LocalQuantile

Severity: TypeAlias = Literal["ok", "caution", "unsafe"]

SHOWN = 5
"""How many agents a sentence names."""

SMALLEST_ALPHA = Fraction(1, 10**9)
"""Smaller levels are read as zero by `exact_level`, and no sample is ever large enough."""


@dataclass(frozen=True)
class Finding:
    """One thing that the summaries show.

    Parameters
    ----------
    code : str
        Name of the rule, such as ``"overflow"``.
    severity : {"ok", "caution", "unsafe"}
        How grave it is.
    says : str
        What was found, in plain words.
    instead : str, optional
        What to use or do instead.
    agents : tuple of str, optional
        The agents it concerns.
    """

    code: str
    severity: Severity
    says: str
    instead: str = ""
    agents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """The summaries and the level, with what every check asks of them."""

    sent: Mapping[str, LocalQuantile]
    alpha: float
    bounds: tuple[float, float] | None

    @cached_property
    def some(self) -> dict[str, LocalQuantile]:
        """Agents that have points."""
        return {name: s for name, s in self.sent.items() if s.n}

    @cached_property
    def finite(self) -> dict[str, LocalQuantile]:
        """Agents that sent a finite threshold."""
        return {name: s for name, s in self.some.items() if s.threshold < inf}

    @property
    def N(self) -> int:
        """Points of all agents."""
        return sum(s.n for s in self.sent.values())

    @property
    def epsilon(self) -> float | None:
        """What a private threshold spent, which its summary says; None where none is private."""
        spent = [getattr(s, "epsilon", None) for s in self.some.values()]
        return max((epsilon for epsilon in spent if epsilon is not None), default=None)

    @property
    def level(self) -> float:
        """1 - alpha."""
        return float(exact_level(self.alpha))

    @property
    def needed(self) -> int:
        """Fewest points that give a finite threshold."""
        level = exact_level(self.alpha)
        return ceil(level / max(1 - level, SMALLEST_ALPHA))

    def rank(self, n: int) -> int:
        """Rank of a finite threshold of n points."""
        return min(conformal_rank(n, self.alpha), n)

    def is_tiny(self, n: int) -> bool:
        """Whether the threshold of n points is largely noise."""
        return self.noise(n) > self.alpha / 2

    def noise(self, n: int) -> float:
        """Standard deviation of the coverage of a finite threshold of n points."""
        r = self.rank(n)
        return sqrt(r * (n + 1 - r) / (n + 2)) / (n + 1)

    @property
    def range(self) -> tuple[float, float] | None:
        """The bounds of the score, where both are finite."""
        return self.bounds if self.bounds and all(isfinite(b) for b in self.bounds) else None


def named(agents: Iterable[str]) -> str:
    """Name some agents, and count the others."""
    names = list(agents)
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest


def listed(agents: Mapping[str, LocalQuantile]) -> str:
    """Name some agents with their sizes."""
    return named(f"{name} (n={s.n})" for name, s in agents.items())
