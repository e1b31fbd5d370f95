"""TrimmedCP: the mean of local thresholds without the smallest and the largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedwqcp.errors import InputError
from fedwqcp.methods import Calibration, OneShot
from fedwqcp.quantile import conformal_quantile
from fedwqcp.wire.messages import LocalQuantile, SharedThreshold
from fedwqcp.wire.release import NO_GUARANTEE


@dataclass(frozen=True)
class TrimmedCP(OneShot[LocalQuantile]):
    r"""The mean of local thresholds, the most extreme ones left out on both sides.

    q_hat is the plain mean of the q_k that remain.

    Parameters
    ----------
    trim : int, optional
        How many thresholds are left out on each side, as long as one remains.

    Notes
    -----
    **Idea**: leave out the extremes, then average.

    .. math::

        \hat q = \frac{1}{\lvert K \rvert} \sum_{k \in K} q_k

    **Guarantee**: none in finite samples; up to ``trim`` agents cannot move the threshold outside
    the range of the others.

    **Cost**: one round; one float and one integer per agent.

    **Fails**: where agents' score scales differ.

    Examples
    --------
    >>> answers = [LocalQuantile(q, 50) for q in (0.1, 0.4, 0.6, 9.0)]
    >>> TrimmedCP().aggregate(answers, alpha=0.1)
    SharedThreshold(value=0.5)
    """

    trim: int = 1

    summaries = (LocalQuantile,)
    guarantee = NO_GUARANTEE
    assumption = "a trimmed mean of local thresholds is a heuristic"

    def __post_init__(self) -> None:
        if self.trim < 0:
            raise InputError(f"trim must be at least 0, got {self.trim}")

    def summarize(self, cal: Calibration, alpha: float) -> LocalQuantile:
        return LocalQuantile(conformal_quantile(cal.scores, alpha), cal.n)

    def aggregate(self, summaries: Sequence[LocalQuantile], alpha: float) -> SharedThreshold:
        del alpha  # already inside every local threshold
        values = sorted(s.threshold for s in summaries if s.n)
        if not values:
            return SharedThreshold(float("inf"))
        trim = min(self.trim, (len(values) - 1) // 2)
        kept = values[trim : len(values) - trim]
        return SharedThreshold(sum(kept) / len(kept))
