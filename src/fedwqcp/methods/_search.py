"""Quantiles from counts or weighted counts alone: a search over the ordered float64 numbers.

Float64 numbers in their order are as good as integers: `to_key` numbers them without gaps. A search
over these integers ends at one number, whatever the scale, sign and ties of the scores.
`search_counts` finds one order statistic; `search_sums` finds many weighted quantiles at once,
which share their probes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf, isnan, nextafter
from typing import Any, TypeVar

import numpy as np

from fedwqcp._validation import Bools, Floats
from fedwqcp.errors import InputError
from fedwqcp.methods._answers import expect, of_kind, stacked, summed
from fedwqcp.methods._base import Exchange, PerAgentQuestions
from fedwqcp.wire.limits import NUMBER
from fedwqcp.wire.messages import Question, Real, Summary, check_scores, check_size, check_sizes

_MAGNITUDE = 2**63 - 1


def to_key(value: float) -> int:
    """Return the place of a number among all float64 numbers; 0 and -0 share the place 0.

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

    Examples
    --------
    >>> from_key(to_key(0.1)), from_key(-1)
    (0.1, -5e-324)
    """
    if abs(key) > to_key(inf):
        raise InputError(f"key must be at most {to_key(inf)} in magnitude, got {key}")
    (value,) = struct.unpack("<d", struct.pack("<q", abs(key)))
    return float(value) if key >= 0 else -float(value)


_LOWEST = to_key(-inf) + 1
"""The first place of a score, which is never -inf."""

Q = TypeVar("Q")


class CountAt(Question):
    """How many of your scores are at most each of these values, which increase strictly."""

    values: tuple[Real, ...]

    def __post_init__(self) -> None:
        check_scores(self.values, "values")
        if not self.values or any(b <= a for a, b in pairwise(self.values)):
            raise InputError("must be at least one, strictly increasing", field="values")


class Counts(Summary):
    """An agent's sample size, and its counts at the values of a question."""

    n: int
    counts: tuple[int, ...] = ()  # from 0 to n, never decreasing; none in the first answer

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        check_sizes(self.counts, "counts")
        if any(b < a for a, b in pairwise((*self.counts, self.n))):
            raise InputError("must never decrease, nor pass n", field="counts")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)


ANSWER_SIZE = 512
"""An answer holds about this many numbers, where there are few problems."""


LARGEST_ANSWER = 2**17
"""No answer holds more numbers, unless one probe alone needs them; further problems wait."""


ROUNDING = 1e-9
"""Share of a whole mass by which sums of the same weights in another order may differ."""


class Sums(Summary):
    """Masses of an agent's scores at or below each probe; with equal weights they are counts."""

    values: tuple[float, ...]  # for each probe, one for each group

    def __post_init__(self) -> None:
        if not all(0 <= value <= NUMBER.most for value in self.values):
            raise InputError(f"must be numbers from 0 to {NUMBER.most:g}", field="values")


@dataclass(frozen=True, eq=False)
class SumClaims:
    """The sums that an agent gave so far, which no later one may contradict."""

    totals: Floats  # (G,), its whole mass in each group
    slack: float  # share of a total that rounding may add; 0 for counts
    probes: Floats = field(default_factory=lambda: np.zeros(0))  # (B,), asked so far, in order
    sums: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (B, G), answered

    @classmethod
    def of(cls, totals: Floats, *, low: float, slack: float) -> SumClaims:
        """Bind an agent to its whole mass, none of which lies below the range of the scores."""
        if low == -inf:
            return cls(totals, slack)
        return cls(totals, slack, np.array([nextafter(low, -inf)]), np.zeros((1, len(totals))))

    def extended(
        self, probes: Sequence[float], values: Sequence[float], field: str = "values"
    ) -> SumClaims:
        """Return the sums with those of one more answer, which must fit them."""
        G = len(self.totals)
        if len(values) != len(probes) * G:
            raise InputError(f"must be {len(probes) * G}, got {len(values)}", field=field)
        new = np.array(values, dtype=np.float64).reshape(len(probes), G)
        if not self.slack and not (new % 1 == 0).all():
            raise InputError("must be whole numbers, as counts are", field=field)
        known = np.concatenate([self.probes, probes])
        order = np.argsort(known, kind="stable")
        known, sums = known[order], np.vstack([self.sums.reshape(-1, G), new])[order]
        slack = self.slack * self.totals
        if (sums[-1:] > self.totals + slack).any():
            raise InputError("must not pass the agent's whole mass, as it said before", field=field)
        steps, same = np.diff(sums, axis=0), np.diff(known) == 0
        if (steps < -slack).any() or (steps[same] > slack).any():
            raise InputError("must fit those given before, and never fall", field=field)
        return SumClaims(self.totals, self.slack, known, sums)


def check_counts(question: Question, answer: Summary, earlier: Any, low: float) -> SumClaims:
    """Check counts against the first answer, a size alone, and all counts given since."""
    counts = expect(answer, Counts)
    if not isinstance(question, CountAt):
        return SumClaims.of(np.array([float(counts.n)]), low=low, slack=0.0)
    claims: SumClaims = earlier
    if [counts.n] != claims.totals:
        raise InputError(f"must be as in the first answer, got {counts.n}", field="n")
    claims = claims.extended(question.values, counts.counts, "counts")
    # a search narrows: what lies beyond the nearest values is never asked again
    first, last = np.searchsorted(claims.probes, (question.values[0], question.values[-1]))
    near = slice(max(0, first - 1), last + 2)
    return replace(claims, probes=claims.probes[near], sums=claims.sums[near])


