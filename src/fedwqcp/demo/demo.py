"""The main job on four real hospitals: what each sends, what it gets, and what to use."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

import fedwqcp as fw
from fedwqcp._io import write_atomic
from fedwqcp._validation import Floats, as_alpha
from fedwqcp.demo.hospitals import CLASSES, Hospital, clinics, hospitals
from fedwqcp.errors import InfiniteThresholdWarning, InputError, MissingExtraError, RecordError
from fedwqcp.federation.advice import advise_on, calibrate_as_advised
from fedwqcp.methods import Method
from fedwqcp.metrics import Rate
from fedwqcp.registry import Setting
from fedwqcp.sets import Intervals, LabelSets
from fedwqcp.theory import Advice

ALPHA = 0.1
"""The miscoverage level of the committed splits."""

METHODS = ("split-cp", "fedwq-cp", "fcp", "auto", "guarded-median-cp")
"""What the demo compares; ``auto`` is the method that the library advises."""

_FEW_METHODS = ("split-cp", "fedwq-cp", "fcp", "auto")
_CLINIC_METHODS = ("split-cp", "fedwq-cp", "auto")
"""What it compares where one hospital has few patients, and in the regression."""

NEWCOMER = ("fedwq-cp", "fcp", "fedcp-qq", "max-cp", "new-agent-cp")
"""Whose shared threshold a hospital gets that took no part; others have none for it."""

ACTS = {
    "four": "Four hospitals",
    "few": "One with few patients",
    "joins": "A newcomer without labels",
    "clinics": "Regression",
}
"""What the demo shows, in this order, with titles."""

SIMULATED = "20 simulated sites and a new one"
"""The act beside them, of sites that can be drawn at will; it has no patients."""

FEW = ("Budapest", 8)
"""The hospital that is left with too few calibration patients, and how many: 9 are needed."""

_EXAMPLES = 3
"""Typical and hard patients of each hospital that the report shows."""

RESULTS_FILE = "demo.json"
"""Name of the file of results."""

VERSION = 2
"""Its version."""

OnStep: TypeAlias = Callable[[str, float], None]


@dataclass(frozen=True, kw_only=True)
class HospitalSummary:
    """What one hospital has."""

    name: str
    model: str
    patients: int
    share: float
    trained: int
    calibration: int
    test: int


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """What one method gave one hospital in one act, on its own test patients.

    ``none``, ``one`` and ``all`` count sets by the answers they hold: an interval is ``one``, or
    ``all`` where it is the whole line. ``chosen`` is the method behind ``auto``.
    """

    act: str
    method: str
    chosen: str
    agent: str
    n: int
    tested: int
    covered: int
    none: int
    one: int
    all: int
    size: float | None
    threshold: str
    bytes_up: int
    rounds: int
    guarantee: str
    assumption: str

    @property
    def rate(self) -> Rate:
        """Coverage with its exact 95 % interval."""
        return Rate(n=self.tested, hits=self.covered)


@dataclass(frozen=True, kw_only=True)
class Patient:
    """One test patient of public data with the sets of all methods."""

    agent: str
    hard: bool
    about: str
    truth: str
    disease: float
    sets: dict[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Advised:
    """What the library advised in one act from what was sent: by which rule, and all it says."""

    act: str
    method: str
    settings: dict[str, Setting]
    code: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Coverage over many splits; splits share patients, so there is no interval, only a range.

    ``low`` and ``high`` hold nine splits of ten between them; ``one`` is the mean share of sets
    with one answer. Of simulated sites a split is a new site, coverage is exact, and ``enough`` is
    the share of new sites at which it is at least 1 - alpha.
    """

    act: str
    method: str
    agent: str
    splits: int
    mean: float
    sd: float
    low: float
    high: float
    one: float
    size: float | None
    enough: float | None = None


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that the demo found, and keeps in `RESULTS_FILE`."""

    seed: int
    alpha: float
    sites: tuple[HospitalSummary, ...]
    clinics: tuple[HospitalSummary, ...]
    found: tuple[MethodResult, ...]
    advised: tuple[Advised, ...]
    patients: tuple[Patient, ...]
    skipped: dict[str, str]
    spread: tuple[Spread, ...]
    code: str
    version: int = VERSION

    def of(
        self, act: str, method: str | None = None, agent: str | None = None
    ) -> list[MethodResult]:
        """Return some of what was found."""
        return [
            f
            for f in self.found
            if f.act == act and method in (None, f.method) and agent in (None, f.agent)
        ]

    def spreads(self, act: str, method: str) -> list[Spread]:
        """Return the spreads over many splits at all hospitals, where they are known."""
        return [s for s in self.spread if (s.act, s.method) == (act, method)]

    def spread_of(self, act: str, method: str, agent: str) -> Spread | None:
        """Return the spread over many splits at one hospital, where it is known."""
        return next((s for s in self.spreads(act, method) if s.agent == agent), None)

    def advice(self, act: str = "four") -> Advised:
        """Return what was advised."""
        return next(a for a in self.advised if a.act == act)


def run(
    seed: int = 0,
    alpha: float = ALPHA,
    methods: Sequence[str] = METHODS,
    on_step: OnStep | None = None,
) -> Results:
    """Train, calibrate and test on one split of the patients."""
    if as_alpha(alpha) > 0.5:  # refused before anything is trained
        raise InputError(
            f"alpha must be at most 0.5, got {alpha:g} (alpha is the miscoverage: for 90 % "
            "coverage write 0.1)"
        )
    four, three = hospitals(seed), clinics(seed)
    total = len(methods) + len(_FEW_METHODS) + len(four) + len(_CLINIC_METHODS)
    round = _Rounds(f"demo-{seed}", alpha, on_step, total)
    round.compare("four", four, methods)
    examples = _examples(four, round.sets)
    small, n = FEW
    few = [site.with_few(n) if site.name == small else site for site in four]
    round.compare("few", few, _FEW_METHODS)
    for one in four:
        round.join(four, one)
    round.keep("joins", advise_on(round.calibrate(four, "fedwq-cp"), new_site=True))
    round.compare("clinics", three, _CLINIC_METHODS)
    return Results(
        seed=seed,
        alpha=alpha,
        sites=tuple(map(_summary, four)),
        clinics=tuple(map(_summary, three)),
        found=tuple(round.found),
        advised=tuple(round.advised),
        patients=examples,
        skipped=round.skipped,
        spread=committed_spread() if alpha == ALPHA else (),
        code=_code(),
    )


def over_splits(splits: int, alpha: float = ALPHA, on_step: OnStep | None = None) -> list[Spread]:
    """Repeat the demo on many random splits, and return mean and spread of every coverage."""
    if splits < 2:
        raise InputError(f"splits must be at least 2, got {splits}")
    found: dict[tuple[str, str, str], list[MethodResult]] = {}
    for seed in range(splits):
        if on_step is not None:
            on_step(f"split {seed + 1} of {splits}", seed / splits)
        for f in run(seed, alpha).found:
            found.setdefault((f.act, f.method, f.agent), []).append(f)
    return [
        *(_over_splits(*key, own) for key, own in found.items()),
        *simulated_sites(splits, alpha),
    ]


def simulated_sites(federations: int, alpha: float = ALPHA) -> list[Spread]:
    """Return the coverage at new sites like the 20 that calibrated; nothing of it is real.

    Scores of site k are normal around mu_k, and mu_k standard normal; each has 60 of them. Coverage
    at a new site around mu is then the normal distribution function at q - mu.
    """
    from scipy.special import ndtr

    M, n, new = 20, 60, 20
    methods = {name: fw.methods.get(name) for name in NEWCOMER}
    for setting, value in (("sketch", "bisection"), ("form", "confident")):
        method = fw.methods.get("new-agent-cp", **{setting: value})
        methods[f"new-agent-cp {setting}={value}"] = method
    covered: dict[str, list[Floats]] = {name: [] for name in methods}
    for seed in range(federations):
        rng = np.random.default_rng(seed)
        mu, joining = rng.normal(size=M), rng.normal(size=new)
        sites = {f"site-{k}": rng.normal(mu[k], 1.0, size=n) for k in range(M)}
        for name, method in methods.items():
            q = fw.calibrate(sites, method=method, alpha=alpha).threshold("site-0")
            covered[name].append(ndtr(np.asarray(q) - joining))
    spread = []
    for name, own in covered.items():
        each = np.concatenate(own)
        enough = round(float(np.mean(each >= 1 - alpha)), 4)
        none = {"one": 0.0, "size": None}  # there are no sets
        spread.append(_spread("simulated", name, "new site", each, enough=enough, **none))
    return spread


def committed_spread() -> tuple[Spread, ...]:
    """Return the spread over 200 splits that ships with the package (``demo --splits 200``)."""
    data = (files("fedwqcp.demo") / "splits.json").read_bytes()
    return msgspec.json.decode(data, type=tuple[Spread, ...])


def save_spread(path: Path, spread: Sequence[Spread]) -> None:
    """Write the spread, one line for each method and hospital."""
    lines = b",\n".join(msgspec.json.encode(one) for one in spread)
    write_atomic(path, b"[\n" + lines + b"\n]\n", shared=True)


def save_results(path: Path, results: Results) -> None:
    """Write results as JSON."""
    write_atomic(path, msgspec.json.format(msgspec.json.encode(results), indent=1), shared=True)


def load_results(path: Path) -> Results:
    """Read results."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Results)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read as the demo's results: {error}") from None
    if found.version != VERSION:
        raise RecordError(f"{path} has version {found.version}: run fedwqcp demo again")
    return found


