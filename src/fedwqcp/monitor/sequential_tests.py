r"""Sequential tests: they hold at all times together, however often one looks.

`confidence_sequence` gives an interval of the mean coverage so far. `BettingTest` looks in one
stream for a change that may begin at any row, and `advance` decides the alarm. A bet multiplies its
wealth at each row by a ratio L that is 1 at most on average while nothing has changed:

- **coverage** (`coverage_bets`): every row is covered with probability at least 1 - alpha, given
  all rows before it. Bet b says that the odds of a miss are c_b times as high: L is
  (1 - m_b)/(1 - alpha) for a hit, m_b/alpha for a miss.
- **inputs** (`rank_bets`): rows are exchangeable with the baseline and each other. Then the
  randomised rank p of a statistic among all earlier ones is uniform and independent of the ranks
  before it (`ranks`): L is 1 + b (2p - 1).

A change may begin at any row j, so a share w_j of the wealth is reserved for row j,
w_1 + w_2 + ... = 1, and enters the bets there:

.. math:: S_t = L_t (S_{t-1} + w_t), \quad
          M_t = \tfrac1B \sum_b S_t^b + \sum_{j > t} w_j.

M starts at 1 and does not grow on average, so by Ville's inequality the probability that M ever
reaches 1/delta is at most delta, over a stream without end. The weights fall as slowly as
w_j = T(j) - T(j + 1), T(j) = 1/(1 + log j): a drop after 10,000 good rows costs log(1/w_j) = 13.8
of evidence, and a drop at the start 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, log1p
from typing import Annotated, TypeAlias

import msgspec
import numpy as np

from fedwqcp._validation import Floats, Labels, as_alpha
from fedwqcp.errors import InputError
from fedwqcp.metrics import last_outside
from fedwqcp.quantile import conformal_rank

_SCALES = 4.0 / 2.0 ** np.arange(13)


_TILTS = np.concatenate([_SCALES, -_SCALES])
"""Tilts lambda of the confidence sequence, mixed with equal weights: from 4, for few rows, to
0.001, for millions, on both sides."""


ODDS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""By how much each bet on coverage says that the odds of a miss have grown."""


SLOPES = (-0.95, -0.6, -0.3, 0.3, 0.6, 0.95)
"""Slopes of the bets on ranks: smaller values than before, or larger ones."""


_LOG_ZERO = -1e300
"""The logarithm of no wealth: JSON has no -inf, and adding exp(-1e300) changes nothing."""


_MOST_ROWS = 2**52


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=_MOST_ROWS)]
"""A number of rows, checked where it is read."""


def confidence_sequence(n: int, hits: int, level: float = 0.95) -> tuple[float, float]:
    r"""Return the confidence sequence of the mean coverage so far.

    With probability at least `level` the interval holds the mean coverage of the rows so far after
    every row, for all n together: it may be looked at daily, and one may stop at any time.

    Parameters
    ----------
    n : int
        Rows.
    hits : int
        How many were covered.
    level : float, optional
        Probability that no interval of the sequence is wrong.

    Returns
    -------
    tuple of float
        Lowest and highest mean coverage; (0, 1) where n is 0.

    Raises
    ------
    InputError
        If hits are not from 0 to n, or the level is not between 0 and 1.

    Notes
    -----
    Let row i be covered with probability p_i given the rows before it. For each tilt, the product
    of exp(lambda x_i)/(1 - p_i + p_i exp(lambda)) is a martingale that starts at 1. The logarithm
    of the denominator is concave in p_i, so that

    .. math:: \exp(\lambda h)\,/\,(1 - p + p e^\lambda)^n, \quad p = (p_1 + \dots + p_n)/n

    is at most that product; so is the mean over the tilts at most a martingale, and by Ville's
    inequality it never reaches 1/(1 - level) but with probability 1 - level at most. The interval
    holds all p at which it stays below. The p_i may change from row to row.

    Examples
    --------
    >>> low, high = confidence_sequence(1000, 950)
    >>> round(low, 3), round(high, 3)
    (0.923, 0.971)
    """
    if not 0 <= hits <= n:
        raise InputError(f"hits must be from 0 to n={n}, got {hits}")
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be strictly between 0 and 1, got {level!r}")
    if n == 0:
        return 0.0, 1.0
    bar = log(len(_TILTS)) - log(1.0 - level)
    mean = hits / n

    def _outside(p: float) -> bool:
        """Whether the mixture at p has reached its bar; it is convex in p, and low at the mean."""
        terms = _TILTS * hits - n * np.log1p(p * np.expm1(_TILTS))
        return bool(np.logaddexp.reduce(terms) >= bar)

    return last_outside(_outside, 0.0, mean, 40), last_outside(_outside, 1.0, mean, 40)


