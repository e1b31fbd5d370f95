"""The main job on small data: every method agent by agent, and what scarce data do."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from math import isqrt
from typing import Any

import numpy as np

import fedwqcp
from fedwqcp import methods, metrics, theory
from fedwqcp._validation import Floats, as_alpha
from fedwqcp.demo.agents import (
    AGENTS,
    Federation,
    TrainedAgent,
    configured_method,
    prepare,
    with_scarce_agent,
)
from fedwqcp.demo.data import digits, friedman, stream
from fedwqcp.demo.records import AgentProfile, Example, Record, ReportRecord, Skipped, Traffic
from fedwqcp.errors import InfiniteThresholdWarning, InputError, MissingExtraError
from fedwqcp.federation.release import Release
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Method
from fedwqcp.metrics import histogram
from fedwqcp.quantile import conformal_quantile
from fedwqcp.scores import LabelScore
from fedwqcp.theory.diagnosis import excluded
from fedwqcp.wire.messages import Setting

POLICIES = ("propagate", "clip", "exclude")
"""What an agent with too few points may do."""

EXAMPLES = 12
"""Examples of each dataset."""

OURS = "fedwq-cp"
"""The method whose coverage gap the report decomposes, and that meets scarce data."""


def run(demo: Demo, on_step: Callable[[str, float], None] | None = None) -> Results:
    """Train the agents, calibrate with every available method and measure."""
    total = 2 * (len(AGENTS) + len(methods.available()) + 1)
    done = count()

    def _step(what: str) -> None:
        if on_step is not None:
            on_step(what, next(done) / total)

    records: list[Record] = []
    skipped: list[Skipped] = []
    report: list[ReportRecord] = []
    for data in (
        digits(demo.digits),
        friedman(demo.friedman, stream(demo.seed, "friedman")),
    ):
        federation = prepare(data, demo.seed, beta=demo.beta, epochs=demo.epochs, on_step=_step)
        own: list[Record] = []
        for name in methods.available():
            _step(f"{federation.dataset}: {name}")
            try:
                found, sent = _measure(
                    demo, federation, "methods", configured_method(name, federation)
                )
            except (InputError, MissingExtraError) as error:
                skipped.append(Skipped(dataset=federation.dataset, method=name, reason=str(error)))
                continue
            own += found
            report += sent
        report += (*_profiles(federation, own), *_examples(federation, own))
        _step(f"{federation.dataset}: an agent with too few points")
        scarce = with_scarce_agent(federation, keep=demo.scarce, alpha=demo.alpha, seed=demo.seed)
        for policy in POLICIES:
            method = methods.get(OURS, overflow=policy)
            own += _measure(demo, scarce, "overflow", method)[0]
        records += own
    return Results(tuple(records), tuple(skipped), (*report, *skipped))


@dataclass(frozen=True)
class Demo:
    """Settings of the demo: two datasets, six agents.

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
    report : tuple of AgentProfile, Traffic, Example and Skipped
        What a report shows beside the records.
    """

    records: tuple[Record, ...]
    skipped: tuple[Skipped, ...]
    report: tuple[ReportRecord, ...] = ()


def _measure(
    demo: Demo, federation: Federation, experiment: str, method: Method[Any]
) -> tuple[tuple[Record, ...], tuple[Traffic, ...]]:
    """Calibrate with one method, and measure every agent's sets on the shared test data."""
    began = time.perf_counter()
    release, samples, sent = _calibrate(demo, federation, method)
    seconds = time.perf_counter() - began
    found = []
    for agent in federation.agents:
        name = agent.model.name
        threshold = release.threshold(name)
        sets = federation.predict(agent, threshold)
        result = metrics.measure(name, sets, federation.targets)
        found.append(
            Record(
                experiment=experiment,
                dataset=federation.dataset,
                task=federation.task,
                seed=demo.seed,
                alpha=demo.alpha,
                method=methods.name_of(method),
                agent=name,
                model=agent.model.strength,
                n=agent.calibration.n,
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
                config=_config(demo, federation, release),
                code=_code(),
                seconds=seconds,
            )
        )
    return tuple(found), sent


def _calibrate(
    demo: Demo, federation: Federation, method: Method[Any]
) -> tuple[Release, bool, tuple[Traffic, ...]]:
    """Run a round; scores of single people may leave only where the method cannot do without."""
    agents = {agent.model.name: agent.calibration for agent in federation.agents}
    name = methods.name_of(method)
    noise = int(stream(demo.seed, federation.dataset, name).integers(2**31))
    sizes: dict[str, list[tuple[int, int]]] = {name: [] for name in agents}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InfiniteThresholdWarning)  # the tables show it
        release = calibrate(
            agents,
            method=method,
            alpha=demo.alpha,
            score=federation.score,
            # the test points are everybody's
            target="own" if method.corrects_shift_of is None else "mixture",
            allow_samples=method.sends_samples,
            allow_large_alpha=True,
            rng=noise,
            on_exchange=lambda _, name, down, up: sizes[name].append((down, up)),
        )
    sent = _traffic(federation.dataset, name, sizes, excluded(release, 0))
    return release, method.sends_samples, sent


