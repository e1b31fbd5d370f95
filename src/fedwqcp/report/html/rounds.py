"""A report of a round: the server's, of what it was sent, or an agent's own, with coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from fedwqcp import metrics
from fedwqcp._validation import Floats, named
from fedwqcp.errors import InputError
from fedwqcp.federation.advice import advise_on, promised_to_new_site
from fedwqcp.federation.agent import check_answered
from fedwqcp.federation.inspection import (
    counts_of,
    of_agent,
    of_data,
    of_points,
    of_thresholds,
)
from fedwqcp.federation.plan import Plan, part_of
from fedwqcp.federation.predict import calibration_of, predictor_of, proved_at
from fedwqcp.federation.release import Release, agent_table, borrowing, promise, statuses
from fedwqcp.federation.row_fingerprints import known_rows, points_of
from fedwqcp.findings import Finding
from fedwqcp.methods import Calibration
from fedwqcp.metrics import MIN_COUNT, Rate, explained
from fedwqcp.outputs import Outputs, check_ids
from fedwqcp.readers import load_outputs
from fedwqcp.report.html.page import (
    Bar,
    Card,
    Cards,
    Page,
    Section,
    Table,
    Text,
    Tone,
    View,
    ViewVerdict,
    number,
    section,
    threshold_range,
)
from fedwqcp.report.verdicts import enough_cases, judged, least_shown
from fedwqcp.serve import Predictor
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.theory.diagnosis import VERDICTS, Diagnosis, diagnose_release
from fedwqcp.wire.messages import unknown_agent
from fedwqcp.words import counted, sentence
from fedwqcp.words import coverage as words
from fedwqcp.words.findings import lines as told
from fedwqcp.words.release import table as table_of
from fedwqcp.words.rounds import averaging_in, made, percent, rounded_down

LINES = 50
"""Lines about classes or groups, at most: those that are covered least."""


_STATUS: dict[str, Tone] = {
    "used": "good",
    "not asked": "plain",
    "left out": "caution",
    "refused": "bad",
    "no answer": "caution",
}


_TONES: dict[str, Tone] = {
    "on target": "good",
    "not yet shown": "plain",
    "above nominal": "plain",
    "watch": "caution",
    "too low": "bad",
}
"""The words of a coverage, the gravest last."""
_AVERAGING: dict[str, Tone] = {"unsafe": "bad", "unknown": "caution", "safe": "good"}


# Coverage ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coverage:
    """The coverage of an agent, or of a class or group there, beside what is promised.

    That is ``nominal``, less than was ``asked`` where ``points`` calibration cases prove no more.
    ``facts`` stand on the agent's card or in the row of the class or group ``part``. Chance of the
    calibration points explains a coverage of at least ``explained``. ``infinite`` is whether a
    threshold is +inf, and ``full`` whether a finite one excludes nothing.
    """

    agent: str
    rate: Rate
    nominal: float
    facts: Mapping[str, str]
    explained: float
    infinite: bool = False
    part: str = ""
    asked: float | None = None
    points: int | None = None
    full: bool = False

    @property
    def judged(self) -> tuple[Tone, str]:
        """The tone and the word of the coverage."""
        word = judged(self.rate, self.nominal, self.explained, self.asked)
        return _TONES[word], word


def coverage_verdict(method: str, agents: Sequence[Coverage]) -> ViewVerdict:
    """Judge a method by the coverages that were measured at its agents."""
    worst, several = min(agents, key=lambda one: one.rate.coverage), len(agents) > 1
    mean = fmean(one.rate.coverage for one in agents) if several else None
    word = max((one.judged[1] for one in agents), key=[*_TONES].index)
    names = [one.agent for one in agents if one.judged[1] == word]
    text, where = words.measured(method, worst, mean), ""
    if several and word != "on target":
        text += f" {word.capitalize()}: {named(names)}."
        where = f" at {len(names)} of {counted(len(agents), 'agent')}"
    if word == "above nominal":
        infinite = [one.agent for one in agents if one.agent in names and one.infinite]
        full = [one.agent for one in agents if one.agent in names and one.full]
        text += f" {words.above(infinite, full)}"
    return ViewVerdict(_TONES[word], word.capitalize() + where, text)


def _cards(agents: Sequence[Coverage], cases: int) -> Section:
    """Return the agents as cards, and what the words on them mean."""
    start = max(0.0, min(min(one.nominal, one.rate.low) for one in agents) - 0.03)
    rules = dict.fromkeys((one.judged[1], one.nominal) for one in agents)
    cards = [
        Card(
            one.agent,
            *one.judged,
            f"{one.rate.coverage:.3f}",
            list(one.facts.items()),
            words.interval(one.rate),
            Bar(one.rate.low, one.rate.coverage, one.rate.high, one.nominal, start),
        )
        for one in agents
    ]
    read = [words.rule(word, nominal, least_shown(nominal)) for word, nominal in rules]
    levels = [one.nominal for one in agents]
    return section("agents", [Cards(cards)], " ".join([words.cards(cases, levels), *read]))


# The page of a round ------------------------------------------------------------------------------


def agent_page(
    release: Release,
    agent: str,
    outputs: Path,
    *,
    labels: Path | None = None,
    calibration: Path | None = None,
    title: str = "",
) -> Page:
    """Return an agent's own page of a round, with coverage on its labelled test points."""
    round = release.round
    if agent not in round.agents:
        raise InputError(
            unknown_agent(agent, round.agents),
            cure=(
                "release.measure(None, ...) measures a site that took no part",
                "`fedwqcp agent predict --new-site` measures a site that took no part, with labels "
                "in the outputs",
            ),
        )
    test = load_outputs(outputs, labels, round.classes)
    _check_test(test, "--outputs")
    again = None if calibration is None else load_outputs(calibration, classes=round.classes)
    case = _case(release, agent, test, again)
    cases = [replace(case, alpha=alpha) for alpha in round.alphas]
    full = [finding for one in cases for finding in _of_code(one, "full-sets")]
    case = replace(case, findings=(*case.findings, *full))
    return _page(release, f"{agent}'s own report", [*map(_own_view, cases)], title, case)


