"""Training: from a dataset and seeds to units of model outputs.

Published datasets train the paper's networks, all seeds and agents of one kind at once; embedded
datasets train small models of scikit-learn. `setting_of` divides the calibration points between the
agents, and estimates the label distribution and the feature density of the training data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fedwqcp.methods.cphet import density_of
from fedwqcp.scores import fit_temperature
from fedwqcp_lab.datasets import catalog, files
from fedwqcp_lab.datasets.catalog import Dataset
from fedwqcp_lab.datasets.loading import Split, breast_cancer, digits, friedman, load, split
from fedwqcp_lab.datasets.partition import Floats, Indices, Labels, by_label, fit_clusters, stream
from fedwqcp_lab.experiment import DatasetPlan, Experiment
from fedwqcp_lab.unit import AgentOutputs, Numbers, Unit, UnitSetting

if TYPE_CHECKING:
    from fedwqcp_lab.models.networks import Architecture, Head

OnProgress: TypeAlias = Callable[[str, float], None]
"""Called with what is being done, and the share of a dataset's training that is done."""

FRIEDMAN_ROWS = 3000
"""Rows of the synthetic regression; one in five is for testing."""

RATES = {"S": 0.003, "W": 0.1}
"""Learning rates of strong and weak models."""

DENSITY_ROWS = 10_000
"""Most training rows that the feature density is estimated from."""

FIT_ROWS = 4096
"""Most training rows that the components are fitted on."""

PASSES = 4
"""Passes of the subspace iteration; more changes no digit that a density estimate could see."""

TEST_ROWS = 10_000
"""Most test rows that a pool of models predicts."""

POOL_CHUNK = 125
"""Models of a pool that a GPU trains side by side; more need too much memory."""

CHUNK = 4096
"""Rows that are turned into floats at a time."""


def train_units(
    plan: DatasetPlan,
    experiment: Experiment,
    seeds: Sequence[int],
    *,
    data: Path | None = None,
    device: str = "auto",
    on_progress: OnProgress,
) -> Iterator[Unit]:
    """Train all agents' models on one dataset, and predict calibration and test points."""
    if catalog.find(plan.source).embedded:
        source = embedded_dataset(plan.source)
        for done, seed in enumerate(seeds):
            on_progress(f"{plan.name}: training seed {seed}", done / len(seeds))
            yield train_small(source, plan, experiment, seed)
        return
    on_progress(f"{plan.name}: reading", 0.0)
    source = read_images(plan, data)
    yield from train_networks(
        source, plan, experiment, seeds, device=device, on_progress=on_progress
    )


def read_images(plan: DatasetPlan, data: Path | None) -> TrainingData:
    """Read a published dataset."""
    loaded = load(plan.source, data)
    return TrainingData(
        loaded.dataset,
        loaded.status,
        loaded.note,
        loaded.train_images,
        loaded.train_labels,
        loaded.test_images,
        loaded.test_labels,
    )


def check_data(plans: Iterable[DatasetPlan], data: Path | None = None) -> None:
    """Refuse to begin where data that will be needed later are not there."""
    for plan in plans:
        entry = catalog.find(plan.source)
        if not entry.embedded and files.locate(entry, data) is None:
            raise files.missing(entry, data)


def embedded_dataset(name: str) -> TrainingData:
    """Return an embedded dataset."""
    entry = catalog.find(name)
    made: dict[str, Callable[[], tuple[Floats, Numbers]]] = {
        "digits": digits,
        "breast-cancer": breast_cancer,
        "friedman": lambda: friedman(FRIEDMAN_ROWS, stream(0, "friedman")),
    }
    inputs, targets = made[name]()
    test = np.arange(len(inputs)) % 5 == 4
    return TrainingData(
        entry,
        entry.published.status,
        entry.published.note,
        inputs[~test],
        targets[~test],
        inputs[test],
        targets[test],
    )