def _traffic(
    dataset: str,
    method: str,
    sizes: Mapping[str, Sequence[tuple[int, int]]],
    left_out: Collection[str] = (),
) -> tuple[Traffic, ...]:
    """Write down the bytes of every question and its answer."""
    return tuple(
        Traffic(
            dataset=dataset,
            method=method,
            agent=agent,
            down=tuple(down for down, _ in own),
            up=tuple(up for _, up in own),
            used=agent not in left_out,
        )
        for agent, own in sizes.items()
    )


def _profiles(federation: Federation, records: Sequence[Record]) -> tuple[AgentProfile, ...]:
    """Return every agent's calibration data as counts, and its coverage gap in two parts."""
    alpha = records[0].alpha
    released = next(r.threshold for r in records if r.method == OURS)
    q_hat = released if isinstance(released, float) else released[0]
    q_mix = theory.mixture_quantile(
        {agent.model.name: agent.calibration.scores for agent in federation.agents}, alpha
    )
    tested = {agent.model.name: _true_scores(federation, agent) for agent in federation.agents}
    gaps = theory.decompose(tested, q_hat, q_mix, alpha)
    found = []
    for agent, gap in zip(federation.agents, gaps, strict=True):
        bars = histogram(agent.calibration.scores)
        found.append(
            AgentProfile(
                dataset=federation.dataset,
                agent=gap.agent,
                counts=_counts(agent),
                edges=bars.edges,
                people=bars.people,
                local=float(conformal_quantile(agent.calibration.scores, alpha)),
                released=q_hat,
                mixture=q_mix,
                level=gap.level,
                coverage=gap.coverage,
                coverage_mixture=gap.coverage_mix,
            )
        )
    return tuple(found)


def _examples(
    federation: Federation, records: Sequence[Record], most: int = EXAMPLES
) -> tuple[Example, ...]:
    """Return the test points that the models find hardest, with every method's sets.

    Hard is a truth that the models find unlikely, or a value far from what they predict, on average
    over the agents' ranks.
    """
    ranks = [np.argsort(np.argsort(_hardness(federation, agent))) for agent in federation.agents]
    rows = np.argsort(-np.sum(ranks, axis=0), kind="stable")[:most]
    found = []
    for agent in federation.agents:
        own = {r.method: r.threshold for r in records if r.agent == agent.model.name}
        predicted = {
            name: federation.predict(agent, q if isinstance(q, float) else np.array(q))
            for name, q in own.items()
        }
        for row in rows.tolist():
            probs = agent.outputs[row] if federation.task == "classification" else None
            truth = float(federation.targets[row])
            found.append(
                Example(
                    dataset=federation.dataset,
                    agent=agent.model.name,
                    row=row,
                    truth=truth,
                    said=float(agent.outputs[row] if probs is None else probs.argmax()),
                    probability=None if probs is None else float(probs[int(truth)]),
                    pixels=() if probs is None else _pixels(federation.inputs[row]),
                    sets={name: tuple(map(float, sets[row])) for name, sets in predicted.items()},
                )
            )
    return tuple(found)


def _config(demo: Demo, federation: Federation, release: Release) -> dict[str, Setting]:
    """Return all settings under names that tell whose they are."""
    terms = release.round
    parts: tuple[tuple[str, Mapping[str, Setting]], ...] = (
        ("demo", {**dataclasses.asdict(demo), "scarce_agent": federation.scarce}),
        ("score", {"name": terms.score.name, "rule": terms.rule, **terms.score.settings}),
        ("method", terms.method.settings),
        ("round", {"target": terms.target}),
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


def _true_scores(federation: Federation, agent: TrainedAgent) -> Floats:
    """Return the scores of the test points at the truth."""
    if isinstance(federation.score, LabelScore):
        return federation.score.of(agent.outputs, federation.targets, u=federation.uniforms)
    return federation.score.of(agent.outputs, federation.targets)


def _hardness(federation: Federation, agent: TrainedAgent) -> Floats:
    """Return how far each truth is from what a model says of it."""
    if federation.task == "classification":
        truth = federation.targets.astype(np.int64)
        return np.asarray(-agent.outputs[np.arange(len(truth)), truth])
    return np.abs(agent.outputs - federation.targets)


def _counts(agent: TrainedAgent) -> tuple[int, ...]:
    """Count an agent's calibration points, by class where there are any."""
    cal = agent.calibration
    if cal.labels is None:
        return (cal.n,)
    return tuple(np.bincount(cal.labels, minlength=cal.n_classes or 0).tolist())


def _pixels(values: Floats) -> tuple[int, ...]:
    """Return a square image as whole numbers from 0 to 255."""
    square = isqrt(len(values)) ** 2 == len(values)
    return tuple(np.rint(255 * values).astype(int).tolist()) if square else ()
