"""A report of a round: the server's, of what it was sent, or an agent's own, with coverage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from fedwqcp import metrics
from fedwqcp._io import in_folder, is_file, is_folder
from fedwqcp._io import read as read_file
from fedwqcp._validation import Floats
from fedwqcp.errors import FedwqcpError, InputError
from fedwqcp.federation.advice import advise_on, judged, promised_to_new_site
from fedwqcp.federation.inspection import infinite_parts, of_agent, of_thresholds
from fedwqcp.federation.plan import Plan, part_of
from fedwqcp.federation.predict import (
    calibration_of,
    check_ids,
    predict,
    proved_at,
)
from fedwqcp.federation.predict import thresholds as agents_thresholds
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release, known_rows, points_of, proved
from fedwqcp.findings import Finding
from fedwqcp.methods import Calibration
from fedwqcp.metrics import MIN_COUNT, explained
from fedwqcp.outputs import Outputs
from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.readers import load_outputs
from fedwqcp.report.html.charts import score_chart, threshold_chart
from fedwqcp.report.html.page import (
    Card,
    Cards,
    Charts,
    ExamplePoint,
    ExampleSet,
    Gallery,
    Page,
    ReportOptions,
    Section,
    Table,
    Text,
    Tone,
    View,
    ViewVerdict,
    counted,
    interval,
    name_list,
    number,
    sentence,
    threshold_range,
)
from fedwqcp.report.html.sections import (
    AgentCoverage,
    coverage_cards,
    coverage_comparison,
    coverage_verdict,
    diagnosis_section,
    messages_section,
    parts_verdict,
)
from fedwqcp.report.terminal import LevelThresholds, always_left_out, released
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.theory.diagnosis import VERDICTS, Diagnosis, local_thresholds
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Answer, LocalQuantile, Round
from fedwqcp.wire.release import AgentRecord
from fedwqcp.words.findings import excludes_nothing
from fedwqcp.words.findings import lines as told

_EXCHANGED = "What each agent sent and received."


LINES = 50
"""Lines of a table or chart of classes or groups, at most: those that are covered least."""


_TONES: dict[str, Tone] = {
    "used": "good",
    "not asked": "plain",
    "left out": "caution",
    "refused": "bad",
    "no answer": "caution",
}


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
    (file,) = files
    release = load_release(file)
    round = release.round
    if options.agent is not None and options.agent not in round.agents:
        known = ", ".join(round.agents)
        raise InputError(
            f"agent {options.agent!r} is not in the round; its agents: {known}",
            cure=(
                "release.measure(None, ...) measures a site that took no part",
                "`fedwqcp agent predict --new-site` measures a site that took no part, with labels "
                "in the outputs",
            ),
        )
    if options.examples and options.agent is None:
        raise InputError("--examples are for an agent's own report: pass --agent and --outputs too")
    whose = f"{options.agent}'s own report" if options.agent else "the server's report"
    if options.agent is None:
        return _page(release, whose, [_server_view(release, file.parent, a) for a in round.alphas])
    test, again = _read_outputs(round, options)
    cases = [_case(release, options.agent, alpha, test, again) for alpha in round.alphas]
    return _page(release, whose, [_agent_view(case, options.examples) for case in cases])


def release_page(release: Release, tests: Mapping[str, Outputs]) -> Page:
    """Return the page of a release, with coverage at the agents whose labelled tests are given."""
    for agent, test in tests.items():
        release.record(agent)  # refuses an agent that is not of the round
        if test.labels is None:
            raise InputError(f"tests of {agent!r} must be labelled: coverage needs true labels")
        if not len(test.values):
            raise InputError(f"tests of {agent!r} must have at least one row, got none")
        check_ids(release.score, test)
    named = {agent: test.in_classes(release.round.classes) for agent, test in tests.items()}
    views = [_tested_view(release, named, alpha) for alpha in release.round.alphas]
    return _page(release, "from Python", views)


def _page(release: Release, whose: str, views: Sequence[View]) -> Page:
    """Return a page that says which round it is of."""
    round = release.round
    return Page(
        kind=f"fedwqcp round, {whose}",
        title=f"{round.method.name} with {len(round.agents)} agents",
        facts=(
            ("Round", round.id),
            ("Score", round.score.name),
            *((("Classes", ", ".join(round.classes)),) if round.classes else ()),
            ("Quorum", f"{round.quorum} of {len(round.agents)}"),
            ("Round trips", str(release.rounds)),
            ("Guarantee", proved(release)),
        ),
        views=list(views),
    )


def _tested_view(release: Release, tests: Mapping[str, Outputs], alpha: float) -> View:
    """Return what the caller knows at one level: the server's view, and coverage where tested."""
    view = _server_view(release, None, alpha)
    if not tests:
        return view
    cases = [_case(release, agent, alpha, test, None) for agent, test in tests.items()]
    found = [_coverage(case) for case in cases]
    tested = f"Sets on {sum(len(case.sets) for case in cases):,} labelled test points."
    about = [
        coverage_cards(found, 1 - alpha, _with_notes(tested, cases)),
        coverage_comparison(found, 1 - alpha, cases[0].size, f"alpha = {alpha:g}"),
        *_classes_section(cases),
        replace(view.sections[0], key="roster", title="What the server knows", lead=_EXCHANGED),
        *view.sections[1:],
    ]
    return replace(view, sections=about, verdicts={view.method: _judged(found, cases)})