def train_small(source: TrainingData, plan: DatasetPlan, experiment: Experiment, seed: int) -> Unit:
    """Train one small model for each agent: a network, or a linear model that saw the data once."""
    setting = setting_of(source, plan, experiment, seed, "cpu")
    rows = division(source, seed, experiment.held_out)
    inputs = np.concatenate([source.inputs, source.test_inputs])
    targets = np.concatenate([source.targets, source.test_targets])
    classes = setting.n_classes if setting.task == "classification" else None
    tested = rows.held_out if experiment.held_out else np.arange(len(source.inputs), len(inputs))
    outputs = []
    for place, name in enumerate(experiment.agents):
        strong = name.startswith("S")
        model = _untrained(
            classification=classes is not None,
            batch=min(32, len(rows.train)),
            hidden=32 + 16 * place if strong else 0,
            rate=RATES[name[0]],
            rng=stream(seed, plan.source, "train", name),
        )
        epochs = _epochs("strong", plan, experiment) if strong else 1
        predicted = _train_and_predict(
            model, inputs, targets, rows.train, classes=classes, epochs=epochs
        )
        own = _own_rows(setting, experiment, name)
        outputs.append(AgentOutputs(name, predicted[own], predicted[tested]))
    return Unit(setting, tuple(outputs))


def setting_of(
    source: TrainingData, plan: DatasetPlan, experiment: Experiment, seed: int, device: str
) -> UnitSetting:
    """Divide the calibration points between the agents, and estimate the training distributions."""
    name, classes = source.dataset.name, source.dataset.n_classes
    rows = division(source, seed, experiment.held_out)
    rng = stream(seed, name, "components")
    shared = fit_components(source.inputs, rows.train, plan.components, rng)
    some = np.sort(rng.permutation(rows.train)[:DENSITY_ROWS])
    labelled = source.dataset.task == "classification" and classes is not None
    owners, groups, test_groups = _partition(source, rows, experiment, seed)
    label_distribution, kept = np.zeros(0), None
    if labelled:
        train = source.targets[rows.train].astype(np.int64)
        label_distribution = np.bincount(train, minlength=classes or 0) / max(1, len(train))
        kept = source.targets[some].astype(np.int64)
    density = density_of(shared.of(source.inputs, some), kept)
    truth = np.int64 if labelled else np.float64
    return UnitSetting(
        dataset=plan.name,
        title=f"{source.dataset.title} ({plan.name})" if plan.data else source.dataset.title,
        status=source.status,
        note=source.note,
        task=source.dataset.task,
        n_classes=classes if labelled else plan.ordinal,
        seed=seed,
        device=device,
        agents=experiment.agents,
        owners=owners,
        rows=rows.calibration,
        labels=source.targets[rows.calibration].astype(truth),
        test_labels=source.tested(rows)[1].astype(truth),
        groups=groups,
        test_groups=test_groups,
        features=shared.of(source.inputs, rows.calibration),
        label_distribution=label_distribution,
        feature_distribution=np.array(density),
    )


def division(source: TrainingData, seed: int, held_out: float = 0.0) -> Split:
    """Return which rows train, which calibrate and which are held out."""
    return split(len(source.inputs), source.dataset.name, seed, held_out=held_out)


@dataclass(frozen=True, eq=False)
class TrainingData:
    """A dataset in memory: what a unit is trained, calibrated and tested on."""

    dataset: Dataset
    status: str  # how this copy stands to the published data
    note: str
    inputs: Numbers  # images or other numbers, one row each
    targets: Numbers  # classes or real values
    test_inputs: Numbers
    test_targets: Numbers

    def tested(self, rows: Split) -> tuple[Numbers, Numbers]:
        """Return the test points: rows that were held out take the place of the test data."""
        if len(rows.held_out):
            return self.inputs[rows.held_out], self.targets[rows.held_out]
        return self.test_inputs, self.test_targets


