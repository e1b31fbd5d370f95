"""What the demo kept, as sections: scores, partition, examples, messages, diagnosis, theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from statistics import fmean

from fedwqcp import methods, scores
from fedwqcp.demo import records as demo_records
from fedwqcp.demo.records import Record
from fedwqcp.errors import InputError
from fedwqcp.report.html import sections
from fedwqcp.report.html.blocks import Block, Row, Table, Text
from fedwqcp.report.html.examples import Drawn, Example, Gallery, distinct, picture
from fedwqcp.report.html.page import Section
from fedwqcp.report.html.panels import gap, partition
from fedwqcp.report.html.words import number, thresholds
from fedwqcp.report.tables import POLICIES
from fedwqcp.theory import diagnose
from fedwqcp.wire.payload import LocalQuantile


def settings_section(
    main: Sequence[Record],
    used: Mapping[tuple[str, str], bool],
    skipped: Sequence[demo_records.Skipped],
) -> list[Section]:
    """Return which settings differ from a method's own, and what was left out."""
    rows = []
    for name in dict.fromkeys(r.method for r in main):
        said = _settings(next(r for r in main if r.method == name))
        without = [r.agent for r in main if r.method == name and used.get((name, r.agent)) is False]
        if without:
            said.append(f"left out, with too few points: {', '.join(without)}")
        if said:
            rows.append(Row((name, "; ".join(said))))
    rows += [Row((s.method, f"not used: {s.reason}")) for s in skipped]
    if not rows:
        return []
    return [
        Section(
            "settings",
            "Settings, and what was left out",
            "Where a method does not run on these data as by default, or cannot run on them.",
            [Table("settings", "Settings and reasons", ("method", "setting or reason"), rows)],
        )
    ]


def _settings(record: Record) -> list[str]:
    """Return the settings of a method that differ from its defaults."""
    try:
        usual = {f.name: f.default for f in fields(methods.find(record.method))}  # type: ignore[arg-type]  # all are dataclasses
    except InputError:  # written by a version, or a plugin, that is not here
        return []
    own = {k[7:]: v for k, v in record.config.items() if k.startswith("method.")}
    return [f"{k} = {_short(v)}" for k, v in own.items() if k in usual and v != usual[k]]


def _short(value: object) -> str:
    """Write a setting on one line."""
    if isinstance(value, tuple | list) and len(value) > 2:
        return f"{len(value)} numbers"
    return str(value)


def scores_section(
    profiles: Sequence[demo_records.AgentProfile], main: Sequence[Record], method: str
) -> Section:
    """Return the scores with all thresholds."""
    released: dict[str, list[tuple[str, float]]] = {}
    for r in main:
        values = (r.threshold,) if isinstance(r.threshold, float) else r.threshold
        released.setdefault(r.agent, []).extend((r.method, q) for q in values)
    panels = {p.agent: (p.edges, p.people, p.local) for p in profiles}
    return sections.score_panels(panels, released, method)


def partition_section(profiles: Sequence[demo_records.AgentProfile], first: Record) -> Section:
    """Return who holds what."""
    classes = len(profiles[0].counts) > 1
    beta = first.config.get("demo.beta")
    law = f"drawn from a Dirichlet law with beta = {beta}" if beta is not None else "unequal"
    what = "class" if classes else "all points"
    over = "class by class" if classes else "cluster by cluster of the inputs"
    return Section(
        "partition",
        "Who holds what",
        f"Agents' shares of the calibration data are {law}, {over}: the smaller beta, the less "
        "alike the agents.",
        [partition({p.agent: p.counts for p in profiles}, what)],
    )


def examples_section(
    examples: Sequence[demo_records.Example], most: int, methods: Sequence[str]
) -> Section:
    """Return the hardest points with their sets."""
    rows = list(dict.fromkeys(e.row for e in examples))[:most]
    shown = [_example(e, rows.index(e.row), methods) for e in examples if e.row in rows]
    return Section(
        "examples",
        "Examples, the hardest first",
        f"{len(rows)} test points whose truth the models find least likely, as one agent sees "
        "them: choose the agent above. The true answer is marked.",
        [Gallery(shown)],
    )