def _with_notes(text: str, cases: Sequence[_Case]) -> str:
    """Add the notes on the agents' test points."""
    return " ".join([text, *(note for case in cases for note in case.notes)])


def _judged(found: Sequence[AgentCoverage], cases: Sequence[_Case]) -> ViewVerdict:
    """Return the verdict on coverage; a caution where test rows look like calibration rows."""
    nominal = 1 - cases[0].alpha
    verdict = coverage_verdict(found[0].method, found, nominal)
    if by := cases[0].release.round.by:
        verdict = parts_verdict(verdict, by, _parts(cases), nominal)
    for case in cases:
        by = case.release.round.by
        if infinite_parts(case.release.round, case.threshold, case.test.groups):
            infinite = told(of_thresholds(case.release.round, case.threshold, case.test.groups))
            verdict = replace(verdict, text=f"{verdict.text} {case.agent}: {infinite[0]}")
    said = told(f for case in cases for f in case.findings if f.code == "calibration-rows")
    if not said:
        return verdict
    text = " ".join([verdict.text, *said])
    return ViewVerdict("caution", "Test rows like calibration rows", text)


def _parts(cases: Sequence[_Case]) -> list[tuple[str, metrics.Rate, float]]:
    """Return the coverage in each label or group that has thresholds of its own, at each agent.

    With the least that chance explains; lines of merged parts, or of unknown sizes, count as small.
    """
    parts = []
    for case in cases:
        whose = f"{case.agent}'s " if len(cases) > 1 else ""
        terms, cal = case.release.round, case.calibration
        rates = _class_rates(case) if terms.by == "label" else _group_rates(case)
        sizes = (
            {}
            if cal is None
            else {name: part_of(terms, cal, at).n for at, name in enumerate(terms.group_names)}
        )
        parts += [
            (whose + name, rate, explained(rate.n, sizes.get(name), case.alpha))
            for name, rate in rates
        ]
    return parts


def _server_view(release: Release, folder: Path | None, alpha: float) -> View:
    """Return what the server knows at one level: no coverage, it has no test data."""
    round = release.round
    plan = Plan.of(round)
    sent = _own_thresholds(release, alpha)
    found, infinite = judged(release, alpha), _infinite(release, alpha)
    here = [each for each in released(release) if each.alpha == alpha]
    method = round.method.name
    about = [_agents_section(release, plan, alpha, sent, always_left_out(here))]
    if sent and here[0].whose != "own":
        about.append(_thresholds_section(release, sent))
    totals = [(a.name, a.bytes_up, a.bytes_down) for a in release.agents if a.status != "refused"]
    each = {} if folder is None else _message_bytes(release, plan, folder)
    about.append(messages_section(totals, each))
    absent = release.absent if release.rounds else {}
    if found or infinite or any(absent.values()):
        advice = str(advise_on(release))
        about.append(diagnosis_section(found, round.by, infinite, absent, advice))
    promised = Text(promised_to_new_site(release, alpha))
    about.append(Section("new-site", "What is promised to a new site", "", [promised]))
    return View(
        title=f"alpha = {alpha:g}",
        agents=round.agents,
        method=method,
        verdicts={method: _verdict(release, alpha, found, infinite, here)},
        sections=about,
    )