def _has_classes(sites: Sequence[Hospital]) -> bool:
    """Tell classification from regression."""
    return sites[0].test.values.ndim == 2


class _Rounds:
    """Runs rounds between hospitals, and keeps what came of them."""

    def __init__(self, key: str, alpha: float, on_step: OnStep | None, total: int) -> None:
        self.key = key
        self.alpha = alpha
        self.on_step = on_step
        self.steps, self.total = 0, total
        self.found: list[MethodResult] = []
        self.advised: list[Advised] = []
        self.skipped: dict[str, str] = {}
        self.sets: dict[str, dict[str, LabelSets]] = {}

    def compare(self, act: str, sites: Sequence[Hospital], methods: Sequence[str]) -> None:
        """Calibrate with each method, and test at every hospital."""
        for method in methods:
            self.tell(f"{act}: {method}")
            try:
                auto = method == "auto"
                release = self.as_advised(act, sites) if auto else self.calibrate(sites, method)
            except (InputError, MissingExtraError) as error:
                self.skipped[method] = str(error)
                continue
            for site in sites:
                self.test(act, method, release, site)

    def tell(self, what: str) -> None:
        """Say which step begins, and how far all of them are."""
        if self.on_step is not None:
            self.on_step(what, self.steps / self.total)
        self.steps += 1

    def join(self, sites: Sequence[Hospital], newcomer: Hospital) -> None:
        """Let a hospital join that has a model and no labels: the others calibrate without it."""
        self.tell(f"joins: {newcomer.name}")
        others = [site for site in sites if site is not newcomer]
        for method in NEWCOMER:
            release = self.calibrate(others, method)
            self.test("joins", method, release, newcomer)

    def as_advised(self, act: str, sites: Sequence[Hospital]) -> fw.Release:
        """Calibrate as ``method="auto"`` does, and keep the advice."""
        release, advice = calibrate_as_advised(
            lambda method: self.calibrate(sites, method), labelled=_has_classes(sites)
        )
        self.keep(act, advice)
        return release

    def keep(self, act: str, advice: Advice) -> None:
        """Keep what was advised."""
        self.advised.append(
            Advised(
                act=act,
                method=advice.method,
                settings=advice.settings,
                code=advice.code,
                text=str(advice),
            )
        )

    def calibrate(self, sites: Sequence[Hospital], method: str | Method[Any]) -> fw.Release:
        """Run one round: this is all that a user writes."""
        agents = {site.name: site.calibration for site in sites}
        labels = _has_classes(sites)  # else a regression
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InfiniteThresholdWarning)  # the tables show it
            return fw.calibrate(
                agents,
                method=method,
                alpha=self.alpha,
                score="aps" if labels else "absolute-residual",
                classes=CLASSES if labels else None,
                key=self.key,
                rng=0,
            )

    def test(self, act: str, method: str, release: fw.Release, site: Hospital) -> None:
        """Turn a hospital's test patients into sets, and count; a newcomer takes what all share."""
        took_part = site.name in release.round.agents
        agent = site.name if took_part else None
        predict = release.predict_set if _has_classes([site]) else release.predict_interval
        sets: LabelSets | Intervals = predict(agent, site.test)
        if act == "four" and isinstance(sets, LabelSets):
            self.sets.setdefault(method, {})[site.name] = sets
        none, one, every = _answers(sets)
        size = float(np.mean(sets.sizes()))
        self.found.append(
            MethodResult(
                act=act,
                method=method,
                chosen=release.round.method.name,
                agent=site.name,
                n=len(site.calibration.values) if took_part else 0,
                tested=len(sets),
                covered=int(np.count_nonzero(sets.cover(_truth(site)))),
                none=none,
                one=one,
                all=every,
                size=size if size < inf else None,
                threshold=", ".join(
                    "infinite" if q == inf else f"{q:.3f}"
                    for q in np.atleast_1d(release.threshold(agent))
                ),
                bytes_up=release.bytes_up(site.name) if took_part else 0,
                rounds=release.rounds,
                guarantee=release.guarantee.in_words,
                assumption=release.assumption,
            )
        )


