"""How agents, classes and batches stand, as rows of text: for the terminal and for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby

from fedwqcp.metrics import MIN_COUNT, Rate
from fedwqcp.monitor.monitor import BatchCounts, Standing

STATES = ("alarm", "watch", "too few", "ok")
"""The states of a `Standing`, the gravest first."""


def gravest(standings: Iterable[Standing], hidden: Container[Standing] = ()) -> list[Standing]:
    """Sort by state, then by evidence; the place of what is hidden tells nothing."""

    def _order(one: Standing) -> tuple[int, bool, float]:
        few = one.n < MIN_COUNT or one in hidden
        return STATES.index(one.state), few, 0.0 if few else one.bar - one.evidence

    return sorted(standings, key=_order)


def hidden_classes(standings: Iterable[Standing]) -> set[Standing]:
    """Return the classes whose counts are not shown.

    Those with few rows; where they have fewer than ten together, also the next larger class of the
    agent: what the others leave of its total would tell them.
    """
    rows: Counter[str] = Counter()
    hidden = set()
    for one in sorted(standings, key=lambda one: one.n):
        if one.label is not None and (one.n < MIN_COUNT or 0 < rows[one.agent] < MIN_COUNT):
            rows[one.agent] += one.n
            hidden.add(one)
    return hidden


def standing_row(one: Standing, *, hidden: bool = False) -> dict[str, str]:
    """Return the cells of an agent, class or group by column."""
    whole = one.label is None
    recent = f"{one.recent:.3f}" if one.recent_n >= MIN_COUNT else "?"
    return {
        "agent": one.agent,
        "group" if isinstance(one.label, str) else "class": one.name,
        "state": one.state,
        **_counts(one, hidden=hidden),
        "last 4 batches": recent if whole else "",
        "limit": f"{one.floor:.3f}",
        "dropped since": one.since,
        "inputs": f"changed since {one.inputs_since}" if one.inputs_since else one.inputs,
    }


def batch_row(one: BatchCounts) -> dict[str, str]:
    """Return the cells of a batch by column."""
    counts = _counts(Rate(n=one.n, hits=one.hits)) | {"rows": f"{one.n:,}"}
    size = "?" if one.size is None or one.n < MIN_COUNT else f"{one.size:.3g}"
    row = {"batch": one.name, "mean size": size, "state after": one.state, "inputs": one.inputs}
    return row | counts


def _counts(one: Rate | Standing, *, hidden: bool = False) -> dict[str, str]:
    """Return rows, coverage and interval; nothing of fewer than ten rows."""
    if one.n < MIN_COUNT:
        cells = ("under 10" if one.n else "0", "?", "?")
    elif hidden:
        cells = ("?", "?", "?")
    else:
        cells = (f"{one.n:,}", f"{one.coverage:.3f}", f"{one.low:.3f} to {one.high:.3f}")
    return dict(zip(("rows", "coverage", "95 % interval"), cells, strict=True))


def merged_steps(batches: Sequence[BatchCounts]) -> Iterator[tuple[str, Rate, str]]:
    """Give an agent's batches with their coverage, merged until each step has ten rows."""
    for _, batches_of in groupby(batches, key=lambda one: one.calibration):
        steps: list[list[BatchCounts]] = []
        for one in batches_of:
            if steps and _rows(steps[-1]) < MIN_COUNT:
                steps[-1].append(one)
            elif one.n:
                steps.append([one])
        if len(steps) > 1 and _rows(steps[-1]) < MIN_COUNT:
            last = steps.pop()
            steps[-1] += last
        for step in steps:
            rate = Rate(n=_rows(step), hits=sum(one.hits for one in step))
            if rate.n >= MIN_COUNT:
                first, last_name = step[0].name, step[-1].name
                yield first if len(step) == 1 else f"{first} to {last_name}", rate, step[-1].state


def _rows(step: Sequence[BatchCounts]) -> int:
    return sum(one.n for one in step)