@dataclass(frozen=True)
class _OwnThreshold:
    """What an agent sent for one outcome of a level; ``part`` is its label or group, or empty."""

    agent: str
    part: str
    task: int
    first: bool  # of the score's columns
    sent: LocalQuantile


def _own_thresholds(release: Release, alpha: float) -> list[_OwnThreshold]:
    """Return the thresholds that agents sent at one level, in each label or group."""
    found = []
    for place, part in enumerate(release.round.group_names or ("",)):
        tasks = release.tasks_of(alpha, place)
        for task in tasks:
            local = local_thresholds(release, task)
            found += [
                _OwnThreshold(name, part, task, task == tasks[0], sent)
                for name, sent in local.items()
            ]
    return found


def _infinite(release: Release, alpha: float) -> dict[str, tuple[str, ...]]:
    """Return by group the agents whose threshold is known to be +inf."""
    found = {}
    for place, group in enumerate(release.round.group_names):
        if at := tuple(name for name in release.used if release.is_infinite(name, alpha, place)):
            found[group] = at
    return found


def _agent_view(case: _Case, examples: int) -> View:
    """Return what an agent knows at one level: coverage on its own labelled test points."""
    method = case.release.round.method.name
    found = [_coverage(case)]
    tested = f"{case.agent}'s sets on its {len(case.sets):,} labelled test points."
    about = [coverage_cards(found, 1 - case.alpha, _with_notes(tested, [case]))]
    if case.calibration is not None and case.calibration.columns == 1:
        about.append(_scores_section(case, case.calibration.scores))
    if examples:
        about.append(_examples_section(case, examples))
    record = case.release.record(case.agent)
    totals = [(case.agent, record.bytes_up, record.bytes_down)]
    about += [*_classes_section([case]), _sizes_section(case), messages_section(totals, {})]
    return View(
        title=f"alpha = {case.alpha:g}",
        agents=[case.agent],
        method=method,
        verdicts={method: _judged(found, [case])},
        sections=about,
        notes=case.notes,
    )


@dataclass(frozen=True)
class _Case:
    """One agent's data at one level: its sets on its labelled test points.

    ``findings`` are what a reader must know of them.
    """

    release: Release
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

    @property
    def size(self) -> str:
        """What the size of a set is."""
        return "labels in a set" if isinstance(self.sets, LabelSets) else "length of the interval"


def _files(path: Path) -> list[Path]:
    """Return the files that may be meant: the server's records, else the release."""
    if not is_folder(path):
        return [path] if path.suffix == ".json" and _holds_release(path) else []
    records = in_folder(path, "*record.json")
    release = path / "release.json"
    return records or ([release] if is_file(release) else [])


def _holds_release(file: Path) -> bool:
    """Tell a record or a release from other files."""
    try:
        load_release(file)
    except InputError:
        return False
    except FedwqcpError:  # refused with a reason when it is read
        return file.name.endswith(("record.json", "release.json"))
    return True


def _verdict(
    release: Release,
    alpha: float,
    found: Mapping[str, Diagnosis],
    infinite: Mapping[str, Sequence[str]],
    here: Sequence[LevelThresholds],
) -> ViewVerdict:
    """Say who was used, what came out, and what is not known here."""
    used, all_ = len(release.used) - len(always_left_out(here)), len(release.agents)
    who = (
        f"{used} of {counted(all_, 'agent')} were used" if release.rounds else "No agent was asked"
    )
    said = (
        f"{who}; {_thresholds_sentence(release, alpha)}. "
        "What it covers is not known here: the server has no test data."
    )
    for each in here:
        group = f"{each.group}, " if each.group else ""
        said += "".join(f" {sentence(group + note)}" for note in each.notes)
    by = release.round.by
    worst = min(found.values(), key=lambda one: VERDICTS.index(one.verdict), default=None)
    verdict = "" if worst is None else worst.verdict
    alike = [part for part, own in found.items() if own.verdict == verdict]
    where = f" in {len(alike)} of {counted(len(found), by)}" if by else ""
    of = f"{by} {alike[0]}: " if by and alike else ""
    why = "" if worst is None else f" {sentence(f'{of}{worst}')}"
    if verdict == "unsafe":
        return ViewVerdict("bad", f"Averaging is unsafe{where}", said + why)
    if used < all_:
        return ViewVerdict("caution", f"{all_ - used} left out", said)
    if infinite and by:
        all_parts = counted(len(release.round.group_names), by)
        word = f"Infinite in {len(infinite)} of {all_parts}"
        every = all(set(release.used) <= set(at) for at in infinite.values())
        whose = "The threshold is" if every else "Thresholds of some agents are"
        means = excludes_nothing(by, len(infinite) > 1)
        text = f"{said} {whose} +inf in {by} {name_list(infinite)}: {means}."
        return ViewVerdict("caution", word, text)
    if verdict == "unknown":
        return ViewVerdict("caution", f"Unknown whether averaging is safe{where}", said + why)
    if release.rounds and any(release.absent.values()):
        return ViewVerdict("caution", "Read the cautions", said)
    return ViewVerdict("plain", "Closed", said)


