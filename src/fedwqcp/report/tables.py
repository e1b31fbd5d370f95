"""Records as tables in the terminal, with what may and may not be read from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isinf
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedwqcp.demo.records import Record, Skipped
from fedwqcp.metrics import Rate

LEVEL = 0.99
"""Confidence of the interval that tells a deviation from noise."""

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


def show(records: Sequence[Record], skipped: Sequence[Skipped], console: Console) -> None:
    """Print all tables of the demo, and what to read from them.

    Parameters
    ----------
    records : sequence of Record
        Experiments ``"methods"`` and ``"overflow"``.
    skipped : sequence of Skipped
        Methods that could not be used.
    console : rich.console.Console
        Where to.
    """
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
    """Return the methods side by side on one dataset.

    Parameters
    ----------
    records : sequence of Record
        Every method and agent on this dataset.
    skipped : sequence of Skipped, optional
        Methods that could not be used on it.

    Returns
    -------
    rich renderable
        One row for each method, one column for each agent.
    """
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
        notes.append("target shift: aimed at the law that the shared test points follow")
    for name, spent in {r.method: r.config.get("method.epsilon") for r in records}.items():
        if spent is not None:
            notes.append(f"[bold]{name}[/] spends epsilon = {spent:g} on each threshold")
    if any(r.samples for r in records):
        notes.append("* scores of single people left the agents")
    return Group(table, *(Padding(note, (0, 0, 0, 2)) for note in notes), "")


def overflow_table(records: Sequence[Record]) -> RenderableType:
    """Return what the three overflow policies make of one agent with too few points.

    Parameters
    ----------
    records : sequence of Record
        FedWQ-CP under each policy, for every dataset.

    Returns
    -------
    rich renderable
        One row for each dataset and policy.
    """
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
    """Return what the tables do and do not show, in a few sentences.

    Parameters
    ----------
    records : sequence of Record
        Experiment ``"methods"``.

    Returns
    -------
    str
        Text with rich markup.
    """
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
    """Tell whether a coverage deviates from the nominal one by more than chance.

    Parameters
    ----------
    record : Record
        What a method gave an agent.

    Returns
    -------
    str
        ``"!"`` below, ``"+"`` above, a space where the exact interval holds the nominal coverage.
    """
    rate = Rate(n=record.tested, hits=record.covered, level=LEVEL)
    if rate.high < 1 - record.alpha:
        return "!"
    return "+" if rate.low > 1 - record.alpha else " "


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
