"""A report of a monitor: who is still covered, since when not, and what to do."""

from __future__ import annotations

from pathlib import Path

from fedwqcp.metrics import FEWEST
from fedwqcp.monitor import Standing
from fedwqcp.report.html.blocks import Bar, Card, Cards, Charts, Tone
from fedwqcp.report.html.history import Marks, history
from fedwqcp.report.html.page import Page, Section, Verdict, View
from fedwqcp.report.html.sources import _alarms
from fedwqcp.report.html.sources._watched import (
    Watched,
    holds_log,
    holds_state,
    raised,
    starts,
    steps,
    watched,
    when,
)
from fedwqcp.report.html.wanted import Wanted
from fedwqcp.report.html.words import counted, some

ONLY = "coverage"
"""A monitor has no methods to choose from; this stands for one."""

_TONES: dict[str, tuple[Tone, str]] = {
    "alarm": ("bad", "alarm"),
    "ok": ("good", "no alarm"),
    "no rows": ("plain", "no rows yet"),
}


def known(path: Path) -> bool:
    """Tell whether a file is a monitor's state or log.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bool
        Whether it is.
    """
    return holds_state(path) or holds_log(path)


def read(path: Path, wanted: Wanted) -> Page:
    """Return the page of a monitor.

    Parameters
    ----------
    path : Path
        Its state, with ``STATE.log`` beside it; or a log alone.
    wanted : Wanted
        A monitor keeps counts: nothing of it applies.

    Returns
    -------
    Page
        One view of all agents.

    Raises
    ------
    RecordError
        If a file is damaged or of another version.
    """
    del wanted
    found = watched(path)
    name = path.name.removesuffix(".log")
    about = [_agents(found), _history(found)]
    if found.classes:
        about.append(_alarms.classes(found))
    about.append(_alarms.next_steps(found, name if found.terms else "STATE"))
    return Page(
        kind="fedwqcp monitor",
        title=f"Coverage after release at {counted(len(found.agents), 'agent')}",
        facts=_facts(found),
        views=[
            View(
                title=name,
                methods=[ONLY],
                agents=[each.agent for each in found.agents],
                method=ONLY,
                verdicts={ONLY: verdict(found)},
                sections=about,
            )
        ],
    )


def _facts(found: Watched) -> list[tuple[str, str]]:
    """Return the terms, and how fresh all this is."""
    facts = []
    if (terms := found.terms) is not None:
        facts.append(("Promised", f"coverage {1 - terms.alpha:g} (alpha = {terms.alpha:g})"))
        if terms.tolerance:
            facts.append(("Tolerance", f"{terms.tolerance:.3g}"))
        facts.append(("Any false alarm, ever", f"probability {terms.delta:g} at most"))
    facts.append(("Updates", f"{found.updates:,}"))
    if found.log:
        facts.append(("Latest entry of the log", when(found.log[-1].time)))
    return facts


def verdict(found: Watched) -> Verdict:
    """Say in one sentence whether an alarm stands, for whom, since when, and what to do.

    Parameters
    ----------
    found : Watched
        The monitor.

    Returns
    -------
    Verdict
        Bad while an alarm stands.
    """
    of = counted(len(found.agents), "agent")
    if found.alarms:
        names = list(dict.fromkeys(each.agent for each in found.alarms))
        gravest = max(found.alarms, key=lambda each: each.evidence - each.bar)
        them = "its" if len(names) == 1 else "their"
        text = (
            f"Calibrate {some(names)} again: {_alarms.fallen(gravest, found)}; until then do not "
            f"count on {them} coverage."
        )
        return Verdict("bad", f"Alarm at {len(names)} of {of}", text)
    rows = sum(each.n for each in found.agents)
    told = [each for each in found.agents if each.n >= FEWEST]
    if not told:
        text = f"Nothing can be said yet: {counted(rows, 'row')} from {of}."
        return Verdict("plain", "Too few rows", text)
    worst = min(told, key=lambda each: each.coverage or 0.0)
    few = [each.agent for each in found.agents if each.n < FEWEST]
    lowest = "the coverage" if len(told) == 1 else "the lowest coverage"
    text = (
        f"No alarm at {of} after {counted(rows, 'row')}, and nothing to do: {lowest}, "
        f"{worst.coverage:.3f} at {worst.agent}, has the 95 % sequence {worst.low:.3f} to "
        f"{worst.high:.3f}, and at least {worst.floor:.3f} is to be kept"
        f"{f'; fewer than ten rows came from {some(few)}' if few else ''}."
    )
    return Verdict("good", "No alarm", text)


