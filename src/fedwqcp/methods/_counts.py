"""Counts at values that the server names, and the order statistic they lead to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Generator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf, nextafter
from typing import TYPE_CHECKING

from fedwqcp.errors import InputError, OutOfRangeError
from fedwqcp.methods._bisection import Bracket
from fedwqcp.methods._sums import Summed, Total
from fedwqcp.quantile import conformal_rank
from fedwqcp.wire.masked import FixedPoint, ToAllWithin
from fedwqcp.wire.payload import Begin, Outcome, Question, Summary, check_score, check_size


@dataclass(frozen=True)
class CountAt(Question):
    """How many of your scores are at most each of these values.

    Parameters
    ----------
    values : tuple of float
        Strictly increasing.
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        for value in self.values:
            check_score(value, "values")
        if not self.values or any(b <= a for a, b in pairwise(self.values)):
            raise InputError("values: must be at least one, strictly increasing")


@dataclass(frozen=True)
class Counts(Summary):
    """An agent's sample size, and its counts at the values of a question.

    Parameters
    ----------
    n : int
        Sample size, at least 0.
    counts : tuple of int
        From 0 to n, never decreasing; none in the first answer.
    """

    n: int
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        for count in self.counts:
            check_size(count, "counts")
        if any(b < a for a, b in pairwise((*self.counts, self.n))):
            raise InputError("counts: must never decrease, nor pass n")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)


@dataclass(frozen=True, slots=True)  # a server may hold a million
class CountClaims:
    """What an agent said of its empirical distribution function: bounds on F at some values.

    Counts that keep to them are those of some sample of n scores, whoever made them up.

    Parameters
    ----------
    n : int
        The sample size of its first answer.
    low, least : tuple
        F(low) >= least; both never decrease.
    high, most : tuple
        F(high) <= most; both never decrease.
    """

    n: int
    low: tuple[float, ...] = ()
    least: tuple[int, ...] = ()
    high: tuple[float, ...] = ()
    most: tuple[int, ...] = ()

    @classmethod
    def of_ranks(cls, n: int, *ranked: tuple[float, int], low: float = -inf) -> CountClaims:
        """Bind an agent to its size, the range of scores, and order statistics that it sent.

        Nothing lies below ``low``; a score s of rank r has F(s) >= r, and F(v) < r for v < s.
        """
        values = tuple(value for value, _ in sorted(ranked))
        ranks = tuple(rank for _, rank in sorted(ranked))
        edges = ((low, 1), *sorted(ranked)) if low > -inf else tuple(sorted(ranked))
        below = tuple(nextafter(value, -inf) for value, _ in edges)
        return cls(n, values, ranks, below, tuple(rank - 1 for _, rank in edges))

    def extended(self, values: tuple[float, ...], answer: Counts) -> CountClaims:
        """Return the bounds with the counts of one more answer, which must fit them."""
        counts = answer.counts
        if answer.n != self.n:
            raise InputError(f"n: must be {self.n} as in the first answer, got {answer.n}")
        if len(counts) != len(values):
            raise InputError(
                f"counts: must be {len(values)}, one for each value, got {len(counts)}"
            )
        for value, count in zip(values, counts, strict=True):
            below, above = bisect_right(self.low, value), bisect_left(self.high, value)
            if (below and count < self.least[below - 1]) or (
                above < len(self.high) and count > self.most[above]
            ):
                raise InputError("counts: must fit those given before")
        # a search narrows: what lies beyond its nearest bounds is never asked again
        low, least = _merged(self.low, self.least, values, counts)
        high, most = _merged(self.high, self.most, values, counts)
        falling = tuple(accumulate(reversed(most), min))
        return CountClaims(self.n, low, tuple(accumulate(least, max)), high, falling[::-1])


def _merged(
    known: tuple[float, ...],
    bounds: tuple[int, ...],
    values: tuple[float, ...],
    counts: tuple[int, ...],
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Join bounds, without those beyond the nearest on either side of the new values."""
    first = max(0, bisect_right(known, values[0]) - 1)
    last = bisect_left(known, values[-1]) + 1
    old = zip(known[first:last], bounds[first:last], strict=True)
    pairs = sorted((*old, *zip(values, counts, strict=True)))
    return tuple(value for value, _ in pairs), tuple(bound for _, bound in pairs)


class SummedCounts(Summed):
    """The R-th smallest of all scores from sums of counts: exactly the one without masks.

    Goes with a method that answers `Begin` and `CountAt` with `Counts`. The first sum is of n_k, of
    agents that have any and of agents out of range; each further one of the counts at ``probes``
    values.
    """

    if TYPE_CHECKING:
        probes: int
        count_empty: bool

    def width(self, question: Question) -> int:
        return len(question.values) if isinstance(question, CountAt) else 3

    def words(self, answer: Summary, question: Question, scale: FixedPoint) -> tuple[int, ...]:
        if not isinstance(answer, Counts):
            raise InputError(f"only counts can be summed, got {answer.kind!r}")
        if answer.n > scale.max_n:
            raise OutOfRangeError(f"n: must be from 0 to the round's max_n = {scale.max_n}")
        return answer.counts if isinstance(question, CountAt) else (answer.n, int(answer.n > 0), 0)

    def out_of_range(self, question: Question) -> tuple[int, ...]:
        return (0,) * len(question.values) if isinstance(question, CountAt) else (0, 0, 1)

    def from_sums(self, alpha: float, scale: FixedPoint) -> Generator[Question, Total, Outcome]:
        del scale  # counts are whole numbers already
        total = yield Begin()
        N, nonempty, out_of_range = total.words
        M = total.agents if self.count_empty else nonempty
        R = conformal_rank(N, alpha, extra=M)
        if R > N or out_of_range:
            return ToAllWithin(inf, 0.0)
        bracket = Bracket()
        while bracket.open:
            values = bracket.probes(self.probes)
            total = yield CountAt(values)
            bracket = bracket.narrow(values, total.words, R)
        return ToAllWithin(bracket.value, 0.0)
