"""How much of its own data an agent reveals: the limit that a site sets for itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Annotated

import msgspec

from fedwqcp._validation import CheckedSettings, check_least
from fedwqcp.errors import DisclosureError, InputError
from fedwqcp.federation.plan import Plan, part_of
from fedwqcp.methods import Calibration


@dataclass(frozen=True)
class DisclosureLimit(CheckedSettings):
    """How much of its own data an agent reveals, whatever rounds ask for.

    Parameters
    ----------
    share : float, optional
        Of a sample of n people the scores of at most floor(share n) become known, and always of
        one: a local threshold is one score. With a `DisclosureLedger` this holds over all rounds.
    min_class : int, optional
        No score is revealed of a class or group with fewer points.

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
        """Refuse a round whose answers would by themselves reveal more than the limit."""
        self.allow(plan.round.method.name, told(plan, cal, steps))

    def allow(
        self, name: str, parts: Iterable[Told], before: Mapping[str, int] | None = None
    ) -> None:
        """Refuse scores that would be too many, together with what each account told before."""
        total, sizes = Counter(before), dict[str, int]()
        for part in parts:
            if part.scores:
                total.update(dict.fromkeys(part.accounts, part.scores))
                sizes.update(part.accounts)
        for account, size in sizes.items():
            if account != EVERYBODY and size < self.min_class:
                raise _too_much(
                    f"{name} with these settings sends scores of a class or group of which this "
                    f"agent has {size} points; it reveals none of fewer than {self.min_class}",
                    renew=False,
                )
            if total[account] > self.scores_of(size):
                told_before = (before or {}).get(account, 0)
                now = min(size, total[account] - told_before)
                more = f" beside {told_before} told before" if told_before else ""
                raise _too_much(
                    f"{name} with these settings can reveal {now} of {size} people's scores{more}; "
                    f"this agent reveals at most {self.scores_of(size)}, a share of {self.share:g}",
                    renew=told_before > 0,
                )


PRIVATE_EPSILON = 10.0
"""A private answer is limited by its noise: without a budget it spends at most so much.

Counting scores would refuse by the true size of a group, which the noise is there to hide.
"""
USUAL_LIMIT = DisclosureLimit()
"""Holds unless a site says otherwise; benchmarks/disclosure.py measures what it costs."""


def _too_much(what: str, *, renew: bool) -> DisclosureError:
    """Say that a round would learn too much, and what to do."""
    anew = (
        "only if no answer from these data ever left this site, `fedwqcp agent ledger OUTPUTS "
        "--renew` counts anew; else "
    )
    less = "that reveals less (SECURITY.md has a table), or, if this site may, widen its limit with"
    return DisclosureError(
        what,
        cure=(
            f"choose a method or settings {less} limit=DisclosureLimit(share, min_class), or lift "
            "it with allow_samples=True",
            f"{anew if renew else ''}ask the server for a method or --setting {less} --max-share "
            "and --min-class or lift it with --allow-samples",
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


EVERYBODY = "everybody"
"""The account of all people of a data set."""


class Told(msgspec.Struct, frozen=True):
    """Scores of one sample that a round tells, as a ledger keeps them.

    Each counts as one person in every account: of the class or group, and of everybody.
    """

    accounts: dict[str, int]  # their sizes
    sample: str
    ranks: tuple[int, ...]  # in order
    count: Annotated[int, msgspec.Meta(ge=0)]  # scores that are not known by their rank

    @property
    def scores(self) -> int:
        """How many they are."""
        return len(self.ranks) + self.count


_Key = tuple[int, int | None, int | None]
"""A sample: column, group, class or stratum."""


def told(plan: Plan, cal: Calibration, steps: int) -> list[Told]:
    """Return what all levels of a round tell of each class and group."""
    samples: dict[_Key, tuple[Calibration, int]] = {}
    ranks, once, added = dict[_Key, set[int]](), Counter[_Key](), Counter[_Key]()
    for task in plan.tasks:
        part = part_of(plan.round, cal.column(task.column), task.group)
        same = Counter[_Key]()
        for disclosure in plan.method.reveals(part, task.alpha, steps=steps):
            key = (task.column, task.group, disclosure.part)
            samples[key] = part, disclosure.size
            if disclosure.ranks:
                ranks.setdefault(key, set()).update(disclosure.ranks)
            else:
                (added if disclosure.each_level else same)[key] += disclosure.scores
        once |= same  # the larger of each
    parts = []
    for key, (part, size) in samples.items():
        by_rank = tuple(sorted(ranks.get(key, ())))
        count = min(size - len(by_rank), once[key] + added[key])
        accounts = _accounts(plan, cal, *key[1:], size)
        parts.append(Told(accounts, _sample(plan, part), by_rank, count))
    return parts


def _sample(plan: Plan, part: Calibration) -> str:
    """Return by what the same scores are known again: their digest, and how they were made.

    Scores that two settings leave equal count twice: what is free would tell that they are equal,
    such as that nobody's label ranks beyond ``k_reg``.
    """
    key = plan.round.key if plan.score.randomized else ""
    return sha256(f"{plan.round.score} {key} {part.digest()}".encode()).hexdigest()


def _accounts(
    plan: Plan, cal: Calibration, group: int | None, part: int | None, size: int
) -> dict[str, int]:
    """Return the accounts of a sample and their sizes, the smallest first.

    A class has the site's own name, if it names its classes: its number is the round's choice. A
    sample of no class that is smaller than the whole is of its small classes together.
    """

    def _class(label: int) -> str:
        return f"class {cal.classes[label] if cal.classes else label}"

    round, sizes, whole, name = plan.round, dict[str, int](), "", ""
    if group is not None:
        whole = _class(group) if round.by == "label" else f"group {round.groups[group]}"
    n = cal.n if group is None else part_of(round, cal, group).n
    if part is not None or size < n:
        name = "small classes" if part is None else _class(part)
        sizes[f"{name} of {whole}" if whole else name] = size
    if part is not None and whole and cal.labels is not None:
        sizes[name] = cal.part(label=part).n
    if group is not None:
        sizes[whole] = n
    return {**sizes, EVERYBODY: cal.n}