def release_page(
    release: Release,
    tests: Mapping[str, Outputs],
    title: str = "",
    whose: str = "the server's report",
) -> Page:
    """Return what a server knows, with coverage at the agents whose labelled tests are given."""
    cases = []
    for agent, test in tests.items():
        release.record(agent)  # refuses an agent that is not of the round
        _check_test(test, f"tests of {agent!r}")
        check_ids(release.score, test.ids)
        cases.append(_case(release, agent, test.in_classes(release.round.classes)))
    views = [
        _view(release, alpha, [replace(case, alpha=alpha) for case in cases])
        for alpha in release.round.alphas
    ]
    return _page(release, whose, views, title)


def _check_test(test: Outputs, what: str) -> None:
    """Refuse test points that tell no coverage."""
    if test.labels is None:
        raise InputError(f"{what} must be labelled: coverage needs true labels")
    if not len(test.values):
        raise InputError(f"{what} must have at least one row, got none")


def _page(
    release: Release, whose: str, views: Sequence[View], title: str, case: _Case | None = None
) -> Page:
    """Return a page that says which round it is of, and what is promised to all or one agent."""
    round = release.round
    lines = promise(case.predictor, case.agent)[:1] if case else promise(release)
    quorum = f"{round.quorum} of {len(round.agents)}"
    protocol = [("Quorum", quorum), ("Round trips", str(release.rounds))]
    name = f"{round.method.name} with {len(round.agents)} agents"
    return Page(
        kind=f"fedwqcp round, {whose}",
        title=title or (f"Prediction sets at {case.agent}" if case else name),
        facts=(
            *([] if case else [("Round", round.id), ("Score", round.score.name)]),
            *((("Classes", ", ".join(round.classes)),) if round.classes else ()),
            *([] if case else protocol),
            *(
                (name.capitalize(), sentence(text))
                for name, _, text in (line.partition(": ") for line in lines)
            ),
        ),
        views=views,
        findings=case.findings if case else (),
    )


