"""What was ever told of a data set: the limit of a site holds over all rounds together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec.structs import replace

from fedwqcp._validation import listed
from fedwqcp.errors import DisclosureError
from fedwqcp.federation.disclosure_limit import (
    EVERYBODY,
    PRIVATE_EPSILON,
    DisclosureLimit,
    Told,
    told,
    too_little_noise,
)
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.spending_log import SpendingLog
from fedwqcp.groups import group_names
from fedwqcp.methods import Calibration
from fedwqcp.wire.messages import Ask, Summary


class _Entry(msgspec.Struct, frozen=True):
    """What one answer told of whom, or that the ledger was renewed."""

    renewed: bool = False
    round: str = ""
    terms: str = ""  # digest of the terms and the agent
    step: Annotated[int, msgspec.Meta(ge=0)] = 0
    content: str = ""  # digest of question and answer, the same in every round
    epsilon: Decimal = Decimal(0)
    division: str = ""  # whose scores: everybody's, or those of classes, of groups, of both
    parts: list[Told] = []

    def __post_init__(self) -> None:
        if not (self.epsilon.is_finite() and 0 <= float(self.epsilon) < inf):
            raise ValueError("no epsilon")


@dataclass(frozen=True)
class Account:
    """How many people of a class, a group or all of a data set were told of.

    Parameters
    ----------
    name : str
        Which.
    told : int
        People of whom a score was told.
    size : int
        How many there were when that was written last.
    """

    name: str
    told: int
    size: int


class DisclosureLedger:
    """What answers told of one data set, over all rounds.

    Parameters
    ----------
    folder : Path
        Where it is kept, at the site; one for each data set.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = SpendingLog(folder, _Entry)

    def charge(
        self,
        plan: Plan,
        cal: Calibration,
        asked: Ask,
        answers: Sequence[Summary | None],
        *,
        limit: DisclosureLimit | None,
        epsilon: float,
    ) -> None:
        """Write down what an answer tells before it leaves, or refuse it.

        What was told before costs nothing: the same order statistics of the same scores, or the
        same answer to the same question. Without a limit it is only written down.
        """
        parts = told(plan, cal, asked.step + 1)
        division = _division(parts)
        entry = _Entry(
            round=plan.round.id,
            terms=plan.digest.hex(),
            step=asked.step,
            content=_content(plan, parts, asked, answers),
        )

        def _charge(all_before: list[_Entry]) -> _Entry | None:
            before = _since_renewal(all_before)
            if epsilon < inf:
                return replace(entry, epsilon=_with_noise(before, epsilon, limit))
            new = _new(parts, entry, before)
            if limit is not None:
                limit.allow(plan.round.method.name, new, _spent(before))
                _check_differences(cal, {division, *(past.division for past in before)}, limit)
            counted = any(part.count for part in parts) and not _is_known(entry, before)
            if not counted and not any(part.scores for part in new):
                return None
            kept = [part for part in new if part.scores]
            return replace(entry, division=division, parts=kept)

        self._log.append(_charge)

    def renew(self) -> None:
        """Begin anew: what was told so far counts no more. The site's own decision."""
        self._log.append(lambda _: _Entry(renewed=True))

    @property
    def accounts(self) -> list[Account]:
        """What was told of whom since it was renewed, everybody first."""
        before = _since_renewal(self._log.read())
        sizes = dict[str, int]()
        for part in _parts(before):
            sizes.update(part.accounts)
        spent = _spent(before)
        names = sorted(sizes, key=lambda name: (name != EVERYBODY, name))
        return [Account(name, spent[name], sizes[name]) for name in names]


def _since_renewal(entries: list[_Entry]) -> list[_Entry]:
    """Return what counts."""
    last = max((index for index, entry in enumerate(entries) if entry.renewed), default=-1)
    return entries[last + 1 :]


def _parts(entries: list[_Entry]) -> list[Told]:
    return [part for entry in entries for part in entry.parts]


