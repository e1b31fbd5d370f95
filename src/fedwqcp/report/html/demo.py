"""The demo's page: four hospitals, the hospital with few patients, the newcomer, a regression."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from statistics import fmean

from fedwqcp._io import is_file
from fedwqcp.demo.demo import (
    ACTS,
    FEW,
    RESULTS_FILE,
    SIMULATED,
    MethodResult,
    Patient,
    Results,
    load_results,
)
from fedwqcp.demo.text import advised, closing, newcomer_excludes_nothing, simulated_cells
from fedwqcp.quantile import least_sample
from fedwqcp.report.html.charts import answers_chart, interval_chart
from fedwqcp.report.html.page import (
    Bar,
    Block,
    Card,
    Cards,
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
    against_nominal,
    distinct,
    explained,
    name_list,
    number,
    sentence,
    verdict_rule,
)


def demo_page(path: Path, options: ReportOptions) -> Page | None:
    """Return the page of the demo, one view for each act; None where a folder is not the demo's."""
    if not is_file(path / RESULTS_FILE):
        return None
    options.refuse_data("the demo")  # its data are public: the patients are always shown
    results = load_results(path / RESULTS_FILE)
    return Page(
        kind="fedwqcp demo",
        title="Heart disease at four hospitals: who is covered, and by which method",
        facts=(
            ("Asked for", f"coverage {_percent(1 - results.alpha)} at each hospital"),
            ("Data", "UCI Heart Disease, 920 patients, CC BY 4.0"),
            ("Split", f"seed {results.seed}"),
            ("Software", results.code),
        ),
        views=[_view(results, act) for act in ACTS],
    )


def _view(results: Results, act: str) -> View:
    found = results.of(act)
    names = list(dict.fromkeys(map(_name, found)))
    chosen = next((_name(f) for f in found if f.method == "auto"), names[0])
    return View(
        title=ACTS[act],
        agents=list(dict.fromkeys(f.agent for f in found)),
        method=chosen,
        verdicts={
            name: _verdict(name, [f for f in found if _name(f) == name], 1 - results.alpha)
            for name in names
        },
        sections=_sections(results, act, chosen),
        agents_title="Clinics" if act == "clinics" else "Hospitals",
    )


def _sections(results: Results, act: str, chosen: str) -> list[Section]:
    """Return the sections of one act, the answer first."""
    found = results.of(act)
    best = _newcomer(results) if act == "joins" else _best(results, act)
    covered = Section(
        "coverage",
        "Coverage at each hospital" if act != "clinics" else "Coverage at each clinic",
        "Each on its own test patients. The vertical line is what was asked for, the band the "
        f"exact 95 % interval. {verdict_rule(1 - results.alpha)}",
        [_cards(found, 1 - results.alpha), _interval_chart(results, act, chosen)],
    )
    if act == "clinics":
        return [best, covered, _splits(results, act), _promises(results, act)]
    shares = [
        (_name(f), f.agent, 100 * f.none / f.tested, 100 * f.one / f.tested, 100 * f.all / f.tested)
        for f in found
    ]
    answers = Section(
        "answers",
        "How many answers a set holds",
        "A method that gives both answers to every patient has full coverage and is of no use.",
        [answers_chart(shares, method=chosen)],
    )
    if act != "four":
        return [best, covered, answers, _splits(results, act), _promises(results, act)]
    return [
        best,
        covered,
        answers,
        _meaning(results),
        _promises(results, act),
        _patients(results, hard=False),
        _patients(results, hard=True),
        _splits(results, act),
        _sent(found),
        _hospitals(results),
    ]


def _meaning(results: Results) -> Section:
    """Say what a clinician does with a set."""
    level = _percent(1 - results.alpha)
    lines = (
        "One answer: the model is sure enough to name one. Use it as you would use the model's "
        "answer. It can be wrong.",
        "Both answers: the model cannot tell for this patient. Treat the patient as undecided and "
        "do what you would do without the model: the next test, or a colleague's opinion.",
        "No answer: an effect of chance in the score, mostly where the model is sure. It says "
        "nothing about the patient: treat the patient as undecided. The setting allow_empty=False "
        "avoids such sets.",
        f"The promise is about many patients, not about one: {level} coverage does not mean that "
        f"this set is right with probability {level}. It also does not hold for each sex or age "
        "group separately, nor for the sets of one answer alone.",
    )
    text = Text(lines, title="Read a set like this")
    return Section("meaning", "What a set means, and what to do with it", "", [text])


