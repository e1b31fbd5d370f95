"""An agent's own report: coverage and size on its labelled test points, which stay with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedwqcp import metrics
from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.federation.outputs import Outputs, load_outputs
from fedwqcp.federation.predict import calibration_of, predict
from fedwqcp.federation.predict import thresholds as agents_thresholds
from fedwqcp.methods import Calibration
from fedwqcp.metrics import FEWEST
from fedwqcp.quantile import conformal_quantile
from fedwqcp.report.html import coverages, sections
from fedwqcp.report.html.blocks import Row, Table
from fedwqcp.report.html.coverages import Measured
from fedwqcp.report.html.examples import Drawn, Example, Gallery
from fedwqcp.report.html.page import Section, View
from fedwqcp.report.html.wanted import Wanted
from fedwqcp.report.html.words import interval, number, rate_of, thresholds
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.wire.release import Release


@dataclass(frozen=True)
class _Case:
    """One agent's data at one level: its sets on its test points."""

    release: Release
    agent: str
    alpha: float
    test: Outputs
    sets: LabelSets | Intervals
    threshold: Floats
    calibration: Calibration | None


def view(release: Release, alpha: float, wanted: Wanted) -> View:
    """Return what an agent knows at one level.

    Parameters
    ----------
    release : Release
        What the round ended with.
    alpha : float
        The level.
    wanted : Wanted
        The agent, its outputs, and whether examples are asked for.

    Returns
    -------
    View
        With coverage on the agent's own test points.

    Raises
    ------
    InputError
        If there are no labelled outputs, or they do not fit the round.
    """
    case = _case(release, alpha, wanted)
    method = release.round.method.name
    found = _measured(case)
    size = "labels in a set" if isinstance(case.sets, LabelSets) else "length of the interval"
    tested = f"{case.agent}'s sets on its {len(case.sets):,} labelled test points."
    about = [coverages.agents([found], 1 - alpha, tested)]
    if case.calibration is not None and case.calibration.columns == 1:
        about.append(_scores(case, method))
    if wanted.examples:
        about.append(_examples(case, wanted.examples))
    record = next(a for a in release.agents if a.name == case.agent)
    totals = [(method, case.agent, record.bytes_up, record.bytes_down)]
    about += [_sizes(case, size), sections.messages(totals, {}, method)]
    return View(
        title=f"alpha = {alpha:g}",
        methods=[method],
        agents=[case.agent],
        method=method,
        verdicts={method: coverages.verdict(method, [found], 1 - alpha)},
        sections=about,
    )


def _case(release: Release, alpha: float, wanted: Wanted) -> _Case:
    """Read the agent's outputs and make its sets."""
    if wanted.agent is None or wanted.outputs is None:
        raise InputError("an agent's own report needs --agent and --outputs with labels")
    test = load_outputs(wanted.outputs, wanted.labels)
    if test.labels is None or not len(test.values):
        raise InputError("--outputs must hold labelled test points: coverage needs the truth")
    cal = _calibration(release, wanted.calibration)
    sets = predict(release, wanted.agent, test, alpha=alpha, calibration=cal)
    features = None if test.features is None else np.asarray(test.features, dtype=np.float64)
    threshold = agents_thresholds(release, wanted.agent, alpha, cal, features)
    return _Case(release, wanted.agent, alpha, test, sets, np.asarray(threshold), cal)


def _calibration(release: Release, path: Path | None) -> Calibration | None:
    """Score the agent's calibration points, where they are given."""
    return None if path is None else calibration_of(release.round, load_outputs(path))


