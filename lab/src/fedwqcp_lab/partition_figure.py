"""A picture of who has which calibration points: agents by classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedwqcp.report.figures import STYLE, require_matplotlib, save_all
from fedwqcp_lab.compare import shown
from fedwqcp_lab.result import Share


def draw(
    shares: Sequence[Share], stem: Path, endings: Sequence[str] = (".png", ".svg")
) -> tuple[Path, ...]:
    """Draw the partition of the first seed, one panel for each dataset.

    Parameters
    ----------
    shares : sequence of Share
        Partitions of a run.
    stem : Path
        Where to, without ending.
    endings : sequence of str, optional
        In which formats.

    Returns
    -------
    tuple of Path
        The files; none without partitions.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    first = min((share.seed for share in shares), default=0)
    datasets = sorted({share.dataset for share in shares if share.seed == first})
    if not datasets:
        return ()
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(4, len(datasets))
    lines = -(-len(datasets) // columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(3.4 * columns, 2.6 * lines), layout="constrained")
        panels = figure.subplots(lines, columns, squeeze=False).ravel()
        for panel in panels[len(datasets) :]:
            panel.set_visible(False)
        for panel, dataset in zip(panels, datasets, strict=False):
            own = [s for s in shares if s.dataset == dataset and s.seed == first]
            _draw(panel, sorted(own, key=lambda share: int(share.agent[1:])))
        figure.suptitle(f"calibration points of each agent and class, seed {first}")
        return save_all(figure, stem, endings)


def _draw(panel: Any, shares: Sequence[Share]) -> None:
    """Draw one dataset: the darker, the more points; the number stands inside."""
    counts = [share.counts for share in shares]
    most = max(1, *(count for row in counts for count in row))
    panel.pcolormesh(counts, cmap="Blues", vmin=0, vmax=most, edgecolors="white", linewidth=0.5)
    for line, row in enumerate(counts):
        for column, count in enumerate(row):
            panel.text(
                column + 0.5,
                line + 0.5,
                str(count),
                ha="center",
                va="center",
                fontsize=6,
                color="white" if count > most / 2 else "0.2",
            )
    panel.set_yticks([line + 0.5 for line in range(len(shares))], [s.agent for s in shares])
    panel.set_xticks([c + 0.5 for c in range(len(counts[0]))], range(len(counts[0])))
    panel.invert_yaxis()
    panel.set_title(shown(shares[0].title, shares[0].status), loc="left", fontweight="bold")