def _thresholds(release: Release, name: str, alpha: float) -> list[float] | None:
    """Return an agent's thresholds, one or more for each group; None where it finds its own."""
    try:
        if release.round.by == "group":
            of = release.by_group(name, alpha).values()
            return [q for group in of for q in np.atleast_1d(group).tolist()]
        return list(np.atleast_1d(release.threshold(name, alpha)).tolist())
    except InputError:
        return None


def _thresholds_sentence(release: Release, alpha: float) -> str:
    """Say which thresholds came out."""
    values: list[float] = []
    for name in release.used:
        if (found := _thresholds(release, name, alpha)) is None:
            return "every agent finds its own threshold"
        values += found
    low, high = min(values), max(values)
    one = f"the threshold is {number(low)}"
    what = one if low == high else f"thresholds lie from {number(low)} to {number(high)}"
    return f"{what}, for a coverage of {1 - alpha:g}"


def _agents_section(
    release: Release, plan: Plan, alpha: float, sent: Sequence[_OwnThreshold], out: Collection[str]
) -> Section:
    by_agent: dict[str, list[_OwnThreshold]] = {agent.name: [] for agent in release.agents}
    for own in sent:
        by_agent[own.agent].append(own)
    cards = [
        _card(release, plan, agent, alpha, by_agent[agent.name], out=agent.name in out)
        for agent in release.agents
    ]
    return Section(
        "agents",
        "Agents",
        f"{_EXCHANGED} Only the agent can measure its coverage: fedwqcp report html with --agent "
        "and --outputs, where its data are.",
        [Cards({release.round.method.name: cards})],
    )


def _card(
    release: Release,
    plan: Plan,
    agent: AgentRecord,
    alpha: float,
    sent: Sequence[_OwnThreshold],
    *,
    out: bool,
) -> Card:
    """Return what the server knows of one agent."""
    word = "left out" if out else release.status(agent.name)
    tone = _TONES[word]
    given = _thresholds(release, agent.name, alpha)
    threshold = "its own" if given is None else threshold_range(given, release.round.by)
    facts = [("threshold in use", threshold)]
    if agent.status != "refused":  # what is refused is not counted
        facts.append(("bytes sent", f"{agent.bytes_up:,}"))
    if agent.reason:
        facts.append(("refused for", agent.reason))
    if not sent:
        return Card(agent.name, tone, word, threshold, "threshold in use", facts[1:])
    points = sum(own.sent.n for own in sent if own.first)
    facts.insert(0, ("calibration points", f"{points:,}"))
    return Card(
        agent.name,
        tone,
        word,
        threshold_range([own.sent.threshold for own in sent], release.round.by),
        "own threshold" if len(sent) == 1 else "own thresholds",
        facts,
        _chance(sent[0].sent, plan, sent[0].task) if len(sent) == 1 else "",
    )