# What the server knows ----------------------------------------------------------------------------


def _view(release: Release, alpha: float, cases: Sequence[_Case]) -> View:
    """Return what the server knows at one level, and coverage at the agents that were tested."""
    round, diagnoses = release.round, diagnose_release(release, alpha)
    sections = [_exchanged(release, alpha)]
    if diagnoses:
        advice = Text([str(advise_on(release))], title="What to do")
        sections.append(section("diagnosis", [*_diagnosis(round.by, diagnoses), advice]))
    sections.append(section("new-site", [Text(told([promised_to_new_site(release, alpha)]))]))
    if noted := told(release.findings):
        sections.append(section("findings", [Text(noted)]))
    if not cases:
        verdict = _verdict(release, diagnoses)
        sections.insert(0, section("next", [Text([words.AT_THE_SERVER])]))
    else:
        verdict, covered = _coverage_sections(cases)
        sections = [*covered, *sections]
    return View(f"alpha = {alpha:g}", round.agents, verdict, sections)


def _verdict(release: Release, diagnoses: Mapping[str, Diagnosis]) -> ViewVerdict:
    """Say who was used, what is grave, and what is not known here."""
    by, agents = release.round.by, len(release.agents)
    used = sum(word in ("used", "not asked") for word in statuses(release).values())
    text = words.unmeasured(used, agents, asked=release.rounds > 0)
    if unsafe := {part: one for part, one in diagnoses.items() if one.verdict == "unsafe"}:
        where = f" in {len(unsafe)} of {counted(len(diagnoses), by)}" if by else ""
        why = sentence(averaging_in(by, *next(iter(unsafe.items()))))
        return ViewVerdict("bad", f"Averaging is unsafe{where}", f"{text} {why}")
    if used < agents:
        return ViewVerdict("caution", f"{agents - used} left out", text)
    if any(one.code in ("infinite-threshold", "absent") for one in release.findings):
        return ViewVerdict("caution", "Read the notes", text)
    return ViewVerdict("plain", "Closed", text)


def _exchanged(release: Release, alpha: float) -> Section:
    """Return a line for each agent: what it sent, what it was given, how many bytes that took."""
    columns = table_of(agent_table(release, (alpha,)) | borrowing(release, alpha))
    notes = [Text([words.BORROWED])] if "borrowed" in columns else []
    rows = list(zip(*columns.values(), strict=True))
    table = Table("exchanged", "What each agent sent and received", [*columns], rows, agents=0)
    tones = [_STATUS[word] for word in columns["status"]]
    return section("exchanged", [table.toned(tones, "status"), *notes])


def _diagnosis(by: str | None, diagnoses: Mapping[str, Diagnosis]) -> list[Text]:
    """Say what the summaries show of averaging, the gravest first."""
    ranked = sorted(diagnoses.items(), key=lambda item: VERDICTS.index(item[1].verdict))
    blocks = [
        Text([sentence(averaging_in(by, part, one))], _AVERAGING[one.verdict], one.verdict)
        for part, one in ranked[:LINES]
    ]
    if len(ranked) > LINES:
        blocks.append(Text([f"Left out: {counted(len(ranked) - LINES, 'line')}."]))
    return blocks


