"""A report of a monitor: who is still covered, since when not, and what to do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby
from math import ceil, exp
from pathlib import Path
from typing import TypeAlias

from fedwqcp._io import is_file, opened, read
from fedwqcp.errors import InputError
from fedwqcp.metrics import MIN_COUNT
from fedwqcp.monitor import LogEntry, MonitorTerms, Standing, load_monitor, read_log
from fedwqcp.report.html.charts import HistoryStep, history_chart
from fedwqcp.report.html.page import (
    Bar,
    Block,
    Card,
    Cards,
    Charts,
    Page,
    ReportOptions,
    Section,
    Table,
    Text,
    Tone,
    View,
    ViewVerdict,
    counted,
    name_list,
)

StreamKey: TypeAlias = tuple[str, int | None, int]
"""Agent, class and calibration."""


_ONLY = "coverage"
"""A monitor has no methods to choose from; this stands for one."""


LINES = 200
"""Classes in the table, at most: those with most evidence of a drop."""


MOST = 120
"""Steps of an agent that are drawn, at most."""


_ALL = 9_000
"""Steps of all agents, where there are many of them."""


_TONES: dict[str, tuple[Tone, str]] = {
    "alarm": ("bad", "alarm"),
    "ok": ("good", "no alarm"),
    "no rows": ("plain", "no rows yet"),
}


def monitor_page(path: Path, options: ReportOptions) -> Page | None:
    """Return the page of a monitor's state with ``STATE.log`` beside it, or of a log alone.

    None where a file is neither.
    """
    if not (_holds_state(path) or _holds_log(path)):
        return None
    options.refuse_data("a monitor")  # which keeps counts alone
    found = _read_files(path)
    name = path.name.removesuffix(".log")
    about = [_agents(found), _history(found)]
    if found.classes:
        about.append(_classes(found))
    about.append(_next_steps(found, name if found.terms else "STATE"))
    return Page(
        kind="fedwqcp monitor",
        title=f"Coverage after release at {counted(len(found.agents), 'agent')}",
        facts=_facts(found),
        views=[
            View(
                title=name,
                agents=[each.agent for each in found.agents],
                method=_ONLY,
                verdicts={_ONLY: _verdict(found)},
                sections=about,
            )
        ],
    )


def _verdict(found: MonitorFiles) -> ViewVerdict:
    """Say in one sentence whether an alarm stands, for whom, since when, and what to do."""
    of = counted(len(found.agents), "agent")
    if found.alarms:
        names = list(dict.fromkeys(each.agent for each in found.alarms))
        gravest = max(found.alarms, key=lambda each: each.evidence - each.bar)
        them = "its" if len(names) == 1 else "their"
        text = (
            f"Calibrate {name_list(names)} again: {_fallen(gravest, found)}; until then do not "
            f"count on {them} coverage."
        )
        return ViewVerdict("bad", f"Alarm at {len(names)} of {of}", text)
    rows = sum(each.n for each in found.agents)
    enough = [each for each in found.agents if each.n >= MIN_COUNT]
    if not enough:
        text = f"Nothing can be said yet: {counted(rows, 'row')} from {of}."
        return ViewVerdict("plain", "Too few rows", text)
    worst = min(enough, key=lambda each: each.coverage or 0.0)
    few = [each.agent for each in found.agents if each.n < MIN_COUNT]
    lowest = "the coverage" if len(enough) == 1 else "the lowest coverage"
    text = (
        f"No alarm at {of} after {counted(rows, 'row')}, and nothing to do: {lowest}, "
        f"{worst.coverage:.3f} at {worst.agent}, has the 95 % confidence sequence "
        f"{worst.low:.3f} to {worst.high:.3f}, and the required coverage is {worst.floor:.3f}"
        f"{f'; fewer than ten rows came from {name_list(few)}' if few else ''}."
    )
    return ViewVerdict("good", "No alarm", text)


@dataclass(frozen=True)
class MonitorFiles:
    """What the files of a monitor hold; a log alone does not hold the terms."""

    now: tuple[Standing, ...]
    log: tuple[LogEntry, ...]
    terms: MonitorTerms | None
    updates: int

    @property
    def agents(self) -> tuple[Standing, ...]:
        """How the agents stand, all their rows together."""
        return tuple(each for each in self.now if each.label is None)

    @property
    def classes(self) -> tuple[Standing, ...]:
        """How the watched classes stand."""
        return tuple(each for each in self.now if each.label is not None)

    @property
    def alarms(self) -> tuple[Standing, ...]:
        """The streams with an alarm."""
        return tuple(each for each in self.now if each.alarm is not None)

    @cached_property
    def hidden(self) -> frozenset[StreamKey]:
        """The classes whose counts are not shown.

        Those with few rows; where they have fewer than ten together, also the next larger class
        of the agent: what the others leave of its total would tell them.
        """
        rows: Counter[str] = Counter()
        found = set()
        for each in sorted(self.classes, key=lambda one: one.n):
            if each.n < MIN_COUNT or 0 < rows[each.agent] < MIN_COUNT:
                rows[each.agent] += each.n
                found.add(_key(each))
        return frozenset(found)

    @cached_property
    def logged(self) -> dict[StreamKey, tuple[LogEntry, Standing]]:
        """Every alarm of the log, once, as it was first seen."""
        found: dict[StreamKey, tuple[LogEntry, Standing]] = {}
        for entry in self.log:
            for each in entry.streams:
                if each.alarm is not None:
                    found.setdefault(_key(each), (entry, each))
        return found


def _read_files(path: Path) -> MonitorFiles:
    """Read a state with the log beside it, or a log with the state beside it."""
    if _holds_state(path):
        state, log = path, path.with_name(f"{path.name}.log")
    else:
        state, log = path.with_name(path.name.removesuffix(".log")), path
    entries = read_log(log) if is_file(log) else ()
    if state != log and _holds_state(state):
        monitor = load_monitor(state)
        return MonitorFiles(monitor.standings(), entries, monitor.terms, monitor.updates)
    latest = {entry.streams[0].agent: entry.streams for entry in entries}
    now = tuple(each for standings in latest.values() for each in standings)
    return MonitorFiles(now, entries, None, entries[-1].update)


def _holds_state(path: Path) -> bool:
    """Tell a monitor's state from other files."""
    try:
        return is_file(path) and "fedwqcp-monitor" in json.loads(read(path))
    except (InputError, ValueError, TypeError, RecursionError):
        return False


