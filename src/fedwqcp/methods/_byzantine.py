"""What robust methods share: caps on claimed sizes, and counts of Byzantine agents withstood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fedwqcp.errors import QuorumError
from fedwqcp.wire.messages import SharedThreshold, check_size


@dataclass(frozen=True)
class RobustSharedThreshold(SharedThreshold):
    """One threshold for every agent, and how many Byzantine agents it withstands.

    Parameters
    ----------
    value : float
        The threshold.
    withstands : int
        As long as no more agents are Byzantine, the threshold lies between the smallest and the
        largest local threshold of the others.
    """

    withstands: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self.withstands, "withstands")


def capped(sizes: Sequence[int], cap: int | None) -> list[int]:
    """Return the sizes, none of them above the cap.

    Without a cap the lower median of the sizes is taken: more than half of the agents then count in
    full and alike, and fewer than half cannot raise it above every honest size.

    Examples
    --------
    >>> capped([50, 1_000_000, 80, 60], cap=None)
    [50, 60, 60, 60]
    """
    if not sizes:
        return []
    most = sorted(sizes)[(len(sizes) - 1) // 2] if cap is None else cap
    return [min(n, most) for n in sizes]


def fewer_than_half(weights: Sequence[int]) -> int:
    """Return the most agents of whom any choice holds less than half of the weight.

    Examples
    --------
    >>> fewer_than_half([50, 60, 60, 60]), fewer_than_half([10, 10])
    (1, 0)
    """
    heaviest = accumulate(sorted(weights, reverse=True))
    return sum(2 * together < sum(weights) for together in heaviest)


def check_withstands(byzantine: int | None, withstands: int, left: int, answers: int) -> None:
    """Refuse a round whose answers cannot keep what its settings promise."""
    if byzantine is not None and left and withstands < byzantine:
        raise QuorumError(
            f"the round is to withstand byzantine={byzantine} agents, and its answers withstand "
            f"{withstands}: {left} of {answers} agents that answered have a threshold that counts; "
            "wait for more agents, or open a round with a smaller byzantine, a cap on sizes, or "
            "overflow='propagate'"
        )