def _truth(site: Hospital) -> npt.NDArray[Any]:
    assert site.test.labels is not None
    return site.test.labels


def _answers(sets: LabelSets | Intervals) -> tuple[int, int, int]:
    """Count sets without an answer, with one, and with all."""
    if isinstance(sets, Intervals):
        endless = int(np.count_nonzero(np.isinf(sets.sizes())))
        return 0, len(sets) - endless, endless
    none, one, every = np.bincount(sets.sizes(), minlength=3)
    return int(none), int(one), int(every)


def _examples(
    sites: Iterable[Hospital], sets: Mapping[str, Mapping[str, LabelSets]]
) -> tuple[Patient, ...]:
    """Return typical patients (a truth as likely as the median), then hard ones (unlikely)."""
    found = []
    for site in sites:
        truth, probs = _truth(site), site.test.values
        likely = probs[np.arange(len(truth)), truth]
        typical = np.argsort(np.abs(likely - np.median(likely)), kind="stable")[:_EXAMPLES]
        hard = [row for row in np.argsort(likely, kind="stable") if row not in typical][:_EXAMPLES]
        found += [
            Patient(
                agent=site.name,
                hard=row in hard,
                about=_about(site.inputs[row]),
                truth=CLASSES[truth[row]],
                disease=float(probs[row, 1]),
                sets={name: own[site.name].names(row) for name, own in sets.items()},
            )
            for row in map(int, (*typical, *hard))
        ]
    return tuple(found)