def _holds_log(path: Path) -> bool:
    """Tell a monitor's log from other files."""
    try:
        with opened(path) as file:
            first = json.loads(file.readline(1_000_000))
        return {"version", "update", "streams"} <= set(first)
    except (OSError, ValueError, TypeError, RecursionError):  # InputError is a ValueError
        return False


def _facts(found: MonitorFiles) -> list[tuple[str, str]]:
    """Return the terms, and how fresh all this is."""
    facts = []
    if (terms := found.terms) is not None:
        facts.append(("Promised", f"coverage {1 - terms.alpha:g} (alpha = {terms.alpha:g})"))
        if terms.tolerance:
            facts.append(("Tolerance", f"{terms.tolerance:.3g}"))
        facts.append(("Any false alarm, ever", f"probability {terms.delta:g} at most"))
    facts.append(("Updates", f"{found.updates:,}"))
    if found.log:
        facts.append(("Latest entry of the log", _when(found.log[-1].time)))
    return facts


def _agents(found: MonitorFiles) -> Section:
    lows = [each.low for each in found.agents if each.n >= MIN_COUNT]
    start = max(0.0, min([*(each.floor for each in found.agents), *lows]) - 0.03)
    return Section(
        "agents",
        "Agents",
        "The coverage of all rows since the last calibration, or, under an alarm, of those since "
        "the drop most likely began: an estimate at a place chosen by the data, so without an "
        "interval of its own. The band is the 95 % confidence sequence of all rows: it holds at "
        "all times simultaneously, however often it is checked. The vertical mark is the required "
        "coverage.",
        [Cards({_ONLY: [_card(each, found, start) for each in found.agents]})],
    )


