"""Figures: the demo's, and score distributions with thresholds for papers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fedwqcp._io import write_atomic
from fedwqcp.demo.demo import MethodResult, Results
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.outputs import Outputs, load_outputs
from fedwqcp.federation.predict import calibration_of, thresholds
from fedwqcp.federation.record import load as load_release
from fedwqcp.federation.release import Release
from fedwqcp.metrics import histogram
from fedwqcp.quantile import conformal_quantile
from fedwqcp.report.terminal import row_name

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
"""Formats of a figure, named by the ending of its file."""


_UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class FigureSource:
    """What a figure is drawn from: a folder, or a release with one agent's calibration outputs."""

    source: Path
    preset: str | None = None
    agent: str | None = None
    outputs: Path | None = None


@dataclass(frozen=True)
class AgentProfile:
    """One agent's scores in bins, its own threshold and the released one."""

    title: str
    agent: str
    edges: Sequence[float]
    people: Sequence[int]
    local: float
    released: float
    level: float


Draw: TypeAlias = Callable[[FigureSource, Path, Sequence[str]], tuple[Path, ...]]
"""Draw a figure of a source at a stem, in the formats named by endings."""


def draw(name: str, source: FigureSource, path: Path, known: Mapping[str, Draw]) -> Path:
    """Draw one of the known figures; the same records give the same bytes."""
    if name not in known:
        raise InputError(f"unknown figure {name!r}; known: {', '.join(known)}")
    check_ending(path)
    require_matplotlib()
    files = known[name](source, path.with_suffix(""), (path.suffix,))
    if not files:
        raise InputError(f"{source.source} holds nothing to draw {name} from")
    return files[0]