def _chance(sent: LocalQuantile, plan: Plan, task: int) -> str:
    """Say how far the coverage of an agent's own threshold varies, where its rank is known.

    Exact for scores without ties; ties only raise the coverage.
    """
    from scipy.special import betaincinv

    n, alpha = sent.n, plan.tasks[task].alpha
    rank, finite = conformal_rank(n, alpha), sent.threshold < inf
    if rank > n and not finite:
        return "too few points for a finite threshold"
    if not (finite and plan.traits.ranked_threshold):
        return ""
    if rank > n:
        return f"clipped: covers {n}/{n + 1} on average, {n / (n + 1):.3f}"
    low, high = (float(betaincinv(rank, n + 1 - rank, p)) for p in (0.025, 0.975))
    return f"its coverage varies from {low:.3f} to {high:.3f} (95 %) over calibration samples"


def _thresholds_section(release: Release, sent: Sequence[_OwnThreshold]) -> Section:
    """Return the agents' own thresholds beside those in use, of the same label or group."""
    rows = []
    for own in sent:
        outcome = release.outcomes[own.task]
        used = outcome.threshold(release.position(own.agent, own.task))
        for q in used if isinstance(used, tuple) else () if used is None else (used,):
            rows.append((own.agent, own.part, own.sent.n, own.sent.threshold, q))
    said = (
        "Each agent's own threshold, the larger the more points it rests on, beside the one in "
        "use. An agent whose own lies to the right is covered less than it would be alone."
    )
    if len(rows) > LINES and release.round.by:
        said += f" Left out: {counted(len(rows) - LINES, 'line')} where it loses less."
        rows = sorted(rows, key=_raised)[:LINES]
    return Section("thresholds", "Thresholds", said, [threshold_chart(rows, release.round.by)])


def _raised(row: tuple[str, str, int, float, float]) -> float:
    """Return how far the threshold in use lies above the agent's own; the least comes first."""
    *_, own, used = row
    return used - own if used < inf else inf


def _message_bytes(release: Release, plan: Plan, folder: Path) -> dict[str, list[tuple[int, int]]]:
    """Return, by agent, the bytes of every message whose files lie beside the record."""
    found: dict[str, list[tuple[int, int]]] = {}
    first = len(read_file(folder / "round.json")) if is_file(folder / "round.json") else 0
    for agent in release.agents:
        steps = []
        for step in range(release.rounds):
            file = _answer_file(folder, agent.name, step)
            if file is None:
                break
            data = read_file(file)
            try:
                answer = decode(data, Answer, plan.kinds)
            except FedwqcpError:
                break
            if answer.round != release.round.id:
                break
            steps.append(
                (first if step == 0 else _question_bytes(folder, agent.name, step), len(data))
            )
        if sum(up for _, up in steps) == agent.bytes_up and steps:
            found[agent.name] = steps
    return found


def _answer_file(folder: Path, agent: str, step: int) -> Path | None:
    """Return where an answer lies: in a record that was written while it ran, or beside it."""
    own = f"{agent}.json" if step == 0 else f"{agent}.step-{step}.json"
    places = (folder / "answers" / f"step-{step}" / f"{agent}.json", folder / own)
    return next((place for place in places if is_file(place)), None)


def _question_bytes(folder: Path, agent: str, step: int) -> int:
    """Return the bytes of a later question, where its file is there."""
    places = (folder / f"round.ask-{step}.{agent}.json", folder / f"round.ask-{step}.json")
    return next((len(read_file(place)) for place in places if is_file(place)), 0)


def _read_outputs(round: Round, options: ReportOptions) -> tuple[Outputs, Outputs | None]:
    """Read the agent's labelled test outputs and, where given, its calibration outputs."""
    if options.outputs is None:
        raise InputError("an agent's own report needs --agent and --outputs with labels")
    test = load_outputs(options.outputs, options.labels, round.classes)
    if test.labels is None:
        raise InputError("--outputs must hold labelled test points: coverage needs true labels")
    if not len(test.values):
        raise InputError("--outputs must hold at least one row, got none")
    if options.calibration is None:
        return test, None
    return test, load_outputs(options.calibration, classes=round.classes)


def _case(
    release: Release, agent: str, alpha: float, test: Outputs, again: Outputs | None
) -> _Case:
    """Make an agent's sets; its calibration data may be given once more."""
    cal = None if again is None else calibration_of(release.round, again)
    sets = predict(release, agent, test, alpha=alpha, calibration=cal)
    features = None if test.features is None else np.asarray(test.features, dtype=np.float64)
    group = test.groups if release.round.by == "group" else None
    threshold = agents_thresholds(release, agent, alpha, cal, features, group=group)
    known = known_rows(release, agent, test, again)
    findings = (*([replace(known, agents=(agent,))] if known else ()), *of_agent(release, agent))
    own = np.asarray(threshold)
    return _Case(release, agent, alpha, test, sets, own, cal, findings)


