"""Figures for papers: coverage against size, and score distributions with thresholds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate
from math import inf, isfinite, isinf
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from fedwqcp._io import write_atomic
from fedwqcp.demo.records import REPORT_FILE, AgentProfile, load_records, load_report
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.outputs import Outputs, load_outputs
from fedwqcp.federation.predict import calibration_of, thresholds
from fedwqcp.federation.record import load as load_release
from fedwqcp.federation.release import Release
from fedwqcp.metrics import Rate, histogram
from fedwqcp.quantile import conformal_quantile

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


class Point(Protocol):
    """What one method gave one agent, as coverage and size; a record of the demo is one."""

    @property
    def dataset(self) -> str:
        """As shown."""

    @property
    def task(self) -> str:
        """Whether sets hold labels (``"classification"``) or are intervals."""

    @property
    def alpha(self) -> float:
        """The miscoverage level."""

    @property
    def method(self) -> str:
        """Name of the method."""

    @property
    def model(self) -> str:
        """Whether the agent's model is ``"strong"`` or ``"weak"``."""

    @property
    def tested(self) -> int:
        """Test points behind the coverage; 0 where it is a median over runs."""

    @property
    def coverage(self) -> float:
        """Share of test points that were covered."""

    @property
    def size(self) -> float:
        """Mean size of the sets."""


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
    check_ending(path)
    require_matplotlib()
    files = known[name](source, path.with_suffix(""), (path.suffix,))
    if not files:
        raise InputError(f"{source.source} holds nothing to draw {name} from")
    return files[0]


def coverage_against_size(
    records: Sequence[Point], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw coverage against mean size for each method and agent, one panel for each dataset."""
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


def draw_ecdf(
    profiles: Sequence[AgentProfile], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw each agent's distribution of scores, its own threshold and the released one.

    The curves go through the edges of bins that hold ten people or more, straight in between.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys(p.dataset for p in profiles))
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6 * len(datasets), 3.8), layout="constrained")
        panels = figure.subplots(1, len(datasets), sharey=True, squeeze=False)[0]
        for panel, dataset in zip(panels, datasets, strict=True):
            _draw_ecdf(panel, [p for p in profiles if p.dataset == dataset])
            panel.set_title(dataset, loc="left", fontweight="bold")
        panels[0].set_ylabel("share of calibration points")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=5, frameon=False)
        return save_all(figure, stem, endings)


def agent_profile(release: Release, agent: str, outputs: Outputs) -> AgentProfile:
    """Return an agent's scores as counts, its own threshold and the released one."""
    cal = calibration_of(release.round, outputs)
    alpha = release.round.alphas[0]
    released = np.ravel(thresholds(release, agent, alpha, cal))
    if len(released) != 1 or cal.columns > 1:
        raise InputError("the figure needs one threshold; this round gives one for each label")
    bars = histogram(cal.scores)
    covered = float(np.mean(cal.scores <= released[0])) if cal.n else 0.0
    return AgentProfile(
        dataset=f"{release.round.score.name}, {release.round.method.name}",
        agent=agent,
        counts=(cal.n,),
        edges=bars.edges,
        people=bars.people,
        local=float(conformal_quantile(cal.scores, alpha)),
        released=float(released[0]),
        mixture=inf,
        level=1 - alpha,
        coverage=covered,
        coverage_mixture=1.0,
    )


def demo_coverage(request: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw coverage against size from the demo's folder."""
    records = load_records(request.source / "records.jsonl")
    return coverage_against_size([r for r in records if r.experiment == "methods"], stem, endings)


def ecdf(request: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw distributions of scores with thresholds, of the demo or beside a release."""
    if request.source.is_dir():
        return draw_ecdf(demo_profiles(request.source), stem, endings)
    if request.agent is None or request.outputs is None:
        raise InputError("beside a release, say whose scores with --agent and --outputs")
    release = load_release(request.source)
    outputs = load_outputs(request.outputs, classes=release.round.classes)
    own = agent_profile(release, request.agent, outputs)
    return draw_ecdf([own], stem, endings)


FIGURES: dict[str, Draw] = {"coverage-vs-size": demo_coverage, "ecdf": ecdf}
"""Every figure by its name."""


def demo_profiles(source: Path) -> tuple[AgentProfile, ...]:
    """Return what the demo kept of its agents."""
    found = tuple(one for one in load_report(source / REPORT_FILE) if isinstance(one, AgentProfile))
    if not found:
        raise InputError(f"{source} must be the demo's folder with {REPORT_FILE}: fedwqcp demo")
    return found


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
                panel.plot(
                    [r.size], [r.coverage], **_marker_style(place, strong=r.model == "strong")
                )
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


def _marker_style(place: int, *, strong: bool) -> dict[str, Any]:
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
        Line2D([], [], label=method, **_marker_style(place, strong=True))
        for place, method in enumerate(methods)
    ]
    grey: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": "0.35"}
    handles.append(Line2D([], [], label="strong model", **grey))
    handles.append(Line2D([], [], label="weak model", markerfacecolor="none", **grey))
    return [*handles, Patch(color="0.93", label="within noise (exact 99 %)")] if noise else handles


def _chance(n: int, nominal: float) -> tuple[float, float]:
    """Return the coverages among n test points whose exact interval holds the nominal one."""
    hits = range(n + 1)
    lowest = bisect_left(hits, nominal, key=lambda h: Rate(n=n, hits=h, level=0.99).high)
    highest = bisect_right(hits, nominal, key=lambda h: Rate(n=n, hits=h, level=0.99).low) - 1
    return lowest / n, highest / n


def _draw_ecdf(panel: Any, profiles: Sequence[AgentProfile]) -> None:
    """Draw one dataset."""
    first = profiles[0]
    panel.axhline(first.level, color="0.35", linestyle="--", linewidth=1)
    for place, own in enumerate(profiles):
        colour = COLOURS[place % len(COLOURS)]
        n = sum(own.people)
        if n:
            shares = [people / n for people in accumulate(own.people, initial=0)]
            panel.plot(own.edges, shares, color=colour, linewidth=1.4, label=own.agent)
        if isfinite(own.local):
            panel.plot([own.local], [first.level], marker="|", color=colour, markersize=11)
    for value, style, name in (
        (first.released, "-", "released threshold"),
        (first.mixture, ":", "quantile of all scores"),
    ):
        if isfinite(value):
            panel.axvline(value, color="black", linestyle=style, linewidth=1.2, label=name)
    panel.set_xlabel("score; ticks on the dashed line: agents' own thresholds")
    panel.set_ylim(0, 1.01)