# What an agent knows ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    """One agent's labelled test points and their sets at one level.

    ``findings`` are what a reader must know of them, ``counts`` are of the calibration data.
    """

    release: Release
    predictor: Predictor
    agent: str
    alpha: float
    test: Outputs
    calibration: Calibration | None
    findings: tuple[Finding, ...]
    counts: Mapping[str, Sequence[int]]

    @cached_property
    def sets(self) -> LabelSets | Intervals:
        """The sets of the test points."""
        return self.predictor.apply(self.test, self.alpha)

    @cached_property
    def threshold(self) -> Floats:
        """The thresholds of the test points."""
        groups = self.test.groups if self.release.round.by == "group" else None
        return self.predictor.thresholds_of(groups, self.alpha, len(self.sets))

    @cached_property
    def excluding_nothing(self) -> tuple[Finding, ...]:
        """Where thresholds or sets exclude nothing."""
        groups = self.test.groups if self.release.round.by == "group" else None
        full = isinstance(self.sets, LabelSets) and bool(self.sets.mask.all())
        terms = self.release.round
        return tuple(of_thresholds(terms, self.threshold, groups, self.counts, full=full))

    @property
    def truth(self) -> Floats:
        """The true labels: test points without them were refused before."""
        return np.asarray(self.test.labels)

    @property
    def proved(self) -> float | None:
        """The coverage that the agent's own points prove, where that is known."""
        proved = proved_at(self.release.round, self.calibration, self.alpha)
        return proved or self.release.proved(self.agent, self.alpha)

    def points_of(self, part: str) -> int | None:
        """Return how many calibration points a class or group has, where that is known."""
        release, round = self.release, self.release.round
        if part not in round.group_names:
            return None
        if self.calibration is not None:
            return part_of(round, self.calibration, round.group_names.index(part)).n
        return release.points(self.agent, part) if round.by == "group" else None


def _case(release: Release, agent: str, test: Outputs, again: Outputs | None = None) -> _Case:
    """Take an agent's test points; its calibration data may be given once more."""
    round = release.round
    if release.score.losses:
        raise InputError(
            f"a report shows coverage, and {round.method.name} controls a risk here: leave the "
            "test points out and call release.measure (agent predict prints it too)"
        )
    cal = None if again is None else calibration_of(round, again)
    known = known_rows(release, agent, test, again)
    findings = (*([replace(known, agents=(agent,))] if known else ()), *of_agent(release, agent))
    if cal is not None:
        check_answered(release, agent, cal)
        findings += (*of_data(agent, again, cal), *of_points(Plan.of(round), agent, cal))
    predictor = predictor_of(release, agent, cal)
    counts = counts_of(again, cal)
    return _Case(release, predictor, agent, round.alphas[0], test, cal, findings, counts)


def _own_view(case: _Case) -> View:
    """Return what an agent knows at one level: coverage on its own labelled test points."""
    verdict, sections = _coverage_sections([case])
    _, *assumed = promise(case.predictor, case.agent)
    where, sent = made(case.release, case.agent)
    text = Text([where, *map(sentence, assumed), sent])
    sections.append(section("made", [text]))
    return View(f"alpha = {case.alpha:g}", [case.agent], verdict, sections)


def _coverage_sections(cases: Sequence[_Case]) -> tuple[ViewVerdict, list[Section]]:
    """Return the verdict on coverage, and what it rests on."""
    first = cases[0]
    agents, parts = [_coverage(case) for case in cases], [_parts(case) for case in cases]
    verdict = _judged(agents, cases, list(chain(*parts)))
    labels = isinstance(first.sets, LabelSets)
    share = percent(first.proved or 1 - first.alpha)
    meaning = words.meaning(f"{'at least' if first.proved else 'about'} {share}", labels=labels)
    sections = [
        section("next", [Text(words.next_steps(verdict.word, full=agents[0].full))]),
        _cards(agents, sum(len(case.sets) for case in cases)),
        *_sizes_section(cases),
        *_parts_section(cases, parts),
        section("meaning", [Text(meaning)]),
    ]
    if notes := [
        sentence(line, [case.agent])
        for case in cases
        for line in told([*case.findings, *_of_code(case, "full-sets")])
    ]:
        sections.insert(1, section("notes", [Text(notes, "caution")]))
    return verdict, sections


