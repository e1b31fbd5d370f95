"""Hand-made model outputs and a small experiment, for tests of the benchmark."""

import numpy as np

from fedwqcp.methods.cphet import density_of
from fedwqcp_lab.datasets.partition import by_label
from fedwqcp_lab.experiment import DatasetPlan, Experiment, MethodPlan, PresetPlan
from fedwqcp_lab.unit import AgentOutputs, Unit, UnitSetting

AGENTS = ("S0", "S1", "W2")


def experiment(**changes):
    """Return a small experiment with three agents; each field may be changed."""
    fields = {
        "name": "small",
        "alpha": 0.1,
        "beta": 0.5,
        "seeds": (0, 1),
        "strong": 2,
        "weak": 1,
        "datasets": (DatasetPlan(name="blobs"), DatasetPlan(name="lines", ordinal=5)),
        "presets": (
            PresetPlan(
                name="paper",
                labels={"name": "aps", "randomized": False, "precision": "float32"},
                intervals={"name": "absolute-residual"},
                rule="leq_top1",
                overflow="clip",
            ),
            PresetPlan(
                name="sound", labels={"name": "aps"}, intervals={"name": "absolute-residual"}
            ),
            PresetPlan(name="sound-cqr", intervals={"name": "cqr"}),
        ),
        "methods": tuple(MethodPlan(name=name, method=name) for name in ("split-cp", "fedwq-cp")),
    }
    return Experiment(**{**fields, **changes})


def labels_unit(seed=0, n=240, n_test=90, classes=4, agents=AGENTS, dataset="blobs"):
    """Return a classification whose strong agents know more than the weak ones."""
    rng = np.random.default_rng(seed)
    labels, test_labels = rng.integers(0, classes, n), rng.integers(0, classes, n_test)
    features = np.eye(classes)[labels] + rng.normal(size=(n, classes)) / 2
    owners = _owners(labels, len(agents), rng)
    setting = UnitSetting(
        dataset=dataset,
        title=dataset.title(),
        status="synthetic",
        note="made for tests",
        task="classification",
        n_classes=classes,
        seed=seed,
        device="cpu",
        agents=agents,
        owners=owners,
        rows=np.arange(n),
        labels=labels,
        test_labels=test_labels,
        groups=labels,
        test_groups=test_labels,
        features=features,
        label_distribution=np.full(classes, 1 / classes),
        feature_distribution=np.array(density_of(features, labels)),
    )
    outputs = []
    for place, name in enumerate(agents):
        know = 4.0 if name.startswith("S") else 1.0
        outputs.append(
            AgentOutputs(
                name,
                _logits(labels[owners == place], classes, know, rng),
                _logits(test_labels, classes, know, rng),
            )
        )
    return Unit(setting, tuple(outputs))


def lines_unit(seed=0, n=240, n_test=90, agents=AGENTS, quantiles=True):
    """Return a regression on the labels 0 to 4."""
    rng = np.random.default_rng(seed)
    labels, test_labels = (
        rng.integers(0, 5, n).astype(float),
        rng.integers(0, 5, n_test).astype(float),
    )
    features = labels[:, None] + rng.normal(size=(n, 2))
    owners = _owners(labels, len(agents), rng)
    setting = UnitSetting(
        dataset="lines",
        title="Lines",
        status="published",
        note="",
        task="regression",
        n_classes=5,
        seed=seed,
        device="cpu",
        agents=agents,
        owners=owners,
        rows=np.arange(n),
        labels=labels,
        test_labels=test_labels,
        groups=labels.astype(np.int64),
        test_groups=test_labels.astype(np.int64),
        features=features,
        label_distribution=np.zeros(0),
        feature_distribution=np.array(density_of(features)),
    )
    outputs = []
    for place, name in enumerate(agents):
        noise = 0.5 if name.startswith("S") else 1.5
        own, test = (
            y + noise * rng.normal(size=len(y)) for y in (labels[owners == place], test_labels)
        )
        width = np.array([-noise, noise])
        heads = (own[:, None] + width, test[:, None] + width) if quantiles else (None, None)
        outputs.append(AgentOutputs(name, own, test, *heads))
    return Unit(setting, tuple(outputs))


def _owners(labels, agents, rng):
    owners = np.zeros(len(labels), dtype=np.int64)
    for place, part in enumerate(by_label(labels, agents, rng, beta=0.7)):
        owners[part] = place
    return owners


def _logits(labels, classes, know, rng):
    logits = know * np.eye(classes)[labels] + rng.normal(size=(len(labels), classes)) * 1.5
    return logits.astype(np.float32)
