"""A report of the demo: its records, and what it kept beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from fedwqcp.demo import records as demo_records
from fedwqcp.demo.records import Record, load_records
from fedwqcp.errors import InputError
from fedwqcp.report.html import coverages
from fedwqcp.report.html.coverages import Measured
from fedwqcp.report.html.page import Page, View
from fedwqcp.report.html.sources import _demo_parts as parts
from fedwqcp.report.html.wanted import Wanted
from fedwqcp.report.html.words import interval, number, rate_of, thresholds


def known(path: Path) -> bool:
    """Tell whether a folder is the demo's.

    Parameters
    ----------
    path : Path
        The folder.

    Returns
    -------
    bool
        Whether its records are of that kind.
    """
    try:
        with (path / "records.jsonl").open(encoding="utf-8") as file:
            return "experiment" in json.loads(next(islice(file, 1), "{}"))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def read(path: Path, wanted: Wanted) -> Page:
    """Return the page of a demo.

    Parameters
    ----------
    path : Path
        Its folder.
    wanted : Wanted
        Whether examples are asked for.

    Returns
    -------
    Page
        One view for each dataset.

    Raises
    ------
    InputError
        If there are no records.
    """
    records = load_records(path / "records.jsonl")
    shown = demo_records.load_report(path / demo_records.REPORT_FILE)
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
                [s for s in shown if s.dataset == dataset],
                wanted,
            )
            for dataset in datasets
        ],
    )


def _view(
    records: Sequence[Record], shown: Sequence[demo_records.ReportRecord], wanted: Wanted
) -> View:
    """Return all about one dataset."""
    main = [r for r in records if r.experiment == "methods"]
    methods = coverages.in_order({r.method for r in main})
    main.sort(key=lambda r: methods.index(r.method))
    first, nominal = main[0], 1 - main[0].alpha
    profiles = [s for s in shown if isinstance(s, demo_records.AgentProfile)]
    traffic = [s for s in shown if isinstance(s, demo_records.Traffic)]
    examples = [s for s in shown if isinstance(s, demo_records.Example)]
    size = "labels in a set" if first.task == "classification" else "length of the interval"
    used = {(t.method, t.agent): t.used for t in traffic}
    found = [_measured(r, size, used.get((r.method, r.agent))) for r in main]
    tested = f"Each agent's sets on the same {first.tested:,} test points."
    about = [
        coverages.agents(found, nominal, tested),
        coverages.comparison(found, nominal, size, first.dataset),
        *parts.settings_section(
            main, used, [s for s in shown if isinstance(s, demo_records.Skipped)]
        ),
    ]
    if profiles:
        about.append(parts.scores_section(profiles, main, methods[0]))
        about.append(parts.partition_section(profiles, first))
    if wanted.examples and examples:
        about.append(parts.examples_section(examples, wanted.examples, methods))
    about.append(parts.sent_section(main, traffic, methods[0]))
    if profiles:
        about += [parts.diagnosis_section(profiles, main), parts.theory_section(profiles)]
    about += parts.scarce_sections([r for r in records if r.experiment == "overflow"])
    return View(
        title=first.dataset,
        methods=methods,
        agents=list(dict.fromkeys(r.agent for r in main)),
        method=methods[0],
        verdicts={
            name: coverages.verdict(name, [m for m in found if m.method == name], nominal)
            for name in methods
        },
        sections=about,
        stand_in="Drawn from a formula, measured nowhere." if "synthetic" in first.dataset else "",
    )


def _measured(r: Record, size: str, used: bool | None) -> Measured:
    """Return what one record says."""
    rate = rate_of(r.covered, r.tested)
    answer = {None: "not known", True: "used", False: "left out, too few points"}[used]
    return Measured(
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
            ("threshold", thresholds(r.threshold)),
            ("its answer", answer if r.rounds else "none was asked for"),
            ("bytes sent", f"{r.bytes_up:,}"),
        ),
        promise=(str(r.rounds), r.guarantee, r.assumption),
    )
