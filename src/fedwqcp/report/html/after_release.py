"""A report of a monitor: who is still covered, since when not, and what to do."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from fedwqcp._io import is_file, read
from fedwqcp.errors import InputError
from fedwqcp.metrics import MIN_COUNT
from fedwqcp.monitor import Monitor, Standing, load_monitor
from fedwqcp.monitor.tables import gravest, hidden_classes, merged_steps, standing_row
from fedwqcp.report.html.page import (
    Bar,
    Block,
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
    sentence,
)
from fedwqcp.words import coverage as words

_ONLY = "coverage"
"""A monitor has no methods to choose from; this stands for one."""


LINES = 50
"""Classes in the table, at most: the gravest."""


STEPS = 60
"""Batches of an agent that are listed, at most."""


_TONES: dict[str, Tone] = {"alarm": "bad", "watch": "caution", "too few": "plain", "ok": "good"}


def monitor_page(path: Path, options: ReportOptions) -> Page | None:
    """Return the page of a monitor's state; None where a file is none."""
    if not _holds_state(path):
        return None
    options.refuse_data("a monitor")  # which keeps counts alone
    monitor = load_monitor(path)
    terms, standings = monitor.terms, monitor.standings()
    agents = gravest(one for one in standings if one.label is None)
    hidden = hidden_classes(standings)
    steps = _next_steps(standings, hidden, path.name)
    sections = [steps, _agents(agents, monitor), _history(agents, monitor)]
    if classes := gravest((one for one in standings if one.label is not None), hidden):
        sections.append(_classes(classes, hidden, monitor))
    facts = [("Promised", f"coverage {1 - terms.alpha:g} (alpha = {terms.alpha:g})")]
    facts += [
        ("Any false alarm until the next calibration", f"probability {terms.delta:g} at most")
    ]
    view = View(
        title=path.name,
        agents=terms.agents,
        method=_ONLY,
        verdicts={_ONLY: _verdict(agents, standings, hidden)},
        sections=sections,
    )
    title = options.title or f"Coverage after release at {counted(len(agents), 'agent')}"
    return Page(kind="fedwqcp monitor", title=title, facts=facts, views=[view])


def _holds_state(path: Path) -> bool:
    """Tell a monitor's state from other files."""
    try:
        return is_file(path) and "fedwqcp-monitor" in json.loads(read(path))
    except (InputError, ValueError, TypeError, RecursionError):
        return False


def _verdict(
    agents: Sequence[Standing], standings: Sequence[Standing], hidden: Container[Standing]
) -> ViewVerdict:
    """Say in a sentence or two where coverage holds."""
    of = counted(len(agents), "agent")
    alarms = gravest([one for one in standings if one.state == "alarm"], hidden)
    changed = [one.agent for one in agents if one.inputs == "alarm"]
    watch = dict.fromkeys(one.agent for one in standings if one.state == "watch")
    if alarms:
        alarmed = {one.agent for one in alarms}
        text = _fallen(alarms[0], hidden)
        return ViewVerdict("bad", f"Alarm at {len(alarmed)} of {of}", text)
    if changed:
        text = f"At {name_list(changed)}; coverage there is not known until labels come."
        return ViewVerdict("caution", f"Inputs changed at {len(changed)} of {of}", text)
    if watch:
        text = f"At {name_list(watch)} a whole 95 % interval lies below the limit. No alarm yet."
        return ViewVerdict("caution", f"Watch {len(watch)} of {of}", text)
    known = [one for one in agents if one.state == "ok"]
    rows = counted(sum(one.n for one in agents), "row")
    if not known:
        return ViewVerdict("plain", "Too few rows", f"Nothing can be said yet: {rows} from {of}.")
    worst = min(known, key=lambda one: one.coverage or 0.0)
    text = (
        f"No alarm after {rows} from {of}. The lowest coverage is {worst.coverage:.3f} at "
        f"{worst.agent}; the limit is {worst.floor:.3f}."
    )
    return ViewVerdict("good", "No alarm", text)


def _agents(agents: Sequence[Standing], monitor: Monitor) -> Section:
    lead = (
        "The limit is the promised coverage less a tolerance for chance in the calibration. Alarm: "
        "coverage has fallen below it. Watch: a whole 95 % interval lies below it, of all rows, "
        "the last batch or the last four; that may still be chance. Too few: even without a miss "
        "so few rows could not show that coverage holds. Inputs are tested without labels and say "
        "nothing of coverage."
    )
    table = _table(
        "agents",
        "All rows since the last calibration; intervals hold at every look",
        agents,
        monitor,
    )
    return Section("agents", "Agents", lead, [table])