def draw_demo(
    results: Results, stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw the four hospitals: coverage with its interval, and how many answers sets hold."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(f.method for f in results.of("four")))
    with rc_context(STYLE):
        figure = Figure(figsize=(10.2, 1.9 + 0.44 * len(methods)), layout="constrained")
        panels = figure.subplots(2, len(results.sites), sharey=True, squeeze=False)
        for place, site in enumerate(results.sites):
            found = results.of("four", agent=site.name)
            _coverage_panel(panels[0][place], found, results)
            _answers_panel(panels[1][place], found)
            title = f"{site.name}\n{site.model}, {site.calibration} calibrate"
            panels[0][place].set_title(title, loc="left", fontsize=9)
        for row in panels:
            row[0].set_yticks(range(len(methods)), [row_name(f) for f in _firsts(results, methods)])
        panels[0][0].invert_yaxis()  # all panels share it
        return save_all(figure, stem, endings)


def _firsts(results: Results, methods: Sequence[str]) -> list[MethodResult]:
    """Return one line of each method, for its name."""
    return [results.of("four", method)[0] for method in methods]


def _coverage_panel(panel: Any, found: Sequence[MethodResult], results: Results) -> None:
    """Draw one hospital's coverage by method: point, exact interval, mean of many splits."""
    nominal = 100 * (1 - results.alpha)
    panel.axvline(nominal, color="0.35", linestyle="--", linewidth=1)
    for place, f in enumerate(found):
        rate, low = f.rate, f.rate.high < 1 - results.alpha
        colour = COLOURS[0] if low else COLOURS[1]
        panel.plot([100 * rate.low, 100 * rate.high], [place, place], color=colour, linewidth=1.6)
        panel.plot([100 * rate.coverage], [place], "o", color=colour, markersize=5)
        spread = results.spread_of("four", f.method, f.agent)
        if spread is not None:
            panel.plot([100 * spread.mean], [place], "|", color="black", markersize=10)
        note = f"{100 * rate.coverage:.0f}" + (" low" if low else "")
        panel.annotate(note, (100 * rate.low, place), (-4, 0), textcoords="offset points",
                       ha="right", va="center", fontsize=8, color=colour)  # fmt: skip
    panel.set_xlim(0, 102)
    panel.set_xlabel(f"coverage, %; asked for {nominal:g}")
    panel.tick_params(left=False)


def _answers_panel(panel: Any, found: Sequence[MethodResult]) -> None:
    """Draw how many sets of one hospital hold no, one and both answers."""
    parts = (("none", "0.55", "none"), ("one", COLOURS[2], "one"), ("all", "0.85", "both"))
    for place, f in enumerate(found):
        left = 0.0
        for field, colour, name in parts:
            share = 100 * getattr(f, field) / f.tested
            panel.barh(place, share, left=left, color=colour, height=0.72)
            if share >= 22:
                panel.text(left + share / 2, place, f"{name} {share:.0f}", ha="center",
                           va="center", fontsize=7.5)  # fmt: skip
            left += share
    panel.set_xlim(0, 100)
    panel.set_xlabel("answers in a set, % of patients")
    panel.tick_params(left=False)


def draw_ecdf(
    own: AgentProfile, stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw an agent's distribution of scores, its own threshold and the released one.

    The curve goes through the edges of bins that hold ten people or more, straight in between.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(4.6, 3.8), layout="constrained")
        panel = figure.subplots()
        panel.axhline(own.level, color="0.35", linestyle="--", linewidth=1)
        n = sum(own.people)
        if n:
            shares = [people / n for people in accumulate(own.people, initial=0)]
            panel.plot(own.edges, shares, color=COLOURS[0], linewidth=1.4, label=own.agent)
        if isfinite(own.local):
            panel.plot([own.local], [own.level], marker="|", color=COLOURS[0], markersize=11)
        if isfinite(own.released):
            panel.axvline(own.released, color="black", linewidth=1.2, label="released threshold")
        panel.set_xlabel("score; tick on the dashed line: the agent's own threshold")
        panel.set_ylabel("share of calibration points")
        panel.set_ylim(0, 1.01)
        panel.set_title(own.title, loc="left", fontweight="bold")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        return save_all(figure, stem, endings)


def agent_profile(release: Release, agent: str, outputs: Outputs) -> AgentProfile:
    """Return an agent's scores as counts, its own threshold and the released one."""
    cal = calibration_of(release.round, outputs)
    alpha = release.round.alphas[0]
    released = np.ravel(thresholds(release, agent, alpha, cal))
    if len(released) != 1 or cal.columns > 1:
        raise InputError("the figure needs one threshold; this round gives one for each label")
    bars = histogram(cal.scores)
    return AgentProfile(
        title=f"{release.round.score.name}, {release.round.method.name}",
        agent=agent,
        edges=bars.edges,
        people=bars.people,
        local=float(conformal_quantile(cal.scores, alpha)),
        released=float(released[0]),
        level=1 - alpha,
    )


def ecdf(request: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw an agent's distribution of scores beside a release, with its thresholds."""
    if request.agent is None or request.outputs is None:
        raise InputError("beside a release, say whose scores with --agent and --outputs")
    release = load_release(request.source)
    outputs = load_outputs(request.outputs, classes=release.round.classes)
    own = agent_profile(release, request.agent, outputs)
    return draw_ecdf(own, stem, endings)


FIGURES: dict[str, Draw] = {"ecdf": ecdf}
"""Every figure by its name."""


def require_matplotlib() -> None:
    """Refuse early where no figure can be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("drawing the figure", "demo") from error


def save_all(figure: Any, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Write a figure in several formats."""
    return tuple(save(figure, stem.with_name(stem.name + end)) for end in endings)


def save(figure: Any, path: Path) -> Path:
    """Write a figure whole or not at all, without the date."""
    check_ending(path)
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=160, metadata=_UNDATED.get(path.suffix))
    write_atomic(path, drawn.getvalue())
    return path


def check_ending(path: Path) -> None:
    """Refuse a file of another format before any work is done."""
    if path.suffix not in ENDINGS:
        raise InputError(f"a figure must end in {', '.join(ENDINGS)}, got {path.name}")
