"""Figures of benchmarks and studies by name, beside those that `fedwqcp report figure` draws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from fedwqcp.demo.shown import Portrait
from fedwqcp.errors import InputError
from fedwqcp.report import figures
from fedwqcp.report.figures import FigureSource
from fedwqcp.report.html.sources import demo
from fedwqcp_lab import ablation
from fedwqcp_lab import partition_figure as partition
from fedwqcp_lab import stress_figure as stress
from fedwqcp_lab.compare import cells
from fedwqcp_lab.journal import Journal
from fedwqcp_lab.pages import read
from fedwqcp_lab.points import medians
from fedwqcp_lab.result import Result, Share
from fedwqcp_lab.stressed import Stressed

Line = TypeVar("Line", Result, Stressed)


def _partition(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw who has which calibration points."""
    if demo.known(asked.source):
        return partition.draw(
            [_share(p) for p in figures.demo_portraits(asked.source)], stem, endings
        )
    return partition.draw(Journal(asked.source / "partitions.jsonl", Share).read(), stem, endings)


def _ablation(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw the plain mean of thresholds beside the weighted one."""
    results = _of_preset(read(asked.source), asked.preset)
    return ablation.draw(cells(results), 1 - results[0].alpha, stem, endings)


def _coverage(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw coverage against size."""
    if demo.known(asked.source):
        return figures.demo_coverage(asked, stem, endings)
    results = _of_preset(read(asked.source), asked.preset)
    plain = [result for result in results if " (" not in result.method]  # no other readings
    return figures.coverage_against_size(medians(plain), stem, endings)


def _gap(asked: FigureSource, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw what the worst agent lacks, against every factor of a stress study."""
    lines = Journal(asked.source / "stress.jsonl", Stressed).read()
    if not lines:
        raise InputError(f"{asked.source} holds no stress.jsonl; first: fedwqcp-lab stress")
    return stress.draw(_of_preset(lines, asked.preset), stem, endings)


FIGURES: dict[str, figures.Draw] = {
    **figures.FIGURES,
    "partition": _partition,
    "ablation": _ablation,
    "coverage-vs-size": _coverage,
    "gap-vs-heterogeneity": _gap,
}
"""Every figure by its name."""


def _share(portrait: Portrait) -> Share:
    """Return an agent's part of the data as a benchmark keeps it."""
    return Share(
        dataset=portrait.dataset,
        title=portrait.dataset,
        status="published",
        task="classification" if len(portrait.counts) > 1 else "regression",
        seed=0,
        agent=portrait.agent,
        counts=portrait.counts,
        quantiles=False,
    )


def _of_preset(lines: Sequence[Line], preset: str | None) -> list[Line]:
    """Return the lines of one preset."""
    names = list(dict.fromkeys(line.preset for line in lines))
    if preset is not None and preset not in names:
        raise InputError(f"unknown preset {preset!r}; there are: {', '.join(names)}")
    return [line for line in lines if line.preset == (preset or names[0])]
