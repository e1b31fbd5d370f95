"""Scores with their thresholds, and own thresholds beside those in use."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from fedwqcp.report.html.blocks import Chart
from fedwqcp.report.html.vega import CHOSEN, SHOWN, chart_of, spec
from fedwqcp.report.html.words import number


def scores(
    agent: str,
    bins: Sequence[tuple[float, float, int]],
    local: float | None,
    released: Sequence[tuple[str, float]],
    *,
    method: str,
    domain: tuple[float, float],
) -> Chart:
    """Draw one agent's calibration scores, with its own and the released thresholds.

    Parameters
    ----------
    agent : str
        Its name.
    bins : sequence of (float, float, int)
        Lower edge, upper edge and people.
    local : float or None
        Its own threshold, where it is known.
    released : sequence of (str, float)
        Methods and thresholds.
    method : str
        The method that is chosen first.
    domain : tuple of float
        Range of the axis, the same for all agents.

    Returns
    -------
    Chart
        Heights are people per unit of the score, since bins differ in width.
    """
    import altair as alt

    total = sum(people for *_, people in bins) or 1
    x = alt.X("from:Q", title="score", scale=alt.Scale(domain=domain, nice=False, clamp=True))
    layers: list[Any] = [_bars(bins, total, x)]
    lines = [{"method": name, "from": q} for name, q in released if isfinite(q)]
    layers.append(
        chart_of(lines)
        .transform_filter(CHOSEN)
        .mark_rule(strokeWidth=2.5, color="var(--accent)")
        .encode(x=x, tooltip=["method:N", alt.Tooltip("from:Q", title="threshold", format=".4g")])
    )
    if local is not None and isfinite(local):
        own = chart_of([{"from": local}]).mark_rule(
            strokeDash=[4, 3], strokeWidth=2, color="var(--ink)"
        )
        layers.append(
            own.encode(x=x, tooltip=[alt.Tooltip("from:Q", title="own threshold", format=".4g")])
        )
    said = "; ".join(f"{name} {number(q)}" for name, q in dict(released).items())
    return Chart(
        name=f"scores-{agent}",
        title=agent,
        alt=f"Scores of {agent} in {len(bins)} bins of {total} people. "
        + ("" if local is None else f"Own threshold {number(local)}. ")
        + f"Released: {said}.",
        spec=spec(alt.layer(*layers), height=110, method=method),
        columns=("from", "to", "people"),
        rows=bins,
    )


def _bars(bins: Sequence[tuple[float, float, int]], total: int, x: Any) -> Any:
    """Draw the bins, with people per unit of the score as their heights."""
    import altair as alt

    bars = [
        {
            "from": low,
            "to": high,
            "people": people,
            "density": round(people / total / (high - low), 6),
            "base": 0,
        }
        for low, high, people in bins
    ]
    highest = max((bar["density"] for bar in bars), default=1.0)
    return (
        chart_of(bars)
        .mark_rect(color="var(--soft)", stroke="var(--surface)", strokeWidth=1)
        .encode(
            x=x,
            x2="to:Q",
            y=alt.Y("density:Q", axis=None, scale=alt.Scale(domain=[0, highest])),
            y2="base:Q",
            tooltip=[alt.Tooltip(f"{name}:Q", format=".3g") for name in ("from", "to", "people")],
        )
    )


def own_and_released(rows: Sequence[tuple[str, int, float, float]], *, method: str) -> Chart:
    """Draw the agents' own thresholds beside those in use.

    Parameters
    ----------
    rows : sequence of (str, int, float, float)
        Agent, calibration points, own threshold and threshold in use.
    method : str
        The method.

    Returns
    -------
    Chart
        One line for each agent; infinite thresholds are told in the note.
    """
    import altair as alt

    values = [
        {"agent": agent, "points": n, "own": own, "in use": used}
        for agent, n, own, used in rows
        if isfinite(own) and isfinite(used)
    ]
    base = chart_of(values).transform_filter(SHOWN)
    scale = alt.Scale(zero=False, padding=14)
    place = alt.Y("agent:N", sort=None, title=None)
    told = ["agent:N", alt.Tooltip("points:Q", format=","), "own:Q", "in use:Q"]
    lines = base.mark_rule(color="var(--soft)", strokeWidth=2).encode(
        x=alt.X("own:Q", title="threshold", scale=scale), x2="in use:Q", y=place
    )
    own = base.mark_circle(color="var(--ink)", opacity=1, cursor="pointer").encode(
        x=alt.X("own:Q", scale=scale),
        y=place,
        tooltip=told,
        size=alt.Size("points:Q", legend=None, scale=alt.Scale(range=[50, 400], zero=True)),
    )
    used = base.mark_tick(color="var(--accent)", thickness=3, height=22).encode(
        x=alt.X("in use:Q", scale=scale), y=place, tooltip=told
    )
    lost = sorted({agent for agent, _, own, used in rows if not isfinite(own + used)})
    said = "; ".join(
        f"{agent} {number(own)}, in use {number(used)}" for agent, _, own, used in rows
    )
    return Chart(
        name="thresholds",
        title="Own threshold (dot) and threshold in use (bar)",
        alt=f"Own thresholds and those in use: {said}.",
        spec=spec(alt.layer(lines, own, used), height=40 * len(rows), method=method),
        columns=("agent", "calibration points", "own threshold", "threshold in use"),
        rows=rows,
        note=f"Not drawn, because infinite: {', '.join(lost)}." if lost else "",
    )
