"""The demo's settings of a method follow from its data."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from fedwqcp import methods
from fedwqcp.demo.agents import AGENTS, EPSILON, RANGE, configured_method, prepare
from fedwqcp.demo.data import digits, friedman
from fedwqcp.errors import MissingExtraError


def trained(data, seed=0, epochs=2):
    said = []
    federation = prepare(data, seed, beta=0.3, epochs=epochs, on_step=said.append)
    return federation, said


@pytest.fixture(scope="module")
def images():
    return trained(digits(300))


@pytest.fixture(scope="module")
def reals():
    return trained(friedman(300, np.random.default_rng(0)))


def test_three_agents_are_strong_and_three_weak():
    assert [(a.name, a.strength) for a in AGENTS] == [
        *(("S0", "strong"), ("S1", "strong"), ("S2", "strong")),
        *(("W3", "weak"), ("W4", "weak"), ("W5", "weak")),
    ]


def test_classifiers_give_probabilities_labels_and_features(images):
    federation, _ = images
    assert federation.task == "classification"
    for agent in federation.agents:
        assert agent.outputs.shape == (100, 10)
        assert np.allclose(agent.outputs.sum(axis=1), 1)
        assert agent.calibration.n_classes == 10
        assert agent.calibration.features.shape == (agent.calibration.n, 8)
        assert len(agent.calibration.labels) == agent.calibration.n


def test_regressors_give_numbers_and_no_labels(reals):
    federation, _ = reals
    assert federation.task == "regression"
    for agent in federation.agents:
        assert agent.outputs.shape == (100,)
        assert agent.calibration.labels is None


@pytest.mark.parametrize("which", ["images", "reals"])
def test_a_third_of_the_rows_calibrates_and_each_row_once(which, request):
    federation, _ = request.getfixturevalue(which)
    assert sum(agent.calibration.n for agent in federation.agents) == 100
    assert len(federation.targets) == len(federation.uniforms) == 100


def test_labels_are_skewed_between_agents(images):
    federation, _ = images
    shares = [
        np.bincount(agent.calibration.labels, minlength=10) / max(agent.calibration.n, 1)
        for agent in federation.agents
    ]
    assert max(share.max() for share in shares) > 0.3


def test_an_infinite_threshold_covers_everything(images, reals):
    for federation, _ in (images, reals):
        for agent in federation.agents:
            assert federation.predict(agent, np.inf).cover(federation.targets).all()


def test_every_training_is_reported(images):
    assert [line.split("training ")[1] for line in images[1]] == [
        f"{a.name} ({a.strength})" for a in AGENTS
    ]


def test_same_seed_same_outputs_and_no_warning(images):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, _ = trained(digits(300))
    for one, other in zip(images[0].agents, again.agents, strict=True):
        assert (one.outputs == other.outputs).all()
        assert (one.calibration.scores == other.calibration.scores).all()


def test_strong_models_are_better_once_trained():
    federation, _ = trained(friedman(900, np.random.default_rng(0)), epochs=30)
    errors = [np.sqrt(np.mean((s.outputs - federation.targets) ** 2)) for s in federation.agents]
    assert max(errors[:3]) < min(errors[3:])


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.neural_network", None)
    data = digits(300)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[demo\]"):
        trained(data)


def federation(task):
    return SimpleNamespace(task=task)


def test_most_methods_have_their_defaults():
    assert configured_method("fedwq-cp", federation("regression")) == methods.get("fedwq-cp")


@pytest.mark.parametrize(
    ("task", "bounds"), [("classification", None), ("regression", (0.0, RANGE))]
)
def test_a_private_threshold_takes_the_range_that_the_formula_gives(task, bounds):
    found = configured_method("private-fedwq-cp", federation(task))
    assert (found.epsilon, found.overflow, found.bounds) == (EPSILON, "exclude", bounds)
