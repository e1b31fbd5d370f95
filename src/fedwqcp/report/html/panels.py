"""Who holds what, what was sent, and where a coverage gap comes from, as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedwqcp.report.html.blocks import Chart
from fedwqcp.report.html.vega import CHOSEN, SHOWN, chart_of, spec
from fedwqcp.report.html.words import counted, number


def partition(counts: Mapping[str, Sequence[int]], what: str, note: str = "") -> Chart:
    """Draw how many calibration points of each class every agent holds.

    Parameters
    ----------
    counts : mapping of str to sequence of int
        Points by agent and class.
    what : str
        What the columns are.
    note : str, optional
        What to know.

    Returns
    -------
    Chart
        A heat map with the numbers inside.
    """
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
    shown = alt.condition(SHOWN, alt.value(1), alt.value(0.25))
    cells = base.mark_rect(color="var(--accent)", stroke="var(--surface)", strokeWidth=2).encode(
        fillOpacity=alt.FillOpacity(
            "points:Q",
            scale=alt.Scale(type="sqrt", domain=[0, most], range=[0.04, 0.5]),
            legend=None,
        ),
        opacity=shown,
        tooltip=["agent:N", alt.Tooltip("class:N", title=what), "points:Q"],
    )
    numbers = base.mark_text(fontSize=11).encode(text="points:Q", opacity=shown)
    said = "; ".join(f"{agent} {', '.join(map(str, own))}" for agent, own in counts.items())
    return Chart(
        name="partition",
        title="Calibration points by agent",
        alt=f"Calibration points of each agent, by {what} from 0 upward: {said}.",
        spec=spec(alt.layer(cells, numbers), height=34 * len(counts)),
        columns=("agent", what, "points"),
        rows=[tuple(row.values()) for row in rows],
        note=note,
    )


def traffic(rows: Sequence[tuple[str, str, int, int]], *, method: str) -> Chart:
    """Draw the bytes that each method took from and gave to an agent.

    Parameters
    ----------
    rows : sequence of (str, str, int, int)
        Method, agent, bytes up and bytes down.
    method : str
        The method that is chosen first.

    Returns
    -------
    Chart
        One line for each method, from nothing on a logarithmic scale.
    """
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
        .transform_filter(SHOWN)
        .mark_tick(thickness=3, height=16)
        .encode(
            x=size,
            y=alt.Y("method:N", sort=None, title=None),
            yOffset=alt.YOffset("way:N", sort=ways),
            color=colour,
            opacity=alt.condition(CHOSEN, alt.value(1), alt.value(0.45)),
            tooltip=["method:N", "agent:N", "way:N", alt.Tooltip("bytes:Q", format=",")],
        )
    )
    most = _most(rows)
    said = "; ".join(f"{name} {up:,} up and {down:,} down" for name, (up, down) in most.items())
    return Chart(
        name="bytes",
        title="Bytes by method",
        alt=f"Bytes of the agent with most traffic, by method: {said}.",
        spec=spec(chart, height=48 * len(most), method=method),
        columns=("method", "agent", "bytes up", "bytes down"),
        rows=rows,
        note="One mark for each agent; the scale is logarithmic.",
    )


def _most(rows: Sequence[tuple[str, str, int, int]]) -> dict[str, tuple[int, int]]:
    """Return the most bytes of an agent in both directions, by method."""
    most: dict[str, tuple[int, int]] = {}
    for name, _, up, down in rows:
        best = most.get(name, (0, 0))
        most[name] = max(best[0], up), max(best[1], down)
    return most


def gap(rows: Sequence[tuple[str, float, float]], level: float) -> Chart:
    """Draw each agent's way from the nominal coverage to its own.

    Parameters
    ----------
    rows : sequence of (str, float, float)
        Agent, coverage at the quantile of all scores together, and at the released threshold.
    level : float
        What was asked for.

    Returns
    -------
    Chart
        First the step that shift takes, then the one that averaging takes.
    """
    import altair as alt

    parts = ("shift", "aggregation")
    values: list[dict[str, Any]] = []
    for agent, mixed, own in rows:
        for part, start, end in zip(parts, (level, mixed), (mixed, own), strict=True):
            values.append(
                {"agent": agent, "part": part, "start": start, "end": end, "gap": abs(end - start)}
            )
    base = chart_of(values).transform_filter(SHOWN)
    colour = alt.Color(
        "part:N",
        sort=parts,
        scale=alt.Scale(domain=parts, range=["var(--m1)", "var(--m0)"]),
        legend=alt.Legend(orient="top", title=None),
    )
    x = alt.X("start:Q", title="coverage", scale=alt.Scale(zero=False, padding=10))
    place = alt.Y("agent:N", sort=None, title=None)
    offset = alt.YOffset("part:N", sort=parts)
    told = ["agent:N", "part:N"]
    lines = base.mark_bar(height=7, cornerRadius=2).encode(
        x=x,
        x2="end:Q",
        y=place,
        yOffset=offset,
        color=colour,
        tooltip=told + [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("start", "end", "gap")],
    )
    rule = chart_of([{"start": level}]).mark_rule(strokeDash=[5, 4], color="var(--muted)")
    said = "; ".join(f"{agent} {mixed:.3f} then {own:.3f}" for agent, mixed, own in rows)
    return Chart(
        name="decomposition",
        title="From the nominal coverage to the agent's own",
        alt=f"{counted(len(rows), 'agent')}. From the nominal {number(level)} to the coverage at "
        f"the quantile of all scores together, then at the released threshold: {said}.",
        spec=spec(alt.layer(rule.encode(x="start:Q"), lines), height=36 * len(rows)),
        columns=("agent", "coverage at mixture quantile", "coverage at released threshold"),
        rows=rows,
    )
