"""Six agents with models of unequal quality and calibration data of unequal kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from fedwqcp.arrays import Floats, Labels
from fedwqcp.demo import partition
from fedwqcp.demo.embedded import Dataset
from fedwqcp.demo.partition import Indices
from fedwqcp.demo.streams import stream
from fedwqcp.errors import MissingExtraError
from fedwqcp.methods import Calibration
from fedwqcp.scores import IntervalScore, LabelScore, uniforms
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.sets import Intervals, LabelSets

FEATURES = 8
"""Most principal components that stand for an image."""


@dataclass(frozen=True)
class Recipe:
    """How an agent's model is made.

    Parameters
    ----------
    name : str
        The agent.
    hidden : tuple of int
        Widths of the hidden layers of a strong model; none makes a weak linear model.
    rate : float
        Learning rate.
    """

    name: str
    hidden: tuple[int, ...]
    rate: float

    @property
    def model(self) -> Literal["strong", "weak"]:
        """What kind of model it is."""
        return "strong" if self.hidden else "weak"


AGENTS = (
    Recipe("S0", (32,), 0.003),
    Recipe("S1", (64,), 0.003),
    Recipe("S2", (32, 32), 0.003),
    Recipe("W3", (), 0.05),
    Recipe("W4", (), 0.1),
    Recipe("W5", (), 0.2),
)
"""Strong agents: small networks. Weak agents: linear models that saw the data once."""


@dataclass(frozen=True, eq=False)
class Side:
    """One agent after training.

    Parameters
    ----------
    recipe : Recipe
        Its model.
    calibration : Calibration
        Its share of the calibration data.
    outputs : Floats
        What its model says of the test inputs: shape (n, C), or (n,) for a regression.
    """

    recipe: Recipe
    calibration: Calibration
    outputs: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """Trained agents and the test data they share.

    Parameters
    ----------
    dataset : str
        Name of the data.
    score : LabelScore or IntervalScore
        The score of all agents.
    sides : tuple of Side
        The agents.
    inputs, targets : Floats, shape (n, d), and Labels or Floats, shape (n,)
        The test inputs, and the truth at them.
    uniforms : Floats, shape (n,)
        The random part of the score at the test inputs.
    label_law : tuple of float or None
        Share of each class in the training data, which test data resemble; None for a regression.
    scarce : str, optional
        The agent that was left with too few calibration points.
    """

    dataset: str
    score: LabelScore | IntervalScore
    sides: tuple[Side, ...]
    inputs: Floats
    targets: Labels | Floats
    uniforms: Floats
    label_law: tuple[float, ...] | None
    scarce: str = ""

    @property
    def task(self) -> Literal["classification", "regression"]:
        """What is to be predicted."""
        return "classification" if isinstance(self.score, LabelScore) else "regression"

    def predict(self, side: Side, threshold: float | Floats) -> LabelSets | Intervals:
        """Return an agent's sets on the test inputs.

        Parameters
        ----------
        side : Side
            The agent.
        threshold : float or Floats
            Its threshold.

        Returns
        -------
        LabelSets or Intervals
            One for each test input.
        """
        if isinstance(self.score, LabelScore):
            return self.score.invert(side.outputs, threshold, u=self.uniforms)
        return self.score.invert(side.outputs, threshold)


def prepare(
    data: Dataset, seed: int, *, beta: float, epochs: int, on_step: Callable[[str], None]
) -> Problem:
    """Split the data in thirds, train every agent, and divide the calibration data.

    Parameters
    ----------
    data : Dataset
        The data.
    seed : int
        Seed of the run.
    beta : float
        Dirichlet concentration of the agents' calibration data, over classes or clusters.
    epochs : int
        Passes over the training data of a strong model.
    on_step : callable
        Told what comes next.

    Returns
    -------
    Problem
        The trained agents.

    Raises
    ------
    MissingExtraError
        If scikit-learn is not installed.
    """
    train, held, test = partition.iid(len(data), (1, 1, 1), stream(seed, data.name, "split"))
    rng = stream(seed, data.name, "partition")
    if data.n_classes is None:
        parts = partition.by_cluster(data.inputs[held], len(AGENTS), rng, beta=beta)
    else:
        parts = partition.by_label(data.targets[held], len(AGENTS), rng, beta=beta)
    features = _features(data, train)
    u = uniforms(f"demo {data.name} {seed}", np.arange(len(data)))
    score, sides = AbsoluteResidual() if data.n_classes is None else APS(), []
    for recipe, part in zip(AGENTS, parts, strict=True):
        on_step(f"{data.name}: training {recipe.name} ({recipe.model})")
        outputs = outputs_of(recipe, data, train, seed, epochs)
        rows = held[part]
        y, x = data.targets[rows], features[rows]
        if isinstance(score, LabelScore):
            own = score.of(outputs[rows], y, u=u[rows])
            calibration = Calibration(own, labels=y, features=x, n_classes=data.n_classes)
        else:
            calibration = Calibration(score.of(outputs[rows], y), features=x)
        sides.append(Side(recipe, calibration, outputs[test]))
    tested = data.inputs[test], data.targets[test], u[test]
    return Problem(data.name, score, tuple(sides), *tested, _label_law(data, train))


def outputs_of(recipe: Recipe, data: Dataset, train: Indices, seed: int, epochs: int) -> Floats:
    """Train a model, and return what it says of every row of the data.

    Parameters
    ----------
    recipe, data, train : Recipe, Dataset, Indices
        How it is made, all rows, and those it is trained on.
    seed, epochs : int
        Seed of the run, and passes over the training data of a strong model.

    Returns
    -------
    Floats, shape (n, C) or (n,)
        Probabilities or predictions.
    """
    x, y = data.inputs[train], data.targets[train]
    model = _model(recipe, data, len(train), stream(seed, data.name, "train", recipe.name))
    passes = epochs if recipe.hidden else 1
    if data.n_classes is not None:
        for _ in range(passes):
            model.partial_fit(x, y, classes=np.arange(data.n_classes))
        return np.asarray(model.predict_proba(data.inputs), dtype=np.float64)
    centre, spread = y.mean(), y.std()
    for _ in range(passes):
        model.partial_fit(x, (y - centre) / spread)
    return np.asarray(centre + spread * model.predict(data.inputs), dtype=np.float64)


def _model(recipe: Recipe, data: Dataset, rows: int, rng: Generator) -> Any:
    """Return an untrained model of scikit-learn."""
    try:
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.neural_network import MLPClassifier, MLPRegressor
    except ImportError as error:
        raise MissingExtraError("training the demo's models", "demo") from error
    start = int(rng.integers(2**31))
    if recipe.hidden:
        network = MLPRegressor if data.n_classes is None else MLPClassifier
        small = {"batch_size": min(32, rows), "random_state": start}
        return network(hidden_layer_sizes=recipe.hidden, learning_rate_init=recipe.rate, **small)
    steady = {"learning_rate": "constant", "eta0": recipe.rate, "random_state": start}
    return SGDRegressor(**steady) if data.n_classes is None else SGDClassifier("log_loss", **steady)


def _label_law(data: Dataset, train: Indices) -> tuple[float, ...] | None:
    """Return the share of each class in the training data."""
    if data.n_classes is None:
        return None
    counts = np.bincount(data.targets[train].astype(np.int64), minlength=data.n_classes)
    return tuple((counts / len(train)).tolist())


def _features(data: Dataset, train: Indices) -> Floats:
    """Return a few numbers that stand for an input: principal components where it is wide."""
    if data.n_classes is None:
        return data.inputs
    centred = data.inputs - data.inputs[train].mean(axis=0)
    directions = np.linalg.svd(centred[train], full_matrices=False)[2][:FEATURES]
    return np.asarray(centred @ directions.T)