def _best(results: Results, act: str) -> Section:
    """Say what to use, why, and what all methods gave."""
    said = [closing(results), advised(results)] if act == "four" else [advised(results, act)]
    word = "Best method here" if act == "four" else "Advised here"
    blocks: list[Block] = [Text(said, "plain", word)]
    if act == "few":
        name, n = FEW
        least = least_sample(results.alpha)
        says = (
            f"{name} keeps {n} of its calibration patients. Alone it needs at least {least} for a "
            "threshold that excludes anything."
        )
        if n < least:
            says += (
                " This is where a federation pays; a hospital with enough patients of its own can "
                "use split-cp and send nothing."
            )
        blocks.append(Text([says]))
    if act == "clinics":
        says = "The advice knows what was sent, and no test patient: compare the lengths below."
        blocks.append(Text([says]))
    said_by_library = Text([sentence(results.advice(act).text)], title="What the library says")
    blocks += [_comparison(results, act), said_by_library]
    return Section("best", "Which method?", "", blocks)


def _newcomer(results: Results) -> Section:
    """Say what can be promised to a hospital that joins without labels."""
    least, advice = least_sample(results.alpha), sentence(results.advice("joins").text)
    all_ = (
        "; with three, every set holds both answers" if newcomer_excludes_nothing(results) else ""
    )
    lines = [
        "Each hospital is left out in turn: it has a model and no labelled calibration patients, "
        "and uses the threshold of the other three.",
        f"new-agent-cp promises coverage at a newcomer if hospitals are exchangeable. It needs "
        f"{least} of them for {_percent(1 - results.alpha)}{all_}.",
        "Every other method promises nothing to a newcomer: one that is unlike the others can be "
        "covered far less.",
    ]
    labels = f"Best here: label {least} patients or more, then calibrate."
    blocks: list[Block] = [
        Text([labels], "plain", "Best method here"),
        Text(lines),
        Text([advice], title="Advised if a fifth hospital joins"),
        _comparison(results, "joins"),
        *_simulated(results),
    ]
    return Section("best", "What is promised to a new hospital", "", blocks)


def _simulated(results: Results) -> list[Block]:
    """Show what the methods cover where there are enough sites, which are simulated."""
    rows = [(s.method, *simulated_cells(s)) for s in results.spread if s.act == "simulated"]
    if not rows:
        return []
    columns = ("method", "coverage at a new site, in %", "new sites covered as asked for")
    says = (
        f"{SIMULATED}: scores of a site are normal around a mean of its own, which is drawn anew "
        "for each. Nothing here is of a patient; it shows what new-agent-cp does with enough sites."
    )
    return [Text([says], title="Simulated"), Table("simulated", SIMULATED, columns, rows)]


def _comparison(results: Results, act: str) -> Table:
    found = results.of(act)
    agents = list(dict.fromkeys(f.agent for f in found))
    last = "mean length" if act == "clinics" else "one answer"
    rows = []
    for name in dict.fromkeys(map(_name, found)):
        own = [f for f in found if _name(f) == name]
        tested = sum(f.tested for f in own)
        one = _percent(sum(f.one for f in own) / tested)
        cells = [f"{_percent(f.rate.coverage)} {_interval(f)}" for f in own]
        sent = f"{max(f.bytes_up for f in own):,}"
        rows.append((name, *cells, _length(own) if act == "clinics" else one, sent))
    columns = ("method", *agents, last, "most bytes sent")
    return Table("methods", "Methods side by side", columns, rows)


def _cards(found: Sequence[MethodResult], nominal: float) -> Cards:
    groups: dict[str, list[Card]] = {}
    for f in found:
        tone, word = _judged(f, nominal)
        groups.setdefault(_name(f), []).append(
            Card(
                agent=f.agent,
                tone=tone,
                word=word,
                figure=_percent(f.rate.coverage),
                label=f"covered, {f.covered} of {f.tested} patients",
                interval=f"exact 95 % interval {_interval(f)}",
                facts=_facts(f),
                bar=Bar(f.rate.low, f.rate.coverage, f.rate.high, nominal, 0.0),
            )
        )
    return Cards(groups)