@dataclass(frozen=True, eq=False)
class Components:
    """A linear map from pixels to components."""

    mean: Floats  # of each pixel, shape (p,)
    directions: Floats  # orthonormal columns, largest variance first, shape (p, d)

    def of(self, inputs: Numbers, rows: Indices) -> Floats:
        """Return the components of some rows."""
        parts = [
            (_pixels(inputs, rows[at : at + CHUNK]) - self.mean) @ self.directions
            for at in range(0, len(rows), CHUNK)
        ]
        empty = np.empty((0, self.directions.shape[1]))
        return np.concatenate([empty, *parts]).astype(np.float64)


def fit_components(inputs: Numbers, rows: Indices, dimensions: int, rng: Generator) -> Components:
    """Fit principal components by subspace iteration on some of the rows."""
    chosen = np.sort(rng.permutation(rows)[:FIT_ROWS])
    x = _pixels(inputs, chosen)
    mean = x.mean(axis=0)
    x = x - mean
    d = min(dimensions, x.shape[1], max(1, len(x) - 1))
    basis = rng.standard_normal((x.shape[1], min(x.shape[1], d + 10)), dtype=np.float32)
    for _ in range(PASSES):
        basis = np.linalg.qr(x.T @ (x @ basis))[0]
    inner = np.linalg.svd(x @ basis, full_matrices=False)[2].T[:, :d]
    return Components(mean, basis @ inner)


def device_name(device: Any) -> str:
    """Return the name of a device, as records show it."""
    import torch

    return "cpu" if device.type == "cpu" else str(torch.cuda.get_device_name(device))


def train_networks(
    source: TrainingData,
    plan: DatasetPlan,
    experiment: Experiment,
    seeds: Sequence[int],
    *,
    device: str,
    on_progress: OnProgress,
) -> Iterator[Unit]:
    """Train the paper's networks, all seeds and agents of one kind at once; yield their outputs."""
    from fedwqcp_lab.models.engine import find_device
    from fedwqcp_lab.models.networks import Classes, Mean, Quantiles
    from fedwqcp_lab.models.training import train

    where = device_name(find_device(device))
    settings = {}
    for seed in seeds:
        on_progress(f"{plan.name}: partition and components, seed {seed}", 0.0)
        settings[seed] = setting_of(source, plan, experiment, seed, where)
    rows = {seed: division(source, seed, experiment.held_out) for seed in seeds}
    heads: list[Head] = [Mean(), Quantiles((experiment.alpha / 2, 1 - experiment.alpha / 2))]
    if source.dataset.task == "classification":
        heads = [Classes(source.dataset.n_classes or 2)]
    steps = [(head, kind) for head in heads for kind in ("strong", "weak")]
    predicted: dict[tuple[int, str], list[Numbers]] = defaultdict(list)
    for at, (head, kind) in enumerate(steps):
        agents = [agent for agent in experiment.agents if agent.startswith(kind[0].upper())]
        models = [(seed, agent) for seed in seeds for agent in agents]
        if not models:
            continue
        name, use = source.dataset.name, type(head).__name__.lower()
        stack = train(
            _architecture(kind, source, head),
            source.inputs,
            source.targets,
            np.stack([rows[seed].train for seed, _ in models]),
            [stream(seed, name, "train", agent, use) for seed, agent in models],
            epochs=_epochs(kind, plan, experiment),
            batch=plan.batch,
            device=device,
            progress=partial(part_of(on_progress, at, len(steps)), f"{plan.name}: {kind} models"),
        )
        own = [_own_rows(settings[seed], experiment, agent) for seed, agent in models]
        calibration = stack.predict(source.inputs, _padded(own))
        if experiment.held_out:
            held_out = np.stack([rows[seed].held_out for seed, _ in models])
            test = stack.predict(source.inputs, held_out)
        else:
            test = stack.predict(source.test_inputs)
        for place, model in enumerate(models):
            predicted[model] += calibration[place, : len(own[place])], test[place]
    for seed in seeds:
        outputs = (AgentOutputs(name, *predicted[seed, name]) for name in experiment.agents)
        yield Unit(settings[seed], tuple(outputs))