def _example(e: demo_records.Example, place: int, methods: Sequence[str]) -> Example:
    """Return one point as one agent sees it."""
    if e.probability is None:
        text = f"Truth: {number(e.truth)}. The model says {number(e.said)}."
        sets = [_interval(name, e) for name in methods if name in e.sets]
    else:
        truth = int(e.truth)
        text = f"Truth: {truth}. The model says {int(e.said)}, and gives the truth {_percent(e)}."
        sets = [
            Drawn(
                (name,),
                [(str(int(label)), label == e.truth) for label in e.sets[name]],
                e.truth in e.sets[name],
            )
            for name in methods
            if name in e.sets
        ]
    image = picture(e.pixels)
    alt = f"Handwritten digit labelled {e.truth:.0f}" if image else ""
    return Example(e.agent, f"No. {place + 1} at {e.agent}", text, image, alt, distinct(sets))


def _percent(e: demo_records.Example) -> str:
    """Write what the model gave the truth."""
    return "less than 1 %" if (e.probability or 0) < 0.01 else f"{100 * (e.probability or 0):.0f} %"


def _interval(name: str, e: demo_records.Example) -> Drawn:
    """Return one interval."""
    low, high = e.sets[name]
    covered = low <= e.truth <= high
    return Drawn((name,), [(f"{number(low)} to {number(high)}", covered)], covered)


def sent_section(
    main: Sequence[Record], traffic: Sequence[demo_records.Traffic], method: str
) -> Section:
    """Return what was sent."""
    totals = [(r.method, r.agent, r.bytes_up, r.bytes_down) for r in main]
    single = {(t.method, t.agent): list(zip(t.down, t.up, strict=True)) for t in traffic}
    return sections.messages(totals, single, method)


def diagnosis_section(
    profiles: Sequence[demo_records.AgentProfile], main: Sequence[Record]
) -> Section:
    """Return what the summaries of FedWQ-CP show."""
    n = {r.agent: r.n for r in main}
    config = {key[6:]: value for key, value in main[0].config.items() if key.startswith("score.")}
    name = str(config.pop("name"))
    config.pop("rule")
    classes = len(profiles[0].counts) if main[0].task == "classification" else None
    bounds = scores.get(name, **config).bounds(classes)  # type: ignore[arg-type]  # checked there
    sent = {p.agent: LocalQuantile(p.local, n[p.agent]) for p in profiles}
    return sections.diagnosis(diagnose(sent, main[0].alpha, bounds))


def theory_section(profiles: Sequence[demo_records.AgentProfile]) -> Section:
    """Return where FedWQ-CP's gaps come from."""
    first = profiles[0]
    lines = [
        f"The threshold that FedWQ-CP released is {number(first.released)}; the quantile of all "
        f"agents' scores together, which no server may compute, is {number(first.mixture)}.",
        "A gap is at most its shift part plus its aggregation part (the paper's Theorem 1): the "
        "theorem locates a gap and bounds nothing by itself.",
    ]
    chart = gap([(p.agent, p.coverage_mixture, p.coverage) for p in profiles], first.level)
    blocks: list[Block] = [chart, Text(lines)]
    return Section(
        "theory",
        "Where FedWQ-CP's gaps come from",
        "First the step from the nominal coverage to what the quantile of all scores together "
        "would cover at this agent (shift: its test scores are unlike the mixture). Then the step "
        "that averaging thresholds adds (aggregation).",
        blocks,
    )


def scarce_sections(records: Sequence[Record]) -> list[Section]:
    """Return what each overflow rule makes of an agent with too few points."""
    if not records:
        return []
    rows = []
    for policy in dict.fromkeys(str(r.config["method.overflow"]) for r in records):
        own = [r for r in records if r.config["method.overflow"] == policy]
        worst = min(own, key=lambda r: r.coverage)
        cells = (
            policy,
            POLICIES.get(policy, ""),
            thresholds(own[0].threshold),
            f"{fmean(r.coverage for r in own):.3f}",
            f"{worst.coverage:.3f} at {worst.agent}",
            number(fmean(r.size for r in own)),
        )
        rows.append(Row(cells))
    poor = str(records[0].config["demo.scarce_agent"])
    points = next(r.n for r in records if r.agent == poor)
    columns = ("rule", "what it does", "threshold", "mean coverage", "worst", "mean size")
    return [
        Section(
            "scarce",
            "An agent with too few points",
            f"{poor} keeps {points} points, too few for a finite threshold of its own. What then "
            "happens is a setting of the round, never a silent choice.",
            [Table("overflow", "FedWQ-CP under each rule", columns, rows)],
        )
    ]
