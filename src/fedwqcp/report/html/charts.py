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
from itertools import combinations, pairwise
from math import floor, isfinite, log
from typing import Any

from fedwqcp.errors import MissingExtraError
from fedwqcp.metrics import Histogram
from fedwqcp.report.html.page import Chart, counted, name_list, number, threshold_range

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


_HEIGHT = 360
"""Pixels of the picture of coverage against size."""


LOWEST = 0.5
"""Lower coverages are named in the note, not drawn: they would squeeze all others into a line."""


LINE = 14.0
"""Pixels from one name to the next below it."""


_MARK, LETTER = 0.03, 0.02
"""Shares of the picture's width that a mark and a letter take on a phone."""


MOST = 12
"""Agents that are all named; of more, those with the lowest and the highest coverage are."""


def coverage_chart(
    rows: Sequence[dict[str, Any]], *, nominal: float, size: str, method: str, title: str
) -> Chart:
    """Draw coverage against size for every method and agent.

    ``rows`` hold method, agent, coverage, low, high and size, and are all in the chart's data; what
    would squeeze the others is named in the note and not drawn.
    """
    import altair as alt

    drawn = [row for row in rows if isfinite(row["size"]) and row["coverage"] >= LOWEST]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    bottom = floor(20 * min([nominal, *(row["low"] for row in drawn)])) / 20
    base = chart_of(place_names(drawn, bottom, _HEIGHT)).transform_filter(AGENT_FILTER)
    x = alt.X("size:Q", title=f"mean {size}", scale=_size_scale([row["size"] for row in drawn]))
    scale = alt.Scale(domain=[bottom, 1], nice=False, zero=False)
    y = alt.Y("coverage:Q", title="coverage", scale=scale)
    places = range(len(methods))
    colours = alt.Scale(domain=methods, range=[f"var(--m{at % COLOURS})" for at in places])
    shapes = alt.Scale(domain=methods, range=[shape(at) for at in places])
    colour = alt.Color("method:N", scale=colours, sort=methods, legend=None)
    points = base.mark_point(filled=True, size=110, cursor="pointer", clip=False).encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape("method:N", scale=shapes, sort=methods, legend=None),
        opacity=alt.condition(METHOD_FILTER, alt.value(1), alt.value(0.4)),
        tooltip=[alt.Tooltip(f"{name}:N") for name in ("method", "agent")]
        + [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("coverage", "low", "high")]
        + [alt.Tooltip("size:Q", format=".3f", title=f"mean {size}")],
    )
    chosen = base.transform_filter(METHOD_FILTER)
    whiskers = chosen.mark_rule(strokeWidth=1.5).encode(
        x=x, y=alt.Y("low:Q", title="coverage"), y2="high:Q", color=colour
    )
    level = chart_of([{"nominal": nominal}]).mark_rule(strokeDash=[5, 4], color="var(--muted)")
    layers = alt.layer(level.encode(y="nominal:Q"), whiskers, points, *_names(chosen, x, scale))
    return Chart(
        name="coverage-and-size",
        title="Coverage against size",
        alt=_scatter_words(rows, nominal, size, title),
        spec=spec_of(layers, height=_HEIGHT, method=method),
        columns=("method", "agent", "coverage", "low", "high", "size"),
        rows=[tuple(row.values()) for row in rows],
        note=_not_drawn(rows, drawn),
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


def threshold_chart(rows: Sequence[tuple[str, str, int, float, float]], by: str | None) -> Chart:
    """Draw own thresholds beside those in use: agent, label or group, points, own, in use.

    Without ``by``, the second is empty.
    """
    import altair as alt

    values = [
        {"agent": agent, "line": _line(agent, part), "points": n, "own": own, "in use": used}
        for agent, part, n, own, used in rows
        if isfinite(own) and isfinite(used)
    ]
    base = chart_of(values).transform_filter(AGENT_FILTER)
    scale = alt.Scale(zero=False, padding=14)
    place = alt.Y("line:N", sort=None, title=None)
    who = alt.Tooltip("line:N", title="agent" + (f", {by}" if by else ""))
    tooltip = [who, alt.Tooltip("points:Q", format=","), "own:Q", "in use:Q"]
    lines = base.mark_rule(color="var(--soft)", strokeWidth=2).encode(
        x=alt.X("own:Q", title="threshold", scale=scale), x2="in use:Q", y=place
    )
    own = base.mark_circle(color="var(--ink)", opacity=1, cursor="pointer").encode(
        x=alt.X("own:Q", scale=scale),
        y=place,
        tooltip=tooltip,
        size=alt.Size("points:Q", legend=None, scale=alt.Scale(range=[50, 400], zero=True)),
    )
    used = base.mark_tick(color="var(--accent)", thickness=3, height=22).encode(
        x=alt.X("in use:Q", scale=scale), y=place, tooltip=tooltip
    )
    lost = sorted(
        {_line(who, part) for who, part, _, own, used in rows if not isfinite(own + used)}
    )
    said = "; ".join(
        f"{_line(agent, part)} {number(own)}, in use {number(used)}"
        for agent, part, _, own, used in rows
    )
    return Chart(
        name="thresholds",
        title="Own threshold (dot) and threshold in use (bar)",
        alt=f"Own thresholds and those in use: {said}.",
        spec=spec_of(alt.layer(lines, own, used), height=40 * len(rows)),
        columns=(
            "agent",
            *((by,) if by else ()),
            *("calibration points", "own threshold", "threshold in use"),
        ),
        rows=rows if by else [(agent, *numbers) for agent, _, *numbers in rows],
        note=f"Not drawn, because infinite: {', '.join(lost)}." if lost else "",
    )


def _line(agent: str, part: str) -> str:
    """Name a line of the chart: an agent, and its label or group where there are any."""
    return f"{agent}, {part}" if part else agent


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


def _names(chosen: Any, x: Any, scale: Any) -> list[Any]:
    """Write the agents beside the marks of the chosen method, on a halo."""
    import altair as alt

    text = {"dx": 11, "align": "left", "fontWeight": 600}
    y = alt.Y("at:Q", scale=scale, title="coverage")
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
        f"{method} at {'every agent' if len(own) == len(agents) > 1 else name_list(own)}"
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


def place_names(rows: Sequence[dict[str, Any]], bottom: float, height: int) -> list[dict[str, Any]]:
    """Add to each mark the name that is written beside it, and at which coverage."""
    pixel = (1 - bottom) / height
    sizes = [log(max(row["size"], 1e-9)) for row in rows]  # they differ by factors
    wide = max(sizes, default=0.0) - min(sizes, default=0.0) or 1.0
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = sorted(
            (row for row in rows if row["method"] == method), key=lambda row: -row["coverage"]
        )
        labelled = own if len(own) <= MOST else own[: MOST // 2] + own[-(MOST // 2) :]
        near = _MARK + LETTER * max(len(row["agent"]) for row in labelled)
        marks = [
            (log(max(row["size"], 1e-9)) / wide, (1 - row["coverage"]) / pixel) for row in labelled
        ]
        down = push_apart(marks, near, height)
        places = {
            row["agent"]: round(1 - y * pixel, 5) for row, y in zip(labelled, down, strict=True)
        }
        for row in own:
            name = row["agent"] if row["agent"] in places else ""
            found.append({**row, "name": name, "at": places.get(row["agent"], row["coverage"])})
    return found


def push_apart(places: Sequence[tuple[float, float]], near: float, height: float) -> list[float]:
    """Push names apart that would cover each other.

    >>> push_apart([(0.5, 100.0), (0.5, 100.0), (0.9, 100.0)], 0.1, 360)
    [93.0, 107.0, 100.0]
    """
    down = [y for _, y in places]
    for _ in range(200):
        moved = False
        for a, b in combinations(range(len(places)), 2):
            lacking = LINE - abs(down[b] - down[a])
            if abs(places[a][0] - places[b][0]) < near and lacking > 1e-6:
                sign = 1 if down[b] >= down[a] else -1
                down[a] -= sign * lacking / 2
                down[b] += sign * lacking / 2
                moved = True
        down = [min(max(y, 0.0), height - LINE / 2) for y in down]
        if not moved:
            break
    return down