def _card(each: Standing, found: MonitorFiles, start: float) -> Card:
    tone, word = _TONES[each.status]
    if each.status == "ok" and each.n < MIN_COUNT:
        tone, word = "plain", "too few rows"
    below = [one for one in found.alarms if one.agent == each.agent and one.label is not None]
    if below and each.alarm is None:
        tone, word = "bad", "alarm in a class" if len(below) == 1 else "alarm in classes"
    facts = [("rows", f"{each.n:,}"), ("required coverage", f"{each.floor:.3f}")]
    if each.alarm is not None:
        facts += [
            ("alarm at row", f"{each.alarm:,}"),
            ("drop began at about row", f"{each.before + 1:,}"),
        ]
    facts += [
        ("evidence of a drop", _evidence(each, found)),
        ("calibration", f"no. {each.calibration}"),
    ]
    if each.n < MIN_COUNT or each.coverage is None or each.current is None:
        return Card(each.agent, tone, word, "?", "fewer than ten rows", facts)
    if each.alarm is not None:
        facts.insert(1, ("coverage of all rows", f"{each.coverage:.3f}"))
    since = each.alarm is not None and each.since_n >= MIN_COUNT
    return Card(
        agent=each.agent,
        tone=tone,
        word=word,
        figure=f"{each.current if since else each.coverage:.3f}",
        label=f"coverage, last {each.since_n:,} rows" if since else "coverage",
        interval=f"95 % confidence sequence {each.low:.3f} to {each.high:.3f}, all rows",
        facts=facts,
        bar=Bar(each.low, each.coverage, each.high, each.floor, start),
    )


def _history(found: MonitorFiles) -> Section:
    """Return every agent's history, one chart for each."""
    histories = {each.agent: _steps(found.log, each, len(found.agents)) for each in found.agents}
    shares = [step.coverage for steps in histories.values() for step in steps]
    lowest = max(0.0, min([*shares, *(each.floor for each in found.agents)]) - 0.05)
    charts = {
        each.agent: history_chart(each.agent, steps, each.floor, lowest, _marks(each, found))
        for each in found.agents
        if (steps := histories[each.agent])
    }
    few = [agent for agent, steps in histories.items() if not steps]
    return Section(
        "history",
        "Coverage over rows",
        "Line: the coverage since the last calibration; band: its 95 % confidence sequence, cut "
        "off below; dashed: the required coverage; vertical: an alarm; vertical and dotted: "
        "calibrated again, and counted from zero. Every step holds at least ten rows."
        + ("" if found.log else " There is no log beside the state: only the present is drawn.")
        + (f" {name_list(few)}: too few rows." if few else ""),
        [Charts(charts)],
    )


def _marks(each: Standing, found: MonitorFiles) -> tuple[list[int], list[int]]:
    """Return the rows of an agent's alarms and calibrations, counted from the first on."""
    before = _starts(found.log, each)
    alarmed = [at for _, at in found.logged.values() if (at.agent, at.label) == (each.agent, None)]
    alarms = {at.calibration: at.alarm for at in (*alarmed, each)}
    return (
        [before[at] + row for at, row in sorted(alarms.items()) if row is not None],
        [row for row in before.values() if row],
    )