def _coverage(case: _Case) -> AgentCoverage:
    release = case.release
    if isinstance(release.score, MultiLabel):
        raise InputError(
            f"a report shows coverage, and {release.round.method.name} controls the false-negative "
            "rate: leave the test points out and call release.measure_risk (agent predict prints "
            "it too)"
        )
    found = metrics.measure(case.agent, case.sets, case.truth)
    own = case.calibration
    points = () if own is None else (("calibration points", f"{own.n:,}"),)
    floor = proved_at(release.round, own, case.alpha) or release.proved(case.agent, case.alpha)
    promise = () if floor is None else (("coverage proved", f"{floor:.3g}"),)
    flat = np.unique(case.threshold).tolist()
    return AgentCoverage(
        method=release.round.method.name,
        agent=case.agent,
        coverage=found.coverage,
        low=found.low,
        high=found.high,
        interval=interval(found),
        size=found.size,
        facts=(
            ("mean size", number(found.size)),
            ("empty sets", f"{found.empty:.1%}"),
            *points,
            *promise,
            ("threshold", threshold_range(flat, release.round.by)),
            ("its answer", release.status(case.agent)),
        ),
        rounds=release.rounds,
        guarantee=release.guarantee.in_words,
        assumption=release.assumption,
        infinite=flat == [inf] if release.round.by else inf in flat,
        explained=explained(found.n, own.n if own else points_of(release, case.agent), case.alpha),
    )


def _scores_section(case: _Case, scores: Floats) -> Section:
    bars = metrics.histogram(scores)
    own = float(conformal_quantile(scores, case.alpha))
    released = np.unique(case.threshold).tolist()
    chart = score_chart(case.agent, bars, own, released, case.release.round.method.name)
    return Section(
        "scores",
        "Scores and thresholds",
        "A score says how badly a label fits the model's output; a set holds every label whose "
        "score is at most the threshold. Solid line: the threshold of the chosen method. Dashed: "
        "the agent's own. Every bin holds at least ten people: smaller bins are merged, "
        "so bins differ in width, and a bar's area is its share of people."
        + ("" if bars.counts else f" {case.agent}: too few people for a bin."),
        [Charts({case.agent: chart})],
    )


def _classes_section(cases: Sequence[_Case]) -> list[Section]:
    """Return the coverage of each class, where sets hold labels and two lines or more can be."""
    rows, left = [], 0
    for case in cases:
        lines = _class_rates(case)
        left += len(lines[LINES:])
        for name, rate in lines[:LINES] if len(lines) > 1 else ():
            ends = f"{rate.low:.3f} to {rate.high:.3f}"
            rows.append((case.agent, name, f"{rate.n:,}", f"{rate.coverage:.3f}", ends))
    if not rows:
        return []
    said = "Each class has a threshold of its own."
    if cases[0].release.round.by != "label":
        said = (
            "One threshold for all classes promises coverage over all of them together, so a hard "
            "class may be covered less; a calibration by label has a threshold for each."
        )
    said += " Every line stands for at least ten people: smaller classes are merged."
    if left:
        said += f" Left out: {counted(left, 'line')} with higher coverage."
    columns = ("agent", "class", "test points", "coverage", "exact 95 % interval")
    table = Table("classes", "Coverage by class, lowest first", columns, rows, agents=0)
    return [Section("classes", "Classes", said, [table])]


def _class_rates(case: _Case) -> list[tuple[str, metrics.Rate]]:
    """Return the coverage of the classes, lowest first; none where sets hold no labels."""
    if not isinstance(case.sets, LabelSets):
        return []
    found = enumerate(metrics.by_class(case.sets, case.truth))
    return _merged([(_named(case.sets, at), rate) for at, rate in found])