def check_probes(asked: int, most: int) -> None:
    """Refuse a question with more probes than the search asks at a time."""
    if asked > most:
        raise InputError(f"the server must ask at most {most} probes at a time, got {asked}")


def sums_at(probes: Sequence[float], scores: Floats, weights: Floats) -> Floats:
    """Return the weight of the scores at or below each probe.

    Shapes: scores (n,), weights (G, n) -> (B, G).

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


def search_counts(
    probes: int, reached: Callable[[tuple[float, ...], Any], Sequence[bool] | Bools]
) -> Generator[CountAt, Any, float]:
    """Ask for counts until one number is left: the smallest that reaches a level; +inf if none.

    ``reached`` says which of the values of a question do, given what came back.

    Examples
    --------
    >>> scores = [0.3, -2.0, 0.1, inf]
    >>> talk = search_counts(15, lambda values, counts: [count >= 2 for count in counts])
    >>> question = next(talk)
    >>> while True:
    ...     try:
    ...         question = talk.send([sum(s <= v for s in scores) for v in question.values])
    ...     except StopIteration as end:
    ...         print(end.value)
    ...         break
    0.1
    """

    def column(values: tuple[float, ...], answers: Any) -> Bools:
        return np.array(reached(values, answers))[:, None]

    (value,) = yield from _search(CountAt, column, answer_size=probes)
    return float(value)


def count_steps(probes: int) -> int:
    """Return how many questions `search_counts` asks: about 64 / log2(probes + 1)."""
    width, steps = to_key(inf) - _LOWEST, 0
    while width:
        width, steps = width // (probes + 1), steps + 1
    return steps


def search_sums(
    ask: Callable[[tuple[float, ...]], Question | PerAgentQuestions],
    reached: Callable[[Floats], Bools],
    problems: int,
    groups: int,
    *,
    bounds: tuple[float, float] = (-inf, inf),
    answer_size: int = ANSWER_SIZE,
) -> Exchange[Summary, Floats]:
    """Find, for each problem, the smallest number at which the sums of all agents reach its level.

    ``ask`` turns probes into the question whose answer is `Sums`. ``reached`` says for sums over
    agents, shape (B, G), which probes reach the level of which problem, shape (B, P). Where nothing
    below the upper bound does, that bound is the result.
    """

    def hits(probes: tuple[float, ...], answers: Sequence[Summary]) -> Bools:
        sums = [answer.values for answer in of_kind(answers, Sums)]
        return reached(summed(stacked(sums, len(probes) * groups)).reshape(len(probes), groups))

    search = _search(ask, hits, problems, groups, bounds=bounds, answer_size=answer_size)
    return (yield from search)


def most_steps(problems: int, groups: int, bounds: tuple[float, float] = (-inf, inf)) -> int:
    """Return how many questions `search_sums` asks at most.

    A question halves every range that it asks of, or cuts it finer; where there are more ranges
    than an answer has room for, the others wait.

    Examples
    --------
    >>> most_steps(problems=1, groups=1), most_steps(problems=30, groups=10, bounds=(0.0, 1.0))
    (64, 62)
    """
    halvings = (to_key(bounds[1]) - to_key(bounds[0])).bit_length()
    at_once = max(1, LARGEST_ANSWER // groups)
    waits = 0 if problems <= at_once else -(-problems // at_once)
    return halvings * (1 + waits)


def most_probes(problems: int, groups: int, answer_size: int = ANSWER_SIZE) -> int:
    """Return how many probes a question of `search_sums` has at most.

    Examples
    --------
    >>> most_probes(problems=30, groups=10), most_probes(problems=300, groups=10)
    (51, 300)
    """
    return max(answer_size // groups, min(problems, max(1, LARGEST_ANSWER // groups)))


def _search(
    ask: Callable[[tuple[float, ...]], Q],
    reached: Callable[[tuple[float, ...], Any], Bools],
    problems: int = 1,
    groups: int = 1,
    *,
    bounds: tuple[float, float] = (-inf, inf),
    answer_size: int,
) -> Generator[Q, Any, Floats]:
    """Narrow the range of every problem until one number is left in each."""
    lows = [max(to_key(bounds[0]), _LOWEST)] * problems
    highs = [to_key(bounds[1])] * problems
    while keys := _keys(lows, highs, groups, answer_size):
        probes = tuple(from_key(key) for key in keys)
        hits = reached(probes, (yield ask(probes)))
        firsts = np.where(hits.any(axis=0), hits.argmax(axis=0), len(keys))
        for p, first in enumerate(int(i) for i in firsts):
            if first > 0:
                lows[p] = max(lows[p], keys[first - 1] + 1)
            if first < len(keys):
                highs[p] = min(highs[p], keys[first])
    return np.array([from_key(high) for high in highs])


def _keys(lows: list[int], highs: list[int], groups: int, answer_size: int) -> list[int]:
    """Return the places to probe next: several in each range that is still open."""
    ranges = sorted({(low, high) for low, high in zip(lows, highs, strict=True) if low < high})
    ranges = ranges[: max(1, LARGEST_ANSWER // groups)]
    parts = 1 + max(1, answer_size // (groups * max(1, len(ranges))))
    return sorted(
        {low + (high - low) * j // parts for low, high in ranges for j in range(1, parts)}
    )
