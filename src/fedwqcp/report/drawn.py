"""Figures by name: what each is drawn from, and how it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fedwqcp.bench import shown as kept
from fedwqcp.bench.journal import Journal
from fedwqcp.bench.record import load
from fedwqcp.bench.result import Result, Share
from fedwqcp.bench.shown import Portrait
from fedwqcp.bench.stressed import Stressed
from fedwqcp.errors import InputError
from fedwqcp.report import ablation, ecdf, figures, partition, stress
from fedwqcp.report.compare import cells
from fedwqcp.report.html.sources import demo
from fedwqcp.report.pages import read
from fedwqcp.report.points import medians

Line = TypeVar("Line", Result, Stressed)


def draw(name: str, source: Path, path: Path, preset: str | None = None) -> Path:
    """Draw a figure; the same records give the same bytes.

    Parameters
    ----------
    name : str
        One of `FIGURES`.
    source : Path
        Folder of the demo, of a benchmark or of a stress study.
    path : Path
        Where to; its ending names the format.
    preset : str, optional
        Which one, where there are several; by default the first.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    InputError
        If there is no such figure, format or preset, or the folder does not hold what it needs.
    MissingExtraError
        If matplotlib is not installed.
    RecordError
        If records are damaged.
    """
    if name not in FIGURES:
        raise InputError(f"unknown figure {name!r}; known: {', '.join(FIGURES)}")
    figures.check_ending(path)
    figures.require_matplotlib()
    files = FIGURES[name](source, path.with_suffix(""), (path.suffix,), preset)
    if not files:
        raise InputError(f"{source} holds nothing to draw {name} from")
    return files[0]


def _partition(source: Path, stem: Path, endings: Sequence[str], _: str | None) -> tuple[Path, ...]:
    """Draw who has which calibration points."""
    if demo.known(source):
        return partition.draw([_share(p) for p in _portraits(source)], stem, endings)
    return partition.draw(Journal(source / "partitions.jsonl", Share).read(), stem, endings)


def _ablation(
    source: Path, stem: Path, endings: Sequence[str], preset: str | None
) -> tuple[Path, ...]:
    """Draw the plain mean of thresholds beside the weighted one."""
    results = _of_preset(read(source), preset)
    return ablation.draw(cells(results), 1 - results[0].alpha, stem, endings)


def _coverage(
    source: Path, stem: Path, endings: Sequence[str], preset: str | None
) -> tuple[Path, ...]:
    """Draw coverage against size."""
    if demo.known(source):
        records = load(source / "records.jsonl")
        own = [record for record in records if record.experiment == "methods"]
        return figures.coverage_against_size(own, stem, endings)
    results = _of_preset(read(source), preset)
    plain = [result for result in results if " (" not in result.method]  # no other readings
    return figures.coverage_against_size(medians(plain), stem, endings)


def _ecdf(source: Path, stem: Path, endings: Sequence[str], _: str | None) -> tuple[Path, ...]:
    """Draw distributions of scores with thresholds."""
    return ecdf.draw(_portraits(source), stem, endings)


def _gap(source: Path, stem: Path, endings: Sequence[str], preset: str | None) -> tuple[Path, ...]:
    """Draw what the worst agent lacks, against every factor of a stress study."""
    lines = Journal(source / "stress.jsonl", Stressed).read()
    if not lines:
        raise InputError(f"{source / 'stress.jsonl'} holds no line; first: fedwqcp bench stress")
    return stress.draw(_of_preset(lines, preset), stem, endings)


FIGURES: dict[str, Callable[[Path, Path, Sequence[str], str | None], tuple[Path, ...]]] = {
    "partition": _partition,
    "ablation": _ablation,
    "coverage-vs-size": _coverage,
    "ecdf": _ecdf,
    "gap-vs-heterogeneity": _gap,
}
"""Every figure by its name."""


def _portraits(source: Path) -> tuple[Portrait, ...]:
    """Return what the demo kept of its agents."""
    found = tuple(one for one in kept.load(source / kept.FILE) if isinstance(one, Portrait))
    if not found:
        raise InputError(f"{source} must be the demo's folder with {kept.FILE}: fedwqcp demo")
    return found


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
