"""A report of a benchmark: coverage and size over seeds, dataset by dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate, explained
from fedwqcp.report.html import save
from fedwqcp.report.html.charts import AGENT_FILTER, METHOD_FILTER, chart_of, spec_of, unchecked
from fedwqcp.report.html.page import (
    Chart,
    Page,
    Section,
    Table,
    View,
    counted,
    interval,
    name_list,
    number,
)
from fedwqcp.report.html.rounds import (
    AgentCoverage,
    coverage_cards,
    coverage_comparison,
    coverage_verdict,
)
from fedwqcp.theory import diagnose
from fedwqcp.wire.messages import LocalQuantile
from fedwqcp_lab.comparison import INTERVAL, half_width
from fedwqcp_lab.results import AgentPartition, Journal, Result, read_results

FIRST = ("fedwq-cp", "split-cp")
"""Methods that stand before the others."""


STANDS_IN = {
    "reconstruction": "A reconstruction of the published data, made from its source.",
    "reencoded": "The published images, encoded anew: pixels differ.",
    "subset": "A part of the published data.",
    "synthetic": "Drawn from a formula, measured nowhere.",
}
"""What a copy that is not the published data is."""


def write(
    path: Path, out: Path, datasets: tuple[str, ...] = (), presets: tuple[str, ...] = ()
) -> Path:
    """Write the page of a benchmark, or of some of its datasets and presets."""
    with unchecked():
        page = read(path, datasets, presets)
    return save(page, out)


def read(path: Path, datasets: tuple[str, ...] = (), presets: tuple[str, ...] = ()) -> Page:
    """Return the page of a benchmark."""
    results = _chosen(read_results(path), datasets, presets)
    partitions = Journal(path / "partitions.jsonl", AgentPartition).read()
    rows: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.preset, result.dataset), []).append(result)
    seeds = _span([len({r.seed for r in own}) for own in rows.values()])
    lines = _span([len({r.method for r in own}) for own in rows.values()])
    alphas = sorted({r.alpha for r in results})
    return Page(
        kind="fedwqcp benchmark",
        title=f"{counted(len({r.dataset for r in results}), 'dataset')}, "
        f"{counted(len({r.method.partition(' (')[0] for r in results}), 'method')}, "
        f"{seeds} {'seed' if seeds == '1' else 'seeds'}",
        facts=(
            ("Asked for", ", ".join(f"coverage {1 - a:g} (alpha = {a:g})" for a in alphas)),
            ("Settings", ", ".join(dict.fromkeys(r.preset for r in results))),
            ("Methods with their variants", lines),
            ("Models trained on", ", ".join(sorted({r.device for r in results}))),
            ("Software", name_list(dict.fromkeys(r.code for r in results))),
        ),
        views=[
            _view(own, [s for s in partitions if s.dataset == dataset])
            for (_, dataset), own in rows.items()
        ],
    )


def _chosen(
    results: Sequence[Result], datasets: Sequence[str], presets: Sequence[str]
) -> list[Result]:
    """Keep the datasets and settings that are asked for; by default all."""
    for option, asked, there in (
        ("--dataset", datasets, dict.fromkeys(r.dataset for r in results)),
        ("--preset", presets, dict.fromkeys(r.preset for r in results)),
    ):
        if other := [name for name in asked if name not in there]:
            raise InputError(f"{option} must be one of {', '.join(there)}; got {other[0]!r}")
    return [
        r
        for r in results
        if r.dataset in (datasets or (r.dataset,)) and r.preset in (presets or (r.preset,))
    ]


def _view(results: Sequence[Result], partitions: Sequence[AgentPartition]) -> View:
    """Return all about one dataset under one preset."""
    first, nominal = results[0], 1 - results[0].alpha
    methods = sorted({r.method for r in results}, key=lambda name: (name not in FIRST, name))
    agents = sorted({r.agent for r in results}, key=lambda name: int(name[1:]))
    by: dict[tuple[str, str], list[Result]] = {(m, a): [] for m in methods for a in agents}
    for r in results:
        by[r.method, r.agent].append(r)
    found = [_measured(own) for own in by.values()]
    seeds = sorted({r.seed for r in results})
    size = "labels in a set" if first.task == "classification" else "length of the interval"
    over = f"Medians over {len(seeds)} seeds" if len(seeds) > 1 else "One seed"
    about = [
        coverage_cards(found, nominal, f"{over}, on {first.n_test:,} test points each."),
        coverage_comparison(found, nominal, size, first.title),
    ]
    if partitions:
        about.append(_partition(partitions))
    totals = [
        (method, agent, max(r.bytes_up for r in own), max(r.bytes_down for r in own))
        for (method, agent), own in by.items()
    ]
    lead = "The release itself is not counted. A method that shares nothing has no messages."
    sent = [traffic_chart(totals, method=methods[0])]
    about += [Section("sent", "What was sent", lead, sent), _diagnosis(results, len(seeds))]
    return View(
        title=f"{first.display_title}, {first.preset}",
        agents=agents,
        method=methods[0],
        verdicts={
            name: coverage_verdict(name, [m for m in found if m.method == name], nominal)
            for name in methods
        },
        sections=about,
        stand_in=STANDS_IN.get(first.status, ""),
    )


def _measured(own: Sequence[Result]) -> AgentCoverage:
    """Return one method at one agent: the median over seeds and its interval."""
    first = own[0]
    seen = [r.coverage for r in own]
    if len(own) == 1:
        rate = Rate(n=first.n_test, hits=first.hits)
        low, high, text = rate.low, rate.high, interval(rate)
        least = explained(first.n_test, first.n_cal, first.alpha)
    else:
        half, least = half_width(seen), 1.0  # seeds draw calibration points too
        low, high = max(0.0, median(seen) - half), min(1.0, median(seen) + half)
        text = f"{low:.3f} to {high:.3f}, median ± {INTERVAL}"
    thresholds = [r.threshold for r in own if isinstance(r.threshold, float)]
    return AgentCoverage(
        method=first.method,
        agent=first.agent,
        coverage=median(seen),
        low=low,
        high=high,
        interval=text,
        size=median(r.size for r in own),
        facts=(
            ("median size", number(median(r.size for r in own))),
            ("calibration points", _span([r.n_cal for r in own])),
            ("threshold", number(median(thresholds)) if thresholds else "one for each label"),
            ("bytes sent, at most", f"{max(r.bytes_up for r in own):,}"),
        ),
        rounds=max(r.rounds for r in own),
        guarantee=first.guarantee,
        note=f"{first.model} model",
        explained=least,
    )


def _span(values: Sequence[int]) -> str:
    """Write a range of counts."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _partition(partitions: Sequence[AgentPartition]) -> Section:
    """Return who holds what, under the first seed."""
    first = min(part.seed for part in partitions)
    own = sorted((s for s in partitions if s.seed == first), key=lambda s: int(s.agent[1:]))
    what = "class" if len(own[0].counts) > 1 else "all points"
    return Section(
        "partition",
        "Who holds what",
        f"Agents' shares of the calibration data under seed {first}: a Dirichlet distribution.",
        [partition_chart({s.agent: s.counts for s in own}, what)],
    )


