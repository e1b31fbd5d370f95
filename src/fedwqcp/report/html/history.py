"""One agent's coverage over the rows that were watched, with its confidence sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from fedwqcp.report.html.blocks import Chart
from fedwqcp.report.html.vega import chart_of, spec
from fedwqcp.report.html.words import counted


@dataclass(frozen=True)
class Step:
    """How an agent stood after some rows.

    Parameters
    ----------
    update : int
        Number of the update.
    time : str
        When it was.
    calibration : int
        Which calibration the rows follow.
    row : int
        Rows since the agent was first watched.
    rows, covered : int
        Rows since that calibration, and how many were covered.
    coverage, low, high : float
        Their coverage, and its confidence sequence.
    """

    update: int
    time: str
    calibration: int
    row: int
    rows: int
    covered: int
    coverage: float
    low: float
    high: float


@dataclass(frozen=True)
class Marks:
    """What is drawn upright.

    Parameters
    ----------
    alarms, calibrations : sequence of int
        Rows at which alarms were raised, and after which the agent was calibrated again.
    """

    alarms: Sequence[int] = ()
    calibrations: Sequence[int] = ()


def history(agent: str, steps: Sequence[Step], floor: float, marks: Marks, lowest: float) -> Chart:
    """Draw one agent's coverage since each calibration, with its confidence sequence.

    Parameters
    ----------
    agent : str
        Its name.
    steps : sequence of Step
        Its way, at least one; two steps are far enough apart that no single row can be told.
    floor : float
        Coverage that is to be kept.
    marks : Marks
        Alarms and calibrations.
    lowest : float
        Lower end of the axis, the same for all agents; a band is cut off there.

    Returns
    -------
    Chart
        A line with a band for each calibration.
    """
    import altair as alt

    few = alt.Axis(tickCount=4, format=",d", grid=False)
    x = alt.X("row:Q", title="rows", scale=_rows(steps), axis=few)
    scale = alt.Scale(domain=[lowest, 1], nice=False, zero=False)
    y = alt.Y("coverage:Q", scale=scale, title=None, axis=alt.Axis(tickCount=4))
    ends = {"y": alt.Y("low:Q", scale=scale, title=None), "y2": "high:Q"}
    part = alt.Detail("calibration:N")
    base = chart_of([_drawn(step) for step in steps])
    lone = chart_of([_drawn(step) for step in _lone(steps)])
    kept = chart_of([{"floor": floor}]).mark_rule(strokeDash=[5, 4], color="var(--ink)")
    layers = [
        base.mark_area(color="var(--soft)", opacity=0.75, clip=True).encode(
            x=x, detail=part, **ends
        ),
        lone.mark_rule(color="var(--soft)", strokeWidth=5, clip=True).encode(x=x, **ends),
        kept.encode(y=alt.Y("floor:Q", scale=scale)),
        base.mark_line(color="var(--accent)", strokeWidth=2, clip=True).encode(
            x=x, y=y, detail=part
        ),
        base.mark_circle(color="var(--accent)", size=26, opacity=1, clip=True).encode(
            x=x, y=y, tooltip=_told()
        ),
        *_upright(marks, x),
    ]
    return Chart(
        name=f"coverage-{agent}",
        title=agent,
        alt=_words(agent, steps, floor, marks),
        spec=spec(alt.layer(*layers), height=150),
        columns=[field.name for field in fields(Step)],
        rows=[astuple(step) for step in steps],
    )


def _upright(marks: Marks, x: Any) -> list[Any]:
    """Return a line for each calibration and each alarm."""
    import altair as alt

    return [
        chart_of([{"row": row} for row in rows])
        .mark_rule(color=colour, strokeWidth=2, strokeDash=dash)
        .encode(x=x, tooltip=[alt.Tooltip("row:Q", title=what, format=",")])
        for rows, colour, dash, what in (
            (marks.calibrations, "var(--ink)", [2, 4], "calibrated again after row"),
            (marks.alarms, "var(--bad)", [], "alarm at row"),
        )
        if rows
    ]


def _told() -> list[Any]:
    """Return what pointing at a step tells."""
    import altair as alt

    told = [alt.Tooltip(f"{name}:N") for name in ("update", "time", "calibration")]
    told += [alt.Tooltip(f"{name}:Q", format=",") for name in ("rows", "covered")]
    return told + [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("coverage", "low", "high")]


def _lone(steps: Sequence[Step]) -> list[Step]:
    """Return steps that have no neighbour under the same calibration: a band needs two."""
    counts = Counter(step.calibration for step in steps)
    return [step for step in steps if counts[step.calibration] == 1]


def _rows(steps: Sequence[Step]) -> Any:
    """Return an axis from the first row to a little beyond the last."""
    import altair as alt

    return alt.Scale(domain=[0, 1.03 * steps[-1].row], nice=False)


def _drawn(step: Step) -> dict[str, Any]:
    """Return what the picture needs of a step."""
    shares = ("coverage", "low", "high")
    return {f.name: getattr(step, f.name) for f in fields(Step)} | {
        name: round(getattr(step, name), 5) for name in shares
    }


def _words(agent: str, steps: Sequence[Step], floor: float, marks: Marks) -> str:
    """Say what the picture shows."""
    first, last = steps[0], steps[-1]
    said = (
        f"Coverage of {agent} in {counted(len(steps), 'step')}, from {first.coverage:.3f} after "
        f"{counted(first.row, 'row')} to {last.coverage:.3f} after {last.row:,}, where the "
        f"95 % sequence is {last.low:.3f} to {last.high:.3f}. To be kept: {floor:.3f}."
    )
    for what, rows in (
        ("Alarm at row", marks.alarms),
        ("New calibration after row", marks.calibrations),
    ):
        if rows:
            said += f" {what} {', '.join(f'{row:,}' for row in rows)}."
    return said