def _group_rates(case: _Case) -> list[tuple[str, metrics.Rate]]:
    """Return the coverage of the groups, lowest first."""
    assert case.test.groups is not None  # without groups no sets were made
    found = metrics.by_group(case.sets, case.truth, case.test.groups)
    return _merged([(rate.group, rate) for rate in found])


def _merged(rates: Sequence[tuple[str, metrics.Rate]]) -> list[tuple[str, metrics.Rate]]:
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
        lines.append((name_list(few), metrics.Rate(n=n, hits=hits)))
    return sorted(lines, key=lambda line: line[1].coverage)


def _sizes_section(case: _Case) -> Section:
    """Return how large the sets are, in groups of at least ten people."""
    rows = [
        (said, f"{people:,}", f"{people / len(case.sets):.1%}")
        for said, people in _groups(case.sets)
    ]
    return Section(
        "sizes",
        "How large the sets are",
        "Every line stands for at least ten people; smaller groups are merged.",
        [Table("sizes", f"Sets by {case.size}", ("size", "people", "share"), rows)],
    )


def _groups(sets: LabelSets | Intervals) -> list[tuple[str, int]]:
    """Count sets by size, in groups of at least ten people."""
    if isinstance(sets, Intervals):
        return _length_groups(sets.sizes())
    found: list[tuple[str, int]] = []
    first, held = 0, 0
    counts = np.bincount(sets.sizes()).tolist()
    for size, count in enumerate(counts):
        held += count
        if held >= MIN_COUNT and (sum(counts[size + 1 :]) >= MIN_COUNT or size + 1 == len(counts)):
            only = held == max(counts[first : size + 1])  # all of them in one size
            at = first + counts[first : size + 1].index(held) if only else size
            found.append((str(at) if only else f"{first} to {size}", held))
            first, held = size + 1, 0
    return found


def _length_groups(lengths: Floats) -> list[tuple[str, int]]:
    """Count intervals by length, in groups of at least ten people; infinite ones are the last."""
    finite = lengths[lengths < inf]
    endless = len(lengths) - len(finite)
    bars = metrics.histogram(finite, bins=10)  # none where there are few
    ends = zip(bars.edges[:-1], bars.edges[1:], bars.counts, strict=True)
    lines = [(f"{number(low)} to {number(high)}", people) for low, high, people in ends]
    if not endless:
        return lines
    if endless >= MIN_COUNT and (lines or not len(finite)):
        return [*lines, ("infinite", endless)]
    if lines:  # few are infinite: they join the longest
        joined = (f"{number(bars.edges[-2])} to infinite", bars.counts[-1] + endless)
        return [*lines[:-1], joined]
    return [("finite or infinite", len(lengths))] if len(lengths) >= MIN_COUNT else []


def _examples_section(case: _Case, most: int) -> Section:
    """Return single points, the hardest first, because their owner asked for them."""
    truth, ids = case.truth, case.test.ids
    scored = calibration_of(case.release.round, case.test).scores
    hard = scored if scored.ndim == 1 else scored.max(axis=1)
    method = case.release.round.method.name
    points = []
    for place, row in enumerate(np.argsort(-hard, kind="stable")[:most].tolist()):
        name = str(row if ids is None else ids[row])
        points.append(
            ExamplePoint(
                agent=case.agent,
                title=f"No. {place + 1}: {name}",
                text=f"True answer: {_named(case.sets, float(truth[row]))}.",
                sets=[_example_set(method, case.sets, row, float(truth[row]))],
            )
        )
    return Section(
        "examples",
        "Examples, the hardest first",
        "Single people with their sets: shown because this report was asked for them. Do not pass "
        "it on.",
        [Gallery(points)],
    )


def _example_set(method: str, sets: LabelSets | Intervals, row: int, truth: float) -> ExampleSet:
    ends = sets[row]
    if isinstance(sets, LabelSets):
        members = zip(sets.names(row), ends, strict=True)
        return ExampleSet((method,), [(name, label == truth) for name, label in members])
    covered = ends[0] <= truth <= ends[1]
    return ExampleSet((method,), [(f"{number(ends[0])} to {number(ends[1])}", covered)])


def _named(sets: LabelSets | Intervals, truth: float) -> str:
    """Return a true label by its name, where it has one."""
    names = sets.classes if isinstance(sets, LabelSets) else ()
    return names[int(truth)] if names else number(truth)
