"""The main job on small data: every method side by side, and what scarce data do."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from typing import Any

import numpy as np

import fedwqcp
from fedwqcp import methods, metrics
from fedwqcp.arrays import Floats, as_alpha
from fedwqcp.bench.agents import AGENTS, Problem, prepare
from fedwqcp.bench.record import Record, Skipped
from fedwqcp.data.embedded import digits, friedman
from fedwqcp.data.streams import stream
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Calibration, Method
from fedwqcp.quantile import conformal_rank
from fedwqcp.wire.release import Release
from fedwqcp.wire.round import Setting

POLICIES = ("propagate", "clip", "exclude")
"""What an agent with too few points may do."""


@dataclass(frozen=True)
class Demo:
    """Settings of the demo.

    Parameters
    ----------
    seed : int, optional
        The same seed gives the same records.
    alpha : float, optional
        Miscoverage level.
    beta : float, optional
        Dirichlet concentration of the agents' calibration data.
    digits, friedman : int, optional
        Rows of the two datasets; a third each is for training, calibration and test.
    epochs : int, optional
        Passes over the training data of a strong model.
    scarce : int, optional
        Points that the agent with too few keeps, at most.
    """

    seed: int = 0
    alpha: float = 0.1
    beta: float = 0.3
    digits: int = 1797
    friedman: int = 6000
    epochs: int = 40
    scarce: int = 5

    def __post_init__(self) -> None:
        as_alpha(self.alpha)
        if min(self.digits, self.friedman) < 100:
            raise InputError("digits and friedman must be at least 100 rows each")
        if self.epochs < 1 or self.scarce < 0:
            raise InputError("epochs must be at least 1 and scarce at least 0")


@dataclass(frozen=True)
class Results:
    """What the demo found.

    Parameters
    ----------
    records : tuple of Record
        Experiment ``"methods"``: every method; ``"overflow"``: FedWQ-CP with one scarce agent.
    skipped : tuple of Skipped
        Methods that could not do a task.
    """

    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...]


def run(demo: Demo, on_step: Callable[[str, float], None] | None = None) -> Results:
    """Train the agents, calibrate with every available method and measure.

    Parameters
    ----------
    demo : Demo
        The settings.
    on_step : callable, optional
        Told what comes next, and which share of the work is done.

    Returns
    -------
    Results
        The records.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed.
    """
    total = 2 * (len(AGENTS) + len(methods.available()) + 1)
    done = count()

    def _step(what: str) -> None:
        """Tell what comes next."""
        if on_step is not None:
            on_step(what, next(done) / total)

    records: list[Record] = []
    skipped: list[Skipped] = []
    for data in (
        digits(demo.digits),
        friedman(demo.friedman, stream(demo.seed, "friedman")),
    ):
        problem = prepare(data, demo.seed, beta=demo.beta, epochs=demo.epochs, on_step=_step)
        for name in methods.available():
            _step(f"{problem.dataset}: {name}")
            try:
                records += _measure(demo, problem, "methods", _aimed(name, problem))
            except (InputError, MissingExtraError) as error:
                skipped.append(Skipped(problem.dataset, name, str(error)))
        _step(f"{problem.dataset}: an agent with too few points")
        scarce = _with_scarce_agent(demo, problem)
        for policy in POLICIES:
            method = methods.get("fedwq-cp", overflow=policy)
            records += _measure(demo, scarce, "overflow", method)
    return Results(tuple(records), tuple(skipped))


def _aimed(name: str, problem: Problem) -> Method[Any]:
    """Return a method; one that corrects a shift is aimed at what the test data follow."""
    if name == "dp-fedcp" and problem.label_law is not None:
        return methods.get(name, target=problem.label_law)
    return methods.get(name, target="mixture") if name == "cphet" else methods.get(name)


def _measure(
    demo: Demo, problem: Problem, experiment: str, method: Method[Any]
) -> tuple[Record, ...]:
    """Calibrate with one method, and measure every agent's sets on the shared test data."""
    began = time.perf_counter()
    release, samples = _calibrate(demo, problem, method)
    seconds = time.perf_counter() - began
    found = []
    for side in problem.sides:
        name = side.recipe.name
        threshold = release.threshold(name)
        sets = problem.predict(side, threshold)
        result = metrics.measure(name, sets, problem.targets)
        found.append(
            Record(
                experiment=experiment,
                dataset=problem.dataset,
                task=problem.task,
                seed=demo.seed,
                alpha=demo.alpha,
                method=methods.name_of(method),
                agent=name,
                model=side.recipe.model,
                n=side.calibration.n,
                threshold=_number(threshold),
                tested=result.n,
                covered=result.hits,
                size=result.size,
                rounds=release.rounds,
                bytes_up=release.bytes_up(name),
                bytes_down=release.bytes_down(name),
                samples=samples,
                guarantee=release.guarantee.value,
                assumption=release.assumption,
                config=_config(demo, problem, release),
                code=_code(),
                seconds=seconds,
            )
        )
    return tuple(found)


def _calibrate(demo: Demo, problem: Problem, method: Method[Any]) -> tuple[Release, bool]:
    """Run a round; scores of single people may leave only where the method cannot do without."""
    agents = {side.recipe.name: side.calibration for side in problem.sides}
    noise = int(stream(demo.seed, problem.dataset, methods.name_of(method)).integers(2**31))

    def attempt(allow_samples: bool) -> Release:
        return calibrate(
            agents,
            method=method,
            alpha=demo.alpha,
            score=problem.score,
            allow_samples=allow_samples,
            seed=noise,
        )

    try:
        return attempt(False), False
    except InputError:
        if not any(kind.reveals == "samples" for kind in method.summaries):
            raise
        return attempt(True), True


def _with_scarce_agent(demo: Demo, problem: Problem) -> Problem:
    """Take the agent with most calibration points down to fewer than a finite threshold needs."""
    keep = demo.scarce
    while keep and conformal_rank(keep, demo.alpha) <= keep:
        keep -= 1
    most = max(problem.sides, key=lambda side: side.calibration.n)
    rng = stream(demo.seed, problem.dataset, "scarce")
    kept = np.sort(rng.permutation(most.calibration.n)[:keep])
    poor = dataclasses.replace(most, calibration=_rows(most.calibration, kept))
    sides = tuple(poor if side is most else side for side in problem.sides)
    return dataclasses.replace(problem, sides=sides, scarce=poor.recipe.name)


def _rows(cal: Calibration, rows: Any) -> Calibration:
    """Keep some of the calibration points."""
    labels = None if cal.labels is None else cal.labels[rows]
    features = None if cal.features is None else cal.features[rows]
    return Calibration(cal.scores[rows], labels, features, cal.n_classes)


def _config(demo: Demo, problem: Problem, release: Release) -> dict[str, Setting]:
    """Return all settings under names that tell whose they are."""
    terms = release.round
    parts: tuple[tuple[str, Mapping[str, Setting]], ...] = (
        ("demo", {**dataclasses.asdict(demo), "scarce_agent": problem.scarce}),
        ("score", {"name": terms.score.name, "rule": terms.rule, **terms.score.settings}),
        ("method", terms.method.settings),
    )
    return {f"{part}.{key}": value for part, own in parts for key, value in own.items()}


def _code() -> str:
    """Return the versions that the numbers depend on."""
    others = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    return f"fedwqcp {fedwqcp.__version__}, {others}"


def _number(threshold: float | Floats) -> float | tuple[float, ...]:
    """Return a threshold as plain numbers."""
    flat = np.atleast_1d(threshold)
    return float(flat[0]) if np.ndim(threshold) == 0 else tuple(float(q) for q in flat)
