"""A report of a benchmark: coverage and size over seeds, dataset by dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean, median

from fedwqcp.errors import InputError
from fedwqcp.metrics import Rate, explained
from fedwqcp.report.html import save
from fedwqcp.report.html.page import (
    Page,
    Section,
    Table,
    View,
    interval,
    number,
)
from fedwqcp.report.html.rounds import (
    Coverage,
    coverage_cards,
    coverage_verdict,
)
from fedwqcp.theory import diagnose
from fedwqcp.wire.messages import LocalQuantile
from fedwqcp.words import counted, name_list
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
    return save(read(path, datasets, presets), out)


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
    first = results[0]
    methods = sorted({r.method for r in results}, key=lambda name: (name not in FIRST, name))
    agents = sorted({r.agent for r in results}, key=lambda name: int(name[1:]))
    by: dict[str, dict[str, list[Result]]] = {m: {a: [] for a in agents} for m in methods}
    for r in results:
        by[r.method][r.agent].append(r)
    coverages = {m: [_coverage(own) for own in by[m].values()] for m in methods}
    seeds = sorted({r.seed for r in results})
    over = f"Medians over {len(seeds)} seeds" if len(seeds) > 1 else "One seed"
    about = [
        coverage_cards(coverages, f"{over}, on {first.n_test:,} test points each."),
        _methods(results, coverages),
    ]
    if partitions:
        about.append(_partition(partitions))
    about.append(_diagnosis(results, len(seeds)))
    return View(
        title=f"{first.display_title}, {first.preset}",
        agents=agents,
        method=methods[0],
        verdicts={name: coverage_verdict(name, agents) for name, agents in coverages.items()},
        sections=about,
        stand_in=STANDS_IN.get(first.status, ""),
    )


def _coverage(own: Sequence[Result]) -> Coverage:
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
    return Coverage(
        agent=first.agent,
        low=low,
        coverage=median(seen),
        high=high,
        nominal=1 - first.alpha,
        interval=text,
        facts={
            "model": first.model,
            "median size": number(median(r.size for r in own)),
            "calibration points": _span([r.n_cal for r in own]),
            "threshold": number(median(thresholds)) if thresholds else "one for each label",
            "bytes sent, at most": f"{max(r.bytes_up for r in own):,}",
        },
        explained=least,
    )


def _methods(results: Sequence[Result], coverages: Mapping[str, Sequence[Coverage]]) -> Section:
    """Return the methods side by side."""
    lines = []
    for name, agents in coverages.items():
        rows = [r for r in results if r.method == name]
        worst = min(agents, key=lambda one: one.coverage)
        sizes = [median(r.size for r in rows if r.agent == one.agent) for one in agents]
        lines.append(
            (
                name,
                f"{fmean(one.coverage for one in agents):.3f}",
                f"{worst.coverage:.3f} at {worst.agent}",
                number(fmean(sizes)),
                f"{max(r.bytes_up for r in rows):,}",
                f"{max(r.bytes_down for r in rows):,}",
                str(max(r.rounds for r in rows)),
                rows[0].guarantee,
            )
        )
    labels = results[0].task == "classification"
    size = "mean labels in a set" if labels else "mean length of the interval"
    columns = (
        *("method", "mean coverage", "worst", size, "most bytes of an agent up", "down"),
        *("rounds", "proved"),
    )
    lead = "Bytes without the release. A method that shares nothing has no messages."
    table = Table("methods", "Methods side by side", columns, lines)
    return Section("methods", "Every method", lead, [table])


def _span(values: Sequence[int]) -> str:
    """Write a range of counts."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _partition(partitions: Sequence[AgentPartition]) -> Section:
    """Return who holds what, under the first seed."""
    first = min(part.seed for part in partitions)
    own = sorted((s for s in partitions if s.seed == first), key=lambda s: int(s.agent[1:]))
    labels = len(own[0].counts) > 1
    classes = [f"class {k}" for k in range(len(own[0].counts))] if labels else ["points"]
    rows = [(s.agent, *(f"{count:,}" for count in s.counts)) for s in own]
    return Section(
        "partition",
        "Who holds what",
        f"Agents' shares of the calibration data under seed {first}: a Dirichlet distribution.",
        [Table("partition", "Calibration points by agent", ("agent", *classes), rows, agents=0)],
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