_PAIN = {1: "typical angina", 2: "atypical angina", 3: "non-anginal pain", 4: "no chest pain"}


def _about(x: Floats) -> str:
    words = [f"{'man' if x[1] else 'woman'} of {x[0]:.0f}", _PAIN.get(int(x[2]), "")]
    if np.isfinite(x[7]):
        words.append(f"highest heart rate {x[7]:.0f}")
    return ", ".join(filter(None, words))


def _summary(site: Hospital) -> HospitalSummary:
    return HospitalSummary(
        name=site.name,
        model=site.model,
        patients=site.patients,
        share=site.share,
        trained=site.trained,
        calibration=len(site.calibration.values),
        test=len(site.test.values),
    )


def _over_splits(act: str, method: str, agent: str, own: Sequence[MethodResult]) -> Spread:
    """Return mean and spread of one method at one hospital."""
    covered = np.array([f.covered / f.tested for f in own])
    sizes = [f.size for f in own if f.size is not None]
    one = round(fmean(f.one / f.tested for f in own), 4)
    size = round(fmean(sizes), 4) if len(sizes) == len(own) else None
    return _spread(act, method, agent, covered, one=one, size=size)


def _spread(act: str, method: str, agent: str, covered: Floats, **more: Any) -> Spread:
    """Return mean and spread of coverages."""
    low, high = np.quantile(covered, (0.05, 0.95))
    return Spread(
        act=act,
        method=method,
        agent=agent,
        splits=len(covered),
        mean=round(float(covered.mean()), 4),
        sd=round(float(covered.std(ddof=1)), 4),
        low=round(float(low), 4),
        high=round(float(high), 4),
        **more,
    )


def _code() -> str:
    """Return the versions that the numbers depend on."""
    from importlib.metadata import version

    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return f"fedwqcp {fw.__version__}, {others}"
