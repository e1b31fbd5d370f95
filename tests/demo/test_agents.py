import sys
import warnings

import numpy as np
import pytest

from fedwqcp.demo.agents import AGENTS, prepare
from fedwqcp.demo.embedded import digits, friedman
from fedwqcp.errors import MissingExtraError


def trained(data, seed=0, epochs=2):
    said = []
    problem = prepare(data, seed, beta=0.3, epochs=epochs, on_step=said.append)
    return problem, said


@pytest.fixture(scope="module")
def images():
    return trained(digits(300))


@pytest.fixture(scope="module")
def reals():
    return trained(friedman(300, np.random.default_rng(0)))


def test_three_agents_are_strong_and_three_weak():
    assert [(a.name, a.model) for a in AGENTS] == [
        *(("S0", "strong"), ("S1", "strong"), ("S2", "strong")),
        *(("W3", "weak"), ("W4", "weak"), ("W5", "weak")),
    ]


def test_classifiers_give_probabilities_labels_and_features(images):
    problem, _ = images
    assert problem.task == "classification"
    for side in problem.sides:
        assert side.outputs.shape == (100, 10)
        assert np.allclose(side.outputs.sum(axis=1), 1)
        assert side.calibration.n_classes == 10
        assert side.calibration.features.shape == (side.calibration.n, 8)
        assert len(side.calibration.labels) == side.calibration.n


def test_regressors_give_numbers_and_no_labels(reals):
    problem, _ = reals
    assert problem.task == "regression"
    for side in problem.sides:
        assert side.outputs.shape == (100,)
        assert side.calibration.labels is None


@pytest.mark.parametrize("which", ["images", "reals"])
def test_a_third_of_the_rows_calibrates_and_each_row_once(which, request):
    problem, _ = request.getfixturevalue(which)
    assert sum(side.calibration.n for side in problem.sides) == 100
    assert len(problem.targets) == len(problem.uniforms) == 100


def test_labels_are_skewed_between_agents(images):
    problem, _ = images
    shares = [
        np.bincount(side.calibration.labels, minlength=10) / max(side.calibration.n, 1)
        for side in problem.sides
    ]
    assert max(share.max() for share in shares) > 0.3


def test_an_infinite_threshold_covers_everything(images, reals):
    for problem, _ in (images, reals):
        for side in problem.sides:
            assert problem.predict(side, np.inf).cover(problem.targets).all()


def test_the_label_law_is_that_of_the_training_rows(images, reals):
    assert len(images[0].label_law) == 10
    assert sum(images[0].label_law) == pytest.approx(1)
    assert reals[0].label_law is None


def test_every_training_is_told(images):
    assert [line.split("training ")[1] for line in images[1]] == [
        f"{a.name} ({a.model})" for a in AGENTS
    ]


def test_same_seed_same_outputs_and_no_warning(images):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, _ = trained(digits(300))
    for one, other in zip(images[0].sides, again.sides, strict=True):
        assert (one.outputs == other.outputs).all()
        assert (one.calibration.scores == other.calibration.scores).all()


def test_strong_models_are_better_once_trained():
    problem, _ = trained(friedman(900, np.random.default_rng(0)), epochs=30)
    errors = [np.sqrt(np.mean((s.outputs - problem.targets) ** 2)) for s in problem.sides]
    assert max(errors[:3]) < min(errors[3:])


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.neural_network", None)
    data = digits(300)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[demo\]"):
        trained(data)
