"""The default method where a score has losses: own risk control, raised by a borrowed threshold.

With n points and the sum L of their losses, q is the smallest threshold with
(L(t) + 1)/(n + 1) <= alpha, m the smallest at which none of the site's points has a loss. Of fewer
points than q takes, f is the smallest with L(t) <= n alpha. Then sum and unseen loss together are
at most n alpha + 1, so that f is the threshold of risk control at the level (n alpha + 1)/(n + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import ClassVar, Literal

import numpy as np

from fedwqcp._validation import Floats
from fedwqcp.methods._answers import stacked, summed
from fedwqcp.methods._base import OneShot, Traits
from fedwqcp.methods._calibration import Calibration, Disclosure, own_data
from fedwqcp.methods.auto import EXCHANGEABLE, GAP, HIDDEN, Borrowed, borrowed_of, raised
from fedwqcp.methods.fed_crc import FedCRC, LossCurve
from fedwqcp.methods.guarded_median_cp import Proposal
from fedwqcp.quantile import conformal_rank, exact_level
from fedwqcp.wire.messages import Outcome
from fedwqcp.wire.release import Guarantee

CRC = FedCRC()


@dataclass(frozen=True)
class AutoRisk(OneShot[LossCurve]):
    """`Auto` for losses between 0 and 1 that never rise with the threshold; `Plan` chooses it."""

    enough: float
    small: Literal["borrow", "inf"]
    max_groups: int = 1

    summaries = (LossCurve,)
    outcomes = (Borrowed, Proposal)
    guarantee: ClassVar[Guarantee] = Guarantee("risk-floor", "finite-sample")
    assumption: ClassVar[str] = EXCHANGEABLE

    @property
    def traits(self) -> Traits:
        return Traits(controls_risk=True, predicts_from_own_data=True, proved=self._proved)

    def summarize(self, cal: Calibration, alpha: float) -> LossCurve:
        del alpha  # a second round at another level reveals nothing new
        levels = np.array([*self._levels(cal.n), cal.n])
        up = levels[np.searchsorted(levels, CRC.curve(cal)).clip(max=len(levels) - 1)]
        return LossCurve(tuple(up.tolist()), cal.n)

    def aggregate(self, summaries: Sequence[LossCurve], alpha: float) -> Outcome:
        some = [s.n >= HIDDEN for s in summaries]
        curves = stacked([s.losses for s in summaries], CRC.points + 1)
        N, M = sum(s.n for s in summaries if s.n >= HIDDEN), sum(some)
        pooled = CRC.smallest(summed(curves[some]), N, M, alpha) if M else inf
        if M > 1:
            return Proposal(pooled)
        return Borrowed(tuple(inf if many else pooled for many in some), pooled)

    def localize(
        self, outcome: Outcome, cal: Calibration | None, position: int | None, alpha: float
    ) -> Floats:
        cal = own_data(cal, "auto")
        curve, extra = CRC.curve(cal), int(conformal_rank(cal.n, alpha) <= cal.n)
        local = CRC.smallest(curve, cal.n, extra, alpha) if cal.n else -inf
        most = CRC.grid[(curve == 0).argmax()] if (curve == 0).any() else inf
        offer = borrowed_of(outcome, position)
        return raised(local, offer, cal.n, alpha, most=most, enough=self.enough, small=self.small)

    def reveals(self, cal: Calibration, alpha: float, *, steps: int) -> tuple[Disclosure, ...]:
        return (Disclosure(cal.n, len(self._levels(cal.n)), each_level=False),)

    def _levels(self, n: int) -> tuple[float, ...]:
        return sent_levels(n, GAP * self.max_groups)  # a point counts in each of its groups

    def _proved(self, n: int, alpha: float) -> float:
        """Return one minus the risk that n points of an agent prove there."""
        level = exact_level(alpha)  # 1 - alpha
        if n and (self.small == "inf" or conformal_rank(n, alpha) <= n):
            return float(level)
        return float(n * level / (n + 1))


@lru_cache(maxsize=4096)
def sent_levels(n: int, gap: int = GAP) -> tuple[float, ...]:
    """Return to which sums losses are rounded up before they are sent, a function of n alone.

    One for every ``gap`` points, closer together near 1, the smallest; none of fewer than `HIDDEN`.

    Examples
    --------
    >>> [round(level, 1) for level in sent_levels(30)], len(sent_levels(600))
    ([1.0, 2.3, 5.5, 12.8], 85)
    """
    count = n // gap if n >= HIDDEN else 0
    return tuple(float(n) ** (step / count) for step in range(count))