def _agents(found: Watched) -> Section:
    """Return a card for each agent."""
    shown = [each.low for each in found.agents if each.n >= FEWEST]
    start = max(0.0, min([*(each.floor for each in found.agents), *shown]) - 0.03)
    return Section(
        "agents",
        "Agents",
        "The coverage of all rows since the last calibration, or, under an alarm, of those since "
        "the drop most likely began: an estimate at a place chosen by the data, so without an "
        "interval of its own. The band is the 95 % confidence sequence of all rows: it holds at "
        "all times together, however often one looks. The upright mark is the coverage to be kept.",
        [Cards({ONLY: [_card(each, found, start) for each in found.agents]})],
    )


def _card(each: Standing, found: Watched, start: float) -> Card:
    """Return how one agent stands."""
    tone, word = _TONES[each.status]
    if each.status == "ok" and each.n < FEWEST:
        tone, word = "plain", "too few rows"
    below = [one for one in found.alarms if one.agent == each.agent and one.label is not None]
    if below and each.alarm is None:
        tone, word = "bad", "alarm in a class" if len(below) == 1 else "alarm in classes"
    facts = [("rows", f"{each.n:,}"), ("to be kept", f"{each.floor:.3f}")]
    if each.alarm is not None:
        facts += [
            ("alarm at row", f"{each.alarm:,}"),
            ("drop began at about row", f"{each.before + 1:,}"),
        ]
    facts += [
        ("evidence of a drop", _alarms.evidence(each)),
        ("calibration", f"no. {each.calibration}"),
    ]
    if each.n < FEWEST or each.coverage is None or each.current is None:
        return Card(each.agent, "", tone, word, "?", "fewer than ten rows", "", facts)
    if each.alarm is not None:
        facts.insert(1, ("coverage of all rows", f"{each.coverage:.3f}"))
    since = each.alarm is not None and each.since_n >= FEWEST
    return Card(
        agent=each.agent,
        note="",
        tone=tone,
        word=word,
        figure=f"{each.current if since else each.coverage:.3f}",
        label=f"coverage, last {each.since_n:,} rows" if since else "coverage",
        interval=f"95 % sequence {each.low:.3f} to {each.high:.3f}, all rows",
        facts=facts,
        bar=Bar(each.low, each.coverage, each.high, each.floor, start),
    )


def _history(found: Watched) -> Section:
    """Return every agent's way, one chart for each."""
    ways = {each.agent: steps(found.log, each, len(found.agents)) for each in found.agents}
    shares = [step.coverage for way in ways.values() for step in way]
    lowest = max(0.0, min([*shares, *(each.floor for each in found.agents)]) - 0.05)
    charts = {}
    for each in found.agents:
        if ways[each.agent]:
            marks = _marks(each, found)
            charts[each.agent] = history(each.agent, ways[each.agent], each.floor, marks, lowest)
    few = [agent for agent, way in ways.items() if not way]
    return Section(
        "history",
        "Coverage over rows",
        "Line: the coverage since the last calibration; band: its 95 % sequence, cut off below; "
        "dashed: the coverage to be kept; upright: an alarm; upright and dotted: calibrated "
        "again, and counted anew. Every step holds at least ten rows."
        + ("" if found.log else " There is no log beside the state: only the present is drawn.")
        + (f" {some(few)}: too few rows." if few else ""),
        [Charts(charts)],
    )


def _marks(each: Standing, found: Watched) -> Marks:
    """Return the rows of an agent's alarms and calibrations, counted from the first on."""
    before = starts(found.log, each)
    alarms = {
        one.standing.calibration: one.standing.alarm
        for one in raised(found.log)
        if (one.standing.agent, one.standing.label) == (each.agent, None)
    }
    alarms[each.calibration] = each.alarm
    return Marks(
        [before[at] + row for at, row in sorted(alarms.items()) if row is not None],
        [row for row in before.values() if row],
    )
