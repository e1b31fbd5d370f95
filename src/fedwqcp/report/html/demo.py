"""A report of the demo: its records, and what it kept beside them."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import islice
from math import isqrt
from pathlib import Path
from statistics import fmean

from fedwqcp import methods, scores
from fedwqcp.demo.records import (
    REPORT_FILE,
    AgentProfile,
    Example,
    Record,
    ReportRecord,
    Skipped,
    Traffic,
    load_records,
    load_report,
)
from fedwqcp.errors import InputError
from fedwqcp.report.html.charts import gap_chart, partition_chart
from fedwqcp.report.html.page import (
    Block,
    ExamplePoint,
    ExampleSet,
    Gallery,
    Page,
    ReportOptions,
    Section,
    Table,
    TableRow,
    Text,
    View,
    interval,
    number,
    rate_of,
    threshold_range,
)
from fedwqcp.report.html.sections import (
    AgentCoverage,
    coverage_cards,
    coverage_comparison,
    coverage_verdict,
    diagnosis_section,
    messages_section,
    method_order,
    scores_section,
)
from fedwqcp.report.terminal import POLICIES
from fedwqcp.theory import diagnose
from fedwqcp.wire.messages import LocalQuantile


def is_demo(path: Path) -> bool:
    """Tell whether a folder is the demo's."""
    try:
        with (path / "records.jsonl").open(encoding="utf-8") as file:
            return "experiment" in json.loads(next(islice(file, 1), "{}"))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def demo_page(path: Path, options: ReportOptions) -> Page:
    """Return the page of the demo, one view for each dataset."""
    records = load_records(path / "records.jsonl")
    kept = load_report(path / REPORT_FILE)
    main = [r for r in records if r.experiment == "methods"]
    if not main:
        raise InputError(f"{path / 'records.jsonl'} holds no comparison of methods")
    first = main[0]
    datasets = list(dict.fromkeys(r.dataset for r in main))
    return Page(
        kind="fedwqcp demo",
        title=f"{len({r.agent for r in main})} unequal agents, method by method",
        facts=(
            ("Asked for", f"coverage {1 - first.alpha:g} (alpha = {first.alpha:g})"),
            (
                "Methods",
                "; ".join(
                    f"{name} {len({r.method for r in main if r.dataset == name})}"
                    for name in datasets
                ),
            ),
            ("Seed", str(first.seed)),
            ("Software", first.code),
        ),
        views=[
            _view(
                [r for r in records if r.dataset == dataset],
                [s for s in kept if s.dataset == dataset],
                options,
            )
            for dataset in datasets
        ],
    )


def _view(records: Sequence[Record], kept: Sequence[ReportRecord], options: ReportOptions) -> View:
    """Return all about one dataset."""
    main = [r for r in records if r.experiment == "methods"]
    methods = method_order({r.method for r in main})
    main.sort(key=lambda r: methods.index(r.method))
    first, nominal = main[0], 1 - main[0].alpha
    profiles = [s for s in kept if isinstance(s, AgentProfile)]
    traffic = [s for s in kept if isinstance(s, Traffic)]
    examples = [s for s in kept if isinstance(s, Example)]
    size = "labels in a set" if first.task == "classification" else "length of the interval"
    used = {(t.method, t.agent): t.used for t in traffic}
    found = [_coverage(r, size, used.get((r.method, r.agent))) for r in main]
    tested = f"Each agent's sets on the same {first.tested:,} test points."
    about = [
        coverage_cards(found, nominal, tested),
        coverage_comparison(found, nominal, size, first.dataset),
        *_settings(main, used, [s for s in kept if isinstance(s, Skipped)]),
    ]
    if profiles:
        about.append(_scores(profiles, main, methods[0]))
        about.append(_partition(profiles, first))
    if options.examples and examples:
        about.append(_examples(examples, options.examples, methods))
    about.append(_messages(main, traffic, methods[0]))
    if profiles:
        about += [_diagnosis(profiles, main), _decomposition(profiles)]
    about += _scarce([r for r in records if r.experiment == "overflow"])
    return View(
        title=first.dataset,
        methods=methods,
        agents=list(dict.fromkeys(r.agent for r in main)),
        method=methods[0],
        verdicts={
            name: coverage_verdict(name, [m for m in found if m.method == name], nominal)
            for name in methods
        },
        sections=about,
        stand_in="Drawn from a formula, measured nowhere." if "synthetic" in first.dataset else "",
    )


