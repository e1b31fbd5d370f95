"""A monitor's classes and alarms as sections: how they stand, and what to do next."""

from __future__ import annotations

from math import exp

from fedwqcp.metrics import FEWEST
from fedwqcp.monitor import Standing
from fedwqcp.report.html.blocks import Block, Row, Table, Text
from fedwqcp.report.html.page import Section
from fedwqcp.report.html.sources._watched import Watched, raised
from fedwqcp.report.html.words import counted

LINES = 200
"""Classes that are told, at most: those with most evidence of a drop."""


def fallen(each: Standing, found: Watched) -> str:
    """Say how far a stream has fallen, and since when."""
    told = [
        one
        for one in raised(found.log)
        if (one.standing.agent, one.standing.label, one.standing.calibration)
        == (each.agent, each.label, each.calibration)
    ]
    seen = f"alarm seen {told[0].time}" if told else f"alarm at row {each.alarm:,}"
    row = f"row {each.before + 1:,}{'' if each.label is None else f' of class {each.label}'}"
    since = f"since about {row} the sets of {each.agent}"
    if each.n < FEWEST or each.since_n < FEWEST or each.coverage is None:
        return f"{since} have missed too often ({seen}), and {each.floor:.3f} is to be kept"
    return (
        f"{since} cover about {each.current:.3f} ({each.since_n:,} rows; {seen}) where at least "
        f"{each.floor:.3f} is to be kept, and {each.coverage:.3f} over all {each.n:,} rows "
        f"(95 % sequence {each.low:.3f} to {each.high:.3f})"
    )


def evidence(each: Standing) -> str:
    """Say how much evidence of a drop there is, and how much raises the alarm."""
    bar = f"{exp(each.bar):,.4g}"
    if each.alarm is not None:
        return f"{bar} reached"
    return f"{exp(each.evidence):,.3g} of {bar}" if each.n >= FEWEST else f"? of {bar}"


def classes(found: Watched) -> Section:
    """Return how the watched classes stand, the worst first."""
    ranked = sorted(found.classes, key=_rank)
    rows = [Row(_line(each), each.agent) for each in ranked[:LINES]]
    left = len(ranked) - len(rows)
    more = f" {counted(left, 'line')} with less evidence of a drop are left out." if left else ""
    columns = (
        "agent",
        "class",
        "standing",
        "rows",
        "coverage",
        "95 % sequence",
        "to be kept",
        "evidence of a drop",
    )
    return Section(
        "classes",
        "Classes",
        "Each class of each agent has a test of its own. One threshold for all promises coverage "
        "over all classes together; only a calibration by label promises it within each. Counts "
        f"of fewer than ten rows are not told.{more}",
        [Table("classes", "Standing of each class, most evidence of a drop first", columns, rows)],
    )


def _rank(each: Standing) -> tuple[bool, bool, float]:
    """Put alarms first, then what has most evidence; what is not told says nothing by its place."""
    few = each.n < FEWEST
    return each.alarm is None, few, 0.0 if few else each.bar - each.evidence


def _line(each: Standing) -> tuple[str, ...]:
    """Return the cells of one class."""
    standing = "ok" if each.alarm is None else f"ALARM at row {each.alarm:,}"
    if each.n < FEWEST or each.coverage is None:
        few = "under 10" if each.n else "0"
        return (
            each.agent,
            str(each.label),
            standing,
            few,
            "?",
            "?",
            f"{each.floor:.3f}",
            evidence(each),
        )
    return (
        each.agent,
        str(each.label),
        standing,
        f"{each.n:,}",
        f"{each.coverage:.3f}",
        f"{each.low:.3f} to {each.high:.3f}",
        f"{each.floor:.3f}",
        evidence(each),
    )


def next_steps(found: Watched, name: str) -> Section:
    """Return the alarms that stand, what to do, and those of before."""
    blocks: list[Block] = []
    for each in sorted(found.alarms, key=lambda one: (one.label is not None, one.agent)):
        said = fallen(each, found)
        of = "" if each.label is None else f" of class {each.label}"
        word = f"alarm at row {each.alarm:,}{of}"
        blocks.append(Text([f"{said[0].upper()}{said[1:]}."], "bad", word))
    if not blocks:
        caution = (
            "No alarm is no proof: a small drop is found late, and unlabelled rows are not seen."
        )
        blocks.append(Text([caution], "good", "no alarm stands"))
    blocks.append(Text(_advice(found, name), title="What to do next"))
    before = raised(found.log)
    if before:
        blocks.append(_told(found))
    return Section("alarms", "Alarms, and what to do next", _lead(found), blocks)


def _lead(found: Watched) -> str:
    """Say how far an alarm can be trusted."""
    if found.terms is None:
        return "An alarm stands until the agent is calibrated again; a log does not hold that."
    return (
        "As long as every agent gets the coverage to be kept, the probability that any alarm is "
        f"ever raised is {found.terms.delta:g} at most, over all rows and looks until agents are "
        "calibrated again. An alarm stands until then."
    )


def _advice(found: Watched, name: str) -> list[str]:
    """Say what to do, agent by agent."""
    said = []
    for agent in dict.fromkeys(each.agent for each in found.alarms):
        own = [each for each in found.alarms if each.agent == agent]
        row = max(each.before for each in own if each.label is None) if own[0].label is None else 0
        after = f" with data from after row {row:,}" if row else " with recent data"
        said.append(
            f"Calibrate {agent} again{after}, give it the new threshold, and tell the monitor: "
            f"fedwqcp monitor recalibrated {name} --agent {agent}"
        )
        if own[0].label is not None:
            few = ", ".join(str(each.label) for each in own)
            said.append(
                f"Only classes are affected at {agent} ({few}): a calibration by label gives each "
                "class its own threshold."
            )
    if said:
        said.append("Look for what changed about then: a device, the patients, the model.")
        return said
    return ["Go on as before: update the monitor as labels arrive."]


def _told(found: Watched) -> Table:
    """Return all alarms of the log."""
    now = {(each.agent, each.label, each.calibration) for each in found.alarms}
    rows = []
    for one in raised(found.log):
        at = one.standing
        stands = (at.agent, at.label, at.calibration) in now
        cells = (
            at.agent,
            "all rows" if at.label is None else str(at.label),
            str(at.calibration),
            f"{at.alarm:,}",
            f"{one.update:,}",
            one.time,
            "stands" if stands else "ended by a new calibration",
        )
        rows.append(Row(cells, at.agent))
    columns = ("agent", "class", "calibration", "row", "update", "first seen", "now")
    return Table("alarms", "All alarms of the log", columns, rows)