def _classes(found: MonitorFiles) -> Section:
    ranked = sorted(found.classes, key=lambda each: _rank(each, found))
    rows = [_line(each, found) for each in ranked[:LINES]]
    left = len(ranked) - len(rows)
    more = f" {counted(left, 'line')} with less evidence of a drop are left out." if left else ""
    columns = (
        *("agent", "class", "standing", "rows", "coverage", "95 % confidence sequence"),
        *("required coverage", "evidence of a drop"),
    )
    title = "State of each class, most evidence of a drop first"
    return Section(
        "classes",
        "Classes",
        "Each class of each agent has a test of its own. One threshold for all promises coverage "
        "over all classes together; only a calibration by label promises it within each. Counts "
        "of fewer than ten rows are left out, and those of another class where they would follow "
        f"from the total.{more}",
        [Table("classes", title, columns, rows, agents=0)],
    )


def _rank(each: Standing, found: MonitorFiles) -> tuple[bool, bool, float]:
    """Sort alarms first, then most evidence; hidden classes last, as their place would tell."""
    hidden = _key(each) in found.hidden
    return each.alarm is None, hidden, 0.0 if hidden else each.bar - each.evidence


def _line(each: Standing, found: MonitorFiles) -> tuple[str, ...]:
    standing = "ok" if each.alarm is None else f"ALARM at row {each.alarm:,}"
    if _key(each) in found.hidden or each.coverage is None:
        few = "under 10" if each.n else "0"
        counts = (few if each.n < MIN_COUNT else "?", "?", "?")
    else:
        sequence = f"{each.low:.3f} to {each.high:.3f}"
        counts = (f"{each.n:,}", f"{each.coverage:.3f}", sequence)
    kept = f"{each.floor:.3f}"
    return (each.agent, str(each.label), standing, *counts, kept, _evidence(each, found))


def _next_steps(found: MonitorFiles, name: str) -> Section:
    """Return the alarms that stand, what to do, and earlier ones."""
    blocks: list[Block] = []
    for each in sorted(found.alarms, key=lambda one: (one.label is not None, one.agent)):
        said = _fallen(each, found)
        of = "" if each.label is None else f" of class {each.label}"
        word = f"alarm at row {each.alarm:,}{of}"
        blocks.append(Text([f"{said[0].upper()}{said[1:]}."], "bad", word))
    if not blocks:
        caution = (
            "No alarm is no proof: a small drop is found late, and unlabelled rows are not seen."
        )
        blocks.append(Text([caution], "good", "no alarm stands"))
    blocks.append(Text(_advice(found, name), title="What to do next"))
    if found.logged:
        blocks.append(_alarm_table(found))
    return Section("alarms", "Alarms, and what to do next", _lead(found), blocks)


def _lead(found: MonitorFiles) -> str:
    """Say how far an alarm can be trusted."""
    if found.terms is None:
        return "An alarm stays until the agent is calibrated again; a log does not hold that."
    return (
        "As long as every agent has the required coverage, the probability that any alarm is "
        f"ever raised is {found.terms.delta:g} at most, over all rows and checks until agents "
        "are calibrated again. An alarm stays until then."
    )


def _advice(found: MonitorFiles, name: str) -> list[str]:
    """Say what to do, agent by agent."""
    said = []
    for agent in dict.fromkeys(each.agent for each in found.alarms):
        own = [each for each in found.alarms if each.agent == agent]
        row = own[0].before if own[0].label is None else 0  # all rows stand before the classes
        after = f" with data from after row {row:,}" if row else " with recent data"
        said.append(
            f"Calibrate {agent} again{after}, give it the new threshold, and record it in the "
            f"monitor: fedwqcp monitor recalibrated {name} --agent {agent}"
        )
        if own[0].label is not None:
            few = ", ".join(str(each.label) for each in own)
            said.append(
                f"Only classes are affected at {agent} ({few}): a calibration by label gives each "
                "class its own threshold."
            )
    if said:
        said.append("Check what changed about then: a device, the patients, the model.")
        return said
    return ["Go on as before: update the monitor as labels arrive."]