def _facts(f: MethodResult) -> list[tuple[str, str]]:
    """Return what else a card says."""
    shared = [("calibration patients", f"{f.n}"), ("bytes sent", f"{f.bytes_up:,}")]
    if f.act == "clinics":
        return [("mean length", _length([f])), *shared]
    shares = (("no answer", f.none), ("one answer", f.one), ("both answers", f.all))
    return [*((name, _percent(count / f.tested)) for name, count in shares), *shared]


def _interval_chart(results: Results, act: str, chosen: str) -> Block:
    rows = []
    for f in results.of(act):
        spread = results.spread_of(act, f.method, f.agent)
        tone, word = _judged(f, 1 - results.alpha)
        rows.append(
            {
                "method": _name(f),
                "agent": f.agent,
                "low": round(100 * f.rate.low, 2),
                "coverage": round(100 * f.rate.coverage, 2),
                "high": round(100 * f.rate.high, 2),
                "splits": None if spread is None else round(100 * spread.mean, 2),
                "tone": tone,
                "says": f"{_percent(f.rate.coverage)}, {word}",
            }
        )
    return interval_chart(rows, nominal=100 * (1 - results.alpha), method=chosen)


def _patients(results: Results, *, hard: bool) -> Section:
    """Show typical or hard patients with their sets."""
    names = {f.method: _name(f) for f in results.of("four")}
    own = [p for p in results.patients if p.hard == hard]
    points = []
    for agent in dict.fromkeys(p.agent for p in own):
        mine = [p for p in own if p.agent == agent]
        points += [_patient(p, place, names) for place, p in enumerate(mine, 1)]
    title, lead = "Typical patients", "The model gives the true answer a typical probability."
    if hard:
        title, lead = "Hard patients", "The model gives the true answer a low probability."
    text = f"{lead} One hospital at a time: choose it above. The true answer is marked."
    return Section("hard" if hard else "typical", title, text, [Gallery(points)])


def _patient(p: Patient, place: int, names: dict[str, str]) -> ExamplePoint:
    says = f"The model gives disease {_percent(p.disease)}. True answer: {p.truth}."
    sets = [
        ExampleSet((name,), [(c, c == p.truth) for c in p.sets[method]])
        for method, name in names.items()
    ]
    title = f"{p.about[:1].upper()}{p.about[1:]}"
    return ExamplePoint(p.agent, f"{p.agent} {place}: {title}", says, distinct(sets))


def _splits(results: Results, act: str) -> Section:
    """Show mean and spread over many splits."""
    rows = []
    for f in results.of(act):
        spread = results.spread_of(act, f.method, f.agent)
        if spread is not None:
            rows.append(
                (
                    _name(f),
                    f.agent,
                    f"{100 * spread.mean:.1f} %",
                    f"{100 * spread.sd:.1f}",
                    f"{100 * spread.low:.0f} to {100 * spread.high:.0f} %",
                )
            )
    count = results.spread[0].splits if results.spread else 0
    columns = ("method", "hospital", "mean coverage", "standard deviation", "nine of ten splits")
    lead = (
        "One split of a few dozen patients is mostly chance. The same on "
        f"{count} random splits (command: fedwqcp demo --splits {count}). Splits share patients, "
        "so there is a spread and no interval. The advised row takes what was advised in each "
        "split."
    )
    if not rows:
        none = "Known for the default level only: run fedwqcp demo --splits 200 --alpha ..."
        return Section("splits", "Many splits", none, [])
    table = Table("splits", "Coverage", columns, rows, agents=1)
    return Section("splits", f"{count} splits", lead, [table])


