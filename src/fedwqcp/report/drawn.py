"""Figures by name: what each is drawn from, and how it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedwqcp.bench import shown as kept
from fedwqcp.bench.journal import Journal
from fedwqcp.bench.record import load
from fedwqcp.bench.result import Result, Share
from fedwqcp.bench.shown import Portrait
from fedwqcp.bench.stressed import Stressed
from fedwqcp.errors import InputError
from fedwqcp.federation.outputs.reading import load_outputs
from fedwqcp.federation.record.store import load as load_release
from fedwqcp.report import ablation, ecdf, figures, partition, stress
from fedwqcp.report.compare import cells
from fedwqcp.report.html.sources import demo
from fedwqcp.report.own_scores import portrait
from fedwqcp.report.pages import read
from fedwqcp.report.points import medians

Line = TypeVar("Line", Result, Stressed)


@dataclass(frozen=True)
class Asked:
    """What a figure is drawn from.

    Parameters
    ----------
    source : Path
        Folder of the demo, of a benchmark or of a stress study; or a release.
    preset : str, optional
        Which one, where there are several; by default the first.
    agent : str, optional
        Whose scores are drawn beside a release's threshold.
    outputs : Path, optional
        That agent's calibration outputs, with labels.
    """

    source: Path
    preset: str | None = None
    agent: str | None = None
    outputs: Path | None = None


def draw(name: str, asked: Asked, path: Path) -> Path:
    """Draw a figure; the same records give the same bytes.

    Parameters
    ----------
    name : str
        One of `FIGURES`.
    asked : Asked
        What it is drawn from.
    path : Path
        Where to; its ending names the format.

    Returns
    -------
    Path
        The same path.

    Raises
    ------
    InputError
        If there is no such figure, format or preset, or the source does not hold what it needs.
    MissingExtraError
        If matplotlib is not installed.
    RecordError
        If records are damaged.
    """
    if name not in FIGURES:
        raise InputError(f"unknown figure {name!r}; known: {', '.join(FIGURES)}")
    figures.check_ending(path)
    figures.require_matplotlib()
    files = FIGURES[name](asked, path.with_suffix(""), (path.suffix,))
    if not files:
        raise InputError(f"{asked.source} holds nothing to draw {name} from")
    return files[0]


def _partition(asked: Asked, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw who has which calibration points."""
    if demo.known(asked.source):
        return partition.draw([_share(p) for p in _portraits(asked.source)], stem, endings)
    return partition.draw(Journal(asked.source / "partitions.jsonl", Share).read(), stem, endings)


def _ablation(asked: Asked, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw the plain mean of thresholds beside the weighted one."""
    results = _of_preset(read(asked.source), asked.preset)
    return ablation.draw(cells(results), 1 - results[0].alpha, stem, endings)


def _coverage(asked: Asked, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw coverage against size."""
    if demo.known(asked.source):
        records = load(asked.source / "records.jsonl")
        own = [record for record in records if record.experiment == "methods"]
        return figures.coverage_against_size(own, stem, endings)
    results = _of_preset(read(asked.source), asked.preset)
    plain = [result for result in results if " (" not in result.method]  # no other readings
    return figures.coverage_against_size(medians(plain), stem, endings)


def _ecdf(asked: Asked, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw distributions of scores with thresholds."""
    if asked.source.is_dir():
        return ecdf.draw(_portraits(asked.source), stem, endings)
    if asked.agent is None or asked.outputs is None:
        raise InputError("beside a release, say whose scores with --agent and --outputs")
    own = portrait(load_release(asked.source), asked.agent, load_outputs(asked.outputs))
    return ecdf.draw([own], stem, endings)


def _gap(asked: Asked, stem: Path, endings: Sequence[str]) -> tuple[Path, ...]:
    """Draw what the worst agent lacks, against every factor of a stress study."""
    lines = Journal(asked.source / "stress.jsonl", Stressed).read()
    if not lines:
        raise InputError(f"{asked.source} holds no stress.jsonl; first: fedwqcp bench stress")
    return stress.draw(_of_preset(lines, asked.preset), stem, endings)


FIGURES: dict[str, Callable[[Asked, Path, Sequence[str]], tuple[Path, ...]]] = {
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