def _spent(entries: list[_Entry]) -> Counter[str]:
    """Return how many people each account told of."""
    spent = Counter[str]()
    for part in _parts(entries):
        spent.update(dict.fromkeys(part.accounts, part.scores))
    return spent


def _with_noise(before: list[_Entry], epsilon: float, limit: DisclosureLimit | None) -> Decimal:
    """Return what a private answer spends; all of them together need noise enough."""
    cost = Decimal(str(epsilon))
    spent = sum((entry.epsilon for entry in before), cost)
    if limit is not None and spent > PRIVATE_EPSILON:
        raise too_little_noise(float(spent))
    return cost


def _is_known(entry: _Entry, before: list[_Entry]) -> bool:
    """Whether this answer to this question was written down before, in whatever round."""
    return any(past.content == entry.content for past in before)


def _new(parts: list[Told], entry: _Entry, before: list[_Entry]) -> list[Told]:
    """Return what was not told before.

    What is only counted is charged for a whole round at its first step: later steps take from that,
    but a step that is answered twice pays again.
    """
    of_round = [past for past in before if past.terms == entry.terms]
    paid = [] if any(past.step == entry.step for past in of_round) else _parts(of_round)
    known, untold = _is_known(entry, before), []
    for part in parts:
        same = [past for past in _parts(before) if _of_same(past, part)]
        ranks = tuple(sorted(set(part.ranks).difference(*(past.ranks for past in same))))
        count = part.count - sum(past.count for past in paid if _of_same(past, part))
        count = 0 if known else max(0, count)
        untold.append(Told(part.accounts, part.sample, ranks, count))
    return untold


def _of_same(one: Told, other: Told) -> bool:
    """Whether both are of one sample."""
    return one.sample == other.sample and one.accounts.keys() == other.accounts.keys()


_DIVISIONS = ("class", "group")
_CROSSED = "class and group"


def _division(parts: list[Told]) -> str:
    """Return whose scores a round tells; nobody's is empty."""
    first = {name.split()[0] for part in parts if part.scores for name in part.accounts}
    return " and ".join(kind for kind in _DIVISIONS if kind in first) or (
        EVERYBODY if first else ""
    )


def _check_differences(cal: Calibration, of: set[str], limit: DisclosureLimit) -> None:
    """Refuse scores whose difference from what was told is of a small class or group alone.

    Scores of everybody less those of the large classes are of the small ones together, which must
    be enough. Where classes of groups are told, each of these must be. People of a small group are
    in others too where groups overlap: the largest score of these may then be known as theirs.
    """
    divisions, groups, words = of - {""}, cal.groups, " ".join(of)
    several, parts = len(divisions) > 1, {"class": cal.labels, "group": groups}
    overlap = groups is not None and groups.ndim == 2 and "group" in words
    kinds = [kind for kind in _DIVISIONS if parts[kind] is not None and kind in words]
    crossed = several and (_CROSSED in divisions or overlap)
    tables = [cal.sizes(*kinds)] if crossed else [cal.sizes(kind) for kind in kinds if several]
    if groups is not None and overlap and not crossed:
        tables.append(np.array([cal.part(group=name).n for name in group_names(groups)]))
    for sizes in tables:
        small = sizes[sizes < limit.min_class]
        if small.size and (crossed or small.sum() < limit.min_class):
            raise DisclosureError(
                f"scores of {listed(sorted(divisions))} together tell those of a class or group of "
                f"fewer than {limit.min_class} points",
                cure=("ask for the kind that was told first, or merge groups",) * 2,
            )


def _content(plan: Plan, parts: list[Told], asked: Ask, answers: Sequence[Summary | None]) -> str:
    """Return the digest of a statistic of these scores, whatever round asks for it."""
    round = plan.round
    terms = (round.method, round.score, round.alphas, round.by, round.groups, round.target)
    samples = [part.sample for part in parts]
    return _digest(terms, samples, asked.questions, answers)


def _digest(*values: object) -> str:
    return sha256(repr(values).encode()).hexdigest()