def _coverage(r: Record, size: str, used: bool | None) -> AgentCoverage:
    """Return what one record says."""
    rate = rate_of(r.covered, r.tested)
    answer = {None: "not known", True: "used", False: "left out, too few points"}[used]
    return AgentCoverage(
        method=r.method,
        agent=r.agent,
        note=f"{r.model} model",
        coverage=rate.coverage,
        low=rate.low,
        high=rate.high,
        interval=interval(rate),
        size=r.size,
        facts=(
            (f"mean {size}", number(r.size)),
            ("calibration points", f"{r.n:,}"),
            ("threshold", threshold_range(r.threshold)),
            ("its answer", answer if r.rounds else "none was asked for"),
            ("bytes sent", f"{r.bytes_up:,}"),
        ),
        promise=(str(r.rounds), r.guarantee, r.assumption),
    )


def _settings(
    main: Sequence[Record],
    used: Mapping[tuple[str, str], bool],
    skipped: Sequence[Skipped],
) -> list[Section]:
    """Return which settings differ from a method's own, and what was left out."""
    rows = []
    for name in dict.fromkeys(r.method for r in main):
        said = _own_settings(next(r for r in main if r.method == name))
        without = [r.agent for r in main if r.method == name and used.get((name, r.agent)) is False]
        if without:
            said.append(f"left out, with too few points: {', '.join(without)}")
        if said:
            rows.append(TableRow((name, "; ".join(said))))
    rows += [TableRow((s.method, f"not used: {s.reason}")) for s in skipped]
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


def _own_settings(record: Record) -> list[str]:
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


def _scores(profiles: Sequence[AgentProfile], main: Sequence[Record], method: str) -> Section:
    """Return the scores with all thresholds."""
    released: dict[str, list[tuple[str, float]]] = {}
    for r in main:
        values = (r.threshold,) if isinstance(r.threshold, float) else r.threshold
        released.setdefault(r.agent, []).extend((r.method, q) for q in values)
    panels = {p.agent: (p.edges, p.people, p.local) for p in profiles}
    return scores_section(panels, released, method)


def _partition(profiles: Sequence[AgentProfile], first: Record) -> Section:
    """Return who holds what."""
    classes = len(profiles[0].counts) > 1
    beta = first.config.get("demo.beta")
    drawn = f"drawn from a Dirichlet distribution with beta = {beta}"
    shares = "unequal" if beta is None else drawn
    what = "class" if classes else "all points"
    over = "class by class" if classes else "cluster by cluster of the inputs"
    return Section(
        "partition",
        "Who holds what",
        f"Agents' shares of the calibration data are {shares}, {over}: the smaller beta, the less "
        "alike the agents.",
        [partition_chart({p.agent: p.counts for p in profiles}, what)],
    )


def _examples(examples: Sequence[Example], most: int, methods: Sequence[str]) -> Section:
    """Return the hardest points with their sets."""
    rows = list(dict.fromkeys(e.row for e in examples))[:most]
    points = [_example(e, rows.index(e.row), methods) for e in examples if e.row in rows]
    return Section(
        "examples",
        "Examples, the hardest first",
        f"{len(rows)} test points whose truth the models find least likely, as one agent sees "
        "them: choose the agent above. The true answer is marked.",
        [Gallery(points)],
    )


def _example(e: Example, place: int, methods: Sequence[str]) -> ExamplePoint:
    """Return one point as one agent sees it."""
    if e.probability is None:
        text = f"Truth: {number(e.truth)}. The model says {number(e.said)}."
        sets = [_interval(name, e) for name in methods if name in e.sets]
    else:
        truth = int(e.truth)
        text = f"Truth: {truth}. The model says {int(e.said)}, and gives the truth {_percent(e)}."
        sets = [
            ExampleSet(
                (name,),
                [(str(int(label)), label == e.truth) for label in e.sets[name]],
                e.truth in e.sets[name],
            )
            for name in methods
            if name in e.sets
        ]
    image = picture(e.pixels)
    alt = f"Handwritten digit labelled {e.truth:.0f}" if image else ""
    return ExamplePoint(e.agent, f"No. {place + 1} at {e.agent}", text, image, alt, distinct(sets))