def _measured(case: _Case) -> Measured:
    """Return the agent's coverage and size."""
    found = metrics.measure(case.agent, case.sets, _truth(case))
    rate = rate_of(found.hits, found.n)
    record = next(a for a in case.release.agents if a.name == case.agent)
    n = "not given here" if case.calibration is None else f"{case.calibration.n:,}"
    flat = np.unique(case.threshold).tolist()
    return Measured(
        method=case.release.round.method.name,
        agent=case.agent,
        note="",
        coverage=rate.coverage,
        low=rate.low,
        high=rate.high,
        interval=interval(rate),
        size=found.size,
        facts=(
            ("mean size", number(found.size)),
            ("empty sets", f"{found.empty:.1%}"),
            ("calibration points", n),
            ("threshold", thresholds(flat[0] if len(flat) == 1 else flat)),
            ("its answer", record.status),
        ),
        promise=(),
    )


def _scores(case: _Case, method: str) -> Section:
    """Return the agent's calibration scores with both thresholds."""
    cal = case.calibration
    scores = np.empty(0) if cal is None else cal.scores
    bars = metrics.histogram(scores)
    own = float(conformal_quantile(scores, case.alpha))
    released = [(method, float(q)) for q in np.unique(case.threshold)]
    return sections.score_panels(
        {case.agent: (bars.edges, bars.people, own)}, {case.agent: released}, method
    )


def _sizes(case: _Case, size: str) -> Section:
    """Return how large the sets are, in steps that no single person stands in."""
    rows = [
        Row((said, f"{people:,}", f"{people / len(case.sets):.1%}"))
        for said, people in _groups(case.sets)
    ]
    return Section(
        "sizes",
        "How large the sets are",
        "Every line holds at least ten people; thinner neighbours are merged.",
        [Table("sizes", f"Sets by {size}", ("size", "people", "share"), rows)],
    )


def _groups(sets: LabelSets | Intervals) -> list[tuple[str, int]]:
    """Count sets by size, in groups of at least ten people."""
    if isinstance(sets, Intervals):
        bars = metrics.histogram(sets.sizes(), bins=10)
        ends = zip(bars.edges[:-1], bars.edges[1:], bars.people, strict=True)
        return [(f"{number(low)} to {number(high)}", people) for low, high, people in ends]
    found: list[tuple[str, int]] = []
    first, held = 0, 0
    counts = np.bincount(sets.sizes()).tolist()
    for size, count in enumerate(counts):
        held += count
        if held >= FEWEST and (sum(counts[size + 1 :]) >= FEWEST or size + 1 == len(counts)):
            found.append((str(size) if size == first else f"{first} to {size}", held))
            first, held = size + 1, 0
    return found


def _examples(case: _Case, most: int) -> Section:
    """Return single points, the hardest first, because their owner asked for them."""
    truth = _truth(case)
    hard = _hardness(case)
    ids = case.test.ids
    method = case.release.round.method.name
    shown = []
    for place, row in enumerate(np.argsort(-hard, kind="stable")[:most].tolist()):
        name = str(row if ids is None else ids[row])
        shown.append(
            Example(
                agent=case.agent,
                title=f"No. {place + 1}: {name}",
                text=f"Truth: {number(float(truth[row]))}.",
                image="",
                alt="",
                sets=[_drawn(method, case.sets, row, float(truth[row]))],
            )
        )
    return Section(
        "examples",
        "Examples, the hardest first",
        "Single people with their sets: shown because this report was asked for them. Do not pass "
        "it on.",
        [Gallery(shown)],
    )


def _hardness(case: _Case) -> Floats:
    """Return the scores of the test points at the truth."""
    scored = calibration_of(case.release.round, case.test).scores
    return scored if scored.ndim == 1 else scored.max(axis=1)


def _drawn(method: str, sets: LabelSets | Intervals, row: int, truth: float) -> Drawn:
    """Return one set."""
    ends = sets[row]
    if isinstance(sets, LabelSets):
        return Drawn((method,), [(str(label), label == truth) for label in ends], truth in ends)
    covered = ends[0] <= truth <= ends[1]
    return Drawn((method,), [(f"{number(ends[0])} to {number(ends[1])}", covered)], covered)


def _truth(case: _Case) -> Floats:
    """Return the labels, which `_case` has found to be there."""
    return np.asarray(case.test.labels)