def _of_code(case: _Case, code: str) -> list[Finding]:
    return [finding for finding in case.excluding_nothing if finding.code == code]


def _judged(
    agents: Sequence[Coverage], cases: Sequence[_Case], parts: Sequence[Coverage]
) -> ViewVerdict:
    """Return the verdict on coverage; a caution where test rows look like calibration rows.

    In a round with a threshold for each label or group, each of them is judged too.
    """
    round, gravity = cases[0].release.round, ("good", "plain", "caution", "bad")
    verdict, by = coverage_verdict(round.method.name, agents), round.by
    low = [part for part in parts if part.judged[1] not in ("on target", "above nominal")]
    tone: Tone = max((part.judged[0] for part in low), key=gravity.index, default="good")
    if by and gravity.index(tone) > gravity.index(verdict.tone):
        low = [part for part in low if part.judged[0] == tone]
        names = named(
            (f"{part.agent}'s " if len(cases) > 1 else "")
            + f"{part.part} ({part.rate.coverage:.3f}, {words.interval(part.rate)})"
            for part in low
        )
        word = low[0].judged[1]
        text = f"{verdict.text} {words.parts_judged(by, word, names)}"
        where = f"in {len(low)} of {counted(len(parts), by)}"
        verdict = ViewVerdict(tone, f"{word.capitalize()} {where}", text)
    for case in cases:
        if by and (infinite := told(_of_code(case, "infinite-threshold"))):
            verdict = replace(verdict, text=f"{verdict.text} {case.agent}: {infinite[0]}")
    if rows := told(f for case in cases for f in case.findings if f.code == "calibration-rows"):
        text = " ".join([verdict.text, *rows])
        return ViewVerdict("caution", "Test rows like calibration rows", text)
    return verdict


def _coverage(case: _Case) -> Coverage:
    """Return the coverage of an agent on its test points."""
    release, calibration, by = case.release, case.calibration, case.release.round.by
    rate = metrics.measure(case.agent, case.sets, case.truth)
    points = calibration.n if calibration else points_of(release, case.agent)
    thresholds = np.unique(case.threshold).tolist()
    facts = {"mean size": number(rate.size), "test cases": f"{rate.n:,}"}
    if isinstance(case.sets, Intervals):
        facts["empty sets"] = f"{rate.empty:.1%}"
    if points is not None:
        facts["calibration cases"] = f"{points:,}"
    if case.proved is not None:
        facts["coverage promised"] = rounded_down(case.proved)
    facts["threshold"] = threshold_range(thresholds, by)
    facts["status"] = release.status(case.agent)
    infinite = thresholds == [inf] if by else inf in thresholds
    full = any(not finding["parts"] for finding in _of_code(case, "full-sets"))
    coverage = _of_rate(case, rate, points, case.proved, facts, infinite=infinite, full=full)
    if coverage.judged[1] == "not yet shown" and (decide := enough_cases(rate, coverage.nominal)):
        facts["test cases that decide"] = f"about {decide:,}"
    return coverage


def _of_rate(
    case: _Case,
    rate: Rate,
    points: int | None,
    proved: float | None,
    facts: Mapping[str, str],
    **more: Any,
) -> Coverage:
    """Judge a rate by what is promised, and by what chance of so many points explains."""
    least, asked = explained(rate.n, points, case.alpha), 1 - case.alpha
    nominal = min(proved or asked, asked)
    return Coverage(case.agent, rate, nominal, facts, least, asked=asked, points=points, **more)


