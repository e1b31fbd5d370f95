"""The charts of a report, as Vega-Lite specs.

A chart knows two signals that the page sets: ``method``, the chosen one, and ``agents``, those
that are filtered for (none means all). Colours are variables of the page's style, so that light,
dark and print need no second chart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields
from itertools import pairwise
from math import floor, isfinite
from typing import Any

from fedwqcp.errors import MissingExtraError
from fedwqcp.metrics import Histogram
from fedwqcp.report.html.page import Chart, counted, number, threshold_range

SHAPES = {
    "circle": "M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10z",
    "square": "M2 2h8v8h-8z",
    "diamond": "M6 0l5 6l-5 6l-5-6z",
    "triangle-up": "M6 1l5.5 10h-11z",
    "triangle-down": "M6 11l5.5-10h-11z",
    "cross": "M4 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
    "triangle-right": "M11 6l-10 5.5v-11z",
}
"""One for each method beside its colour, with its outline in a square of 12 for the buttons."""


COLOURS = 7
"""How many colours of methods the style has."""


AGENT_FILTER = "!length(agents) || indexof(agents, datum.agent) >= 0"
"""Keeps the agents that are filtered for."""


METHOD_FILTER = "datum.method == method"
"""Keeps the chosen method."""


def coverage_chart(
    points: Sequence[tuple[str, str, float, float, float, float]],
    *,
    nominal: float,
    size: str,
    title: str,
) -> Chart:
    """Draw the coverage of every agent under every method, with the chosen one's interval.

    ``points`` are method, agent, coverage, low, high and mean size.
    """
    import altair as alt

    columns = ("method", "agent", "coverage", "low", "high", "size")
    rows: list[dict[str, Any]] = [
        {"method": name, "agent": agent, "size": number(mean)}
        | {key: round(value, 5) for key, value in zip(columns[2:5], shares, strict=True)}
        for name, agent, *shares, mean in points
    ]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    agents = list(dict.fromkeys(row["agent"] for row in rows))
    bottom = max(0.0, floor(20 * min([nominal, *(row["low"] for row in rows)])) / 20)
    scale = alt.Scale(domain=[bottom, 1], nice=False, zero=False)
    x = alt.X("coverage:Q", title="coverage", scale=scale)
    y = alt.Y("agent:N", sort=None, title=None)
    colours = [f"var(--m{at % COLOURS})" for at in range(len(methods))]
    colour_scale = alt.Scale(domain=methods, range=colours)
    shapes = alt.Scale(domain=methods, range=[shape(at) for at in range(len(methods))])
    colour = alt.Color("method:N", scale=colour_scale, sort=methods, legend=None)
    base = chart_of(rows).transform_filter(AGENT_FILTER)
    marks = base.mark_point(filled=True, size=110, cursor="pointer").encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape("method:N", scale=shapes, sort=methods, legend=None),
        opacity=alt.condition(METHOD_FILTER, alt.value(1), alt.value(0.3)),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("method", "agent")]
        + [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("coverage", "low", "high")]
        + [alt.Tooltip("size:N", title=f"mean {size}")],
    )
    whiskers = (
        base.transform_filter(METHOD_FILTER)
        .mark_rule(strokeWidth=2)
        .encode(x=alt.X("low:Q", title="coverage", scale=scale), x2="high:Q", y=y, color=colour)
    )
    level = chart_of([{"nominal": nominal}]).mark_rule(strokeDash=[5, 4], color="var(--muted)")
    layers = alt.layer(level.encode(x="nominal:Q"), whiskers, marks)
    said = []
    for name in methods:
        own = [row for row in rows if row["method"] == name]
        worst = min(own, key=lambda row: row["coverage"])
        mean = sum(row["coverage"] for row in own) / len(own)
        lowest = f"lowest {worst['coverage']:.3f} at {worst['agent']}"
        said.append(f"{name}: mean coverage {mean:.3f}, {lowest}")
    return Chart(
        name="coverage",
        title="Coverage by agent",
        alt=f"Coverage on {title}, nominal {nominal:g}. {'. '.join(said)}.",
        spec=spec_of(layers, height=40 + 30 * len(agents), method=methods[0]),
        columns=columns,
        rows=points,
    )


def score_chart(
    agent: str, bars: Histogram, own: float, released: Sequence[float], method: str
) -> Chart:
    """Draw one agent's calibration scores, with its own and the released thresholds.

    Heights are people per unit of the score, since bins differ in width.
    """
    import altair as alt

    bins = [(*ends, people) for ends, people in zip(pairwise(bars.edges), bars.counts, strict=True)]
    total = sum(bars.counts)
    drawn = [
        {
            "from": low,
            "to": high,
            "people": people,
            "density": round(people / total / (high - low), 6),
            "base": 0,
        }
        for low, high, people in bins
    ]
    highest = max((bar["density"] for bar in drawn), default=1.0)
    ends = [*bars.edges, *filter(isfinite, released)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    scale = alt.Scale(domain=(low, high if low < high else low + 1), nice=False, clamp=True)
    x = alt.X("from:Q", title="score", scale=scale)
    lines = [{"method": method, "from": q} for q in released if isfinite(q)]
    layers = [
        chart_of(drawn)
        .mark_rect(color="var(--soft)", stroke="var(--surface)", strokeWidth=1)
        .encode(
            x=x,
            x2="to:Q",
            y=alt.Y("density:Q", axis=None, scale=alt.Scale(domain=[0, highest])),
            y2="base:Q",
            tooltip=[alt.Tooltip(f"{name}:Q", format=".3g") for name in ("from", "to", "people")],
        ),
        chart_of(lines)
        .mark_rule(strokeWidth=2.5, color="var(--accent)")
        .encode(x=x, tooltip=["method:N", alt.Tooltip("from:Q", title="threshold", format=".4g")]),
    ]
    if isfinite(own):
        layers.append(
            chart_of([{"from": own}])
            .mark_rule(strokeDash=[4, 3], strokeWidth=2, color="var(--ink)")
            .encode(x=x, tooltip=[alt.Tooltip("from:Q", title="own threshold", format=".4g")])
        )
    return Chart(
        name=f"scores-{agent}",
        title=agent,
        alt=f"Scores of {agent} in {counted(len(bins), 'bin')} of {total} people. Own threshold "
        f"{number(own)}. Released: {method} {threshold_range(released, None)}.",
        spec=spec_of(alt.layer(*layers), height=110),
        columns=("from", "to", "people"),
        rows=bins,
    )


@dataclass(frozen=True)
class HistoryStep:
    """One batch of an agent, and all its rows since the calibration until then.

    ``coverage`` is that of the batch with its exact interval; ``mean`` that of all rows, with the
    confidence sequence ``mean_low`` to ``mean_high``.
    """

    batch: str
    calibration: int
    rows: int
    covered: int
    coverage: float
    low: float
    high: float
    mean: float
    mean_low: float
    mean_high: float
    state: str


def history_chart(agent: str, steps: Sequence[HistoryStep], floor: float, lowest: float) -> Chart:
    """Draw one agent's coverage by batch and since each calibration.

    The axis begins at ``lowest`` for all agents; what lies below is cut off.
    """
    import altair as alt

    shares = ("coverage", "low", "high", "mean", "mean_low", "mean_high")
    drawn = [
        {**asdict(step), "place": place} | {name: round(getattr(step, name), 5) for name in shares}
        for place, step in enumerate(steps)
    ]
    labels = json.dumps([step.batch for step in steps])
    axis = alt.Axis(
        labelExpr=f"{labels}[datum.value]", tickMinStep=1, format="d", grid=False, tickCount=6
    )
    domain = alt.Scale(domain=[-0.5, len(steps) - 0.5], nice=False, zero=False)
    x = alt.X("place:Q", title=None, scale=domain, axis=axis)
    scale = alt.Scale(domain=[lowest, 1], nice=False, zero=False)
    y_axis = alt.Axis(tickCount=4)
    part = alt.Detail("calibration:N")
    base = chart_of(drawn)
    limit = chart_of([{"floor": floor}]).mark_rule(strokeDash=[5, 4], color="var(--ink)")
    layers = [
        base.mark_area(color="var(--soft)", opacity=0.6, clip=True).encode(
            x=x, detail=part, y=alt.Y("mean_low:Q", scale=scale, title=None), y2="mean_high:Q"
        ),
        limit.encode(y=alt.Y("floor:Q", scale=scale)),
        base.mark_line(color="var(--muted)", strokeWidth=2, clip=True).encode(
            x=x, y=alt.Y("mean:Q", scale=scale, title=None, axis=y_axis), detail=part
        ),
        base.mark_rule(color="var(--accent)", strokeWidth=1.5, clip=True).encode(
            x=x, y=alt.Y("low:Q", scale=scale, title=None), y2="high:Q"
        ),
        base.mark_circle(color="var(--accent)", size=40, opacity=1, clip=True).encode(
            x=x,
            y=alt.Y("coverage:Q", scale=scale, title=None),
            tooltip=[
                *(alt.Tooltip(f"{name}:N") for name in ("batch", "state", "calibration")),
                *(alt.Tooltip(f"{name}:Q", format=",") for name in ("rows", "covered")),
                *(alt.Tooltip(f"{name}:Q", format=".3f") for name in shares),
            ],
        ),
    ]
    pairs = list(enumerate(pairwise([None, *steps])))
    began = [at for at, (a, b) in pairs if a and b and a.calibration != b.calibration]
    alarm = [
        at
        for at, (a, b) in pairs
        if b and b.state == "alarm" and (at in began or not a or a.state != "alarm")
    ]
    for places, colour, dash in ((began, "var(--ink)", [2, 4]), (alarm, "var(--bad)", [])):
        if places:
            rule = chart_of([{"place": at - (0.5 if dash else 0)} for at in places])
            layers.append(rule.mark_rule(color=colour, strokeWidth=2, strokeDash=dash).encode(x=x))
    first, last = steps[0], steps[-1]
    said = (
        f"Coverage of {agent} in {counted(len(steps), 'batch')}, from {first.coverage:.3f} in "
        f"{first.batch} to {last.coverage:.3f} in {last.batch}; {last.mean:.3f} of all rows since "
        f"the calibration, 95 % confidence sequence {last.mean_low:.3f} to {last.mean_high:.3f}. "
        f"Limit: {floor:.3f}." + "".join(f" Alarm in {steps[at].batch}." for at in alarm)
    )
    said += "".join(f" Calibrated again before {steps[at].batch}." for at in began)
    return Chart(
        name=f"coverage-{agent}",
        title=agent,
        alt=said,
        spec=spec_of(alt.layer(*layers), height=170),
        columns=[field.name for field in fields(HistoryStep)],
        rows=[astuple(step) for step in steps],
    )


def require_report() -> None:
    """Refuse early where no report can be written."""
    try:
        import altair  # noqa: F401
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("writing the report", "report") from error


@contextmanager
def unchecked() -> Iterator[None]:
    """Build charts without validating every part against Vega-Lite's schema.

    The check takes most of the time of a report; tests do it instead.
    """
    require_report()
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        yield


def shape(place: int) -> str:
    """Return the shape of a method: with its colour, no other of the first 49 has it."""
    return list(SHAPES)[(place + place // COLOURS) % len(SHAPES)]


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Begin a chart of some rows."""
    import altair as alt

    data: Any = alt.Data
    return alt.Chart(data(values=list(rows)))


def spec_of(chart: Any, *, height: int, method: str = "") -> dict[str, Any]:
    """Return what the browser draws, as wide as the page allows."""
    import altair as alt
    from altair.utils import schemapi

    params = (alt.param(name="method", value=method), alt.param(name="agents", value=[]))
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    sized = chart.add_params(*params).properties(width="container", height=height, autosize=fit)
    drawn: dict[str, Any] = sized.to_dict(validate=schemapi.DEBUG_MODE)
    for needless in ("config", "$schema"):  # the page has one style for all charts
        drawn.pop(needless, None)
    return {**drawn, "datasets": _shared(drawn)}


def _shared(drawn: dict[str, Any]) -> dict[str, Any]:
    """Name the data of each layer, and return them by name: equal data once."""
    names: dict[str, str] = {}
    found: dict[str, Any] = {}
    for part in (drawn, *drawn.get("layer", ())):
        if "data" in part:
            values = part["data"]["values"]
            name = names.setdefault(repr(values), f"data{len(names)}")
            found[name], part["data"] = values, {"name": name}
    return found
