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
from fedwqcp.demo.agents import AGENTS, Problem, prepare
from fedwqcp.demo.aimed import aimed
from fedwqcp.demo.embedded import digits, friedman
from fedwqcp.demo.portraits import examples, portraits, traffic
from fedwqcp.demo.record import Record
from fedwqcp.demo.scarce import with_scarce_agent
from fedwqcp.demo.shown import Shown, Skipped, Traffic
from fedwqcp.demo.streams import stream
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Method
from fedwqcp.theory.diagnosis import excluded
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
    shown : tuple of Portrait, Traffic, Example and Skipped
        What a report shows beside the records.
    """

    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...]
    shown: tuple[Shown, ...] = ()


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
    shown: list[Shown] = []
    for data in (
        digits(demo.digits),
        friedman(demo.friedman, stream(demo.seed, "friedman")),
    ):
        problem = prepare(data, demo.seed, beta=demo.beta, epochs=demo.epochs, on_step=_step)
        own: list[Record] = []
        for name in methods.available():
            _step(f"{problem.dataset}: {name}")
            try:
                found, sent = _measure(demo, problem, "methods", aimed(name, problem))
            except (InputError, MissingExtraError) as error:
                skipped.append(Skipped(dataset=problem.dataset, method=name, reason=str(error)))
                continue
            own += found
            shown += sent
        shown += (*portraits(problem, own), *examples(problem, own))
        _step(f"{problem.dataset}: an agent with too few points")
        scarce = with_scarce_agent(problem, keep=demo.scarce, alpha=demo.alpha, seed=demo.seed)
        for policy in POLICIES:
            method = methods.get("fedwq-cp", overflow=policy)
            own += _measure(demo, scarce, "overflow", method)[0]
        records += own
    return Results(tuple(records), tuple(skipped), (*shown, *skipped))


def _measure(
    demo: Demo, problem: Problem, experiment: str, method: Method[Any]
) -> tuple[tuple[Record, ...], tuple[Traffic, ...]]:
    """Calibrate with one method, and measure every agent's sets on the shared test data."""
    began = time.perf_counter()
    release, samples, sent = _calibrate(demo, problem, method)
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
                guarantee=str(release.guarantee),
                assumption=release.assumption,
                config=_config(demo, problem, release),
                code=_code(),
                seconds=seconds,
            )
        )
    return tuple(found), sent


def _calibrate(
    demo: Demo, problem: Problem, method: Method[Any]
) -> tuple[Release, bool, tuple[Traffic, ...]]:
    """Run a round; scores of single people may leave only where the method cannot do without."""
    agents = {side.recipe.name: side.calibration for side in problem.sides}
    noise = int(stream(demo.seed, problem.dataset, methods.name_of(method)).integers(2**31))
    sizes: dict[str, list[tuple[int, int]]] = {}

    def attempt(allow_samples: bool) -> tuple[Release, bool, tuple[Traffic, ...]]:
        sizes.update((name, []) for name in agents)
        release = calibrate(
            agents,
            method=method,
            alpha=demo.alpha,
            score=problem.score,
            allow_samples=allow_samples,
            seed=noise,
            on_exchange=lambda _, name, down, up: sizes[name].append((down, up)),
        )
        name = methods.name_of(method)
        return release, allow_samples, traffic(problem.dataset, name, sizes, excluded(release, 0))

    try:
        return attempt(False)
    except InputError:
        if not any(kind.reveals == "samples" for kind in method.summaries):
            raise
        return attempt(True)


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
