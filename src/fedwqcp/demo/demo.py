"""What the default promises four real hospitals, what it costs, and what averaging would do."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from textwrap import wrap
from typing import TypeAlias

import msgspec
import numpy as np

import fedwqcp as fw
from fedwqcp._io import write_atomic
from fedwqcp.demo.hospitals import CLASSES, SITES, Hospital, hospital, hospitals
from fedwqcp.errors import InputError
from fedwqcp.sets import LabelSets

ALPHA = 0.1
METHODS = ("auto", "split-cp", "fedwq-cp")
FEW = 8
"""Calibration patients that are left to each hospital in turn; a threshold of its own takes 9."""
SWISS = "Zurich-Basel"
"""The hospital that also tries every other kind of model."""

OnStep: TypeAlias = Callable[[str, float], None]


class Found(msgspec.Struct, frozen=True):
    """Coverage and share of sets with one answer, of one method at one hospital's test patients.

    ``act`` is "all", "few" where this hospital has `FEW` calibration patients, or the kind of model
    that `SWISS` has instead of its own.
    """

    act: str
    method: str
    hospital: str
    coverage: float
    one: float


class Spread(msgspec.Struct, frozen=True):
    """The same over many splits: means, and where nine coverages of ten lie.

    Splits share patients, so this is a range and no confidence interval.
    """

    act: str
    method: str
    hospital: str
    splits: int
    coverage: float
    low: float
    high: float
    one: float


def one_split(four: Sequence[Hospital], seed: int, on_step: OnStep | None = None) -> list[Found]:
    """Return what methods give on one random split of the patients."""
    step = on_step or (lambda *_: None)
    found: list[Found] = []
    for place, method in enumerate(METHODS):
        step(method, 0.2 + 0.2 * place)
        found += _tested("all", method, calibrated(four, method, seed), four)
    for site in four:
        step(f"{site.name} with {FEW} patients", 0.8)
        few = [one.with_few(FEW) if one is site else one for one in four]
        for method in METHODS[:2]:
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                found += _tested("few", method, calibrated(few, method, seed), [site])
    for model in dict.fromkeys(model for _, model in SITES.values()):
        step(f"{SWISS}: {model}", 0.9)
        other = hospital(SWISS, model, seed)
        sites = [other if one.name == SWISS else one for one in four]
        for method in METHODS:
            found += _tested(model, method, calibrated(sites, method, seed), [other])
    return found


def calibrated(sites: Sequence[Hospital], method: str, seed: int) -> fw.Release:
    """Calibrate the hospitals with a method."""
    cals = {site.name: site.calibration for site in sites}
    return fw.calibrate(cals, method=method, alpha=ALPHA, key=f"demo-{seed}", classes=CLASSES)


def many_splits(splits: int, on_step: OnStep | None = None) -> list[Spread]:
    """Repeat on many random splits; the package holds 200 (``fedwqcp demo --splits 200``)."""
    if splits < 2:
        raise InputError(f"splits must be at least 2, got {splits}")
    rates: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for seed in range(splits):
        if on_step is not None:
            on_step(f"split {seed + 1} of {splits}", seed / splits)
        for f in one_split(hospitals(seed), seed):
            rates[f.act, f.method, f.hospital].append((f.coverage, f.one))
    spread = []
    for key, own in rates.items():
        covered, one = np.array(own).T
        low, high = np.quantile(covered, [0.05, 0.95])
        numbers = (covered.mean(), low, high, one.mean())
        spread.append(Spread(*key, splits, *(round(float(x), 4) for x in numbers)))
    return spread


def committed() -> list[Spread]:
    """Return the spread over 200 splits that ships with the package."""
    data = (files("fedwqcp.demo") / "splits.json").read_bytes()
    return msgspec.json.decode(data, type=list[Spread])


def save_spread(path: Path, spread: Iterable[Spread]) -> None:
    """Write the spread, one line for each method and hospital."""
    lines = b",\n".join(map(msgspec.json.encode, spread))
    write_atomic(path, b"[\n" + lines + b"\n]\n", shared=True)


def screen(
    sites: Sequence[Hospital], release: fw.Release, found: Sequence[Found], spread: Sequence[Spread]
) -> str:
    """Return the demo on one screen of 80 columns: the promise, its price, and averaging."""
    here = {(f.act, f.method, f.hospital): f for f in found}
    many = {(s.act, s.method, s.hospital): s for s in spread}
    level = _percent(1 - ALPHA)
    names, splits = [site.name for site in sites], f"{spread[0].splits} splits"

    def row(title: str, cells: Iterable[str]) -> str:
        return f"{title:<24}" + "".join(f"{cell:>14}" for cell in cells)

    def means(act: str, method: str, part: str) -> list[str]:
        return [_percent(getattr(many[act, method, name], part)) for name in names]

    ranges = (many["all", "auto", name] for name in names)
    sent = max(release.bytes_up(name) for name in names)
    lines = [
        *_paragraph(
            "Does the patient have heart disease? Each of four hospitals has its own model and "
            f"wants sets of answers that hold the truth for {level} of its own patients."
        ),
        "",
        row("", names),
        row("patients, with disease", (f"{s.patients}, {_percent(s.share)}" for s in sites)),
        row(
            "model", (s.model.removesuffix(" regression").removeprefix("gradient ") for s in sites)
        ),
        row("calibrate, test on", (f"{_n(s.calibration)}, {_n(s.test)}" for s in sites)),
        "",
        *_paragraph(
            "1. The promise. With the default (auto) a set holds the truth with probability "
            f"{level} at each hospital whose new patients are like its n calibration patients, "
            f"whatever the others send; n/(n+1) where n is below 9: {FEW}/{FEW + 1} with {FEW}. A "
            f"hospital sends here at most {sent} bytes: some scores, no patient and no model. One "
            "split of so few patients is mostly chance; the mean of many shows the promise."
        ),
        row("covered, this split", (_percent(here["all", "auto", n].coverage) for n in names)),
        row(f"  mean of {splits}", means("all", "auto", "coverage")),
        row("  nine splits of ten", (f"{100 * s.low:.0f} to {_percent(s.high)}" for s in ranges)),
        row(f"left with {FEW}, in turn", means("few", "auto", "coverage")),
        "",
        *_paragraph("2. The price. Patients who get one answer; the others get both or none."),
        row("auto", means("all", "auto", "one")),
        row("each alone (split-cp)", means("all", "split-cp", "one")),
        row(f"left with {FEW}: auto", means("few", "auto", "one")),
        row(f"left with {FEW}: split-cp", means("few", "split-cp", "one")),
        "",
        *_paragraph("3. Averaging the thresholds (fedwq-cp) promises nothing. It covers"),
        row(f"  mean of {splits}", means("all", "fedwq-cp", "coverage")),
        row("  one answer", means("all", "fedwq-cp", "one")),
        *_paragraph(_swiss(many)),
    ]
    return "\n".join(lines)


def _swiss(many: Mapping[tuple[str, str, str], Spread]) -> str:
    """Say how far averaging at one hospital depends on its model."""

    def each(method: str) -> list[tuple[float, str]]:
        kinds = dict.fromkeys(model for _, model in SITES.values())
        return sorted((many[kind, method, SWISS].coverage, kind) for kind in kinds)

    said = ", ".join(f"{kind} {_percent(share)}" for share, kind in each("fedwq-cp"))
    least = each("auto")[0][0]
    return f"At {SWISS} that depends on its model: {said}. auto: at least {_percent(least)}."


def _tested(act: str, method: str, release: fw.Release, sites: Sequence[Hospital]) -> list[Found]:
    """Measure hospitals on their own test patients."""
    found = []
    for site in sites:
        sets = release.predict_set(site.name, site.test)
        assert isinstance(sets, LabelSets)
        assert site.test.labels is not None
        rates = (sets.cover(site.test.labels), sets.sizes() == 1)
        found.append(Found(act, method, site.name, *(fmean(each) for each in rates)))
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _n(part: fw.Outputs) -> int:
    return len(part.values)


def _paragraph(text: str) -> list[str]:
    return wrap(text, 80, break_on_hyphens=False)
