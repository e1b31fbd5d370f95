r"""A test of one stream of hits and misses for a drop of coverage that began at any row.

The hypothesis is that every row is covered with probability at least 1 - alpha, given all rows
before it. Against it stand bets: bet b says that the odds of a miss are c_b times as high. Its
stake is multiplied by the likelihood ratio of each row,

.. math:: L = (1 - m_b)/(1 - \alpha) \text{ for a hit}, \quad m_b/\alpha \text{ for a miss},

which is 1 at most on average while the hypothesis holds. A drop may begin at any row j, so a part
w_j of the money is laid on the bets at row j, with w_1 + w_2 + ... = 1, and the rest waits:

.. math:: S_t = L_t (S_{t-1} + w_t), \quad
          M_t = \tfrac1B \sum_b S_t^b + \sum_{j > t} w_j.

M starts at 1 and does not grow on average, so by Ville's inequality the probability that M ever
reaches 1/delta is at most delta, over a stream without end. The weights fall as slowly as
w_j = T(j) - T(j + 1), T(j) = 1/(1 + log j): a drop after 10,000 good rows costs log(1/w_j) = 13.8
of evidence, and a drop at the start 0.9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log, log1p

import numpy as np

from fedwqcp.arrays import Floats, Labels

ODDS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""By how much each bet says that the odds of a miss have grown."""


@dataclass(frozen=True)
class Track:
    """What is known of one stream; its size does not depend on the number of rows.

    Parameters
    ----------
    n, hits : int, optional
        Rows since the last calibration, and how many were covered.
    wealth : tuple of float, optional
        log S of each bet.
    runs : tuple of float, optional
        log of each bet's largest likelihood ratio over all rows at which a drop may have begun.
    run_n, run_hits : tuple of int, optional
        Rows and hits before the row at which that ratio begins.
    evidence : float, optional
        log M.
    alarm : int or None, optional
        The row at which M first reached 1/delta.
    """

    n: int = 0
    hits: int = 0
    wealth: tuple[float, ...] = (-inf,) * len(ODDS)
    runs: tuple[float, ...] = (0.0,) * len(ODDS)
    run_n: tuple[int, ...] = (0,) * len(ODDS)
    run_hits: tuple[int, ...] = (0,) * len(ODDS)
    evidence: float = 0.0
    alarm: int | None = None

    @property
    def drop(self) -> tuple[int, int, int]:
        """The likeliest beginning of a drop: rows before it, and rows and hits since."""
        best = int(np.argmax(self.runs))
        before = self.run_n[best]
        return before, self.n - before, self.hits - self.run_hits[best]


def advance(track: Track, sizes: Labels, hits: Labels, alpha: float, delta: float) -> Track:
    """Return a track after more rows, in the order in which they arrived.

    Parameters
    ----------
    track : Track
        What was known.
    sizes : Labels, shape (k,)
        Rows of each step: 1 where rows are known one by one, more where only counts are known.
    hits : Labels, shape (k,)
        How many of them were covered. Within a step the order does not matter.
    alpha : float
        Most misses that still keep the promise, as a share.
    delta : float
        Probability of a false alarm, over all time.

    Returns
    -------
    Track
        What is known now.
    """
    some = sizes > 0
    sizes, hits = sizes[some], hits[some]
    if not len(sizes):
        return track
    gains = _gains(sizes, hits, alpha)
    ends = track.n + np.cumsum(sizes)
    after = np.cumsum(gains, axis=0)  # log of each bet's likelihood ratio since this call began
    laid = _log_weights(ends - sizes, ends)[:, None] - (after - gains)
    wealth = after + np.logaddexp.accumulate(np.vstack([track.wealth, laid]))[1:]
    bets = np.logaddexp.reduce(wealth, axis=1) - log(len(ODDS))
    evidence = np.logaddexp(bets, -np.log1p(np.log(ends + 1.0)))  # what waits: T(t + 1)
    over = np.flatnonzero(evidence >= -log(delta))
    alarm = int(ends[over[0]]) if len(over) and track.alarm is None else track.alarm
    return replace(
        _with_runs(track, ends, hits, after),
        n=int(ends[-1]),
        hits=track.hits + int(hits.sum()),
        wealth=tuple(wealth[-1].tolist()),
        evidence=float(evidence[-1]),
        alarm=alarm,
    )


def _gains(sizes: Labels, hits: Labels, alpha: float) -> Floats:
    """Return the log likelihood ratio of each step under each bet, shape (k, B)."""
    odds = np.array(ODDS) * alpha / (1.0 - alpha)
    hit = -np.log1p(odds) - log1p(-alpha)  # log (1 - m)/(1 - alpha), with m = odds/(1 + odds)
    miss = hit + np.log(ODDS)
    return np.asarray(np.outer(hits, hit) + np.outer(sizes - hits, miss))


def _log_weights(starts: Labels, ends: Labels) -> Floats:
    """Return log(T(start + 1) - T(end + 1)): what is laid on a drop within each step."""
    first, last = starts + 1.0, ends + 1.0
    grown = np.log1p((last - first) / first)
    return np.asarray(np.log(grown) - np.log1p(np.log(first)) - np.log1p(np.log(last)))


def _with_runs(track: Track, ends: Labels, hits: Labels, after: Floats) -> Track:
    """Move each bet's likeliest beginning to where its likelihood ratio was lowest."""
    lows = np.vstack([-np.array(track.runs), after])
    at = len(lows) - 1 - np.argmin(lows[::-1], axis=0)  # the latest of equals
    rows = np.concatenate([[0], ends])
    covered = track.hits + np.concatenate([[0], np.cumsum(hits)])
    best = lows[at, np.arange(len(ODDS))]
    return replace(
        track,
        runs=tuple((after[-1] - best).tolist()),
        run_n=tuple(int(rows[i]) if i else n for i, n in zip(at, track.run_n, strict=True)),
        run_hits=tuple(
            int(covered[i]) if i else h for i, h in zip(at, track.run_hits, strict=True)
        ),
    )
