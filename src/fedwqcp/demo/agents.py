"""Six agents with models of unequal quality and calibration data of unequal kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from fedwqcp import methods
from fedwqcp._validation import Floats, Labels
from fedwqcp.demo.data import EmbeddedDataset, Indices, by_cluster, by_label, iid, stream
from fedwqcp.errors import MissingExtraError
from fedwqcp.methods import Calibration, Method
from fedwqcp.quantile import conformal_rank
from fedwqcp.scores import IntervalScore, LabelScore, uniforms
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.sets import Intervals, LabelSets

FEATURES = 8
"""Most principal components that stand for an image."""

RANGE = 30.0
"""Friedman's function runs from 0 to 30: the range of residuals that is stated beforehand."""

EPSILON = 4.0
"""What a private threshold spends here: at 1, most agents have too few points."""


@dataclass(frozen=True)
class ModelSettings:
    """How an agent's model is made."""

    name: str
    hidden: tuple[int, ...]
    rate: float

    @property
    def strength(self) -> Literal["strong", "weak"]:
        """What kind of model it is."""
        return "strong" if self.hidden else "weak"


AGENTS = (
    ModelSettings("S0", (32,), 0.003),
    ModelSettings("S1", (64,), 0.003),
    ModelSettings("S2", (32, 32), 0.003),
    ModelSettings("W3", (), 0.05),
    ModelSettings("W4", (), 0.1),
    ModelSettings("W5", (), 0.2),
)
"""Strong agents: small networks. Weak agents: linear models that saw the data once."""


@dataclass(frozen=True, eq=False)
class TrainedAgent:
    """One agent after training."""

    model: ModelSettings
    calibration: Calibration
    outputs: Floats


@dataclass(frozen=True, eq=False)
class Federation:
    """Trained agents and the test data they share.

    Parameters
    ----------
    dataset : str
        Name of the data.
    score : LabelScore or IntervalScore
        The score of all agents.
    agents : tuple of TrainedAgent
        The agents.
    inputs, targets : Floats, shape (n, d), and Labels or Floats, shape (n,)
        The test inputs, and the truth at them.
    uniforms : Floats, shape (n,)
        The random part of the score at the test inputs.
    scarce : str, optional
        The agent that was left with too few calibration points.
    """

    dataset: str
    score: LabelScore | IntervalScore
    agents: tuple[TrainedAgent, ...]
    inputs: Floats
    targets: Labels | Floats
    uniforms: Floats
    scarce: str = ""

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What is to be predicted."""
        return "classification" if isinstance(self.score, LabelScore) else "regression"

    def predict(self, agent: TrainedAgent, threshold: float | Floats) -> LabelSets | Intervals:
        """Return an agent's sets on the test inputs."""
        if isinstance(self.score, LabelScore):
            return self.score.invert(agent.outputs, threshold, u=self.uniforms)
        return self.score.invert(agent.outputs, threshold)


def prepare(
    data: EmbeddedDataset, seed: int, *, beta: float, epochs: int, on_step: Callable[[str], None]
) -> Federation:
    """Split the data in thirds, train every agent, and divide the calibration data."""
    train, held, test = iid(len(data), (1, 1, 1), stream(seed, data.name, "split"))
    rng = stream(seed, data.name, "partition")
    if data.n_classes is None:
        parts = by_cluster(data.inputs[held], len(AGENTS), rng, beta=beta)
    else:
        parts = by_label(data.targets[held], len(AGENTS), rng, beta=beta)
    features = _features(data, train)
    u = uniforms(f"demo {data.name} {seed}", np.arange(len(data)))
    score, agents = AbsoluteResidual() if data.n_classes is None else APS(), []
    for model, part in zip(AGENTS, parts, strict=True):
        on_step(f"{data.name}: training {model.name} ({model.strength})")
        outputs = train_and_predict(model, data, train, seed, epochs)
        rows = held[part]
        y, x = data.targets[rows], features[rows]
        if isinstance(score, LabelScore):
            own = score.of(outputs[rows], y, u=u[rows])
            calibration = Calibration(own, labels=y, features=x, n_classes=data.n_classes)
        else:
            calibration = Calibration(score.of(outputs[rows], y), features=x)
        agents.append(TrainedAgent(model, calibration, outputs[test]))
    tested = data.inputs[test], data.targets[test], u[test]
    return Federation(data.name, score, tuple(agents), *tested)


