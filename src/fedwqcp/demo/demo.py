"""What the default promises four real hospitals, what it costs, and what averaging would do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from statistics import fmean
from textwrap import wrap

import msgspec

import fedwqcp as fw
from fedwqcp.demo.hospitals import CLASSES, SITES, Hospital
from fedwqcp.sets import LabelSets

ALPHA = 0.1
METHODS = ("auto", "split-cp", "fedwq-cp")
FEW = 8
"""Calibration patients that are left to each hospital in turn; a threshold of its own takes 9."""
SWISS = "Zurich-Basel"
"""The hospital that also tries every other kind of model."""


class Spread(msgspec.Struct, frozen=True):
    """Coverage and share of sets with one answer over splits: means, and nine of ten coverages.

    Of one method at one hospital's test patients. ``act`` is "all", "few" where this hospital has
    `FEW` calibration patients, or the kind of model that `SWISS` has instead of its own. Splits
    share patients, so this is a range and no confidence interval.
    """

    act: str
    method: str
    hospital: str
    splits: int
    coverage: float
    low: float
    high: float
    one: float


def calibrated(sites: Sequence[Hospital], method: str, seed: int) -> fw.Release:
    """Calibrate the hospitals with a method."""
    cals = {site.name: site.calibration for site in sites}
    return fw.calibrate(cals, method=method, alpha=ALPHA, key=f"demo-{seed}", classes=CLASSES)


def committed() -> list[Spread]:
    """Return the spread over 200 splits that ships with the package."""
    data = (files("fedwqcp.demo") / "splits.json").read_bytes()
    return msgspec.json.decode(data, type=list[Spread])


def rates(release: fw.Release, site: Hospital) -> tuple[float, float]:
    """Return coverage and share of sets with one answer of a hospital's own test patients."""
    sets = release.predict_set(site.name, site.test)
    assert isinstance(sets, LabelSets)
    assert site.test.labels is not None
    return fmean(sets.cover(site.test.labels)), fmean(sets.sizes() == 1)


def screen(sites: Sequence[Hospital], release: fw.Release, spread: Sequence[Spread]) -> str:
    """Return the demo on one screen of 80 columns: the promise, its price, and averaging."""
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
            f"wants sets of answers that hold the truth for {level} of its own patients. They "
            "calibrate together because patients are few: with fewer than 9 to calibrate on, a "
            "hospital alone must give everybody both answers."
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
            f"1. The promise (auto, the default). At each hospital at least {level} of new "
            "patients like those it calibrated on get a set that holds the truth, whatever the "
            f"others send; with {FEW} calibration patients {FEW}/{FEW + 1}. It is an average over "
            "splits into calibration and test; one split of so few patients may cover less. A "
            f"hospital sends here at most {sent} bytes: class counts and some scores, no row of "
            "data and no model."
        ),
        row(f"covered, {splits}", means("all", "auto", "coverage")),
        row("  nine splits of ten", (f"{100 * s.low:.0f} to {_percent(s.high)}" for s in ranges)),
        row("  this split alone", (_percent(rates(release, site)[0]) for site in sites)),
        row(f"left with {FEW}, in turn", means("few", "auto", "coverage")),
        "",
        *_paragraph("2. The price. Patients who get one answer; the others get both, or none."),
        row("auto", means("all", "auto", "one")),
        row("each alone (split-cp)", means("all", "split-cp", "one")),
        row(f"left with {FEW}: auto", means("few", "auto", "one")),
        row(f"left with {FEW}: split-cp", means("few", "split-cp", "one")),
        "",
        *_paragraph("3. Averaging the thresholds (fedwq-cp) promises nothing."),
        row(f"covered, {splits}", means("all", "fedwq-cp", "coverage")),
        row("  one answer", means("all", "fedwq-cp", "one")),
        *_paragraph(_swiss(many)),
    ]
    return "\n".join(lines)


def _swiss(many: Mapping[tuple[str, str, str], Spread]) -> str:
    """Say how far averaging at one hospital depends on its model."""

    def each(method: str) -> list[tuple[float, str]]:
        kinds = dict.fromkeys(model for _, model in SITES.values())
        return sorted((many[kind, method, SWISS].coverage, kind) for kind in kinds)

    text = ", ".join(f"{kind} {_percent(share)}" for share, kind in each("fedwq-cp"))
    (least, _), *_, (most, _) = each("auto")
    return (
        f"At {SWISS} that depends on its model: {text}. With auto the same models cover "
        f"{100 * least:.0f} to {_percent(most)}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _n(part: fw.Outputs) -> int:
    return len(part.values)


def _paragraph(text: str) -> list[str]:
    return wrap(text, 80, break_on_hyphens=False)
