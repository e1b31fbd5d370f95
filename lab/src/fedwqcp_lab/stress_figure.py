"""The stress study as a figure and a table: where each method fails."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any

from fedwqcp.federation.files import write_atomic
from fedwqcp.report.figures import COLOURS, MARKERS, STYLE, require_matplotlib, save_all
from fedwqcp_lab.compare import shown
from fedwqcp_lab.stressed import Stressed

FACTORS = {
    "label": "label skew: concentration",
    "quantity": "quantity skew: concentration",
    "agents": "agents",
    "tiny": "agents with ten points",
    "strong": "share of strong models",
    "alpha": "miscoverage level",
}
"""Factors in the order of the panels, with their axes; the first three are logarithmic."""

LOGARITHMIC = ("label", "quantity", "agents")


def write(lines: Sequence[Stressed], out: Path) -> tuple[Path, ...]:
    """Write a figure for each preset, and one table.

    Parameters
    ----------
    lines : sequence of Stressed
        The study.
    out : Path
        Folder for the files.

    Returns
    -------
    tuple of Path
        ``stress.csv``, and ``stress-PRESET.svg`` and ``.png``.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    require_matplotlib()
    table = out / "stress.csv"
    write_atomic(table, _csv(lines).encode())
    files = [table]
    for preset in _distinct(line.preset for line in lines):
        stem = out / f"stress-{preset.lower().replace(' ', '-')}"
        files += draw([line for line in lines if line.preset == preset], stem)
    return tuple(files)


def draw(
    lines: Sequence[Stressed], stem: Path, endings: Sequence[str] = (".svg", ".png")
) -> tuple[Path, ...]:
    """Draw what the worst agent's coverage lacks, against every factor, for each dataset.

    Parameters
    ----------
    lines : sequence of Stressed
        The lines of one preset.
    stem : Path
        Where to, without ending.
    endings : sequence of str, optional
        In which formats.

    Returns
    -------
    tuple of Path
        The files.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    datasets = _distinct(line.dataset for line in lines)
    factors = [name for name in FACTORS if any(line.factor == name for line in lines)]
    methods = _distinct(line.method for line in lines)
    with mpl.rc_context(STYLE):
        figure = Figure((2.3 * len(factors) + 1, 2.1 * len(datasets) + 0.9), layout="constrained")
        panels = figure.subplots(len(datasets), len(factors), sharey="row", squeeze=False)
        for row, dataset in zip(panels, datasets, strict=True):
            for panel, factor in zip(row, factors, strict=True):
                own = [x for x in lines if (x.dataset, x.factor) == (dataset, factor)]
                _draw(panel, own, methods)
                panel.set_xscale("log" if factor in LOGARITHMIC else "linear")
            first = next(line for line in lines if line.dataset == dataset)
            row[0].set_ylabel(f"{shown(first.title, first.status)}\nworst agent lacks")
        for panel, factor in zip(panels[-1], factors, strict=True):
            panel.set_xlabel(FACTORS[factor])
        handles, names = panels[0][0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside upper center", ncols=ceil(len(names) / 2), frameon=False
        )
        return save_all(figure, stem, endings)


def _draw(panel: Any, lines: Sequence[Stressed], methods: Sequence[str]) -> None:
    """Draw one panel: medians over seeds."""
    panel.axhline(0, color="0.6", linewidth=0.8)
    values = sorted({line.value for line in lines})
    for place, method in enumerate(methods):
        lacks = [
            [
                1 - line.alpha - line.worst
                for line in lines
                if (line.method, line.value) == (method, value)
            ]
            for value in values
        ]
        there = [
            (value, median(found)) for value, found in zip(values, lacks, strict=True) if found
        ]
        panel.plot(
            *zip(*there, strict=True) if there else ((), ()),
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=4,
            linewidth=1.2,
            linestyle="-" if place < len(COLOURS) else "--",
            label=method,
        )


def _csv(lines: Sequence[Stressed]) -> str:
    """Return medians over seeds."""
    columns = ("gap", "short", "worst", "size", "fewest", "bytes_up", "calibration_s")
    text = StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["dataset", "status", "factor", "value", "preset", "method", "seeds", *columns])
    groups: dict[tuple[str, str, str, float, str, str], list[Stressed]] = {}
    for line in lines:
        key = line.dataset, line.status, line.factor, line.value, line.preset, line.method
        groups.setdefault(key, []).append(line)
    for key, own in sorted(groups.items()):
        figures = (f"{median(getattr(line, name) for line in own):.5g}" for name in columns)
        rows.writerow([*key[:3], f"{key[3]:g}", *key[4:], len(own), *figures])
    return text.getvalue()


def _distinct(values: Any) -> list[str]:
    """Return values once each, in the order in which they came."""
    return list(dict.fromkeys(values))