def _percent(e: Example) -> str:
    """Write what the model gave the truth."""
    return "less than 1 %" if (e.probability or 0) < 0.01 else f"{100 * (e.probability or 0):.0f} %"


def _interval(name: str, e: Example) -> ExampleSet:
    """Return one interval."""
    low, high = e.sets[name]
    covered = low <= e.truth <= high
    return ExampleSet((name,), [(f"{number(low)} to {number(high)}", covered)], covered)


def _messages(main: Sequence[Record], traffic: Sequence[Traffic], method: str) -> Section:
    """Return what was sent."""
    totals = [(r.method, r.agent, r.bytes_up, r.bytes_down) for r in main]
    single = {(t.method, t.agent): list(zip(t.down, t.up, strict=True)) for t in traffic}
    return messages_section(totals, single, method)


def _diagnosis(profiles: Sequence[AgentProfile], main: Sequence[Record]) -> Section:
    """Return what the summaries of FedWQ-CP show."""
    n = {r.agent: r.n for r in main}
    config = {key[6:]: value for key, value in main[0].config.items() if key.startswith("score.")}
    name = str(config.pop("name"))
    config.pop("rule")
    classes = len(profiles[0].counts) if main[0].task == "classification" else None
    bounds = scores.get(name, **config).bounds(classes)  # type: ignore[arg-type]  # checked there
    sent = {p.agent: LocalQuantile(p.local, n[p.agent]) for p in profiles}
    return diagnosis_section(diagnose(sent, main[0].alpha, bounds))


def _decomposition(profiles: Sequence[AgentProfile]) -> Section:
    """Return where FedWQ-CP's gaps come from."""
    first = profiles[0]
    lines = [
        f"The threshold that FedWQ-CP released is {number(first.released)}; the quantile of all "
        f"agents' scores together, which no server may compute, is {number(first.mixture)}.",
        "A gap is at most its shift part plus its aggregation part (the paper's Theorem 1): the "
        "theorem locates a gap and bounds nothing by itself.",
    ]
    chart = gap_chart([(p.agent, p.coverage_mixture, p.coverage) for p in profiles], first.level)
    blocks: list[Block] = [chart, Text(lines)]
    return Section(
        "theory",
        "Where FedWQ-CP's gaps come from",
        "First the step from the nominal coverage to what the quantile of all scores together "
        "would cover at this agent (shift: its test scores are unlike the mixture). Then the step "
        "that averaging thresholds adds (aggregation).",
        blocks,
    )


def _scarce(records: Sequence[Record]) -> list[Section]:
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
            threshold_range(own[0].threshold),
            f"{fmean(r.coverage for r in own):.3f}",
            f"{worst.coverage:.3f} at {worst.agent}",
            number(fmean(r.size for r in own)),
        )
        rows.append(TableRow(cells))
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


def distinct(sets: Iterable[ExampleSet]) -> list[ExampleSet]:
    """Return each set once, with all methods that give it."""
    found: dict[tuple[tuple[str, bool], ...], ExampleSet] = {}
    for one in sets:
        key = tuple(one.members)
        before = found[key].methods if key in found else ()
        found[key] = replace(one, methods=(*before, *one.methods))
    return list(found.values())


def picture(pixels: Sequence[int]) -> str:
    """Return a square grey image as an address that holds all of it."""
    if not pixels:
        return ""
    side = isqrt(len(pixels))
    lines = (bytes(255 - p for p in pixels[at : at + side]) for at in range(0, len(pixels), side))
    head = struct.pack(">2I5B", side, side, 8, 0, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(b"".join(b"\0" + line for line in lines)))
    file = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in (*parts, (b"IEND", b"")))
    return f"data:image/png;base64,{b64encode(file).decode()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    """Return one part of a PNG."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
