"""What all charts of a report share: signals, colours, shapes and size.

A chart knows two signals that the page sets: ``method``, the chosen one, and ``agents``, those
that are filtered for (none means all). Colours are variables of the page's style, so that light,
dark and print need no second chart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fedwqcp.errors import MissingExtraError

SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-right")
"""One for each method beside its colour."""

COLOURS = 7
"""How many colours of methods the style has."""

SHOWN = "!length(agents) || indexof(agents, datum.agent) >= 0"
"""Keeps the agents that are filtered for."""

CHOSEN = "datum.method == method"
"""Keeps the chosen method."""


def require_report() -> None:
    """Refuse early where no report can be written.

    Raises
    ------
    MissingExtraError
        If Altair, vl-convert or Jinja are not installed.
    """
    try:
        import altair  # noqa: F401
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("writing the report", "report") from error


@contextmanager
def unchecked() -> Iterator[None]:
    """Build charts without holding every part against Vega-Lite's schema.

    The check takes most of the time of a report; tests do it instead.

    Yields
    ------
    None
        While charts are built.
    """
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        yield


def shape(place: int) -> str:
    """Return the shape of a method: with its colour, no other of the first 49 has it.

    Parameters
    ----------
    place : int
        Place of the method on the page.

    Returns
    -------
    str
        Its name.
    """
    return SHAPES[(place + place // COLOURS) % len(SHAPES)]


def colours(methods: Sequence[str]) -> Any:
    """Give each method a colour of the page's style.

    Parameters
    ----------
    methods : sequence of str
        In the order of the page.

    Returns
    -------
    altair.Scale
        From names to colours.
    """
    import altair as alt

    return alt.Scale(
        domain=list(methods), range=[f"var(--m{at % COLOURS})" for at in range(len(methods))]
    )


def shapes(methods: Sequence[str]) -> Any:
    """Give each method a shape.

    Parameters
    ----------
    methods : sequence of str
        In the order of the page.

    Returns
    -------
    altair.Scale
        From names to shapes.
    """
    import altair as alt

    return alt.Scale(domain=list(methods), range=[shape(at) for at in range(len(methods))])


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Begin a chart of some rows.

    Parameters
    ----------
    rows : sequence of mapping
        Its data.

    Returns
    -------
    altair.Chart
        Without marks yet.
    """
    import altair as alt

    data: Any = alt.Data
    return alt.Chart(data(values=list(rows)))


def spec(chart: Any, *, height: int, method: str = "") -> dict[str, Any]:
    """Return what the browser draws, as wide as the page allows.

    Parameters
    ----------
    chart : altair.Chart
        The chart.
    height : int
        In pixels.
    method : str, optional
        The method that is chosen first.

    Returns
    -------
    dict
        In Vega-Lite's terms.
    """
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
    """Give data that several layers hold one name and one place."""
    names: dict[str, str] = {}
    found: dict[str, Any] = {}
    for part in (drawn, *drawn.get("layer", ())):
        if "data" in part:
            values = part["data"]["values"]
            name = names.setdefault(repr(values), f"data{len(names)}")
            found[name], part["data"] = values, {"name": name}
    return found
