"""What the terminal shows: the thresholds of a round, bars of rates, the tables of the demo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isinf
from statistics import fmean
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedwqcp.demo.records import Record, Skipped
from fedwqcp.federation.release import Release
from fedwqcp.methods import AtLeast, Proposal, RobustSharedThreshold, RobustThreshold
from fedwqcp.metrics import Rate
from fedwqcp.theory.diagnosis import excluded
from fedwqcp.wire.messages import Number, PerAgentThresholds

LEVEL = 0.99
"""Confidence of the interval that separates a deviation from noise."""


LEGEND = (
    "[bold red]![/] below, [cyan]+[/] above the nominal coverage by more than test noise "
    f"(exact {LEVEL:.0%} interval).\n"
    "points: calibration points of the agent; bytes up: the most that any agent sent."
)


POLICIES = {
    "propagate": "+inf for everyone",
    "clip": "its maximum stands in",
    "exclude": "the other agents decide",
}
"""What each overflow policy does with the agent that has too few points."""


SIGNS = ("·", "─", "●", "┃", "◂")


PLAIN = (".", "-", "o", "|", "<")
"""Nothing, the interval, the rate, what was asked for, and a rate further to the left."""


REACH = 0.25
"""How far below what was asked for a scale begins at most."""


@dataclass(frozen=True)
class LevelThresholds:
    """The thresholds of one level, and of one group where there are any; it prints as a line.

    ``whose`` says whether all agents have this threshold, each was sent one, or each finds its own.
    ``thresholds`` are those that all share, one for each column of the score (a number, or one for
    each label); ``proposed`` a value near which agents find their own; ``at_least`` a value that
    agents raise to their own. ``left_out`` are used agents that the thresholds do not rest on.
    ``loss`` is the most coverage that Byzantine agents cost (1 says nothing), ``withstands`` how
    many of them are withstood, where the method says so.
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
        return f"alpha={self.alpha:g}{group}: " + "; ".join((self._sentence(), *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """Who was left out, what the loss means, how many Byzantine agents are withstood."""
        out = [f"left out: {', '.join(self.left_out)} ({self.why})"] if self.left_out else []
        if self.withstands is not None:
            agents = "agent" if self.withstands == 1 else "agents"
            out.append(f"withstands {self.withstands} Byzantine {agents}")
        return (*out, *([] if self.loss is None else [_loss_note(self.loss)]))

    def _sentence(self) -> str:
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
        nothing, line, dot, mark, less = PLAIN if self.ascii else SIGNS
        signs = [nothing] * self.width
        for at in range(self._at(low), self._at(high) + 1):
            signs[at] = line
        signs[self._at(self.nominal)] = mark
        signs[self._at(rate)] = dot if rate >= self.left else less
        return "".join(signs)

    def _at(self, value: float) -> int:
        """Return the column of a value."""
        share = (value - self.left) / (self.right - self.left)
        return round(min(1.0, max(0.0, share)) * (self.width - 1))


def scale(rates: Iterable[float], nominal: float, *, ascii: bool = False) -> Scale:
    """Return a scale for rates around what was asked for; one outlier hides nothing (`REACH`)."""
    values = (*rates, nominal)
    left = max(0.0, nominal - REACH, (ceil(min(values) * 20 - 1e-9) - 1) / 20)
    right = min(1.0, (floor(max(values) * 20 + 1e-9) + 1) / 20)
    return Scale(left, right, nominal, ascii=ascii)


def show(records: Sequence[Record], skipped: Sequence[Skipped], console: Console) -> None:
    """Print all tables of the demo, and what to read from them."""
    main = [r for r in records if r.experiment == "methods"]
    for dataset in _distinct(r.dataset for r in main):
        own = [r for r in main if r.dataset == dataset]
        console.print(methods_table(own, [s for s in skipped if s.dataset == dataset]))
    console.print(Padding(LEGEND, (0, 0, 1, 0)))
    scarce = [r for r in records if r.experiment == "overflow"]
    if scarce:
        console.print(overflow_table(scarce))
    console.print(Padding(notes(main), (0, 0, 1, 0)))


def methods_table(records: Sequence[Record], skipped: Sequence[Skipped] = ()) -> RenderableType:
    """Return the methods side by side on one dataset."""
    first = records[0]
    size = "labels" if first.task == "classification" else "length"
    table = _table(
        f"{first.dataset}: {first.task}, alpha = {first.alpha:g} (nominal coverage "
        f"{1 - first.alpha:g}), {first.tested} shared test points"
    )
    agents = _distinct(r.agent for r in records)
    table.add_column("method\n[dim]points[/]", no_wrap=True)
    for agent in agents:
        n = next(r.n for r in records if r.agent == agent)
        table.add_column(f"{agent}\n[dim]{n}[/]", justify="right", no_wrap=True)
    for name in ("mean", "worst", f"mean\n{size}", "rounds", "bytes\nup"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("guarantee", min_width=9)
    for method in _distinct(r.method for r in records):
        own = {r.agent: r for r in records if r.method == method}
        table.add_row(*_method_row(method, [own[agent] for agent in agents]))
    notes = [f"[bold]{s.method}[/] is left out: {escape(s.reason)}" for s in skipped]
    if any(r.guarantee.startswith("target-shift") for r in records):
        notes.append("target shift: the target is the distribution of the shared test points")
    for name, spent in {r.method: r.config.get("method.epsilon") for r in records}.items():
        if spent is not None:
            notes.append(f"[bold]{name}[/] spends epsilon = {spent:g} on each threshold")
    if any(r.samples for r in records):
        notes.append("* scores of single people left the agents")
    return Group(table, *(Padding(note, (0, 0, 0, 2)) for note in notes), "")


def overflow_table(records: Sequence[Record]) -> RenderableType:
    """Return what the three overflow policies make of one agent with too few points."""
    table = _table(f"FedWQ-CP where one agent has too few points for alpha = {records[0].alpha:g}")
    for name in ("data", "agent\n[dim]points[/]", "policy"):
        table.add_column(name, no_wrap=True)
    for name in ("threshold", "mean\ncoverage", "worst\ncoverage", "mean\nsize"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what happens")
    for dataset in _distinct(r.dataset for r in records):
        here = [r for r in records if r.dataset == dataset]
        for place, policy in enumerate(_distinct(_policy(r) for r in here)):
            own = [r for r in here if _policy(r) == policy]
            poor = next(r for r in own if r.agent == r.config["demo.scarce_agent"])
            worst = min(own, key=lambda r: r.coverage)
            table.add_row(
                *((dataset, f"{poor.agent}: {poor.n}") if place == 0 else ("", "")),
                policy,
                _short(poor.threshold if isinstance(poor.threshold, float) else poor.threshold[0]),
                f"{fmean(r.coverage for r in own):.3f}",
                _worst(worst),
                _short(fmean(r.size for r in own)),
                POLICIES.get(policy, "") if poor.n else "without points it has no weight",
            )
        table.add_section()
    return table


def notes(records: Sequence[Record]) -> str:
    """Return what the tables do and do not show, in a few sentences."""
    nominal = f"{1 - records[0].alpha:g}"
    return (
        "[bold]FedWQ-CP guarantees nothing in finite samples[/]: one mean threshold serves unequal "
        "models, so read its worst agent, not its mean. "
        f"SplitCP's row strays from {nominal} because an agent calibrates on its own skewed data "
        "and is tested on data that all share: this shift between agents, and chance where "
        "points are few, breaks what its guarantee assumes. "
        "Compare fedwq-cp with split-cp, which shares nothing, and with the rows whose guarantee "
        "is not none: each holds under its own assumption only, and none promises every agent its "
        "coverage here."
    )


def verdict(record: Record) -> str:
    """Tell whether a coverage deviates from the nominal one by more than chance."""
    rate = Rate(n=record.tested, hits=record.covered, level=LEVEL)
    if rate.high < 1 - record.alpha:
        return "!"
    return "+" if rate.low > 1 - record.alpha else " "


def _released(release: Release, alpha: float, group: str | None, tasks: range) -> LevelThresholds:
    """Sum up the outcomes of one level and group, one for each column of the score."""
    outcomes = [release.outcomes[task] for task in tasks]
    robust = [outcome for outcome in outcomes if isinstance(outcome, RobustThreshold)]
    out = dict.fromkeys(name for task in tasks for name in _left_out(release, task))
    why = "unlike the others, or a copy of another" if robust else 'sent +inf; overflow="exclude"'
    values = [outcome.threshold(None) for outcome in outcomes if outcome.same_for_all]
    common = tuple(value for value in values if value is not None)
    return LevelThresholds(
        alpha=alpha,
        group=group,
        whose="all" if common else "each" if isinstance(outcomes[0], PerAgentThresholds) else "own",
        thresholds=common,
        proposed=tuple(outcome.value for outcome in outcomes if isinstance(outcome, Proposal)),
        at_least=tuple(outcome.value for outcome in outcomes if isinstance(outcome, AtLeast)),
        left_out=tuple(out),
        why=why if out else "",
        loss=max((outcome.loss for outcome in robust), default=None),
        withstands=min(
            (
                outcome.withstands
                for outcome in outcomes
                if isinstance(outcome, RobustSharedThreshold)
            ),
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


def _loss_note(loss: float) -> str:
    """Say what the loss of a robust threshold means."""
    if loss == 1:
        return "loss 1: the bound on what Byzantine agents cost says nothing at this sample size"
    return (
        f"loss {loss:.3g}: if honest scores share one distribution, Byzantine agents cost at most "
        "so much coverage, with probability 0.95"
    )


def _method_row(method: str, own: Sequence[Record]) -> list[RenderableType]:
    """Return the cells of one method."""
    first = own[0]
    return [
        f"{method}*" if first.samples else method,
        *(_coverage(r) for r in own),
        f"{fmean(r.coverage for r in own):.3f}",
        _worst(min(own, key=lambda r: r.coverage)),
        _short(fmean(r.size for r in own)),
        str(first.rounds),
        str(max(r.bytes_up for r in own)),
        first.guarantee.replace("-", " "),  # so that a narrow column may wrap
    ]


def _coverage(record: Record) -> Text:
    """Return a coverage with its mark; the colour only repeats the mark."""
    mark = verdict(record)
    style = {"!": "bold red", "+": "cyan"}.get(mark, "")
    return Text(f"{mark}{record.coverage:.3f}", style=style)


def _worst(record: Record) -> Text:
    """Return the lowest coverage and whose it is."""
    return Text(f"{record.agent} ").append_text(_coverage(record))


def _short(value: float) -> str:
    """Write a number in few digits."""
    return "inf" if isinf(value) else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _policy(record: Record) -> str:
    """Return the overflow policy of a record."""
    return str(record.config.get("method.overflow", ""))


def _table(title: str) -> Table:
    """Return an empty table in the style of all."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=0,
        pad_edge=False,
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    """Return the different values, in the order of their first occurrence."""
    return tuple(dict.fromkeys(values))