def calibration_slack(n: int, alpha: float, level: float = 0.95, agents: int = 1) -> float:
    """Return by how much chance in the calibration may let coverage fall short of 1 - alpha.

    The coverage of a split-conformal threshold on n untied points is Beta(r, n + 1 - r) with
    r = ceil((n + 1)(1 - alpha)). It stays above 1 - alpha - slack with probability
    1 - (1 - level) / agents, hence at all ``agents`` together with probability ``level``: a monitor
    with this tolerance seldom alarms because of the calibration's own luck.

    Parameters
    ----------
    n : int
        Calibration points behind the threshold.
    alpha : float
        Miscoverage level.
    level : float, optional
        Probability that no agent's coverage falls short by more.
    agents : int, optional
        How many agents are monitored, each with a threshold from n points of its own.

    Returns
    -------
    float
        The slack, at least 0; 0 where n is too small for a finite threshold.

    Raises
    ------
    InputError
        If n is negative or too large, alpha or level is not between 0 and 1, or there is no agent.

    Examples
    --------
    >>> round(calibration_slack(600, alpha=0.05), 4)
    0.0153
    >>> round(calibration_slack(600, alpha=0.05, agents=20), 4)
    0.0282
    """
    from scipy.special import betaincinv

    if not 0.0 < level < 1.0:
        raise InputError(f"level must be strictly between 0 and 1, got {level!r}")
    if agents < 1:
        raise InputError(f"agents must be at least 1, got {agents!r}")
    rank = conformal_rank(n, as_alpha(alpha))
    if n >= _MOST_ROWS:
        raise InputError(f"n must be below {_MOST_ROWS}", field="n")
    if rank > n:
        return 0.0
    low = float(betaincinv(rank, n + 1 - rank, (1.0 - level) / agents))
    return max(0.0, 1.0 - alpha - low)