def _sent(found: Sequence[MethodResult]) -> Section:
    """Show what left each hospital."""
    rows = [(_name(f), f.agent, f"{f.bytes_up:,}", str(f.rounds)) for f in found]
    columns = ("method", "hospital", "bytes sent", "rounds")
    lead = (
        "FedWQ-CP sends one threshold and one count. The assessment behind the advice sends up to "
        "sixteen order statistics and class counts more. Patients and models stay where they are."
    )
    table = Table("sent", "Bytes", columns, rows, agents=1)
    return Section("sent", "What left each hospital", lead, [table])


def _promises(results: Results, act: str) -> Section:
    """Show what is proved of each method, and under which assumption."""
    promises = {_name(f): (f.guarantee, f.assumption) for f in results.of(act)}
    rows = [(name, *said) for name, said in promises.items()]
    columns = ("method", "promise", "assumption")
    level, table = _percent(1 - results.alpha), Table("promises", "", columns, rows)
    if act != "four":
        return Section("promises", "What is promised", "", [table])
    lines = (
        "Coverage at each agent: of many patients like those that a hospital calibrated on, at "
        f"least {level} get a set that holds the true answer.",
        "At the target distribution: the same here, since each hospital predicts its own patients.",
        "Over the mixture of agents: the same for the patients of all hospitals together; nothing "
        "for those of a single one.",
        f"Approximately: about {level}, without a proof. None: only what was measured.",
    )
    text = Text(lines, title="In plain words")
    return Section("promises", "What is promised", "", [text, table])


def _hospitals(results: Results) -> Section:
    """Show what each hospital has, and where the data come from."""
    rows = [
        (
            s.name,
            str(s.patients),
            _percent(s.share),
            s.model,
            *map(str, (s.trained, s.calibration, s.test)),
        )
        for s in results.sites
    ]
    columns = ("hospital", "patients", "disease", "model", "train", "calibrate", "test")
    notice = (
        "UCI Heart Disease, doi.org/10.24432/C52P4X, CC BY 4.0: Andras Janosi, M.D. (Budapest); "
        "William Steinbrunn, M.D. (Zurich); Matthias Pfisterer, M.D. (Basel); Robert Detrano, "
        "M.D., Ph.D. (Long Beach and Cleveland). A demonstration, not a medical device."
    )
    table = Table("hospitals", "Patients and models", columns, rows, agents=0)
    return Section("data", "The hospitals and their data", "", [table, Text([notice])])


def _judged(f: MethodResult, nominal: float) -> tuple[Tone, str]:
    rate, least = f.rate, explained(f.tested, f.n, 1 - nominal)
    return against_nominal(rate.low, rate.coverage, rate.high, nominal, least)


def _verdict(name: str, own: Sequence[MethodResult], nominal: float) -> ViewVerdict:
    """Judge a method by its coverage at every hospital."""
    judged = [(f, *_judged(f, nominal)) for f in own]
    below = [f.agent for f, tone, _ in judged if tone == "bad"]
    unsure = [f.agent for f, tone, _ in judged if tone == "plain"]
    worst = min(own, key=lambda f: f.rate.coverage)
    said = (
        f"{name} covers {_percent(worst.rate.coverage)} of the test patients at {worst.agent}, its "
        f"lowest (exact 95 % interval {_interval(worst)}), where {_percent(nominal)} was asked for"
    )
    if below:
        lie = "lies" if len(below) == 1 else "lie"
        text = f"{said}. {len(below)} of {len(own)} intervals {lie} below."
        return ViewVerdict("bad", f"Too low at {name_list(below)}", text)
    if all(f.all == f.tested for f in own) and own[0].act != "clinics":
        text = f"{name} gives both answers to every patient: full coverage, but of no use."
        return ViewVerdict("caution", "Says nothing", text)
    if unsure:
        text = f"{said}. No hospital's interval lies below."
        return ViewVerdict("plain", f"Too few cases to tell at {name_list(unsure)}", text)
    return ViewVerdict("good", "On target", f"{said}.")


def _name(found: MethodResult) -> str:
    """Name a method as the page does."""
    return f"{found.chosen} (advised)" if found.method == "auto" else found.method


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _interval(f: MethodResult) -> str:
    return f"[{100 * f.rate.low:.0f}, {100 * f.rate.high:.0f}]"


def _length(own: Sequence[MethodResult]) -> str:
    return number(fmean(inf if f.size is None else f.size for f in own))
