"""A report of a round: the server's, of what it was sent, or an agent's own, with coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from statistics import fmean

import numpy as np

from fedwqcp import metrics
from fedwqcp._io import in_folder, is_file, is_folder
from fedwqcp._validation import Floats
from fedwqcp.errors import FedwqcpError, InputError
from fedwqcp.federation.advice import advise_on, promised_to_new_site
from fedwqcp.federation.fingerprints import known_rows, points_of
from fedwqcp.federation.inspection import (
    infinite_parts,
    of_agent,
    of_data,
    of_points,
    of_thresholds,
)
from fedwqcp.federation.plan import Plan, part_of
from fedwqcp.federation.predict import calibration_of, check_ids, predictor_of, proved_at
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release, agent_table, promise, rounded_down, statuses
from fedwqcp.findings import Finding
from fedwqcp.methods import Calibration
from fedwqcp.metrics import MIN_COUNT, Rate, explained
from fedwqcp.outputs import Outputs
from fedwqcp.readers import load_outputs
from fedwqcp.report.html.page import (
    Bar,
    Card,
    Cards,
    Page,
    ReportOptions,
    Section,
    Table,
    Text,
    Tone,
    View,
    ViewVerdict,
    against_nominal,
    counted,
    interval,
    name_list,
    number,
    sentence,
    threshold_range,
    verdict_rule,
)
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.serve import Predictor
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.theory.diagnosis import VERDICTS, Diagnosis, diagnose_release
from fedwqcp.words.findings import lines as told
from fedwqcp.words.rounds import percent

LINES = 50
"""Lines about classes or groups, at most: those that are covered least."""


_STATUS: dict[str, Tone] = {
    "used": "good",
    "not asked": "plain",
    "left out": "caution",
    "refused": "bad",
    "no answer": "caution",
}


_AVERAGING: dict[str, Tone] = {"unsafe": "bad", "unknown": "caution", "safe": "good"}


# Coverage, also of a benchmark -------------------------------------------------------------------


@dataclass(frozen=True)
class AgentCoverage:
    """What one method gave one agent: coverage with its interval (also in words) and mean size.

    ``facts`` stand on the agent's card; ``infinite`` is whether a threshold excludes nothing.
    Chance of the calibration points explains a coverage of at least ``explained``: none, where the
    interval counts it already.
    """

    method: str
    agent: str
    coverage: float
    low: float
    high: float
    interval: str
    facts: Sequence[tuple[str, str]]
    infinite: bool = False
    explained: float = 1.0

    def judged(self, nominal: float) -> tuple[Tone, str]:
        """Return the tone and the word of `against_nominal`."""
        return against_nominal(self.low, self.coverage, self.high, nominal, self.explained)


_JUDGED: tuple[tuple[str, Tone], ...] = (
    ("too low", "bad"),
    ("watch", "caution"),
    ("above nominal", "plain"),
    ("too few cases to tell", "plain"),
)
"""The words of `against_nominal` that a verdict names, the gravest first, and its tones."""


def coverage_verdict(method: str, found: Sequence[AgentCoverage], nominal: float) -> ViewVerdict:
    """Judge a method by the coverages that were measured at its agents."""
    worst = min(found, key=lambda m: m.coverage)
    if len(found) == 1:
        text = f"{method} covers {worst.coverage:.3f} of {worst.agent}'s test points "
    else:
        mean = fmean(m.coverage for m in found)
        text = f"{method} covers {mean:.3f} on average, {worst.coverage:.3f} at {worst.agent} "
    text += f"({worst.interval}); {nominal:g} was asked for."
    verdict = ViewVerdict("good", "On target", text)
    for word, tone in reversed(_JUDGED):
        own = [m for m in found if m.judged(nominal)[1] == word]
        if not own:
            continue
        if len(found) > 1:
            text += f" {word.capitalize()}: {name_list(m.agent for m in own)}."
        if word == "above nominal":
            text += f" {sentence(_why_above(own), [m.agent for m in own])}"
        where = "" if len(found) == 1 else f" at {len(own)} of {counted(len(found), 'agent')}"
        verdict = ViewVerdict(tone, word.capitalize() + where, text)
    return replace(verdict, text=text)


def _why_above(above: Sequence[AgentCoverage]) -> str:
    """Say what a coverage above the nominal one may come from."""
    if infinite := [m.agent for m in above if m.infinite]:
        return (
            f"the threshold of {', '.join(infinite)} is infinite: its sets exclude nothing, and a "
            "finite one needs more calibration points"
        )
    return "sets are larger than needed, or the calibration points gave a high threshold by chance"


def coverage_cards(found: Sequence[AgentCoverage], nominal: float, lead: str) -> Section:
    """Return the agents as cards."""
    groups: dict[str, list[Card]] = {}
    for m in found:
        start = max(0.0, min(nominal, *(o.low for o in found if o.method == m.method), 1.0) - 0.03)
        bar = Bar(m.low, m.coverage, m.high, nominal, start)
        card = Card(m.agent, *m.judged(nominal), f"{m.coverage:.3f}", "coverage", m.facts)
        card = replace(card, interval=m.interval, bar=bar)
        groups.setdefault(m.method, []).append(card)
    rules = dict.fromkeys(verdict_rule(m.judged(nominal)[1], nominal) for m in found)
    mark = f"The band is the interval, the mark the {nominal:g} that was asked for."
    return Section("agents", "Coverage", " ".join([lead, mark, *rules]), [Cards(groups)])


# The page of a round ------------------------------------------------------------------------------


def round_page(path: Path, options: ReportOptions) -> Page | None:
    """Return the page of a round's record or release; None where a path holds neither.

    It is the server's report, or that of ``options.agent``.
    """
    files = _files(path)
    if not files:
        return None
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise InputError(f"{path} must hold one record of a round, got {names}: name the file")
    release = load_release(files[0])
    round, agent = release.round, options.agent
    if agent is not None and agent not in round.agents:
        known = ", ".join(round.agents)
        raise InputError(
            f"agent {agent!r} is not in the round; its agents: {known}",
            cure=(
                "release.measure(None, ...) measures a site that took no part",
                "`fedwqcp agent predict --new-site` measures a site that took no part, with labels "
                "in the outputs",
            ),
        )
    if agent is None:
        views = [_view(release, alpha, []) for alpha in round.alphas]
        return _page(release, "the server's report", views, options.title, promise(release))
    if options.outputs is None:
        raise InputError("an agent's own report needs --agent and --outputs with labels")
    test = load_outputs(options.outputs, options.labels, round.classes)
    _check_test(test, "--outputs")
    again = options.calibration and load_outputs(options.calibration, classes=round.classes)
    cases = [_case(release, agent, test, alpha, again or None) for alpha in round.alphas]
    views = [_own_view(case) for case in cases]
    promised = promise(cases[0].own, agent)
    return _page(release, f"{agent}'s own report", views, options.title, promised)


def release_page(release: Release, tests: Mapping[str, Outputs], title: str = "") -> Page:
    """Return the page of a release, with coverage at the agents whose labelled tests are given."""
    for agent, test in tests.items():
        release.record(agent)  # refuses an agent that is not of the round
        _check_test(test, f"tests of {agent!r}")
        check_ids(release.score, test)
    named_tests = {agent: test.in_classes(release.round.classes) for agent, test in tests.items()}
    views = [
        _view(release, alpha, [_case(release, *one, alpha) for one in named_tests.items()])
        for alpha in release.round.alphas
    ]
    return _page(release, "from Python", views, title, promise(release))


def _check_test(test: Outputs, what: str) -> None:
    """Refuse test points that tell no coverage."""
    if test.labels is None:
        raise InputError(f"{what} must be labelled: coverage needs true labels")
    if not len(test.values):
        raise InputError(f"{what} must have at least one row, got none")


def _page(
    release: Release, whose: str, views: Sequence[View], title: str, promised: Sequence[str]
) -> Page:
    """Return a page that says which round it is of."""
    round = release.round
    return Page(
        kind=f"fedwqcp round, {whose}",
        title=title or f"{round.method.name} with {len(round.agents)} agents",
        facts=(
            ("Round", round.id),
            ("Score", round.score.name),
            *((("Classes", ", ".join(round.classes)),) if round.classes else ()),
            ("Quorum", f"{round.quorum} of {len(round.agents)}"),
            ("Round trips", str(release.rounds)),
            *(
                (name.capitalize(), sentence(told))
                for name, _, told in (line.partition(": ") for line in promised)
            ),
        ),
        views=list(views),
    )


def _files(path: Path) -> list[Path]:
    """Return the files that may be meant: the server's records, else the release."""
    if not is_folder(path):
        return [path] if path.suffix == ".json" and _holds_release(path) else []
    release = path / "release.json"
    return in_folder(path, "*record.json") or ([release] if is_file(release) else [])


