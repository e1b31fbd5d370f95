"""The adapter wraps a fitted model of one agent."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError

pytest.importorskip("sklearn", reason="the extra [sklearn] is not installed")
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_array

from fedwqcp.sklearn import ConformalClassifier, ConformalRegressor, NotReadyError
from refusals import raises


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    return X, names, LogisticRegression(max_iter=500).fit(X[::2], names[::2])


def test_a_classifier_with_text_classes(iris):
    X, y, model = iris
    agent = ConformalClassifier(model, fw.LAC()).fit(X[1::4], y[1::4], alpha=0.1)
    sets = agent.predict_set(X[3::4])
    probs = model.predict_proba(X[3::4])
    np.testing.assert_array_equal(sets.mask, 1 - probs <= agent.predictor_.thresholds())
    np.testing.assert_array_equal(agent.predict(X), model.predict(X))
    assert sets.classes == ("setosa", "versicolor", "virginica")
    assert sets.cover(y[3::4]).mean() == agent.score(X[3::4], y[3::4])
    assert agent.calibration(X[1::4], y[1::4]).classes == sets.classes


def test_a_release_of_a_federation(iris):
    X, y, model = iris
    agent = ConformalClassifier(model, key="k")
    mine = agent.calibration(X[1::4], y[1::4])
    release = fw.calibrate(
        {"a": mine, "b": [0.5] * 30}, method="fedwq-cp", alpha=0.1, score=fw.APS(), key="k"
    )
    sets = agent.use(release, "a").predict_set(X[3::4])
    assert agent.predictor_.thresholds() == release.threshold("a")
    probs = model.predict_proba(X[3::4])
    same = release.predict_set("a", probs, ids=fw.scores.row_ids(probs))
    np.testing.assert_array_equal(sets.mask, same.mask)
    with pytest.raises(InputError):
        agent.use(release)
    with pytest.raises(InputError):
        agent.use(release, "c")
    with pytest.raises(InputError):
        ConformalClassifier(model, fw.LAC()).use(release, "a")
    with raises(InputError, field="agent"):
        agent.use(release.predictor("a"), "a")


def test_a_release_of_another_rule_or_order_of_classes_is_refused(iris):
    X, y, model = iris
    plain = ConformalClassifier(model, fw.LAC())
    mine = plain.calibration(X[1::4], y[1::4])
    release = fw.calibrate({"a": mine}, method="fedwq-cp", alpha=0.1, score="lac")
    with pytest.raises(InputError):
        ConformalClassifier(model, fw.LAC(), rule="leq_top1").use(release)
    full = fw.calibrate({"a": mine}, method="fedwq-cp", alpha=0.1, score="lac", rule="leq_top1")
    ConformalClassifier(model, fw.LAC(), rule="leq_top1").use(full)

    turned = ("virginica", "versicolor", "setosa")
    probs = model.predict_proba(X[1::4])[:, ::-1]
    outputs = fw.Outputs(probs, y[1::4], classes=turned)
    other = fw.calibrate(
        {"a": outputs}, method="fedwq-cp", alpha=0.1, score="lac", by="label", classes=turned
    )
    with raises(InputError, field="classes"):
        plain.use(other)
    two = fw.calibrate(
        {"a": fw.Outputs([[0.4, 0.6]] * 30, [0] * 30)}, method="fedwq-cp", alpha=0.1, score="lac"
    )
    with pytest.raises(InputError):
        plain.use(two)


def test_a_site_whose_model_lacks_a_class_is_refused_by_name(iris):
    X, y, model = iris
    some = y != "setosa"
    other = LogisticRegression(max_iter=500).fit(X[some], y[some])
    one, two = ConformalClassifier(model), ConformalClassifier(other)
    sites = {"a": one.calibration(X, y), "b": two.calibration(X[some], y[some])}
    with pytest.raises(InputError, match=r"agent 'b': .*setosa"):
        fw.calibrate(sites, method="fedwq-cp", alpha=0.1)


def test_predicting_before_calibrating_is_refused(iris):
    X, _, model = iris
    with pytest.raises(NotReadyError):
        ConformalClassifier(model).predict_set(X)


def test_a_regressor():
    X, y = make_regression(400, 5, noise=5.0, random_state=0)
    model = LinearRegression().fit(X[:200], y[:200])
    agent = ConformalRegressor(model).fit(X[200:300], y[200:300], alpha=0.2)
    intervals = agent.predict_interval(X[300:])
    residuals = np.sort(np.abs(y[200:300] - model.predict(X[200:300])))
    np.testing.assert_allclose(intervals.sizes(), 2 * residuals[80])
    assert 0.6 < intervals.cover(y[300:]).mean() <= 1


def test_a_model_that_is_not_fitted_is_named(iris):
    X, y, model = iris
    bare = make_pipeline(StandardScaler(), LogisticRegression())
    for call in (
        lambda: ConformalClassifier(bare).conformalize(X, y),
        lambda: clone(ConformalClassifier(model)).fit(X, y),
        lambda: ConformalClassifier(bare).predict_proba(X),
        lambda: ConformalRegressor(LinearRegression()).fit(X, X[:, 0]),
    ):
        with pytest.raises(NotReadyError) as caught:
            call()
        assert isinstance(caught.value, NotFittedError)
        assert "FrozenEstimator(model)" in str(caught.value)


def test_a_frozen_model_survives_clone_and_cross_validation(iris):
    X, y, model = iris
    agent = ConformalClassifier(FrozenEstimator(model), fw.LAC(), alpha=0.2)
    kept = clone(agent).fit(X[1::4], y[1::4])
    np.testing.assert_array_equal(kept.predict_proba(X), model.predict_proba(X))
    coverages = cross_val_score(agent, X[1::2], y[1::2], cv=3)
    assert coverages.shape == (3,)
    assert ((coverages > 0) & (coverages <= 1)).all()
    search = GridSearchCV(agent, {"alpha": [0.1, 0.3]}, cv=3).fit(X[1::2], y[1::2])
    assert search.best_params_ == {"alpha": 0.1}  # coverage is largest at the smallest level


def test_tables_of_pandas_are_taken(iris):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y, _ = iris
    table, names = pd.DataFrame(X, columns=list("abcd")), pd.Series(y)
    model = LogisticRegression(max_iter=500).fit(table[::2], names[::2])
    agent = ConformalClassifier(model, fw.LAC()).fit(table[1::4], names[1::4])
    plain = ConformalClassifier(model, fw.LAC()).fit(table[1::4], y[1::4])
    assert agent.predictor_.levels == plain.predictor_.levels
    assert agent.score(table[3::4], names[3::4]) == plain.score(table[3::4], y[3::4])


class SumOfFeatures(BaseEstimator):
    """Fitted for inputs of any width, which scikit-learn's checks need and no trained model is."""

    def predict(self, X):
        return check_array(X).sum(axis=1)