def _alarm_table(found: MonitorFiles) -> Table:
    now = set(map(_key, found.alarms))
    rows = [
        (
            at.agent,
            "all rows" if at.label is None else str(at.label),
            str(at.calibration),
            f"{at.alarm:,}",
            f"{entry.update:,}",
            _when(entry.time),
            "stands" if key in now else "ended by a new calibration",
        )
        for key, (entry, at) in found.logged.items()
    ]
    columns = ("agent", "class", "calibration", "row", "update", "first seen", "now")
    return Table("alarms", "All alarms of the log", columns, rows, agents=0)


def _fallen(each: Standing, found: MonitorFiles) -> str:
    """Say how far a stream has fallen, and since when."""
    logged = found.logged.get(_key(each))
    seen = f"alarm seen {_when(logged[0].time)}" if logged else f"alarm at row {each.alarm:,}"
    row = f"row {each.before + 1:,}{'' if each.label is None else f' of class {each.label}'}"
    since = f"since about {row} the sets of {each.agent}"
    few = each.n < MIN_COUNT or each.since_n < MIN_COUNT or _key(each) in found.hidden
    if few or each.coverage is None:
        return f"{since} have missed too often ({seen}); the required coverage is {each.floor:.3f}"
    return (
        f"{since} cover about {each.current:.3f} ({each.since_n:,} rows; {seen}) where the "
        f"required coverage is {each.floor:.3f}, and {each.coverage:.3f} over all {each.n:,} rows "
        f"(95 % confidence sequence {each.low:.3f} to {each.high:.3f})"
    )


def _evidence(each: Standing, found: MonitorFiles) -> str:
    """Say how much evidence of a drop there is, and how much raises the alarm."""
    bar = f"{exp(each.bar):,.4g}"
    if each.alarm is not None:
        return f"{bar} reached"
    few = each.n < MIN_COUNT or _key(each) in found.hidden
    return f"? of {bar}" if few else f"{exp(each.evidence):,.3g} of {bar}"


def _steps(log: Sequence[LogEntry], now: Standing, agents: int) -> list[HistoryStep]:
    """Return an agent's history in steps of at least ten rows: no single row can be read off."""
    seen = [(e.update, e.time, e.streams[0]) for e in log if e.streams[0].agent == now.agent]
    if not seen or seen[-1][2].n != now.n or seen[-1][2].calibration != now.calibration:
        seen.append((log[-1].update if log else 0, "now", now))
    rows = _starts(log, now)
    most = min(MOST, max(12, _ALL // agents))
    least = max(MIN_COUNT, ceil((rows[now.calibration] + now.n) / most))
    found: list[HistoryStep] = []
    for calibration, own in groupby(seen, key=lambda one: one[2].calibration):
        kept: list[HistoryStep] = []
        for update, time, at in reversed(list(own)):
            enough = not kept or kept[-1].rows - at.n >= least
            if at.n >= MIN_COUNT and enough and at.coverage is not None:
                row = rows[calibration] + at.n
                counts = (calibration, row, at.n, at.hits)
                kept.append(HistoryStep(update, _when(time), *counts, at.coverage, at.low, at.high))
        found += reversed(kept)
    return found


def _starts(log: Sequence[LogEntry], now: Standing) -> dict[int, int]:
    """Return how many rows of an agent came before each of its calibrations."""
    own = [e.streams[0] for e in log if e.streams[0].agent == now.agent] + [now]
    most: dict[int, int] = {}
    for at in own:
        most[at.calibration] = max(most.get(at.calibration, 0), at.n)
    found, before = {}, 0
    for calibration in sorted(most):
        found[calibration] = before
        before += most[calibration]
    return found


def _key(each: Standing) -> StreamKey:
    """Return what tells one alarm from another: a stream has one for each calibration."""
    return each.agent, each.label, each.calibration


def _when(time: str) -> str:
    """Write a date and time in short; any other text stays as it is."""
    try:
        return f"{datetime.fromisoformat(time):%Y-%m-%d %H:%M %Z}".strip()
    except ValueError:
        return time