def _parts(case: _Case) -> list[Coverage]:
    """Return the coverage of the classes, or of the groups of a round by group, lowest first.

    Merged ones, and those of unknown sizes, count as small.
    """
    round, sets = case.release.round, case.sets
    rates: list[tuple[str, Rate]] = []
    if round.by == "group" and case.test.groups is not None:
        by_group = metrics.by_group(sets, case.truth, case.test.groups)
        rates = [(rate.group, rate) for rate in by_group]
    elif isinstance(sets, LabelSets):
        names = sets.classes or tuple(map(str, range(sets.mask.shape[1])))
        rates = list(zip(names, metrics.by_class(sets, case.truth), strict=True))
    parts = []
    for name, rate in _merged(rates):
        n = case.points_of(name)
        proved = None if n is None else Plan.of(round).proved(n, case.alpha)
        facts = {
            "calibration cases": "" if n is None else f"{n:,}",
            "proved": "" if proved is None else rounded_down(proved),
            "test cases": f"{rate.n:,}",
            "coverage": f"{rate.coverage:.3f}",
            "exact 95 % interval": f"{rate.low:.3f} to {rate.high:.3f}",
        }
        parts.append(_of_rate(case, rate, n, proved, facts, part=name))
    return parts


def _sizes_section(cases: Sequence[_Case]) -> list[Section]:
    """Return a table of how many sets have which size, and how many of these hold the label."""
    rows, several = [], len(cases) > 1
    for case in cases:
        if not isinstance(sets := case.sets, LabelSets):
            return []
        rates = metrics.by_group(sets, case.truth, sets.sizes())
        merged = _merged([(rate.group, rate) for rate in rates], words.sizes)
        for size, rate in sorted(merged, key=lambda line: int(line[0].split()[0].strip(","))):
            cells = f"{100 * rate.n / len(sets):.1f}", f"{rate.n:,}", f"{rate.coverage:.3f}"
            ends = f"{rate.low:.3f} to {rate.high:.3f}"
            rows.append([case.agent if several else "", size, *cells, ends])
    columns = ("agent", "labels", "of 100 cases", "test cases", "right", "exact 95 % interval")
    table = Table("sizes", "", columns, rows, 0 if several else None).filled()
    return [section("sizes", [table])]


def _parts_section(cases: Sequence[_Case], parts: Sequence[Sequence[Coverage]]) -> list[Section]:
    """Return a table of the coverage of classes or groups, lowest first."""
    by = cases[0].release.round.by
    kind, kinds = ("group", "groups") if by == "group" else ("class", "classes")
    shown = [part for lines in parts if by or len(lines) > 1 for part in lines[:LINES]]
    if not shown:
        return []
    lead = words.parts(by, kinds)
    if left := sum(len(lines[LINES:]) for lines in parts):
        lead += f" Left out: {counted(left, 'line')} with higher coverage."
    whose, agents = (["agent"], 0) if len(cases) > 1 else ([], None)
    columns = [*whose, kind, *shown[0].facts]
    rows = [[part.agent] * len(whose) + [part.part, *part.facts.values()] for part in shown]
    table = Table(kinds, f"The most missed {kind} first", columns, rows, agents)
    tones: list[Tone] = [  # nothing is promised of a class under one threshold for all
        "plain" if part.rate.high >= part.nominal else part.judged[0] if by else "caution"
        for part in shown
    ]
    return [section(kinds, [table.toned(tones, "coverage").filled()], lead)]


def _merged(
    rates: Sequence[tuple[str, Rate]], as_one: Callable[[Sequence[str]], str] = named
) -> list[tuple[str, Rate]]:
    """Return the rates that occur, lowest first; no line has few people.

    Those with few are merged, with a larger one if need be: what the other lines leave of the
    total then says nothing of fewer than ten people either.
    """
    few, n, hits, lines = [], 0, 0, []
    for name, rate in sorted(rates, key=lambda item: item[1].n):
        if rate.n and (rate.n < MIN_COUNT or 0 < n < MIN_COUNT):
            few.append(name)
            n, hits = n + rate.n, hits + rate.hits
        elif rate.n:
            lines.append((name, rate))
    if few:
        lines.append((as_one(sorted(few)), Rate(n=n, hits=hits)))
    return sorted(lines, key=lambda line: line[1].coverage)
