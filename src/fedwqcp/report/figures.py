"""The style of every figure, and the demo's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from fedwqcp._io import write_atomic
from fedwqcp.demo.demo import ALPHA, Spread
from fedwqcp.errors import InputError, MissingExtraError

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


_ENDINGS = (".pdf", ".png", ".svg")
"""Formats of a figure, named by the ending of its file."""


_UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def draw_demo(spread: Sequence[Spread], path: Path) -> Path:
    """Draw what 200 splits of the four hospitals cover: the mean, and nine splits of ten."""
    spreads = {(s.method, s.hospital): s for s in spread if s.act == "all"}
    methods, names = (list(dict.fromkeys(column)) for column in zip(*spreads, strict=True))
    with new_figure(6.4, 1.9) as figure:
        panels = figure.subplots(1, len(names), sharey=True)
        for panel, name in zip(panels, names, strict=True):
            panel.axvline(100 * (1 - ALPHA), color="0.35", linestyle="--", linewidth=1)
            for row, method in enumerate(methods):
                s, style = spreads[method, name], method_style(len(methods) - row)
                panel.plot([100 * s.low, 100 * s.high], [row] * 2, color=style["color"])
                panel.plot([100 * s.coverage], [row], **style)
            panel.set_title(name, loc="left", fontsize=9)
            panel.set_xlim(20, 102)
        panels[0].set_yticks(range(len(methods)), methods)
        panels[0].invert_yaxis()  # all panels share it
        figure.supxlabel(f"patients covered, %; dashed: {100 * (1 - ALPHA):g}", fontsize=9)
        return save(figure, path)


def require_matplotlib() -> None:
    """Refuse early where no figure can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("drawing the figure", "demo") from error


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Any]:
    """Begin a figure of so many inches, which is drawn in the style of all figures."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def method_style(number: int) -> dict[str, Any]:
    """Return how the method at a place of the legend is marked."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def save_all(figure: Any, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Write a figure in several formats."""
    return tuple(save(figure, stem.with_name(stem.name + end)) for end in endings)


def save(figure: Any, path: Path) -> Path:
    """Write a figure whole or not at all, without the date."""
    if path.suffix not in _ENDINGS:
        raise InputError(f"a figure must end in {', '.join(_ENDINGS)}, got {path.name}")
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=160, metadata=_UNDATED.get(path.suffix))
    write_atomic(path, drawn.getvalue(), shared=True)
    return path
