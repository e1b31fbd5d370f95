"""Weighted quantiles from sums alone: only the mass at or below a probe leaves an agent.

Many problems are searched at once over the ordered float64 numbers. They share their probes, so
that problems with nearby thresholds cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from math import inf, nextafter

import numpy as np

from fedwqcp.arrays import Bools, Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import of_kind, stacked, summed
from fedwqcp.methods._base import Each
from fedwqcp.methods._bisection import from_key, to_key
from fedwqcp.wire.limits import NUMBER
from fedwqcp.wire.payload import Question, Summary

AIM = 512
"""An answer holds about this many numbers, where there are few problems."""

LIMIT = 2**17
"""No answer holds more numbers than this, or those of one probe; further problems wait."""

ROUNDING = 1e-9
"""Share of a whole mass by which sums of the same weights in another order may differ."""


@dataclass(frozen=True)
class Sums(Summary):
    """Masses of an agent's scores at or below each probe.

    Parameters
    ----------
    values : tuple of float
        For each probe, one mass for each group; a mass of equal weights is a count.
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not all(0 <= value <= NUMBER.most for value in self.values):
            raise InputError(f"values: must be numbers from 0 to {NUMBER.most:g}")


@dataclass(frozen=True, eq=False)
class SumClaims:
    """The sums that an agent gave so far, which no later one may contradict.

    Parameters
    ----------
    totals : Floats, shape (G,)
        Its whole mass in each group.
    slack : float
        Share of a total that rounding may add; 0 for counts.
    probes : Floats, shape (B,)
        What it was asked so far, in order.
    sums : Floats, shape (B, G)
        What it answered.
    """

    totals: Floats
    slack: float
    probes: Floats = field(default_factory=lambda: np.zeros(0))
    sums: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(cls, totals: Floats, *, low: float, slack: float) -> SumClaims:
        """Bind an agent to its whole mass, none of which lies below the range of the scores."""
        if low == -inf:
            return cls(totals, slack)
        return cls(totals, slack, np.array([nextafter(low, -inf)]), np.zeros((1, len(totals))))

    def extended(self, probes: Sequence[float], answer: Sums) -> SumClaims:
        """Return the sums with those of one more answer, which must fit them."""
        G = len(self.totals)
        if len(answer.values) != len(probes) * G:
            raise InputError(
                f"values: must be {len(probes) * G}, one for each probe and group, "
                f"got {len(answer.values)}"
            )
        new = np.array(answer.values, dtype=np.float64).reshape(len(probes), G)
        if not self.slack and not (new % 1 == 0).all():
            raise InputError("values: must be whole numbers, as counts are")
        at = np.concatenate([self.probes, probes])
        order = np.argsort(at, kind="stable")
        at, sums = at[order], np.vstack([self.sums.reshape(-1, G), new])[order]
        slack = self.slack * self.totals
        if (sums[-1:] > self.totals + slack).any():
            raise InputError("values: must not pass the agent's whole mass, as it said before")
        steps, same = np.diff(sums, axis=0), np.diff(at) == 0
        if (steps < -slack).any() or (steps[same] > slack).any():
            raise InputError("values: must fit those given before, and never fall")
        return SumClaims(self.totals, self.slack, at, sums)


def sums_at(probes: Sequence[float], scores: Floats, weights: Floats) -> Floats:
    """Return the weight of the scores at or below each probe.

    Parameters
    ----------
    probes : sequence of float
        In increasing order.
    scores : Floats, shape (n,)
        Scores.
    weights : Floats, shape (G, n)
        Their weights in each group.

    Returns
    -------
    Floats, shape (B, G)
        Never decreasing from probe to probe.

    Examples
    --------
    >>> sums_at([0.2, 0.4], np.array([0.4, 0.1]), np.array([[1.0, 1.0], [2.0, 0.0]]))
    array([[1., 0.],
           [2., 2.]])
    """
    first = np.searchsorted(np.asarray(probes), scores)  # the first probe that is not below
    length = len(probes) + 1
    columns = [np.bincount(first, weights=row, minlength=length) for row in weights]
    sums: Floats = np.cumsum(np.stack(columns, axis=1), axis=0, dtype=np.float64)
    return sums[:-1]


def search(
    ask: Callable[[tuple[float, ...]], Question | Each],
    reached: Callable[[Floats], Bools],
    problems: int,
    groups: int,
    *,
    bounds: tuple[float, float] = (-inf, inf),
    aim: int = AIM,
) -> Generator[Question | Each, Sequence[Summary], Floats]:
    """Find, for each problem, the smallest number at which the sums of all agents reach its level.

    Parameters
    ----------
    ask : callable
        Turns probes into the question whose answer is `Sums`.
    reached : callable
        Given sums over agents of shape (B, G), says for each probe and problem, shape (B, P),
        whether the level is reached.
    problems, groups : int
        P and G.
    bounds : tuple of float, optional
        Lowest and highest possible result; the highest is returned where no lower number reaches
        the level. Scores are never -inf.
    aim : int, optional
        About how many numbers an answer holds, where there are few problems; more numbers make
        fewer rounds.

    Yields
    ------
    Question or Each
        What to ask next.

    Returns
    -------
    Floats, shape (P,)
        The thresholds.
    """
    lowest = to_key(bounds[0]) + (bounds[0] == -inf)  # -inf cannot travel
    lows, highs = [lowest] * problems, [to_key(bounds[1])] * problems
    while keys := _keys(lows, highs, groups, aim):
        probes = tuple(from_key(key) for key in keys)
        answers = of_kind((yield ask(probes)), Sums)
        total = summed(stacked([answer.values for answer in answers], len(keys) * groups))
        hits = reached(total.reshape(len(keys), groups))
        firsts = np.where(hits.any(axis=0), hits.argmax(axis=0), len(keys))
        for p, first in enumerate(int(i) for i in firsts):
            if first > 0:
                lows[p] = max(lows[p], keys[first - 1] + 1)
            if first < len(keys):
                highs[p] = min(highs[p], keys[first])
    return np.array([from_key(high) for high in highs])


def most_probes(problems: int, groups: int, aim: int = AIM) -> int:
    """Return how many probes a question of `search` has at most.

    Parameters
    ----------
    problems, groups, aim : int
        As `search` takes them.

    Returns
    -------
    int
        All that an agent needs to answer at a time.

    Examples
    --------
    >>> most_probes(problems=30, groups=10), most_probes(problems=300, groups=10)
    (51, 300)
    """
    return max(aim // groups, min(problems, max(1, LIMIT // groups)))


def _keys(lows: list[int], highs: list[int], groups: int, aim: int) -> list[int]:
    """Return the places to probe next: several in each range that is still open."""
    ranges = sorted({(low, high) for low, high in zip(lows, highs, strict=True) if low < high})
    ranges = ranges[: max(1, LIMIT // groups)]
    parts = 1 + max(1, aim // (groups * max(1, len(ranges))))
    return sorted(
        {low + (high - low) * j // parts for low, high in ranges for j in range(1, parts)}
    )
