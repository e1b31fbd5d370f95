"""Lines and bars for the terminal: the thresholds and the guarantee of a round, rates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Literal

from fedwqcp.federation.release import Release, promise
from fedwqcp.methods import Proposal, RobustThreshold
from fedwqcp.theory.diagnosis import excluded
from fedwqcp.wire.messages import Number, PerAgentThresholds
from fedwqcp.words import rounds as words

_SIGNS = ("·", "─", "●", "┃", "◂")


PLAIN = (".", "-", "o", "|", "<")
"""Nothing, the interval, the rate, what was asked for, and a rate further to the left."""


_REACH = 0.25
"""How far below what was asked for a scale begins at most."""


@dataclass(frozen=True)
class LevelThresholds:
    """The thresholds of one level, and of one group where there are any; it prints as a line.

    ``whose`` says whether all agents have this threshold, each was sent one, or each finds its own.
    ``thresholds`` are those that all share, one for each column of the score (a number, or one for
    each label); ``proposed`` a value near which agents find their own. ``left_out`` are used
    agents that the thresholds do not rest on.
    ``loss`` is the most coverage that Byzantine agents cost (1 says nothing), ``withstands`` how
    many of them are withstood, where the method says so.
    """

    alpha: float
    group: str | None
    whose: Literal["all", "each", "own"]
    thresholds: tuple[Number, ...] = ()
    proposed: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()
    why: Literal["", "outlier", "exclude"] = ""
    loss: float | None = None
    withstands: int | None = None

    def __str__(self) -> str:
        return words.thresholds(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """Who was left out, what the loss means, how many Byzantine agents are withstood."""
        return words.level_notes(self)


def released(release: Release) -> tuple[LevelThresholds, ...]:
    """Return what came out at every level and in every group."""
    round = release.round
    names = [f"{round.by} {name}" for name in round.group_names]
    return tuple(
        _released(release, alpha, name, release.tasks_of(alpha, place))
        for alpha in round.alphas
        for place, name in enumerate(names or (None,))
    )


def always_left_out(found: Sequence[LevelThresholds]) -> frozenset[str]:
    """Return the agents that no threshold of a round rests on."""
    return frozenset.intersection(*(frozenset(each.left_out) for each in found))


def statuses(release: Release) -> dict[str, str]:
    """Return by agent whether it was used, left out of every threshold, refused or silent."""
    out = always_left_out(released(release))
    return {
        name: "left out" if name in out else release.status(name) for name in release.round.agents
    }


@dataclass(frozen=True)
class Scale:
    """The scale of all bars of a table: values at its first and last column, and the nominal."""

    left: float
    right: float
    nominal: float
    width: int = 28
    ascii: bool = False

    def bar(self, low: float, rate: float, high: float) -> str:
        """Draw one rate.

        >>> Scale(0.8, 1.0, 0.9, width=21, ascii=True).bar(0.92, 0.95, 0.97)
        '..........|.---o--...'
        """
        nothing, line, dot, mark, less = PLAIN if self.ascii else _SIGNS
        signs = [nothing] * self.width
        for at in range(self._at(low), self._at(high) + 1):
            signs[at] = line
        signs[self._at(self.nominal)] = mark
        signs[self._at(rate)] = dot if rate >= self.left else less
        return "".join(signs)

    def _at(self, value: float) -> int:
        share = (value - self.left) / (self.right - self.left)
        return round(min(1.0, max(0.0, share)) * (self.width - 1))


def scale(rates: Iterable[float], nominal: float, *, ascii: bool = False) -> Scale:
    """Return a scale for rates around what was asked for; one outlier hides nothing (`_REACH`)."""
    values = (*rates, nominal)
    left = max(0.0, nominal - _REACH, (ceil(min(values) * 20 - 1e-9) - 1) / 20)
    right = min(1.0, (floor(max(values) * 20 + 1e-9) + 1) / 20)
    return Scale(left, right, nominal, ascii=ascii)


def _released(release: Release, alpha: float, group: str | None, tasks: range) -> LevelThresholds:
    """Sum up the outcomes of one level and group, one for each column of the score."""
    outcomes = [release.outcomes[task] for task in tasks]
    robust = [outcome for outcome in outcomes if isinstance(outcome, RobustThreshold)]
    out = dict.fromkeys(name for task in tasks for name in _left_out(release, task))
    why: Literal["outlier", "exclude"] = "outlier" if robust else "exclude"
    values = [outcome.threshold(None) for outcome in outcomes if outcome.same_for_all]
    common = tuple(value for value in values if value is not None)
    return LevelThresholds(
        alpha=alpha,
        group=group,
        whose="all" if common else "each" if isinstance(outcomes[0], PerAgentThresholds) else "own",
        thresholds=common,
        proposed=tuple(outcome.value for outcome in outcomes if isinstance(outcome, Proposal)),
        left_out=tuple(out),
        why=why if out else "",
        loss=max((outcome.loss for outcome in robust), default=None),
        withstands=min(
            (o.withstands for o in outcomes if hasattr(o, "withstands")),  # of a plug-in
            default=None,
        ),
    )


def _left_out(release: Release, task: int) -> Iterator[str]:
    """Name the used agents that an outcome does not rest on.

    A public release does not tell who has no point of a group, so that places there have no names.
    """
    outcome = release.outcomes[task]
    named = release.round.by is None or bool(release.received)
    if isinstance(outcome, RobustThreshold) and named:
        yield from (n for n in release.used if release.position(n, task) in outcome.left_out)
    yield from excluded(release, task)


def guarantee_line(release: Release) -> str:
    """Say what is proved of a release and under which assumption, or why nothing is."""
    return f"guarantee: {promise(release)}"
