"""Figures: the demo's, and score distributions with thresholds for papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedwqcp._io import write_atomic
from fedwqcp.demo.demo import ALPHA, Spread
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.predict import calibration_of, thresholds
from fedwqcp.federation.record import load_release
from fedwqcp.federation.release import Release
from fedwqcp.methods import Calibration
from fedwqcp.metrics import histogram
from fedwqcp.quantile import conformal_quantile
from fedwqcp.readers import load_outputs

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


@dataclass(frozen=True)
class FigureSource:
    """What a figure is drawn from: a folder, or a release with one agent's calibration outputs."""

    source: Path
    preset: str | None = None
    agent: str | None = None
    outputs: Path | None = None


Draw: TypeAlias = Callable[[FigureSource, Path, Sequence[str]], tuple[Path, ...]]
"""Draw a figure of a source at a stem, in the formats named by endings."""


def draw(name: str, source: FigureSource, path: Path, known: Mapping[str, Draw]) -> Path:
    """Draw one of the known figures; the same records give the same bytes."""
    if name not in known:
        raise InputError(f"unknown figure {name!r}; known: {', '.join(known)}")
    _check_ending(path)
    require_matplotlib()
    files = known[name](source, path.with_suffix(""), (path.suffix,))
    if not files:
        raise InputError(f"{source.source} holds nothing to draw {name} from")
    return files[0]


def draw_demo(spread: Sequence[Spread], path: Path) -> Path:
    """Draw what 200 splits of the four hospitals cover: the mean, and nine splits of ten."""
    own = {(s.method, s.hospital): s for s in spread if s.act == "all"}
    methods, names = (list(dict.fromkeys(each)) for each in zip(*own, strict=True))
    with new_figure(8.4, 2.4) as figure:
        panels = figure.subplots(1, len(names), sharey=True)
        for panel, name in zip(panels, names, strict=True):
            panel.axvline(100 * (1 - ALPHA), color="0.35", linestyle="--", linewidth=1)
            for place, method in enumerate(methods):
                s, style = own[method, name], method_style(len(methods) - place)
                panel.plot([100 * s.low, 100 * s.high], [place] * 2, color=style["color"])
                panel.plot([100 * s.coverage], [place], **style)
            panel.set_title(name, loc="left", fontsize=9)
            panel.set_xlim(20, 102)
        panels[0].set_yticks(range(len(methods)), methods)
        panels[0].invert_yaxis()  # all panels share it
        figure.supxlabel(f"patients covered, %; dashed: {100 * (1 - ALPHA):g}", fontsize=9)
        return save(figure, path)


def draw_scores(
    panel: Any, release: Release, sites: Mapping[str, Calibration], alpha: float
) -> None:
    """Draw agents' distributions of scores, their own thresholds and those in use, at one level.

    The curves go through the edges of bins that hold ten people or more, straight in between.
    """
    in_use: dict[str, float] = {}
    for place, (agent, cal) in enumerate(sites.items()):
        released = np.ravel(thresholds(release, agent, alpha, cal))
        if len(released) != 1 or cal.columns > 1:
            raise InputError("the plot needs one threshold; this round gives several to an agent")
        colour, bars = COLOURS[place % len(COLOURS)], histogram(cal.scores)
        if bars.counts:
            shares = [people / cal.n for people in accumulate(bars.counts, initial=0)]
            panel.plot(bars.edges, shares, color=colour, label=agent)
        own = conformal_quantile(cal.scores, alpha)
        if isfinite(own):
            panel.axvline(own, color=colour, linestyle=":", linewidth=1.2)
        in_use[agent] = float(released[0])
    shared = len(set(in_use.values())) == 1
    for place, q in enumerate(in_use.values()):
        if isfinite(q) and (place == 0 or not shared):
            colour = "black" if shared else COLOURS[place % len(COLOURS)]
            panel.axvline(q, color=colour, linewidth=1.2)
    panel.axhline(1 - alpha, color="0.35", linestyle="--", linewidth=1)
    panel.set_xlabel(
        f"{release.round.score.name} score; solid line: threshold in use, dotted: an agent's own"
    )
    panel.set_ylabel("share of calibration points")
    if panel.get_legend_handles_labels()[0]:
        panel.legend()


def ecdf(request: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw an agent's distribution of scores beside a release, with its thresholds."""
    if request.agent is None or request.outputs is None:
        raise InputError("beside a release, say whose scores with --agent and --outputs")
    release = load_release(request.source)
    outputs = load_outputs(request.outputs, classes=release.round.classes)
    own = {request.agent: calibration_of(release.round, outputs)}
    with new_figure(4.6, 3.8) as figure:
        panel = figure.subplots()
        draw_scores(panel, release, own, release.round.alphas[0])
        title = f"{release.round.score.name}, {release.round.method.name}"
        panel.set_title(title, loc="left", fontweight="bold")
        return save_all(figure, stem, endings)


FIGURES: dict[str, Draw] = {"ecdf": ecdf}
"""Every figure by its name."""


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


def method_style(place: int) -> dict[str, Any]:
    """Return how the method at a place of the legend is marked."""
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}


def save_all(figure: Any, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Write a figure in several formats."""
    return tuple(save(figure, stem.with_name(stem.name + end)) for end in endings)


def save(figure: Any, path: Path) -> Path:
    """Write a figure whole or not at all, without the date."""
    _check_ending(path)
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=160, metadata=_UNDATED.get(path.suffix))
    write_atomic(path, drawn.getvalue(), shared=True)
    return path


def _check_ending(path: Path) -> None:
    """Refuse a file of another format before any work is done."""
    if path.suffix not in _ENDINGS:
        raise InputError(f"a figure must end in {', '.join(_ENDINGS)}, got {path.name}")