def _holds_release(file: Path) -> bool:
    """Tell a record or a release from other files."""
    try:
        load_release(file)
    except InputError:
        return False
    except FedwqcpError:  # refused with a reason when it is read
        return file.name.endswith(("record.json", "release.json"))
    return True


# What the server knows ----------------------------------------------------------------------------


def _view(release: Release, alpha: float, cases: Sequence[_Case]) -> View:
    """Return what the server knows at one level, and coverage at the agents that were tested."""
    round, diagnoses = release.round, diagnose_release(release, alpha)
    sections = [_exchanged(release, alpha, tested=bool(cases))]
    if diagnoses:
        lead = "Computed from what the agents sent: it knows no test data."
        blocks = [
            *_diagnosis(round.by, diagnoses),
            Text([str(advise_on(release))], title="What to do"),
        ]
        sections.append(Section("diagnosis", "Diagnosis, and what to do next", lead, blocks))
    promised = [Text(told([promised_to_new_site(release, alpha)]))]
    sections.append(Section("new-site", "What is promised to a new site", "", promised))
    if noted := told(release.findings):
        sections.append(Section("findings", "What to look at", "", [Text(noted)]))
    if not cases:
        verdict = _verdict(release, diagnoses)
    else:
        verdict, covered = _coverage_sections(cases)
        sections = [*covered, *sections]
    method = round.method.name
    return View(f"alpha = {alpha:g}", round.agents, method, {method: verdict}, sections)