def train_and_predict(
    model: ModelSettings, data: EmbeddedDataset, train: Indices, seed: int, epochs: int
) -> Floats:
    """Train a model, and return what it says of every row of the data."""
    x, y = data.inputs[train], data.targets[train]
    network = _untrained(model, data, len(train), stream(seed, data.name, "train", model.name))
    passes = epochs if model.hidden else 1
    if data.n_classes is not None:
        for _ in range(passes):
            network.partial_fit(x, y, classes=np.arange(data.n_classes))
        return np.asarray(network.predict_proba(data.inputs), dtype=np.float64)
    centre, spread = y.mean(), y.std()
    for _ in range(passes):
        network.partial_fit(x, (y - centre) / spread)
    return np.asarray(centre + spread * network.predict(data.inputs), dtype=np.float64)


def configured_method(name: str, federation: Federation) -> Method[Any]:
    """Return a method, set up for these data.

    A private threshold takes the range of the scores without looking at them, and an epsilon at
    which agents of a hundred points can have one at all; agents that still have too few are left
    out.
    """
    method = methods.get(name)
    if method.needs_bounds:
        bounds = (0.0, RANGE) if federation.task == "regression" else None
        return methods.get(name, epsilon=EPSILON, form="tight", overflow="exclude", bounds=bounds)
    return method


def with_scarce_agent(federation: Federation, *, keep: int, alpha: float, seed: int) -> Federation:
    """Take the agent with most calibration points down to fewer than a finite threshold needs."""
    while keep and conformal_rank(keep, alpha) <= keep:
        keep -= 1
    most = max(federation.agents, key=lambda agent: agent.calibration.n)
    rng = stream(seed, federation.dataset, "scarce")
    kept = np.sort(rng.permutation(most.calibration.n)[:keep])
    poor = dataclasses.replace(most, calibration=_rows(most.calibration, kept))
    agents = tuple(poor if agent is most else agent for agent in federation.agents)
    return dataclasses.replace(federation, agents=agents, scarce=poor.model.name)


def _untrained(model: ModelSettings, data: EmbeddedDataset, rows: int, rng: Generator) -> Any:
    """Return an untrained model of scikit-learn."""
    try:
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.neural_network import MLPClassifier, MLPRegressor
    except ImportError as error:
        raise MissingExtraError("training the demo's models", "demo") from error
    start = int(rng.integers(2**31))
    if model.hidden:
        kind = MLPRegressor if data.n_classes is None else MLPClassifier
        small = {"batch_size": min(32, rows), "random_state": start}
        return kind(hidden_layer_sizes=model.hidden, learning_rate_init=model.rate, **small)
    steady = {"learning_rate": "constant", "eta0": model.rate, "random_state": start}
    return SGDRegressor(**steady) if data.n_classes is None else SGDClassifier("log_loss", **steady)


def _features(data: EmbeddedDataset, train: Indices) -> Floats:
    """Return a few numbers that stand for an input: principal components where it is wide."""
    if data.n_classes is None:
        return data.inputs
    centred = data.inputs - data.inputs[train].mean(axis=0)
    directions = np.linalg.svd(centred[train], full_matrices=False)[2][:FEATURES]
    return np.asarray(centred @ directions.T)


def _rows(cal: Calibration, rows: Indices) -> Calibration:
    """Keep some of the calibration points."""
    labels = None if cal.labels is None else cal.labels[rows]
    features = None if cal.features is None else cal.features[rows]
    return Calibration(cal.scores[rows], labels, features, cal.n_classes)
