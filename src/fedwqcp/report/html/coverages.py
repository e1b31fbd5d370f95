"""Measured coverages as cards, as a chart against size, and as a table of methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from fedwqcp.report.html.blocks import Bar, Card, Cards, Row, Table
from fedwqcp.report.html.page import Section, Verdict
from fedwqcp.report.html.scatter import scatter
from fedwqcp.report.html.words import counted, judge, number

FIRST = ("fedwq-cp", "split-cp")
"""Methods that stand before the others."""


@dataclass(frozen=True)
class Measured:
    """What one method gave one agent.

    Parameters
    ----------
    method, agent, note : str
        Which, and what is special about the agent.
    coverage, low, high : float
        The coverage and its interval.
    interval : str
        The same in words.
    size : float
        Mean size.
    facts : sequence of (str, str)
        What the card shows beside.
    promise : sequence of str
        Rounds, guarantee and, where it is known, assumption of the method.
    """

    method: str
    agent: str
    note: str
    coverage: float
    low: float
    high: float
    interval: str
    size: float
    facts: Sequence[tuple[str, str]]
    promise: Sequence[str]


def in_order(names: set[str]) -> list[str]:
    """Return methods in the order of the page.

    Parameters
    ----------
    names : set of str
        The methods.

    Returns
    -------
    list of str
        FedWQ-CP and SplitCP first.
    """
    return sorted(names, key=lambda name: (name not in FIRST, name))


def agents(found: Sequence[Measured], nominal: float, lead: str) -> Section:
    """Return the agents as cards.

    Parameters
    ----------
    found : sequence of Measured
        Every method and agent.
    nominal : float
        What was asked for.
    lead : str
        What the coverages were measured on.

    Returns
    -------
    Section
        One group of cards for each method.
    """
    lowest: dict[str, float] = {}
    for m in found:
        lowest[m.method] = min(lowest.get(m.method, nominal), m.low)
    groups: dict[str, list[Card]] = {}
    for m in found:
        start = max(0.0, lowest[m.method] - 0.03)
        tone, word = judge(m.low, m.high, nominal)
        groups.setdefault(m.method, []).append(
            Card(
                agent=m.agent,
                note=m.note,
                tone=tone,
                word=word,
                figure=f"{m.coverage:.3f}",
                label="coverage",
                interval=m.interval,
                facts=m.facts,
                bar=Bar(m.low, m.coverage, m.high, nominal, start),
            )
        )
    mark = f"The upright mark is the {nominal:g} that was asked for, the band the interval named."
    return Section("agents", "Agents", f"{lead} {mark}", [Cards(groups)])


def comparison(found: Sequence[Measured], nominal: float, size: str, title: str) -> Section:
    """Return coverage against size, and what each method promises.

    Parameters
    ----------
    found : sequence of Measured
        Every method and agent, methods in the order of the page.
    nominal : float
        What was asked for.
    size : str
        What a size is.
    title : str
        What the data are.

    Returns
    -------
    Section
        A chart and a table, and one of what is proved where that is known.
    """
    rows = [
        {
            "method": m.method,
            "agent": m.agent,
            "coverage": round(m.coverage, 6),
            "low": round(m.low, 6),
            "high": round(m.high, 6),
            "size": round(m.size, 6),
        }
        for m in found
    ]
    methods = list(dict.fromkeys(m.method for m in found))
    chart = scatter(rows, nominal=nominal, size=size, method=methods[0], title=title)
    return Section(
        "methods",
        "Every method",
        "Up is covered more, left is smaller sets. Point at a mark for its numbers; click it to "
        "choose its method and filter its agent. The dashed line is what was asked for, the bars "
        "are the intervals that the cards name.",
        [chart, *_tables(found, methods, size)],
    )


def _tables(found: Sequence[Measured], methods: Sequence[str], size: str) -> list[Table]:
    """Return the methods side by side, and what is proved of them where that is known."""
    lines, ifs = [], []
    for name in methods:
        own = [m for m in found if m.method == name]
        worst = min(own, key=lambda m: m.coverage)
        rounds, proved, *why = own[0].promise
        cells = (
            name,
            f"{fmean(m.coverage for m in own):.3f}",
            f"{worst.coverage:.3f} at {worst.agent}",
            number(fmean(m.size for m in own)),
            rounds,
            proved,
        )
        lines.append(Row(cells))
        ifs += [Row((name, text)) for text in why]
    columns = ("method", "mean coverage", "worst", f"mean {size}", "rounds", "proved")
    tables = [Table("methods", "Methods side by side", columns, lines)]
    if ifs:
        told = "Under what it is proved, or why nothing is"
        tables.append(Table("proved", told, ("method", "assumption"), ifs))
    return tables


def verdict(method: str, found: Sequence[Measured], nominal: float) -> Verdict:
    """Judge a method by the coverages that were measured at its agents.

    Parameters
    ----------
    method : str
        The method.
    found : sequence of Measured
        Its agents.
    nominal : float
        What was asked for.

    Returns
    -------
    Verdict
        Bad where an agent's interval lies below what was asked for.
    """
    worst = min(found, key=lambda m: m.coverage)
    below = [m for m in found if m.high < nominal]
    above = [m for m in found if m.low > nominal]
    if len(found) == 1:
        return _alone(method, worst, nominal)
    of = f"of {counted(len(found), 'agent')}"
    said = (
        f"{method} covers {fmean(m.coverage for m in found):.3f} on average where {nominal:g} was "
        f"asked for; its worst agent, {worst.agent}, reaches {worst.coverage:.3f} "
        f"({worst.interval})"
    )
    if below:
        text = f"{said}, and {len(below)} {of} lie below by more than chance."
        return Verdict("bad", f"Too low at {len(below)} {of}", text)
    if above:
        text = f"{said}; none lies below by more than chance, {len(above)} {of} above."
        return Verdict("caution", f"Wider than needed at {len(above)} {of}", text)
    return Verdict("good", "On target", f"{said}; no agent's interval excludes {nominal:g}.")


def _alone(method: str, m: Measured, nominal: float) -> Verdict:
    """Judge a method by the only coverage that was measured."""
    tone, word = judge(m.low, m.high, nominal)
    said = f"{method} covers {m.coverage:.3f} of {m.agent}'s test points ({m.interval})"
    where = {"bad": "too low for", "caution": "more than", "good": "no sign against"}[tone]
    text = f"{said}: {where} the {nominal:g} that was asked for."
    return Verdict(tone, word[0].upper() + word[1:], text)