def _verdict(release: Release, found: Mapping[str, Diagnosis]) -> ViewVerdict:
    """Say who was used, what is grave, and what is not known here."""
    by, agents = release.round.by, len(release.agents)
    used = sum(word in ("used", "not asked") for word in statuses(release).values())
    who = (
        f"{used} of {counted(agents, 'agent')} were used" if release.rounds else "Nobody was asked"
    )
    text = f"{who}. What the sets cover is not known here: the server has no test data."
    if unsafe := [part for part, own in found.items() if own.verdict == "unsafe"]:
        where = f" in {len(unsafe)} of {counted(len(found), by)}" if by else ""
        why = sentence(f"{by} {unsafe[0]}: {found[unsafe[0]]}" if by else str(found[unsafe[0]]))
        return ViewVerdict("bad", f"Averaging is unsafe{where}", f"{text} {why}")
    if used < agents:
        return ViewVerdict("caution", f"{agents - used} left out", text)
    if any(one.code in ("infinite-threshold", "absent") for one in release.findings):
        return ViewVerdict("caution", "Read what to look at", text)
    return ViewVerdict("plain", "Closed", text)


def _exchanged(release: Release, alpha: float, *, tested: bool) -> Section:
    """Return a line for each agent: what it sent, what it was given, how many bytes that took."""
    columns = agent_table(release, (alpha,))
    lead = "The release itself is not counted, nor is an answer that was refused."
    if not tested:
        lead += (
            " Only the agent can measure its coverage: fedwqcp report with --agent and --outputs, "
            "where its data are."
        )
    rows = list(zip(*columns.values(), strict=True))
    table = Table("exchanged", "What each agent sent and received", [*columns], rows, agents=0)
    tones = [_STATUS[word] for word in columns["status"]]
    return Section("exchanged", "What was sent", lead, [table.toned(tones, "status")])


def _diagnosis(by: str | None, found: Mapping[str, Diagnosis]) -> list[Text]:
    """Say what the summaries show of averaging, the gravest first."""
    ranked = sorted(found.items(), key=lambda one: VERDICTS.index(one[1].verdict))
    blocks = []
    for part, own in ranked[:LINES]:
        line = sentence(f"{by} {part}: {own}" if by else str(own))
        blocks.append(Text([line], _AVERAGING[own.verdict], own.verdict))
    if len(ranked) > LINES:
        blocks.append(Text([f"Left out: {counted(len(ranked) - LINES, 'line')}."]))
    return blocks


