"""What a round released at each level: for whom, how much, and whose answers it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from fedwqcp.methods import AtLeast, Proposal, RobustThreshold, RobustToAll
from fedwqcp.theory.diagnosis import excluded
from fedwqcp.wire.payload import Number, ToEach
from fedwqcp.wire.release import Release


@dataclass(frozen=True)
class Released:
    """The thresholds of one level, and of one group where there are any; it prints as a line.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    group : str or None
        Which one, such as ``"label 3"``.
    whose : {"all", "each", "own"}
        Whether all agents have this threshold, each was sent one, or each finds its own.
    thresholds : tuple
        Where all have the same: one for each column of the score, itself one number or one for each
        label.
    proposed : tuple of float
        Where agents find their own near a value that was sent: that value.
    at_least : tuple of float
        Where agents raise a shared value to their own threshold: that value.
    left_out : tuple of str
        Used agents whose answers the thresholds do not rest on.
    why : str
        Why they were left out.
    loss : float or None
        Most coverage that liars cost, where the method tells it; 1 says nothing.
    withstands : int or None
        How many Byzantine agents the thresholds withstand, where the method tells it.
    """

    alpha: float
    group: str | None
    whose: Literal["all", "each", "own"]
    thresholds: tuple[Number, ...] = ()
    proposed: tuple[float, ...] = ()
    at_least: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()
    why: str = ""
    loss: float | None = None
    withstands: int | None = None

    def __str__(self) -> str:
        group = "" if self.group is None else f", {self.group}"
        return f"alpha={self.alpha:g}{group}: " + "; ".join((self._told(), *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """Who was left out, what the loss means, how many Byzantine agents are withstood."""
        out = [f"left out: {', '.join(self.left_out)} ({self.why})"] if self.left_out else []
        if self.withstands is not None:
            agents = "agent" if self.withstands == 1 else "agents"
            out.append(f"withstands {self.withstands} Byzantine {agents}")
        return (*out, *([] if self.loss is None else [_told_loss(self.loss)]))

    def _told(self) -> str:
        """Say what the threshold is."""
        if self.whose == "each":
            return "one threshold for each agent"
        if self.thresholds:
            return f"threshold {_joined(self.thresholds)} for all agents"
        if self.proposed:
            return (
                f"each agent's own threshold: it takes the proposed {_joined(self.proposed)} only "
                "as far as its own data allow"
            )
        if self.at_least:
            return f"threshold {_joined(self.at_least)}, or an agent's own where that is higher"
        return "each agent's own threshold"


def released(release: Release) -> tuple[Released, ...]:
    """Return what came out at every level and in every group.

    Parameters
    ----------
    release : Release
        As the server has it; without what was received, only the outcomes tell who was left out.

    Returns
    -------
    tuple of Released
        In the order of the levels, then of the groups.
    """
    round = release.round
    names = [f"{round.by} {name}" for name in round.group_names]
    return tuple(
        _released(release, alpha, name, release.tasks_of(alpha, place))
        for alpha in round.alphas
        for place, name in enumerate(names or (None,))
    )


def always_left_out(found: Sequence[Released]) -> frozenset[str]:
    """Return the agents that no threshold of a round rests on.

    Parameters
    ----------
    found : sequence of Released
        What the round released.

    Returns
    -------
    frozenset of str
        Their names.
    """
    return frozenset.intersection(*(frozenset(each.left_out) for each in found))


def _told_loss(loss: float) -> str:
    """Say what the loss of a robust threshold means."""
    if loss == 1:
        return "loss 1: the bound on what liars cost says nothing with samples of this size"
    return (
        f"loss {loss:.3g}: if honest scores share one law, liars cost at most so much coverage, "
        "with probability 0.95"
    )


def _released(release: Release, alpha: float, group: str | None, tasks: range) -> Released:
    """Sum up the outcomes of one level and group, one for each column of the score."""
    outcomes = [release.outcomes[task] for task in tasks]
    robust = [outcome for outcome in outcomes if isinstance(outcome, RobustThreshold)]
    out = dict.fromkeys(name for task in tasks for name in _left_out(release, task))
    why = "unlike the others, or a copy of another" if robust else 'sent +inf; overflow="exclude"'
    values = [outcome.threshold(None) for outcome in outcomes if outcome.same_for_all]
    common = tuple(value for value in values if value is not None)
    return Released(
        alpha=alpha,
        group=group,
        whose="all" if common else "each" if isinstance(outcomes[0], ToEach) else "own",
        thresholds=common,
        proposed=tuple(outcome.value for outcome in outcomes if isinstance(outcome, Proposal)),
        at_least=tuple(outcome.value for outcome in outcomes if isinstance(outcome, AtLeast)),
        left_out=tuple(out),
        why=why if out else "",
        loss=max((outcome.loss for outcome in robust), default=None),
        withstands=min(
            (outcome.withstands for outcome in outcomes if isinstance(outcome, RobustToAll)),
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


def _joined(values: Sequence[Number]) -> str:
    """Write thresholds: of several columns each, of several labels their range."""
    return " and ".join(
        f"{_number(min(value))} to {_number(max(value))}, by label,"
        if isinstance(value, tuple)
        else _number(value)
        for value in values
    )


def _number(value: float) -> str:
    """Write a threshold."""
    return "+inf (it excludes nothing)" if value == inf else f"{value:.6g}"
