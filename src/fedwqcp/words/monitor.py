"""A monitor as text: how agents stand, since when coverage has fallen, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from fedwqcp._validation import named
from fedwqcp.words import counted, sentence

ALARMS = "No alarm is no proof: a small drop is found late, and only labels show coverage."
AGENTS = (
    "The limit is the promised coverage less a tolerance for chance in the calibration. Alarm: the "
    "rows prove that coverage has fallen below it. Watch: a whole 95 % interval (all rows, the "
    "last batch or the last four) lies below it, maybe by chance; it ends when none does. Too few: "
    "even without a miss these rows could not show that coverage holds. Intervals of all rows hold "
    "at every look. Inputs are tested without labels and say nothing of coverage."
)
HISTORY = (
    "The mark is the limit, the band the interval of the batch alone; the state after it is that "
    "of all rows since the calibration. Batches of fewer than ten rows are merged with the next."
)

_STATE, _AGENT = attrgetter("state"), attrgetter("agent")


def parts(kind: str, by: str, left: int) -> str:
    """Say how the table of classes or groups is read, and how many lines are left out."""
    text = (
        f"Each {kind} has a test of its own. Only a calibration by {by} promises coverage within "
        f"each. Counts under ten are left out, and those of another {kind} that would tell them."
    )
    return text + (f" {counted(left, 'line')} with less evidence are left out." if left else "")


def limits(agents: Sequence[Any], promised: float) -> str:
    """Say below what coverage agents alarm, and where chance in the calibration may do it."""
    lowest, highest = (of(one.floor for one in agents) for of in (min, max))
    to = f" to {highest:.3f}" if highest > lowest else ""
    text = (
        f"an alarm comes once the rows prove that coverage is below {lowest:.3f}{to}; a single bad "
        "week may not"
    )
    exact = [one.agent for one in agents if one.floor >= promised]
    return text + (
        f"; no tolerance for chance in the calibration of {named(exact)}: --calibrated-on adds one"
        if exact
        else ""
    )


def state(streams: Sequence[Any], batch: str) -> str:
    """Say in a few words how an agent stands; the first stream is all its rows."""
    whole, states = streams[0], {one.state for one in streams}
    coverage = f"coverage {'ALARM' if 'alarm' in states else whole.state}" if whole.n else ""
    inputs = {"ok": "inputs ok", "alarm": "INPUTS CHANGED"}.get(whole.inputs, "")
    return f"{whole.agent}, {batch}: {'; '.join(filter(None, (coverage, inputs)))}"


def part_states(parts: Sequence[Any]) -> str:
    """Say which classes or groups of an agent do not stand well; nothing where all do."""
    by_state = groupby(sorted(parts, key=_STATE), _STATE)
    states = [(state, ", ".join(one.name for one in of)) for state, of in by_state]
    kind = "groups" if parts and isinstance(parts[0].label, str) else "classes"
    bad = "; ".join(f"{names} in state {state}" for state, names in states if state != "ok")
    return bad and f"{kind}: {bad}"


def coverage(whole: Any, batch: Mapping[str, str]) -> str:
    """Say what the coverage of a batch was, where that is shown, of the last four and of all."""
    own = f"{batch['coverage']} over {batch['rows']} rows ({batch['95 % interval']}); "
    return (
        f"coverage {own if batch['coverage'] != '?' else ''}all {whole.n:,} rows "
        f"{whole.coverage:.3f} (at every look {whole.low:.3f} to {whole.high:.3f}), last 4 "
        f"batches {whole.recent:.3f}; limit {whole.floor:.3f}"
    )


def unproved(whole: Any) -> str:
    """Say that coverage lies below the limit, where nothing else does."""
    if whole.state != "ok" or whole.coverage >= whole.floor:
        return ""
    return (
        f"{whole.coverage:.3f} at {whole.agent} is below the limit of {whole.floor:.3f}, but "
        f"{whole.n:,} rows do not prove it: look again next week"
    )


def fallen(one: Any, *, rows: bool) -> str:
    """Say how far the coverage of an agent or class has fallen, and since when."""
    kind = "group" if isinstance(one.label, str) else "class"
    where = one.agent if one.label is None else f"{one.agent}, {kind} {one.name}"
    now = f" and is {one.current:.3f} over the last {one.since_n:,} rows" if rows else ""
    return f"{where}: coverage fell about {one.since}{now}; the limit is {one.floor:.3f}"


def inputs_changed(whole: Any) -> str:
    """Say since when the inputs of an agent have changed, and what to do."""
    return (
        f"{whole.agent}: inputs have changed since about {whole.inputs_since}; label a few dozen "
        "of the latest rows to learn the coverage"
    )


def recalibrate(agent: str, file: str) -> str:
    """Say what to do about an agent with an alarm."""
    return (
        f"do not rely on the sets of {agent}: calibrate again on rows labelled since, then "
        f"`fedwqcp monitor recalibrated {file} --predictor NEW`"
    )


def next_steps(standings: Sequence[Any], file: str) -> list[str]:
    """Say what to do about all agents."""
    alarms = [one for one in standings if one.state == "alarm"]
    steps = [recalibrate(agent, file) for agent in dict.fromkeys(map(_AGENT, alarms))]
    by_agent = groupby((one for one in alarms if one.label is not None), _AGENT)
    if dropped := "; ".join(f"{a}: {named(one.name for one in of)}" for a, of in by_agent):
        steps.append(f"most has dropped: {dropped}; those without an alarm may have dropped too")
    if alarms:
        steps.append("check what changed about then: a device, the patients, the model")
    changed = [one for one in standings if one.label is None and one.inputs == "alarm"]
    steps += [inputs_changed(one) for one in changed]
    if watched := dict.fromkeys(one.agent for one in standings if one.state == "watch"):
        steps.append(f"label more rows of {named(watched)} before you rely on the sets there")
    steps += filter(None, (unproved(one) for one in standings if one.label is None))
    steps = steps or ["go on as before: update the monitor as labels arrive"]
    return [sentence(step, [one.agent for one in changed]) for step in steps]


def verdict(standings: Sequence[Any], fallen: Sequence[str]) -> tuple[str, str, str]:
    """Return the gravest state, and say where it is; ``fallen`` tells the alarms."""
    agents = [one for one in standings if one.label is None]
    alarmed = {one.agent for one in standings if one.state == "alarm"}
    watched = dict.fromkeys(one.agent for one in standings if one.state == "watch")
    of, changed = counted(len(agents), "agent"), [one for one in agents if one.inputs == "alarm"]
    if alarmed:
        return "alarm", f"Alarm at {len(alarmed)} of {of}", fallen[0]
    if changed:
        text = sentence(inputs_changed(changed[0]), [changed[0].agent])
        return "watch", f"Inputs changed at {len(changed)} of {of}", text
    if watched:
        text = f"At {named(watched)} a whole 95 % interval lies below the limit. No alarm yet."
        return "watch", f"Watch {len(watched)} of {of}", text
    known, rows = [one for one in agents if one.state == "ok"], sum(one.n for one in agents)
    seen = f"{counted(rows, 'row')} from {of}"
    if not known:
        return "too few", "Too few rows", f"Nothing can be said yet: {seen}."
    if below := next(filter(None, map(unproved, known)), ""):
        return "ok", "No alarm", f"No alarm after {seen}. {below}."
    worst = min(known, key=lambda one: one.coverage)
    text = f"No alarm after {seen}. The lowest coverage is {worst.coverage:.3f} at {worst.agent}"
    return "ok", "No alarm", f"{text}; the limit is {worst.floor:.3f}."
