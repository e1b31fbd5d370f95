"""How much of its own data an agent reveals in one round: the limit that a site sets for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fedwqcp._validation import CheckedSettings, check_least
from fedwqcp.errors import InputError
from fedwqcp.federation.plan import Plan, part_of
from fedwqcp.methods import Calibration


@dataclass(frozen=True)
class DisclosureLimit(CheckedSettings):
    """How much of its own data an agent reveals in one round, whatever the round asks for.

    Parameters
    ----------
    share : float, optional
        Of a sample of n scores at most floor(share n) become known, and always one: a local
        threshold is one score. The round cuts n points (strata of a feature) in no more places.
    min_class : int, optional
        No score is revealed of a class, stratum or group with fewer points. Where the round itself
        cuts the points, no part has fewer, unless it has none.

    Raises
    ------
    InputError
        If the share is not above 0 and at most 1, or the size not at least 1.

    Examples
    --------
    >>> [DisclosureLimit().scores_of(n) for n in (3, 31, 75)]
    [1, 6, 15]
    """

    share: float = 0.2
    min_class: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(
                f"share must be above 0 and at most 1 (0.2 is a fifth), got {self.share!r}"
            )
        check_least(self.min_class, 1, "min_class")

    def scores_of(self, size: int) -> int:
        """Return how many scores of a sample of this size may become known."""
        return max(1, int(Fraction(str(self.share)) * size))

    def check(self, plan: Plan, cal: Calibration, steps: int) -> None:
        """Refuse a round whose answers would reveal more than the limit."""
        name = plan.round.method.name
        for group in range(len(plan.round.group_names)) or (None,):
            self._check_cells(name, plan.method.cells(part_of(plan.round, cal, group)))
        for (group, part), (size, revealed) in _disclosed(plan, cal, steps).items():
            whole = part is None and group is None
            if revealed and not whole and size < self.min_class:
                raise _too_much(
                    f"{name} with these settings sends scores of a class or group of which this "
                    f"agent has {size} points; it reveals none of fewer than {self.min_class}"
                )
            if revealed > self.scores_of(size):
                raise _too_much(
                    f"{name} with these settings can reveal {revealed} of {size} scores of single "
                    f"people; {self._at_most(size)}"
                )

    def _check_cells(self, name: str, cells: Sequence[int]) -> None:
        """Refuse a round that cuts the points into parts that are too small or too many."""
        n, cuts = sum(cells), len(cells) - 1
        if n and min(size for size in cells if size) < self.min_class:
            raise _too_much(
                f"{name} with these settings cuts this agent's points into parts, one of which has "
                f"fewer than {self.min_class}: each must have none or at least so many"
            )
        if n and cuts > self.scores_of(n):
            raise _too_much(
                f"{name} with these settings cuts {n} points of this agent in {cuts} places, each "
                f"of which counts as a value of one person; {self._at_most(n)}"
            )

    def _at_most(self, size: int) -> str:
        """Say how many scores of a sample of this size may become known."""
        return f"this agent reveals at most {self.scores_of(size)}, a share of {self.share:g}"


PRIVATE_EPSILON = 10.0
"""A private answer is limited by its noise: without a budget it spends at most so much.

Counting scores would refuse by the true size of a group, which the noise is there to hide.
"""
USUAL_LIMIT = DisclosureLimit()
"""Holds unless a site says otherwise; benchmarks/disclosure.py measures what it costs."""


def _too_much(what: str) -> InputError:
    """Say that a round would learn too much, and what to do."""
    return InputError(
        what,
        cure=(
            "choose settings that reveal less (SECURITY.md lists from how many points each is "
            "answered), or, if this site may, widen its limit with "
            "limit=DisclosureLimit(share, min_class), or lift it with allow_samples=True",
            "ask the server for a method or --setting that reveals less (SECURITY.md lists from "
            "how many points each is answered), or, if this site may, widen its limit with "
            "--max-share and --min-class, or lift it with --allow-samples",
        ),
    )


def too_little_noise(epsilon: float) -> InputError:
    """Say that a private answer would spend too much for a site without a budget."""
    return InputError(
        f"a site without a privacy budget answers up to {PRIVATE_EPSILON:g}, got {epsilon:g}",
        field="epsilon",
        cure=(
            "ask for less, or give this site a budget=Budget(folder, total)",
            "ask the server for less, or give this site a --privacy-budget",
        ),
    )


def _disclosed(
    plan: Plan, cal: Calibration, steps: int
) -> dict[tuple[int | None, int | None], tuple[int, int]]:
    """Return, for each group and class, its size and how many of its scores all levels reveal."""
    sizes: dict[tuple[int, int | None, int | None], int] = {}
    once, added = dict[Any, int](), dict[Any, int]()
    for task in plan.tasks:
        own = part_of(plan.round, cal.column(task.column), task.group)
        same = dict[Any, int]()
        for found in plan.method.reveals(own, task.alpha, steps=steps):
            key = (task.column, task.group, found.part)
            sizes[key] = found.size
            here = added if found.each_level else same
            here[key] = here.get(key, 0) + found.scores
        once.update({key: max(revealed, once.get(key, 0)) for key, revealed in same.items()})
    most: dict[tuple[int | None, int | None], tuple[int, int]] = {}
    for key, size in sizes.items():  # columns are different scores of the same people
        revealed = min(size, once.get(key, 0) + added.get(key, 0))
        most[key[1:]] = max(most.get(key[1:], (0, 0)), (size, revealed))
    return most
