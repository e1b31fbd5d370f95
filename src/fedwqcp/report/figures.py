"""Records as figures: one style for all, and coverage against size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from io import BytesIO
from math import isinf
from pathlib import Path
from typing import Any

from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.files import write_atomic
from fedwqcp.metrics import Rate
from fedwqcp.report.points import Point

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers tell apart; yellow is too faint on white."""

MARKERS = "osD^vPX<>"
"""One for each method beside its colour; their number shares no factor with that of colours."""

STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "fedwqcp",  # the same bytes for the same records
    "pdf.fonttype": 42,  # text stays text, as publishers ask for
}
"""How every figure looks."""

ENDINGS = (".pdf", ".png", ".svg")
"""Formats of a figure, told by the ending of its file."""

_UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def require_matplotlib() -> None:
    """Refuse early where no figure can be drawn.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("drawing the figure", "demo") from error


def coverage_against_size(
    records: Sequence[Point], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw coverage against mean size for each method and agent, one panel for each dataset.

    Parameters
    ----------
    records : sequence of Point
        One for each dataset, method and agent.
    stem : Path
        Where to, without ending.
    endings : sequence of str, optional
        In which formats.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys(r.dataset for r in records))
    methods = sorted({r.method for r in records})
    with rc_context(STYLE):
        columns = min(4, len(datasets))
        lines = -(-len(datasets) // columns)
        figure = Figure(figsize=(4.6 * columns, 0.6 + 3.8 * lines), layout="constrained")
        panels = figure.subplots(lines, columns, sharey=True, squeeze=False)
        for panel in panels.flat[len(datasets) :]:
            panel.set_visible(False)
        for panel, dataset in zip(panels.flat, datasets, strict=False):
            _draw(panel, [r for r in records if r.dataset == dataset], methods)
        panels[0][0].set_ylim(top=1.01)  # shared by all, after the last point is drawn
        for row in panels:
            row[0].set_ylabel("coverage of an agent on the shared test data")
        handles = _legend(methods, noise=any(r.tested for r in records))
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
        return save_all(figure, stem, endings)


def _draw(panel: Any, records: Sequence[Point], methods: Sequence[str]) -> None:
    """Draw one dataset."""
    first = records[0]
    nominal = 1 - first.alpha
    if first.tested:
        panel.axhspan(*_chance(first.tested, nominal), color="0.93", linewidth=0)
    panel.axhline(nominal, color="0.35", linestyle="--", linewidth=1)
    endless = []
    for place, method in enumerate(methods):
        own = [r for r in records if r.method == method]
        if any(isinf(r.size) for r in own):
            endless.append(method)
        for r in own:
            if not isinf(r.size):
                panel.plot([r.size], [r.coverage], **_look(place, strong=r.model == "strong"))
    labels = first.task == "classification"
    panel.set_xlabel("mean number of labels in a set" if labels else "mean length of an interval")
    panel.set_title(f"{first.dataset}: {first.task}", loc="left", fontweight="bold")
    panel.margins(x=0.08)
    panel.annotate(
        f"nominal {nominal:g}",
        (0.995, nominal),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        color="0.35",
        fontsize=8,
    )
    if endless:
        note = f"not shown, infinite: {', '.join(endless)}"
        panel.text(0.995, 0.02, note, transform=panel.transAxes, ha="right", fontsize=8)


def _look(place: int, *, strong: bool) -> dict[str, Any]:
    """Return how a method is marked: filled where the model is strong, hollow where weak."""
    colour = COLOURS[place % len(COLOURS)]
    return {
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": "none",
        "markersize": 6.5,
        "markeredgecolor": colour,
        "markerfacecolor": colour if strong else "none",
        "markeredgewidth": 1.3,
        "alpha": 0.9,
        "clip_on": False,
    }


def _legend(methods: Sequence[str], *, noise: bool) -> list[Any]:
    """Return one handle for each method, and those that tell models and noise apart."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], label=method, **_look(place, strong=True))
        for place, method in enumerate(methods)
    ]
    grey: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "0.35"}
    handles.append(Line2D([], [], label="strong model", **grey))
    handles.append(Line2D([], [], label="weak model", markerfacecolor="none", **grey))
    return [*handles, Patch(color="0.93", label="within noise (99 %)")] if noise else handles


def _chance(n: int, nominal: float) -> tuple[float, float]:
    """Return the coverages among n test points whose exact interval holds the nominal one."""
    hits = range(n + 1)
    lowest = bisect_left(hits, nominal, key=lambda h: Rate(n=n, hits=h, level=0.99).high)
    highest = bisect_right(hits, nominal, key=lambda h: Rate(n=n, hits=h, level=0.99).low) - 1
    return lowest / n, highest / n


def save_all(figure: Any, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Write a figure in several formats.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    stem : Path
        Where to, without ending.
    endings : sequence of str
        In which formats.

    Returns
    -------
    tuple of Path
        The files.
    """
    return tuple(save(figure, stem.with_name(stem.name + end)) for end in endings)


def save(figure: Any, path: Path) -> Path:
    """Write a figure whole or not at all, without the date.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : Path
        Where to; its ending names the format.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    InputError
        If the ending is none of `ENDINGS`.
    """
    check_ending(path)
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=160, metadata=_UNDATED.get(path.suffix))
    write_atomic(path, drawn.getvalue())
    return path


def check_ending(path: Path) -> None:
    """Refuse a file of another format before any work is done.

    Parameters
    ----------
    path : Path
        Where a figure is to be written.

    Raises
    ------
    InputError
        If the ending is none of `ENDINGS`.
    """
    if path.suffix not in ENDINGS:
        raise InputError(f"a figure must end in {', '.join(ENDINGS)}, got {path.name}")