# What an agent knows ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    """One agent's data at one level: its sets on its labelled test points.

    ``findings`` are what a reader must know of them.
    """

    release: Release
    own: Predictor
    agent: str
    alpha: float
    test: Outputs
    sets: LabelSets | Intervals
    threshold: Floats
    calibration: Calibration | None
    findings: tuple[Finding, ...]

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the test points, in sentences."""
        return [sentence(line, [self.agent]) for line in told(self.findings)]

    @property
    def truth(self) -> Floats:
        """The true labels: test points without them were refused before."""
        return np.asarray(self.test.labels)


def _case(
    release: Release, agent: str, test: Outputs, alpha: float, again: Outputs | None = None
) -> _Case:
    """Make an agent's sets; its calibration data may be given once more."""
    if isinstance(release.score, MultiLabel):
        raise InputError(
            f"a report shows coverage, and {release.round.method.name} controls the false-negative "
            "rate: leave the test points out and call release.measure (agent predict prints it too)"
        )
    cal = None if again is None else calibration_of(release.round, again)
    predictor = predictor_of(release, agent, cal)
    sets = predictor.apply(test, alpha)
    groups = test.groups if release.round.by == "group" else None
    threshold = predictor.thresholds_of(groups, alpha, len(sets))
    known = known_rows(release, agent, test, again)
    findings = (*([replace(known, agents=(agent,))] if known else ()), *of_agent(release, agent))
    if cal is not None:
        findings += (*of_data(agent, again, cal), *of_points(Plan.of(release.round), agent, cal))
    return _Case(release, predictor, agent, alpha, test, sets, threshold, cal, findings)


def _own_view(case: _Case) -> View:
    """Return what an agent knows at one level: coverage on its own labelled test points."""
    verdict, sections = _coverage_sections([case])
    record, method = case.release.record(case.agent), case.release.round.method.name
    sent = f"{record.bytes_up:,} bytes sent by the agent, {record.bytes_down:,} sent to it."
    if not case.release.rounds:
        sent = "Nothing was sent: every agent used its own threshold."
    sections.append(Section("exchanged", "What was sent", "", [Text([sent])]))
    title = f"alpha = {case.alpha:g}"
    return View(title, [case.agent], method, {method: verdict}, sections, notes=case.notes)


def _coverage_sections(cases: Sequence[_Case]) -> tuple[ViewVerdict, list[Section]]:
    """Return the verdict on coverage, and what it rests on."""
    first = cases[0]
    coverages, nominal = [_coverage(case) for case in cases], 1 - first.alpha
    parts = [_parts(case) for case in cases]
    verdict = _judged(coverages, cases, [part for lines in parts for part in lines])
    lead = f"Sets on {sum(len(case.sets) for case in cases):,} labelled test points."
    steps = [_NEXT[next(word for word in _NEXT if verdict.word.lower().startswith(word))]]
    steps.append("When labels of new cases arrive, watch their coverage: fedwqcp monitor.")
    sections = [
        Section("next", "What to do next", "", [Text(steps, title="Next steps")]),
        coverage_cards(coverages, nominal, lead),
        *_parts_section(cases, parts),
        _meaning(first),
    ]
    if notes := [note for case in cases for note in case.notes]:
        sections.insert(1, Section("notes", "What to look at", "", [Text(notes, "caution")]))
    return verdict, sections


_NEXT = {
    "on target": "Use the sets: coverage is as asked for.",
    "too low": (
        "Do not rely on these sets yet. Check that test points come from the same patients, "
        "devices and labels as the calibration points, then calibrate again with more of them."
    ),
    "watch": "Measure again on more test points, or calibrate on more, before you rely on it.",
    "test rows": "Measure again on rows that did not calibrate.",
    "above": "Sets are safe but may be larger than needed: more calibration points shrink them.",
    "too few": "Measure again on more labelled test points: these are too few to tell.",
}
"""By how a verdict begins: the next step."""