def partition_chart(counts: Mapping[str, Sequence[int]], what: str) -> Chart:
    """Draw how many calibration points of each class every agent holds."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"agent": agent, "class": str(place), "points": points}
        for agent, own in counts.items()
        for place, points in enumerate(own)
    ]
    most = max((row["points"] for row in rows), default=1) or 1
    base = chart_of(rows).encode(
        x=alt.X("class:O", sort=None, title=what, axis=alt.Axis(orient="top", labelAngle=0)),
        y=alt.Y("agent:N", sort=None, title=None),
    )
    faded = alt.condition(AGENT_FILTER, alt.value(1), alt.value(0.25))
    cells = base.mark_rect(color="var(--accent)", stroke="var(--surface)", strokeWidth=2).encode(
        fillOpacity=alt.FillOpacity(
            "points:Q",
            scale=alt.Scale(type="sqrt", domain=[0, most], range=[0.04, 0.5]),
            legend=None,
        ),
        opacity=faded,
        tooltip=["agent:N", alt.Tooltip("class:N", title=what), "points:Q"],
    )
    numbers = base.mark_text(fontSize=11).encode(text="points:Q", opacity=faded)
    said = "; ".join(f"{agent} {', '.join(map(str, own))}" for agent, own in counts.items())
    return Chart(
        name="partition",
        title="Calibration points by agent",
        alt=f"Calibration points of each agent, by {what} from 0 upward: {said}.",
        spec=spec_of(alt.layer(cells, numbers), height=34 * len(counts)),
        columns=("agent", what, "points"),
        rows=[tuple(row.values()) for row in rows],
    )


def traffic_chart(rows: Sequence[tuple[str, str, int, int]], *, method: str) -> Chart:
    """Draw the bytes of each method: method, agent, bytes up, bytes down."""
    import altair as alt

    ways = ("sent by the agent", "sent to the agent")
    values: list[dict[str, Any]] = [
        {"method": name, "agent": agent, "way": way, "bytes": size}
        for name, agent, *sizes in rows
        for way, size in zip(ways, sizes, strict=True)
    ]
    largest = max(value["bytes"] for value in values)
    size = alt.X(
        "bytes:Q",
        title="bytes of one agent",
        scale=alt.Scale(type="symlog", constant=50, nice=False),
        axis=alt.Axis(values=[0, *(10**k for k in range(2, 9) if 10**k <= largest)], format=",d"),
    )
    colour = alt.Color(
        "way:N",
        sort=ways,
        scale=alt.Scale(domain=ways, range=["var(--accent)", "var(--muted)"]),
        legend=alt.Legend(orient="top", title=None),
    )
    chart = (
        chart_of(values)
        .transform_filter(AGENT_FILTER)
        .mark_tick(thickness=3, height=16)
        .encode(
            x=size,
            y=alt.Y("method:N", sort=None, title=None),
            yOffset=alt.YOffset("way:N", sort=ways),
            color=colour,
            opacity=alt.condition(METHOD_FILTER, alt.value(1), alt.value(0.45)),
            tooltip=["method:N", "agent:N", "way:N", alt.Tooltip("bytes:Q", format=",")],
        )
    )
    most = {
        name: [max(row[way] for row in rows if row[0] == name) for way in (2, 3)]
        for name in dict.fromkeys(name for name, *_ in rows)
    }
    said = "; ".join(f"{name} {up:,} up and {down:,} down" for name, (up, down) in most.items())
    return Chart(
        name="bytes",
        title="Bytes by method",
        alt=f"Bytes of the agent with most traffic, by method: {said}.",
        spec=spec_of(chart, height=48 * len(most), method=method),
        columns=("method", "agent", "bytes up", "bytes down"),
        rows=rows,
        note="One mark for each agent; the scale is logarithmic.",
    )


def _diagnosis(results: Sequence[Result], seeds: int) -> Section:
    """Return what the summaries of FedWQ-CP would show, seed by seed."""
    tally: Counter[str] = Counter()
    method = results[0].method
    for seed in sorted({r.seed for r in results}):
        sent = {
            r.agent: LocalQuantile(r.local, r.n_cal)
            for r in results
            if r.seed == seed and r.method == method and (r.n_cal or not isfinite(r.local))
        }
        tally[diagnose(sent, results[0].alpha).verdict] += 1  # two numbers an agent
    rows = [(verdict, f"{count} of {seeds}") for verdict, count in tally.most_common()]
    columns = ("averaging", "seeds")
    return Section(
        "diagnosis",
        "Diagnosis",
        "What a server could tell of averaging from thresholds and sizes alone, seed by seed.",
        [Table("diagnosis", "Findings over seeds", columns, rows)],
    )
