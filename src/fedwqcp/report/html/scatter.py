"""Coverage against size, for every method and agent."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite
from typing import Any

from fedwqcp.report.html.blocks import Chart
from fedwqcp.report.html.labels import named
from fedwqcp.report.html.vega import CHOSEN, SHOWN, chart_of, colours, shapes, spec
from fedwqcp.report.html.words import number, some

HEIGHT = 360
"""Pixels of the picture of coverage against size."""

LOWEST = 0.5
"""Coverages below are told, not drawn: they would squeeze all others into a line."""


def scatter(
    rows: Sequence[dict[str, Any]], *, nominal: float, size: str, method: str, title: str
) -> Chart:
    """Draw coverage against size for every method and agent.

    Parameters
    ----------
    rows : sequence of dict
        With method, agent, coverage, low, high and size.
    nominal : float
        What was asked for.
    size : str
        What a size is.
    method : str
        The method that is chosen first.
    title : str
        What the data are.

    Returns
    -------
    Chart
        With all rows as its data; what would squeeze the others is told in the note instead.
    """
    import altair as alt

    drawn = [row for row in rows if isfinite(row["size"]) and row["coverage"] >= LOWEST]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    bottom = floor(20 * min([nominal, *(row["low"] for row in drawn)])) / 20
    base = chart_of(named(drawn, bottom, HEIGHT)).transform_filter(SHOWN)
    x = alt.X("size:Q", title=f"mean {size}", scale=_size_scale([row["size"] for row in drawn]))
    upright = alt.Scale(domain=[bottom, 1], nice=False, zero=False)
    y = alt.Y("coverage:Q", title="coverage", scale=upright)
    colour = alt.Color("method:N", scale=colours(methods), sort=methods, legend=None)
    points = base.mark_point(filled=True, size=110, cursor="pointer", clip=False).encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape("method:N", scale=shapes(methods), sort=methods, legend=None),
        opacity=alt.condition(CHOSEN, alt.value(1), alt.value(0.4)),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("method", "agent")]
        + [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("coverage", "low", "high")]
        + [alt.Tooltip("size:Q", format=".3f", title=f"mean {size}")],
    )
    chosen = base.transform_filter(CHOSEN)
    whiskers = chosen.mark_rule(strokeWidth=1.5).encode(
        x=x, y=alt.Y("low:Q", title="coverage"), y2="high:Q", color=colour
    )
    level = chart_of([{"nominal": nominal}]).mark_rule(strokeDash=[5, 4], color="var(--muted)")
    layers = alt.layer(level.encode(y="nominal:Q"), whiskers, points, *_names(chosen, x, upright))
    return Chart(
        name="coverage-and-size",
        title="Coverage against size",
        alt=_scatter_words(rows, nominal, size, title),
        spec=spec(layers, height=HEIGHT, method=method),
        columns=("method", "agent", "coverage", "low", "high", "size"),
        rows=[tuple(row.values()) for row in rows],
        note=_not_drawn(rows, drawn),
    )


def _names(chosen: Any, x: Any, upright: Any) -> list[Any]:
    """Write the agents beside the marks of the chosen method, on a halo."""
    import altair as alt

    text = {"dx": 11, "align": "left", "fontWeight": 600}
    y = alt.Y("at:Q", scale=upright, title="coverage")
    halo = {"stroke": "var(--surface)", "strokeWidth": 3, "strokeJoin": "round"}
    return [chosen.mark_text(**text, **more).encode(x=x, y=y, text="name:N") for more in (halo, {})]


def _not_drawn(rows: Sequence[dict[str, Any]], drawn: Sequence[dict[str, Any]]) -> str:
    """Say what the picture leaves out."""
    lost: dict[str, list[str]] = {}
    for row in rows:
        if row not in drawn:
            lost.setdefault(row["method"], []).append(row["agent"])
    agents = {row["agent"] for row in rows}
    said = [
        f"{method} at {'every agent' if len(own) == len(agents) > 1 else some(own)}"
        for method, own in lost.items()
    ]
    return (
        f"Not drawn, sets infinite or coverage below {LOWEST}: {'; '.join(said)}." if said else ""
    )


def _size_scale(sizes: Sequence[float]) -> Any:
    """Return an axis that no filter moves; logarithmic where sizes differ by much."""
    import altair as alt

    low, high = min(sizes, default=0.0), max(sizes, default=1.0)
    if 0 < 4 * low < high:
        return alt.Scale(type="log", domain=[0.92 * low, 1.08 * high], nice=False)
    room = 0.06 * (high - low) or 0.5
    return alt.Scale(domain=[max(0.0, low - room), high + room], nice=False, zero=False)


def _scatter_words(rows: Sequence[dict[str, Any]], nominal: float, size: str, title: str) -> str:
    """Say what the picture of coverage against size shows."""
    said = []
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        worst = min(own, key=lambda row: row["coverage"])
        mean = sum(row["coverage"] for row in own) / len(own)
        width = sum(row["size"] for row in own) / len(own)
        said.append(
            f"{name}: mean coverage {mean:.3f}, lowest {worst['coverage']:.3f} at "
            f"{worst['agent']}, mean {size} {number(width)}"
        )
    return f"Coverage against {size} on {title}, nominal {nominal:g}. {'. '.join(said)}."