def _meaning(case: _Case) -> Section:
    """Say what a set is, in words for who uses one."""
    least = _proved(case)
    share = f"at least {percent(least)}" if least else f"about {percent(1 - case.alpha)}"
    if isinstance(case.sets, LabelSets):
        lines = (
            "A set holds every label that cannot be ruled out for a case at this level. Over many "
            f"cases like those of the calibration, {share} of the sets should hold the true label.",
            "A set of one label is an answer; a set of several says which ones are still open; an "
            "empty one says that no label fits.",
        )
    else:
        lines = (
            "An interval holds every value that cannot be ruled out for a case at this level. "
            f"Over many cases like those of the calibration, {share} should hold the true value.",
            "A wide interval says that the model knows little about the case.",
        )
    caution = "It is no statement on a single case, nor on cases of another kind."
    return Section("meaning", "What a set means", "", [Text([*lines, caution])])


def _judged(
    found: Sequence[AgentCoverage], cases: Sequence[_Case], parts: Sequence[_CoveredPart]
) -> ViewVerdict:
    """Return the verdict on coverage; a caution where test rows look like calibration rows.

    In a round with a threshold for each label or group, each of them is judged too.
    """
    verdict = coverage_verdict(found[0].method, found, 1 - cases[0].alpha)
    by, gravity = cases[0].release.round.by, ("good", "plain", "caution", "bad")
    low = [one for one in parts if one.word in ("too low", "watch", "too few cases to tell")]
    worst: Tone = max((one.tone for one in low), key=gravity.index, default="good")
    if by and gravity.index(worst) > gravity.index(verdict.tone):
        own = [one for one in low if one.tone == worst]
        names = name_list(
            (f"{one.agent}'s " if len(cases) > 1 else "")
            + f"{one.name} ({one.rate.coverage:.3f}, {interval(one.rate)})"
            for one in own
        )
        text = f"{verdict.text} Each {by} has its own threshold; {own[0].word}: {names}."
        where = f"in {len(own)} of {counted(len(parts), by)}"
        verdict = ViewVerdict(worst, f"{own[0].word.capitalize()} {where}", text)
    for case in cases:
        groups, round = case.test.groups, case.release.round
        if infinite_parts(round, case.threshold, groups):
            infinite = told(of_thresholds(round, case.threshold, groups))[0]
            verdict = replace(verdict, text=f"{verdict.text} {case.agent}: {infinite}")
    if said := told(f for case in cases for f in case.findings if f.code == "calibration-rows"):
        text = " ".join([verdict.text, *said])
        return ViewVerdict("caution", "Test rows like calibration rows", text)
    return verdict


def _coverage(case: _Case) -> AgentCoverage:
    release, calibration = case.release, case.calibration
    measured = metrics.measure(case.agent, case.sets, case.truth)
    points = calibration.n if calibration else points_of(release, case.agent)
    floor = _proved(case)
    flat = np.unique(case.threshold).tolist()
    labels = isinstance(case.sets, LabelSets)
    one = float(np.mean(case.sets.sizes() == 1)) if labels else None
    return AgentCoverage(
        method=release.round.method.name,
        agent=case.agent,
        coverage=measured.coverage,
        low=measured.low,
        high=measured.high,
        interval=interval(measured),
        facts=(
            ("mean size", number(measured.size)),
            *((("sets of one label", f"{one:.1%}"),) if one is not None else ()),
            ("empty sets", f"{measured.empty:.1%}"),
            ("test points", f"{measured.n:,}"),
            *(() if points is None else (("calibration points", f"{points:,}"),)),
            *(() if floor is None else (("coverage proved", rounded_down(floor)),)),
            ("threshold", threshold_range(flat, release.round.by)),
            ("its answer", release.status(case.agent)),
        ),
        infinite=flat == [inf] if release.round.by else inf in flat,
        explained=explained(measured.n, points, case.alpha),
    )


def _proved(case: _Case) -> float | None:
    """Return the coverage that the agent's own points prove, where that is known."""
    proved = proved_at(case.release.round, case.calibration, case.alpha)
    return proved or case.release.proved(case.agent, case.alpha)


@dataclass(frozen=True)
class _CoveredPart:
    """The coverage of one class or group at one agent; ``points`` calibrated it, where known."""

    agent: str
    name: str
    rate: Rate
    tone: Tone
    word: str
    points: int | None
    proved: float | None