class NearestToSum(SumOfFeatures):
    """The same as a classifier of four classes."""

    classes_ = np.arange(4)

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X):
        odds = np.exp(-np.abs(super().predict(X)[:, None] - self.classes_).clip(max=50))
        return odds / odds.sum(axis=1, keepdims=True)


BOTH = {
    "check_estimators_unfitted": "predict is the estimator's own and needs no threshold",
    "check_n_features_in": "n_features_in_ is the estimator's, known before fit",
    "check_n_features_in_after_fitting": "n_features_in_ is the estimator's, known before fit",
}
CLASSIFIER = {
    **BOTH,
    "check_classifiers_one_label": "the classes are the estimator's, not those of the points",
    "check_classifiers_classes": "the classes are the estimator's, not those of the points",
    "check_classifiers_train": "fit calibrates and trains nothing",
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    ("adapter", "expected"),
    [
        (ConformalClassifier(NearestToSum()), CLASSIFIER),
        (ConformalRegressor(SumOfFeatures()), BOTH),
    ],
)
def test_scikit_learns_own_checks(adapter, expected):
    found = check_estimator(adapter, expected_failed_checks=expected, on_fail=None)
    failed = {each["check_name"] for each in found if each["status"] == "xfail"}
    wrong = [each for each in found if each["status"] == "failed"]
    assert not wrong, [(each["check_name"], str(each["exception"])) for each in wrong]
    assert failed == set(expected)


def test_thresholds_by_group_and_by_label(iris):
    X, y, model = iris
    groups = np.where(np.arange(len(X)) % 3, "f", "m")
    agent = ConformalClassifier(model, fw.LAC())
    agent.fit(X[1::4], y[1::4], by="group", groups=groups[1::4])
    sets = agent.predict_set(X[3::4], groups=groups[3::4])
    places = [agent.predictor_.groups.index(group) for group in groups[3::4]]
    q = agent.predictor_.thresholds()[places]
    np.testing.assert_array_equal(sets.mask, 1 - model.predict_proba(X[3::4]) <= q)
    with raises(InputError, field="groups"):
        agent.predict_set(X[3::4])
    agent.fit(X[1::4], y[1::4], by="label", alpha=0.3)
    assert agent.predictor_.thresholds().shape == (1, 3)
