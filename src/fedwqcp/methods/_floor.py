"""FedWQ-CP's threshold and an agent's own as the least that another method may give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from fedwqcp.methods._mean import weighted_mean
from fedwqcp.wire.payload import LocalQuantile, Outcome, check_score

ADDS = (
    "; a threshold below FedWQ-CP's is raised to it, which only adds coverage: bounds from below "
    "stay, bounds from above do not"
)
"""What a floor does to a promise."""


@dataclass(frozen=True)
class AtLeast(Outcome):
    """A shared threshold that an agent raises to its own where that is higher.

    Parameters
    ----------
    value : float
        The shared threshold.
    """

    value: float

    same_for_all = True

    def __post_init__(self) -> None:
        check_score(self.value, "value")


def mean_threshold(sent: Iterable[LocalQuantile]) -> float:
    """Return FedWQ-CP's threshold among the agents that have one of their own.

    Parameters
    ----------
    sent : iterable of LocalQuantile
        What FedWQ-CP asks of each agent.

    Returns
    -------
    float
        The threshold with ``overflow="exclude"``; -inf, no floor, where nobody has a finite one.

    Examples
    --------
    >>> mean_threshold([LocalQuantile(0.9, 10), LocalQuantile(0.3, 30), LocalQuantile(inf, 5)])
    0.45
    """
    some = [s for s in sent if s.threshold < inf]
    return weighted_mean([s.threshold for s in some], [s.n for s in some]) if some else -inf