class BettingTest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The test of one stream so far; its size does not depend on the number of rows.

    ``n`` and ``hits`` are rows since the last calibration and how many were covered; ``wealth`` is
    log S of each bet, ``evidence`` log M, ``alarm`` the row at which M first reached 1/delta.
    ``runs`` are the logarithms of each bet's largest likelihood ratio over all rows at which a
    change may have begun, ``run_n`` and ``run_hits`` rows and hits before the row where that ratio
    begins, ``run_since`` the first batch most of whose rows follow it: where it is empty, the next
    one after ``batch``, which is the latest.
    """

    n: Count
    hits: Count
    wealth: tuple[float, ...]
    runs: tuple[float, ...]
    run_n: tuple[Count, ...]
    run_hits: tuple[Count, ...]
    run_since: tuple[str, ...]
    evidence: float = 0.0
    alarm: Count | None = None
    batch: str = ""

    def __post_init__(self) -> None:
        parts = (self.wealth, self.runs, self.run_n, self.run_hits, self.run_since)
        if len({len(part) for part in parts}) != 1 or not self.runs:
            raise ValueError("a test does not have its numbers")
        if any(
            hits > n
            for n, hits in ((self.n, self.hits), *zip(self.run_n, self.run_hits, strict=True))
        ):
            raise ValueError("a test counts more hits than rows")

    @classmethod
    def begin(cls, bets: int = len(ODDS)) -> BettingTest:
        """Return the test before the first row."""
        zeros = (0,) * bets
        return cls(0, 0, (_LOG_ZERO,) * bets, (0.0,) * bets, zeros, zeros, ("",) * bets)

    @property
    def drop(self) -> tuple[int, int, int]:
        """The likeliest beginning of a change: rows before it, and rows and hits since."""
        best = int(np.argmax(self.runs))
        before = self.run_n[best]
        return before, self.n - before, self.hits - self.run_hits[best]

    @property
    def since(self) -> str:
        """The batch with which a change most likely began."""
        return self.run_since[int(np.argmax(self.runs))] or self.batch


def advance(
    test: BettingTest,
    ratios: Floats,
    sizes: Labels,
    hits: Labels,
    *,
    delta: float,
    batch: str = "",
) -> BettingTest:
    """Return a test after more rows, in the order in which they arrived; decide the alarm.

    A step is one row, or several of which only counts are known: within a step the order does not
    matter. ``ratios`` are the log likelihood ratios of each step under each bet, shape (k, B),
    ``delta`` the probability of a false alarm over all time.
    """
    some = sizes > 0
    ratios, sizes, hits = ratios[some], sizes[some], hits[some]
    if not len(sizes):
        return test
    bets = ratios.shape[1]
    ends = test.n + np.cumsum(sizes)
    after = np.cumsum(ratios, axis=0)  # log of each bet's likelihood ratio since this call began
    entering = _log_weights(ends - sizes, ends)[:, None] - (after - ratios)
    wealth = after + np.logaddexp.accumulate(np.vstack([test.wealth, entering]))[1:]
    mean = np.logaddexp.reduce(wealth, axis=1) - log(bets)
    evidence = np.logaddexp(mean, -np.log1p(np.log(ends + 1.0)))  # with T(t + 1), still reserved
    over = np.flatnonzero(evidence >= -log(delta))  # log M >= log(1/delta): the alarm
    new = len(over) > 0 and test.alarm is None
    # a change begins where a bet's likelihood ratio was lowest; of equals the latest
    lows = np.vstack([-np.array(test.runs), after])
    starts = len(lows) - 1 - np.argmin(lows[::-1], axis=0)
    covered = test.hits + np.cumsum(hits)
    rows = np.append(0, ends - test.n)  # those of this call before each start
    since = [batch if 2 * rows[i] <= rows[-1] else "" for i in starts.tolist()]
    return BettingTest(
        int(ends[-1]),
        int(covered[-1]),
        tuple(wealth[-1].tolist()),
        tuple((after[-1] - lows[starts, np.arange(bets)]).tolist()),
        tuple(int(ends[i - 1]) if i else n for i, n in zip(starts, test.run_n, strict=True)),
        tuple(int(covered[i - 1]) if i else h for i, h in zip(starts, test.run_hits, strict=True)),
        tuple(b if i else a or b for i, a, b in zip(starts, test.run_since, since, strict=True)),
        float(evidence[-1]),
        int(ends[over[0]]) if new else test.alarm,
        batch,
    )


def coverage_bets(sizes: Labels, hits: Labels, alpha: float) -> Floats:
    """Return the log likelihood ratio of each step under each bet on coverage, shape (k, B)."""
    odds = np.array(ODDS) * alpha / (1.0 - alpha)
    hit = -np.log1p(odds) - log1p(-alpha)  # log (1 - m)/(1 - alpha), with m = odds/(1 + odds)
    miss = hit + np.log(ODDS)
    return np.asarray(np.outer(hits, hit) + np.outer(sizes - hits, miss))


def rank_bets(p: Floats) -> Floats:
    """Return the log likelihood ratio of each rank under each bet on inputs, shape (k, B)."""
    return np.asarray(np.log1p(np.outer(2.0 * p - 1.0, SLOPES)))


def ranks(cells: Mapping[float, int], values: Floats, u: Floats) -> tuple[Floats, dict[float, int]]:
    """Return each value's randomised rank among all earlier ones, and the counts with them.

    ``cells`` are earlier values with their counts, ``u`` uniform numbers that break ties. Where all
    values are exchangeable, the ranks are independent and uniform on [0, 1].
    """
    places, index = np.unique([*cells, *values], return_inverse=True)
    counts = np.zeros(len(places), dtype=np.int64)
    counts[index[: len(cells)]] = list(cells.values())
    p, n = np.empty(len(values)), int(counts.sum())
    for row, position in enumerate(index[len(cells) :].tolist()):
        counts[position] += 1
        n += 1
        p[row] = (counts[:position].sum() + u[row] * counts[position]) / n
    return p, dict(zip(places.tolist(), counts.tolist(), strict=True))


def _log_weights(starts: Labels, ends: Labels) -> Floats:
    """Return log(T(start + 1) - T(end + 1)): the wealth reserved for a drop within each step."""
    first, last = starts + 1.0, ends + 1.0
    grown = np.log1p((last - first) / first)
    return np.asarray(np.log(grown) - np.log1p(np.log(first)) - np.log1p(np.log(last)))