def _table(
    name: str,
    caption: str,
    standings: Sequence[Standing],
    monitor: Monitor,
    hidden: Container[Standing] = (),
) -> Table:
    """Return a table of standings, with the state and coverage of each in its colour."""
    rows = [
        standing_row(one, monitor.sites[one.agent].batches, hidden=one in hidden)
        for one in standings
    ]
    table = Table(name, caption, [*rows[0]], [[*row.values()] for row in rows], agents=0)
    return table.toned([_TONES[one.state] for one in standings], "state", "coverage").filled()


def _history(agents: Sequence[Standing], monitor: Monitor) -> Section:
    """Return every agent's latest batches, a line for each."""
    columns = ("agent", "batch", "rows", "coverage", "exact 95 % interval", "state")
    rows: list[tuple[str, ...]] = []
    bars: list[Bar] = []
    tones: list[Tone] = []
    for one in agents:
        for name, rate, state in list(merged_steps(monitor.sites[one.agent].batches))[-STEPS:]:
            ends = f"{rate.low:.3f} to {rate.high:.3f}"
            rows.append((one.agent, name, f"{rate.n:,}", f"{rate.coverage:.3f}", ends, state))
            bars.append(Bar(rate.low, rate.coverage, rate.high, one.floor, 0.0))
            tones.append(_TONES.get(state, "plain"))
    start = max(0.0, min([1.0, *(min(b.value, b.nominal) for b in bars)]) - 0.1)
    bars = [replace(bar, start=start) for bar in bars]
    lead = (
        "The vertical mark is the limit, the band the interval. The state is that of all rows "
        "since the calibration. Batches of fewer than ten rows are merged with the next."
    )
    table = Table("history", "", columns, rows, 0, bars=bars).toned(tones, "state")
    return Section("history", "Coverage by batch", lead, [table])


def _classes(classes: Sequence[Standing], hidden: Container[Standing], monitor: Monitor) -> Section:
    one_of, by = ("group", "group") if isinstance(classes[0].label, str) else ("class", "label")
    lead = (
        f"Each {one_of} has a test of its own. Only a calibration by {by} promises coverage within "
        f"each {one_of}. Counts of fewer than ten rows are left out, and those of another {one_of} "
        "where they would follow from the total."
    )
    if left := len(classes[LINES:]):
        lead += f" {counted(left, 'line')} with less evidence are left out."
    table = _table("classes", "The gravest first", classes[:LINES], monitor, hidden)
    return Section("classes", "Groups" if by == one_of else "Classes", lead, [table])


def _next_steps(standings: Sequence[Standing], hidden: Container[Standing], name: str) -> Section:
    """Return the alarms that stand, and what to do."""
    alarms = [one for one in standings if one.state == "alarm"]
    blocks: list[Block] = [Text([_fallen(one, hidden)], "bad", "alarm") for one in alarms]
    advice = [
        f"Do not rely on the sets of {agent} now. Calibrate it again on rows labelled after the "
        f"change, give it the new threshold, and record it: fedwqcp monitor recalibrated {name} "
        f"--agent {agent} --calibrated-on N"
        for agent in dict.fromkeys(one.agent for one in alarms)
    ]
    parts = groupby((one for one in alarms if one.label is not None), lambda one: one.agent)
    if only := "; ".join(f"{agent}: {name_list(p.name for p in own)}" for agent, own in parts):
        advice.append(f"Where single classes or groups dropped ({only}), calibrate by these.")
    if alarms:
        advice.append("Check what changed about then: a device, the patients, the model.")
    if any(one.inputs == "alarm" for one in standings):
        advice.append("Inputs changed: label a few dozen of the latest rows to learn the coverage.")
    if any(one.state == "watch" for one in standings):
        advice.append("Watch: label more rows of these agents or classes before you rely on them.")
    advice = advice or ["Go on as before: update the monitor as labels arrive."]
    blocks.append(Text(advice, title="Next steps"))
    lead = "No alarm is no proof: a small drop is found late, and rows without labels are not seen."
    return Section("alarms", "What to do next", lead, blocks)


def _fallen(one: Standing, hidden: Container[Standing]) -> str:
    counted = min(one.n, one.since_n) >= MIN_COUNT and one not in hidden
    return sentence(words.fallen(one, counted=counted), [one.agent])