def _own_rows(setting: UnitSetting, experiment: Experiment, agent: str) -> Indices:
    """Return the calibration points, as official rows, that an agent's model predicts."""
    if experiment.pool:
        return setting.rows
    return setting.rows[setting.part(setting.agents.index(agent))]


@dataclass(frozen=True, eq=False)
class ModelPool:
    """Models of both kinds, "strong" and "weak", each trained on rows of its own.

    For one dataset and seed; rows held out fit the temperatures.
    """

    source: TrainingData
    rows: Split
    test_rows: Indices
    components: Components
    feature_distribution: Floats
    stacks: dict[str, Any]  # `models.training.Stack` by kind
    tests: dict[str, Numbers]  # logits of the test rows by kind, shape (G, m, C)
    temperatures: dict[str, Floats]  # by kind, shape (G,)
    device: str

    def logits(self, kind: str, images: Numbers, rows: Numbers) -> Numbers:
        """Return the logits of the first models of a kind for rows (models, n) of images."""
        stack = self.stacks[kind]
        first = {name: weight[: len(rows)] for name, weight in stack.weights.items()}
        found: Numbers = replace(stack, weights=first).predict(images, rows)
        return found


def train_pool(
    source: TrainingData,
    plan: DatasetPlan,
    experiment: Experiment,
    seed: int,
    *,
    models: int,
    rows_each: int,
    share: float,
    device: str,
    on_progress: OnProgress,
) -> ModelPool:
    """Train half of the models strong and half weak, each on rows of its own.

    A tenth of the training rows is held out for temperatures; at most `TEST_ROWS` test rows are in
    use.
    """
    from fedwqcp_lab.models.engine import Engine, find_device
    from fedwqcp_lab.models.networks import Classes
    from fedwqcp_lab.models.training import train

    name = source.dataset.name
    rows = split(len(source.inputs), name, seed, share=1 - share, held_out=0.1)
    rng = stream(seed, name, "pool")
    test = np.sort(rng.permutation(len(source.test_inputs))[:TEST_ROWS])
    components = fit_components(source.inputs, rows.train, plan.components, rng)
    some = np.sort(rng.permutation(rows.train)[:DENSITY_ROWS])
    images, head = source.inputs, Classes(source.dataset.n_classes or 2)
    stacks, tests, temperatures = {}, {}, {}
    for at, kind in enumerate(("strong", "weak")):
        streams = [stream(seed, name, "pool", kind, str(k)) for k in range((models + 1) // 2)]
        own = [rng.permutation(rows.train)[:rows_each] for rng in streams]
        stacks[kind] = train(
            _architecture(kind, source, head),
            images,
            source.targets,
            np.stack(own),
            streams,
            epochs=_epochs(kind, plan, experiment),
            batch=plan.batch,
            device=device,
            engine=Engine(chunk=POOL_CHUNK if find_device(device).type == "cuda" else None),
            progress=partial(
                part_of(on_progress, at, 2), f"{plan.name}: seed {seed}, {kind} models"
            ),
        )
        tests[kind] = stacks[kind].predict(source.test_inputs[test])
        kept = stacks[kind].predict(images[rows.held_out])
        truth = source.targets[rows.held_out].astype(np.int64)
        temperatures[kind] = np.array([fit_temperature(logits, truth) for logits in kept])
    density = density_of(components.of(images, some), source.targets[some].astype(np.int64))
    return ModelPool(
        source,
        rows,
        test,
        components,
        np.array(density),
        stacks,
        tests,
        temperatures,
        device_name(find_device(device)),
    )


def _architecture(kind: str, source: TrainingData, head: Head) -> Architecture:
    """Return the paper's network of one kind; that of a regression averages images."""
    from fedwqcp_lab.models.networks import LargeCNN, VeryWeakLinear

    height, width, *channels = source.inputs.shape[1:]
    shape = height, width, channels[0] if channels else 1
    if kind == "weak":
        return VeryWeakLinear(shape, head)
    return LargeCNN(shape, head, averaging=source.dataset.task == "regression")


def _epochs(kind: str, plan: DatasetPlan, experiment: Experiment) -> int:
    """Return the passes over the training data: the dataset's own, else the experiment's."""
    if kind == "strong":
        return plan.strong_epochs or experiment.strong_epochs
    return plan.weak_epochs or experiment.weak_epochs


def part_of(on_progress: OnProgress, at: int, of: int) -> OnProgress:
    """Turn the progress of one of several steps into that of all."""
    return lambda what, share: on_progress(what, (at + share) / of)


def _padded(rows: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return lists of rows as one array; what is missing at the end repeats row 0."""
    padded = np.zeros((len(rows), max(1, *(len(own) for own in rows))), dtype=np.int64)
    for line, own in zip(padded, rows, strict=True):
        line[: len(own)] = own
    return padded


def _partition(
    source: TrainingData, rows: Split, experiment: Experiment, seed: int
) -> tuple[Labels, Labels, Labels]:
    """Return the agent of each calibration point, and the groups of calibration and test points."""
    rng = stream(seed, source.dataset.name, "partition")
    inside = source.inputs[rows.calibration], source.targets[rows.calibration]
    tested = source.tested(rows)
    if source.dataset.task == "classification":
        groups, test_groups = (targets.astype(np.int64) for _, targets in (inside, tested))
    else:
        scale = 255.0 if source.inputs.dtype == np.uint8 else 1.0
        flat, test_flat = (x.reshape(len(x), -1) / scale for x, _ in (inside, tested))
        clusters = fit_clusters(flat, rng, n_clusters=experiment.clusters)
        groups = np.asarray(clusters.labels_, np.int64)
        test_groups = np.asarray(clusters.predict(test_flat), np.int64)
    owners = np.empty(len(groups), dtype=np.int64)
    parts = by_label(groups, len(experiment.agents), rng, beta=experiment.beta)
    for place, part in enumerate(parts):
        owners[part] = place
    return owners, groups, test_groups


def _pixels(inputs: Numbers, rows: Indices) -> npt.NDArray[np.float32]:
    """Return rows as flat vectors between 0 and 1."""
    flat = inputs[rows].reshape(len(rows), -1)
    scale = np.float32(255 if inputs.dtype == np.uint8 else 1)
    return np.asarray(flat, dtype=np.float32) / scale


def _train_and_predict(
    model: Any,
    inputs: Floats,
    targets: Numbers,
    train: Indices,
    *,
    classes: int | None,
    epochs: int,
) -> Floats:
    """Train a model, and return its logits or predictions for every row."""
    x, y = inputs[train], targets[train]
    if classes is not None:
        for _ in range(epochs):
            model.partial_fit(x, y, classes=np.arange(classes))
        probs = np.asarray(model.predict_proba(inputs), dtype=np.float64)
        logits: Floats = np.log(np.maximum(probs, np.finfo(np.float32).tiny))
        return logits
    centre, spread = y.mean(), y.std()
    for _ in range(epochs):
        model.partial_fit(x, (y - centre) / spread)
    return np.asarray(centre + spread * model.predict(inputs), dtype=np.float64)


def _untrained(
    *, classification: bool, batch: int, hidden: int, rate: float, rng: Generator
) -> Any:
    """Return an untrained model of scikit-learn: a network; linear without hidden units."""
    from sklearn.linear_model import SGDClassifier, SGDRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    start = int(rng.integers(2**31))
    if hidden:
        kind = MLPClassifier if classification else MLPRegressor
        small = {"batch_size": batch, "random_state": start}
        return kind(hidden_layer_sizes=(hidden,), learning_rate_init=rate, **small)
    steady = {"learning_rate": "constant", "eta0": rate, "random_state": start}
    return SGDClassifier("log_loss", **steady) if classification else SGDRegressor(**steady)