def _parts(case: _Case) -> list[_CoveredPart]:
    """Return the coverage of the classes, or of the groups of a round by group, lowest first.

    Where they have thresholds of their own they are judged with what chance explains; merged ones,
    and those of unknown sizes, count as small.
    """
    round, sets, nominal = case.release.round, case.sets, 1 - case.alpha
    rates: list[tuple[str, Rate]] = []
    if round.by == "group" and case.test.groups is not None:
        by_group = metrics.by_group(sets, case.truth, case.test.groups)
        rates = [(rate.group, rate) for rate in by_group]
    elif isinstance(sets, LabelSets):
        names = sets.classes or tuple(map(str, range(sets.mask.shape[1])))
        rates = list(zip(names, metrics.by_class(sets, case.truth), strict=True))
    sizes, plan, parts = dict(_sizes(case)), Plan.of(round), []
    for name, rate in _merged(rates):
        n = sizes.get(name)
        least = explained(rate.n, n, case.alpha)
        tone, word = against_nominal(rate.low, rate.coverage, rate.high, nominal, least)
        if round.by is None:  # nothing is promised of a class
            tone = "caution" if rate.high < nominal else "plain"
        proved = None if n is None else plan.proved(n, case.alpha)
        parts.append(_CoveredPart(case.agent, name, rate, tone, word, n, proved))
    return parts


def _sizes(case: _Case) -> Iterator[tuple[str, int]]:
    """Yield how many calibration points each label or group has, where that is known."""
    release, round, cal = case.release, case.release.round, case.calibration
    answers = release.received.get(case.agent)
    for part, name in enumerate(round.group_names):
        if cal is not None:
            yield name, part_of(round, cal, part).n
        elif answers is not None and round.by == "group":
            sent = answers[release.tasks_of(case.alpha, part)[0]]
            assert sent is not None  # an agent that answered
            yield name, sum(sent.sizes())


def _parts_section(
    cases: Sequence[_Case], found: Sequence[Sequence[_CoveredPart]]
) -> list[Section]:
    """Return a table of the coverage of classes or groups, lowest first."""
    by, several = cases[0].release.round.by, len(cases) > 1
    kind, title = ("group", "Groups") if by == "group" else ("class", "Classes")
    parts = [part for own in found if by or len(own) > 1 for part in own[:LINES]]
    if not parts:
        return []
    said = {
        None: "One threshold for all classes promises coverage over all of them together: a hard "
        "class may be covered less. A calibration by label has a threshold for each.",
        "label": "Each class has a threshold of its own.",
        "group": "What is proved holds within each group, also where rows are in several.",
    }[by]
    said += (
        " Coloured: the whole interval lies below what was asked for. Every line stands for at "
        f"least ten people: smaller {title.lower()} are merged."
    )
    if left := sum(len(own[LINES:]) for own in found):
        said += f" Left out: {counted(left, 'line')} with higher coverage."
    rows = [
        (
            *((part.agent,) if several else ()),
            part.name,
            "" if part.points is None else f"{part.points:,}",
            "" if part.proved is None else rounded_down(part.proved),
            f"{part.rate.n:,}",
            f"{part.rate.coverage:.3f}",
            f"{part.rate.low:.3f} to {part.rate.high:.3f}",
        )
        for part in parts
    ]
    columns = [*(["agent"] if several else []), kind, "calibration points", "proved"]
    columns += ["test points", "coverage", "exact 95 % interval"]
    caption, agents = f"Coverage by {kind}, lowest first", 0 if several else None
    table = Table(title.lower(), caption, columns, rows, agents)
    table = table.toned([part.tone for part in parts], "coverage").filled()
    return [Section(title.lower(), title, said, [table])]


def _merged(rates: Sequence[tuple[str, Rate]]) -> list[tuple[str, Rate]]:
    """Return the rates that occur, lowest first; no line has few people.

    Those with few are merged, with a larger one if need be: what the other lines leave of the
    total then says nothing of fewer than ten people either.
    """
    few, n, hits, lines = [], 0, 0, []
    for name, rate in sorted(rates, key=lambda one: one[1].n):
        if rate.n and (rate.n < MIN_COUNT or 0 < n < MIN_COUNT):
            few.append(name)
            n, hits = n + rate.n, hits + rate.hits
        elif rate.n:
            lines.append((name, rate))
    if few:
        lines.append((name_list(few), Rate(n=n, hits=hits)))
    return sorted(lines, key=lambda line: line[1].coverage)
