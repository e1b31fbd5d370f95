"""A report of a monitor: who is still covered, since when not, and what to do."""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

from fedwqcp._io import is_file, read
from fedwqcp._validation import named
from fedwqcp.errors import InputError
from fedwqcp.metrics import MIN_COUNT
from fedwqcp.monitor import Monitor, Standing, load_monitor
from fedwqcp.monitor.tables import gravest, hidden_classes, merged_steps, standing_row
from fedwqcp.report.html.page import (
    Bar,
    Page,
    Section,
    Table,
    Text,
    Tone,
    View,
    ViewVerdict,
    section,
)
from fedwqcp.words import monitor as words
from fedwqcp.words import sentence

LINES = 50
"""Classes in the table, at most: the gravest."""


STEPS = 60
"""Batches of an agent that are listed, at most."""


_TONES: dict[str, Tone] = {"alarm": "bad", "watch": "caution", "too few": "plain", "ok": "good"}


def monitor_page(path: Path, title: str = "") -> Page:
    """Return the page of a monitor's state."""
    monitor = load_monitor(path)
    terms, standings = monitor.terms, monitor.standings()
    agents = gravest(one for one in standings if one.label is None)
    hidden = hidden_classes(standings)
    alarms = gravest((one for one in standings if one.state == "alarm"), hidden)
    shown = [min(one.n, one.since_n) >= MIN_COUNT and one not in hidden for one in alarms]
    fallen = [
        sentence(words.fallen(a, rows=r), [a.agent]) for a, r in zip(alarms, shown, strict=True)
    ]
    blocks = [Text([text], "bad", "alarm") for text in fallen[1:]]  # the verdict has said the first
    blocks.append(Text(words.next_steps(standings, path.name), title="Next steps"))
    sections = [
        section("next", blocks, words.ALARMS),
        section("standings", [_table("agents", _ALL, agents)], words.AGENTS),
        _history(agents, monitor),
    ]
    state, *verdict = words.verdict(standings, fallen)
    if classes := gravest((one for one in standings if one.label is not None), hidden):
        sections.append(_classes(classes, hidden))
    facts = [
        ("Promised", f"coverage {1 - terms.alpha:g} (alpha = {terms.alpha:g})"),
        ("Any false alarm until the next calibration", f"probability {terms.delta:g} at most"),
    ]
    view = View(path.name, terms.agents, ViewVerdict(_TONES[state], *verdict), sections)
    title = title or f"Coverage after release at {named(terms.agents, 3)}"
    return Page(kind="fedwqcp monitor", title=title, facts=facts, views=[view])


def holds_state(path: Path) -> bool:
    """Tell a monitor's state from other files."""
    try:
        return is_file(path) and "fedwqcp-monitor" in json.loads(read(path))
    except (InputError, ValueError, TypeError, RecursionError):
        return False


_ALL = "All rows since the last calibration"


def _table(
    name: str, caption: str, standings: Sequence[Standing], hidden: Container[Standing] = ()
) -> Table:
    """Return a table of standings, with the state and coverage of each in its colour."""
    rows = [standing_row(one, hidden=one in hidden) for one in standings]
    table = Table(name, caption, [*rows[0]], [[*row.values()] for row in rows], agents=0)
    return table.toned([_TONES[one.state] for one in standings], "state", "coverage").filled()


def _history(agents: Sequence[Standing], monitor: Monitor) -> Section:
    """Return every agent's latest batches, a line for each."""
    columns = ("agent", "batch", "rows", "coverage", "exact 95 % interval", "state after")
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
    table = Table("history", "", columns, rows, 0, bars=bars).toned(tones, "state after")
    return section("history", [table], words.HISTORY)


def _classes(classes: Sequence[Standing], hidden: Container[Standing]) -> Section:
    kind, by = ("group", "group") if isinstance(classes[0].label, str) else ("class", "label")
    lead = words.parts(kind, by, len(classes[LINES:]))
    table = _table("classes", "The gravest first", classes[:LINES], hidden)
    return section("groups" if by == kind else "classes", [table], lead)
