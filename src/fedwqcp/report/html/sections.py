"""Sections that several pages share: coverage, scores, messages, diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from fedwqcp._validation import named
from fedwqcp.metrics import Rate
from fedwqcp.report.html.charts import coverage_chart
from fedwqcp.report.html.page import (
    Bar,
    Block,
    Card,
    Cards,
    Section,
    Table,
    Text,
    Tone,
    ViewVerdict,
    against_nominal,
    counted,
    interval,
    name_list,
    number,
    sentence,
    verdict_rule,
)
from fedwqcp.theory.diagnosis import VERDICTS, Diagnosis


@dataclass(frozen=True)
class AgentCoverage:
    """What one method gave one agent: coverage with its interval (also in words) and mean size.

    ``facts`` stand on the agent's card, beside a ``note``; ``rounds``, ``guarantee`` and, where it
    is known, ``assumption`` are the method's; ``infinite`` is whether a threshold excludes nothing.
    Chance of the calibration points explains a coverage of at least ``explained``: none, where the
    interval counts it already.
    """

    method: str
    agent: str
    coverage: float
    low: float
    high: float
    interval: str
    size: float
    facts: Sequence[tuple[str, str]]
    rounds: int
    guarantee: str
    assumption: str = ""
    infinite: bool = False
    note: str = ""
    explained: float = 1.0

    def judged(self, nominal: float) -> tuple[Tone, str]:
        """Return the tone and the word of `against_nominal`."""
        return against_nominal(self.low, self.coverage, self.high, nominal, self.explained)


_TONES: dict[str, Tone] = {"unsafe": "bad", "unknown": "caution", "safe": "good"}


_INFINITE = {
    "label": "A threshold is +inf: there the label is in every set",
    "group": "A threshold is +inf: there the group's sets hold everything",
}


_GRAVITY: tuple[Tone, ...] = ("good", "plain", "caution", "bad")

LINES = 50
"""Findings of a round by label or group, at most: the gravest."""


def coverage_verdict(method: str, found: Sequence[AgentCoverage], nominal: float) -> ViewVerdict:
    """Judge a method by the coverages that were measured at its agents."""
    worst = min(found, key=lambda m: m.coverage)

    def _those(word: str) -> list[AgentCoverage]:
        return [m for m in found if m.judged(nominal)[1] == word]

    low, watch, above = _those("too low"), _those("watch"), _those("above nominal")
    if len(found) == 1:
        return _alone(method, worst, nominal)
    of = f"of {counted(len(found), 'agent')}"
    said = (
        f"{method} covers {fmean(m.coverage for m in found):.3f} on average where {nominal:g} was "
        f"asked for; its worst agent, {worst.agent}, reaches {worst.coverage:.3f} "
        f"({worst.interval})"
    )
    if low or watch:
        words = [
            f"{word} at {len(own)}" for word, own in (("too low", low), ("watch", watch)) if own
        ]
        word = f"{', '.join(words)} {of}"
        where = name_list(m.agent for m in (*low, *watch))
        text = f"{said}. The whole interval lies below at {where}."
        return ViewVerdict("bad" if low else "caution", word[0].upper() + word[1:], text)
    if above:
        said += f". No interval lies below; it lies above at {len(above)} {of}"
        text = f"{said}: {_why_above(above)}."
        return ViewVerdict("plain", f"Above nominal at {len(above)} {of}", text)
    text = f"{said}; no agent's interval excludes {nominal:g}."
    if unsure := _those("too few cases to tell"):
        return ViewVerdict("plain", f"Too few cases to tell at {len(unsure)} {of}", text)
    return ViewVerdict("good", "On target", text)


def parts_verdict(
    verdict: ViewVerdict, by: str, parts: Sequence[tuple[str, Rate, float]], nominal: float
) -> ViewVerdict:
    """Judge also each label or group, in a round with a threshold for each of them.

    ``parts`` are name, coverage, and the least that chance of the calibration points explains.
    """
    judged = [
        (name, rate, *against_nominal(rate.low, rate.coverage, rate.high, nominal, least))
        for name, rate, least in parts
    ]
    for tone in reversed(_GRAVITY[1:]):
        own = [(name, rate, word) for name, rate, its, word in judged if its == tone]
        own = [one for one in own if one[2] != "above nominal"]
        if own and _GRAVITY.index(tone) > _GRAVITY.index(verdict.tone):
            word = f"{own[0][2]} in {len(own)} of {counted(len(parts), by)}"
            names = name_list(
                f"{name} ({rate.coverage:.3f}, {interval(rate)})" for name, rate, _ in own
            )
            text = f"{verdict.text} Each {by} has its own threshold; {own[0][2]}: {names}."
            return ViewVerdict(tone, word[0].upper() + word[1:], text)
    return verdict


def coverage_cards(found: Sequence[AgentCoverage], nominal: float, lead: str) -> Section:
    """Return the agents as cards."""
    lowest: dict[str, float] = {}
    for m in found:
        lowest[m.method] = min(lowest.get(m.method, nominal), m.low)
    groups: dict[str, list[Card]] = {}
    for m in found:
        start = max(0.0, lowest[m.method] - 0.03)
        tone, word = m.judged(nominal)
        groups.setdefault(m.method, []).append(
            Card(
                agent=m.agent,
                tone=tone,
                word=word,
                figure=f"{m.coverage:.3f}",
                label="coverage",
                facts=m.facts,
                interval=m.interval,
                bar=Bar(m.low, m.coverage, m.high, nominal, start),
                note=m.note,
            )
        )
    mark = f"The vertical mark is the {nominal:g} that was asked for, the band the interval named."
    said = f"{lead} {mark} {verdict_rule(nominal)}"
    return Section("agents", "Agents", said, [Cards(groups)])


def coverage_comparison(
    found: Sequence[AgentCoverage], nominal: float, size: str, title: str
) -> Section:
    """Return coverage against size, and what each method promises."""
    rows = [
        {"method": m.method, "agent": m.agent}
        | {name: round(getattr(m, name), 6) for name in ("coverage", "low", "high", "size")}
        for m in found
    ]
    methods = list(dict.fromkeys(m.method for m in found))
    choose = "; click it to choose its method and filter its agent" if len(methods) > 1 else ""
    chart = coverage_chart(rows, nominal=nominal, size=size, method=methods[0], title=title)
    return Section(
        "methods",
        "Every method" if len(methods) > 1 else "Coverage and size",
        f"Up is covered more, left is smaller sets. Point at a mark for its numbers{choose}. The "
        "dashed line is what was asked for, the bars are the intervals that the cards name.",
        [chart, *_tables(found, methods, size)],
    )


def messages_section(
    totals: Sequence[tuple[str, int, int]], single: Mapping[str, Sequence[tuple[int, int]]]
) -> Section:
    """Say what was sent: all bytes of each agent, and every message.

    ``totals`` are agent, bytes up and down; ``single`` holds, by agent, the bytes of the question
    and the answer of each step, where known.
    """
    rows = [
        (agent, str(step), f"{down:,}", f"{up:,}")
        for agent, steps in single.items()
        for step, (down, up) in enumerate(steps)
    ]
    blocks: list[Block] = []
    if any(up or down for _, up, down in totals):
        lines = [(agent, f"{up:,}", f"{down:,}") for agent, up, down in totals]
        sent = ("agent", "sent by the agent, bytes", "sent to the agent, bytes")
        blocks.append(Table("bytes", "In all", sent, lines, agents=0))
    columns = ("agent", "step", "question, bytes", "answer, bytes")
    if rows:
        blocks.append(Table("messages", "Message by message", columns, rows, agents=0))
    if not blocks:
        blocks.append(Text(["Nothing was sent: every agent used its own threshold."]))
    steps = max((len(own) for own in single.values()), default=0)
    lead = (
        "The release itself is not counted, nor is an answer that was refused. A method that "
        "shares nothing has no messages."
    )
    return Section(
        "sent",
        "What was sent",
        f"{lead} The longest exchange took {counted(steps, 'step')}." if steps > 1 else lead,
        blocks,
    )


def diagnosis_section(
    found: Mapping[str, Diagnosis],
    by: str | None,
    infinite: Mapping[str, Sequence[str]],
    absent: Mapping[str, Sequence[str]],
    advice: str,
) -> Section:
    """Say what the summaries show of averaging, the gravest first, and what to use."""
    judged = sorted(found.items(), key=lambda one: VERDICTS.index(one[1].verdict))
    blocks = [
        Text(
            [sentence(f"{by} {part}: {own}" if by else str(own))], _TONES[own.verdict], own.verdict
        )
        for part, own in judged[:LINES]
    ]
    if infinite and by:
        lines = [f"{by} {part}: at {named(at)}." for part, at in infinite.items()]
        blocks.insert(0, Text(lines[:LINES], "bad", "infinite", _INFINITE[by]))
    if lines := [f"{by} {part}: {named(at)}." for part, at in absent.items() if at]:
        title = f"Agents without a calibration point of a {by}"
        blocks.append(Text(lines[:LINES], "caution", "absent", title))
    if len(judged) > LINES:
        blocks.append(Text([f"Left out: {counted(len(judged) - LINES, 'line')}."]))
    if found:
        blocks.append(Text([sentence(advice)], title="What to do next"))
    lead = "Computed from what the agents sent: it knows no test data." if found else ""
    return Section("diagnosis", "Diagnosis, and what to do next", lead, blocks)


def _why_above(above: Sequence[AgentCoverage]) -> str:
    """Say what a coverage above the nominal one may come from."""
    infinite = [m.agent for m in above if m.infinite]
    if infinite:
        return (
            f"the threshold of {', '.join(infinite)} is infinite, so that its sets exclude nothing "
            "and coverage says nothing about the model: a finite one needs more calibration points"
        )
    return (
        "sets are larger than needed, or these calibration points gave a high threshold by chance"
    )


def _alone(method: str, m: AgentCoverage, nominal: float) -> ViewVerdict:
    """Judge a method by the only coverage that was measured."""
    tone, word = m.judged(nominal)
    said = f"{method} covers {m.coverage:.3f} of {m.agent}'s test points ({m.interval})"
    text = f"{said}: {word}, where {nominal:g} was asked for."
    if word == "above nominal":
        text += " " + sentence(_why_above([m]), [m.agent])
    return ViewVerdict(tone, word[0].upper() + word[1:], text)


def _tables(found: Sequence[AgentCoverage], methods: Sequence[str], size: str) -> list[Table]:
    """Return the methods side by side, and what is proved of them where that is known."""
    lines, ifs = [], []
    for name in methods:
        own = [m for m in found if m.method == name]
        worst = min(own, key=lambda m: m.coverage)
        lines.append(
            (
                name,
                f"{fmean(m.coverage for m in own):.3f}",
                f"{worst.coverage:.3f} at {worst.agent}",
                number(fmean(m.size for m in own)),
                str(own[0].rounds),
                own[0].guarantee,
            )
        )
        if own[0].assumption:
            ifs.append((name, own[0].assumption))
    columns = ("method", "mean coverage", "worst", f"mean {size}", "rounds", "proved")
    tables = [Table("methods", "Methods side by side", columns, lines)]
    if ifs:
        tables.append(Table("proved", "Assumptions", ("method", "assumption"), ifs))
    return tables
