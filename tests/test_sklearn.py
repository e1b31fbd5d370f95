"""The adapter wraps a fitted model of one agent."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError

pytest.importorskip("sklearn", reason="the extra [sklearn] is not installed")
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.linear_model import LinearRegression, LogisticRegression

from fedwqcp.scores.cqr import CQR
from fedwqcp.sklearn import ConformalClassifier, ConformalRegressor


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return X, names, LogisticRegression(max_iter=500).fit(X[::2], names[::2])


def test_a_classifier_with_text_classes(iris):
    X, y, model = iris
    agent = ConformalClassifier(model, score=fw.LAC()).fit(X[1::4], y[1::4], alpha=0.1)
    sets = agent.predict_set(X[3::4])
    probs = model.predict_proba(X[3::4])
    np.testing.assert_array_equal(sets.mask, 1 - probs <= agent.threshold_)
    np.testing.assert_array_equal(agent.predict(X), model.predict(X))


def test_a_threshold_of_a_federation(iris):
    X, y, model = iris
    agent = ConformalClassifier(model, key="k")
    release = fw.calibrate({"a": agent.calibration(X[1::4], y[1::4]), "b": [0.5] * 30}, alpha=0.1)
    sets = agent.use(release.threshold("a")).predict_set(X[3::4])
    rows = np.arange(len(X[3::4]))[::-1]
    np.testing.assert_array_equal(sets.mask[rows], agent.predict_set(X[3::4][rows]).mask)
    by_id = agent.predict_set(X[3::4], ids=np.arange(len(rows)))
    assert by_id.mask.shape == sets.mask.shape


def test_an_unknown_class_is_refused(iris):
    X, _, model = iris
    with pytest.raises(InputError, match="not trained on"):
        ConformalClassifier(model).calibration(X[:1], ["tulip"])


def test_predicting_before_calibrating_is_refused(iris):
    X, _, model = iris
    with pytest.raises(InputError, match="no threshold yet"):
        ConformalClassifier(model).predict_set(X)


def test_a_regressor():
    X, y = make_regression(400, 5, noise=5.0, random_state=0)
    model = LinearRegression().fit(X[:200], y[:200])
    agent = ConformalRegressor(model).fit(X[200:300], y[200:300], alpha=0.2)
    intervals = agent.predict_interval(X[300:])
    residuals = np.sort(np.abs(y[200:300] - model.predict(X[200:300])))
    np.testing.assert_allclose(intervals.sizes(), 2 * residuals[80])
    assert 0.6 < intervals.cover(y[300:]).mean() <= 1


def test_a_regressor_with_two_columns_of_scores():
    class Band:
        def predict(self, X):
            middle = np.asarray(X)[:, 0]
            return np.stack([middle - 1, middle + 1], axis=1)

    X = np.arange(30.0)[:, None]
    agent = ConformalRegressor(Band(), CQR(symmetric=False)).fit(X, X[:, 0] + 0.5, alpha=0.2)
    np.testing.assert_allclose(agent.threshold_, [-1.5, -0.5])
    np.testing.assert_allclose(agent.predict_interval(X).sizes(), 0.0)


def test_it_can_be_cloned(iris):
    agent = ConformalClassifier(iris[2], rule="until", key="k")
    assert clone(agent).get_params()["rule"] == "until"


def test_thresholds_by_label_and_by_group(iris):
    X, y, model = iris
    agent, cal, new = ConformalClassifier(model, score=fw.LAC()), slice(1, None, 4), X[3::4]
    probs = model.predict_proba(new)
    by_label = agent.fit(X[cal], y[cal], alpha=0.2, by="label").predict_set(new)
    assert agent.threshold_.shape == (3,)
    np.testing.assert_array_equal(by_label.mask, 1 - probs <= agent.threshold_)
    groups = np.where(X[:, 0] > 5.8, "large", "small")
    mine = agent.calibration(X[cal], y[cal], groups=groups[cal])
    release = fw.calibrate({"here": mine}, method="fcp", alpha=0.2, by="group", score=fw.LAC())
    sets = agent.use(release.by_group("here")).predict_set(new, groups=groups[3::4])
    q = release.threshold("here", group=groups[3::4])
    np.testing.assert_array_equal(sets.mask, 1 - probs <= q)
    alone = agent.fit(X[cal], y[cal], alpha=0.2, by="group", groups=groups[cal])
    assert set(alone.threshold_) == {"large", "small"}
    with pytest.raises(InputError, match="pass groups, one for each row; known: large, small"):
        agent.predict_set(new)
    with pytest.raises(InputError, match="row 0 is of another"):
        agent.predict_set(new[:1], groups=["medium"])
    with pytest.raises(InputError, match="leave groups out"):
        agent.use(0.5).predict_set(new, groups=groups[3::4])


def test_a_regressor_by_group():
    X, y = make_regression(400, 5, noise=5.0, random_state=0)
    model = LinearRegression().fit(X[:200], y[:200])
    groups = (X[:, 0] > 0).astype(int)
    agent = ConformalRegressor(model)
    agent.fit(X[200:300], y[200:300], alpha=0.2, by="group", groups=groups[200:300])
    sizes = agent.predict_interval(X[300:], groups=groups[300:]).sizes()
    for group in (0, 1):
        own = np.flatnonzero(groups[200:300] == group) + 200
        residuals = np.abs(y[own] - model.predict(X[own]))
        q = fw.conformal_quantile(residuals, 0.2)
        np.testing.assert_allclose(sizes[groups[300:] == group], 2 * q)
