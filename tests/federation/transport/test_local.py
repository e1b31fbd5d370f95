"""Rounds within one process: worked numbers, several levels, and clear errors."""

from __future__ import annotations

from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import ClassesError, InputError
from fedwqcp.federation.inspection import is_useless, of_data
from refusals import raises

A = np.arange(1, 11) / 10
B = [0.05, 0.15, 0.25, 0.35, 0.45]
C = np.arange(1, 21) / 50


def test_the_example_of_the_specification():
    release = fw.calibrate({"A": A, "B": B, "C": C}, method="fedwq-cp", alpha=0.2)
    assert release.threshold("A") == pytest.approx(18.05 / 35, abs=1e-15)
    assert str(release.guarantee) == "none"
    assert release.rounds == 1
    assert 0 < release.bytes_up("B") < 300
    assert release.refused == {}


@pytest.mark.parametrize(
    ("agents", "options"),
    [
        ({}, {}),
        (None, {}),
        ([[0.1, 0.2]], {}),
        ({"a b": [0.1]}, {}),
        *(({"a": odd}, {}) for odd in ([0.1, np.nan], [[[0.1]]], ["x"], [[0.1], [0.1, 0.2]], [1j])),
        *(({"a": odd}, {}) for odd in (np.ma.masked_array([0.1], [True]), np.empty((3, 0)))),
        *(({"a": [0.1]}, {"alpha": odd}) for odd in (5, (), [], 0.9, [0.1, 0.9], "0.1", b"0.1")),
        *(({"a": [0.1]}, {"alpha": odd}) for odd in (None, 1j, {0.1}, [0.1, "x"], 10**400, True)),
        ({"a": [0.1]}, {"alpha": float("nan")}),
        ({"a": [0.1]}, {"method": "fedwqcp"}),
        ({"a": [0.1]}, {"score": "lacc"}),
        ({"a": [1.5]}, {"score": "lac"}),
        ({"a": [0.1]}, {"rule": "top5"}),
        ({"a": [0.1], "b": [[0.1, 0.2]]}, {}),
        ({"a": np.full((9, 2), 0.5)}, {}),
        ({"a": np.full((9, 2), 0.5)}, {"score": "lac"}),
        ({"a": [0.1]}, {"score": fw.CQR(symmetric=False)}),
        ({"a": [0.1]}, {"rng": "x"}),
        ({"a": [0.1]}, {"rng": -1}),
    ],
)
def test_bad_input_is_refused(agents, options):
    with pytest.raises(InputError):
        fw.calibrate(agents, **{"alpha": 0.1, **options})


def test_a_registered_method_of_ones_own_class_is_needed():
    class Mine(type(fw.methods.get("fedwq-cp"))):
        pass

    with pytest.raises(InputError):
        fw.calibrate({"a": [0.1]}, alpha=0.1, method=Mine())


NOISY = {"method": "private-fedwq-cp", "alpha": (0.2, 0.3, 0.4, 0.5), "score": "lac"}


@pytest.mark.parametrize("source", [7, np.random.SeedSequence(7), np.random.default_rng(7)])
def test_noise_comes_from_rng(source):
    def drawn(rng):
        release = fw.calibrate({"A": np.arange(500) / 500}, **NOISY, rng=rng)
        return [release.threshold("A", alpha) for alpha in NOISY["alpha"]]

    first = drawn(source)
    assert first == drawn(7)
    assert (first == drawn(source)) == isinstance(source, int)  # a generator goes on


def infinite(agents, **options):
    """Calibrate, and return the findings of the one warning of infinite thresholds."""
    with pytest.warns(fw.InfiniteThresholdWarning) as caught:
        release = fw.calibrate(agents, **options)
    (only,) = caught
    assert only.filename == __file__
    assert all(each in release.findings for each in only.message.findings)
    return only.message.findings


def test_one_warning_names_every_infinite_threshold():
    agents = {"A": A, **{f"s{i}": B for i in range(6)}}
    (finding,) = infinite(agents, method="fedwq-cp", alpha=(0.05, 0.2))
    assert (finding.agents, finding["alphas"]) == (tuple(agents), (0.05,))


@pytest.mark.parametrize(
    ("method", "facts"),
    [
        ("split-cp", {"needed": 19, "overflow": ("clip",)}),
        ("max-cp", {"needed": 19, "overflow": ("exclude",)}),
        ("new-agent-cp", {"agents_needed": 19, "roster": 3}),
    ],
)
def test_the_cure_is_the_methods(method, facts):
    (finding,) = infinite({f"s{i}": B for i in range(3)}, method=method, alpha=(0.1, 0.05))
    assert finding["alphas"] == (0.1, 0.05)
    assert facts.items() <= finding.facts.items()


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_the_number_of_points_in_the_warning_is_enough_and_no_fewer_are(alpha):
    (finding,) = infinite({"a": [0.1]}, method="fedwq-cp", alpha=alpha)
    assert fw.conformal_quantile(np.arange(finding["needed"]), alpha) < inf
    assert fw.conformal_quantile(np.arange(finding["needed"] - 1), alpha) == inf


def of_labels(*counts):
    """Return calibration points with so many of each label."""
    n = sum(counts)
    labels = np.repeat(np.arange(len(counts)), counts)
    return fw.Calibration(np.arange(n) / n, labels=labels, n_classes=len(counts))


def test_the_warning_says_of_each_agent_which_of_its_classes_are_infinite():
    cals = {"a": of_labels(60, 3, 60), "b": of_labels(60, 60, 3), "c": of_labels(60, 3, 60)}
    found = infinite(cals, method="split-cp", alpha=0.1, by="label")
    assert [(each.agents, each["parts"]) for each in found] == [
        (("a", "c"), ("1",)),
        (("b",), ("2",)),
    ]


def test_the_warning_blames_the_groups_that_are_infinite_and_no_others():
    cal = fw.Calibration(A, groups=["f"] * 9 + ["m"])
    (finding,) = infinite({"a": cal}, method="fedwq-cp", alpha=0.2, by="group")
    assert (finding["by"], finding["parts"]) == ("group", ("m",))


def pooled_value(values, q):
    """Return the ceil(q N)-th smallest of all values, by exact arithmetic."""
    pooled = sorted(float(value) for own in values.values() for value in own)
    return pooled[max(1, ceil(q * len(pooled))) - 1]


@settings(max_examples=40)
@given(
    values=st.dictionaries(
        st.sampled_from("abcde"), st.lists(st.floats(-1e300, 1e300), max_size=8), min_size=3
    ).filter(lambda values: any(values.values())),
    q=st.fractions(0, 1, max_denominator=1000).filter(lambda q: 0 < q < 1),
)
def test_a_federated_quantile_has_the_exact_rank(values, q):
    found = fw.federated_quantile(values, float(q))
    assert found == pooled_value(values, q)
    assert fw.federated_quantile(values, float(q), secure=True) == found


def test_a_secure_quantile_needs_three_agents():
    with raises(InputError, field="quorum"):
        fw.federated_quantile({"a": [1.0], "b": [2.0]}, 0.5, secure=True)


@pytest.mark.parametrize(
    ("values", "q"),
    [
        *(({"a": [1.0]}, q) for q in (0, [0.5, 1.0], True, "half", [], 1e-17)),
        ({"a": [], "b": []}, 0.5),
        ({"a": [1.0], "b": [np.nan]}, 0.5),
        ({"a": [[1.0]]}, 0.5),
        ([1.0], 0.5),
    ],
)
def test_a_quantile_of_nothing_sound_is_refused(values, q):
    with pytest.raises(InputError):
        fw.federated_quantile(values, q)


CLASSES = ("melanoma", "nevus", "other")


def labelled(classes=CLASSES, seed=0):
    """Scores and labels of 40 people, under names of classes or none."""
    rng, n = np.random.default_rng(seed), None if classes else 3
    return fw.Calibration(
        rng.uniform(size=40), rng.integers(0, 3, 40), classes=classes, n_classes=n
    )


@pytest.mark.parametrize(
    "theirs",
    [("nevus", "melanoma", "other"), ("melanoma", "nevus", "wart"), ("melanoma", "nevus")],
)
@pytest.mark.parametrize("options", [{}, {"classes": CLASSES}])
def test_an_agent_with_other_classes_is_refused_by_name(theirs, options):
    rng = np.random.default_rng(1)
    other = fw.Calibration(rng.uniform(size=40), rng.integers(0, 2, 40), classes=theirs)
    with raises(ClassesError, field="classes"):
        fw.calibrate({"a": labelled(), "b": other}, alpha=0.2, **options)
    unnamed = fw.Calibration([0.1], labels=[0], n_classes=2)
    with raises(ClassesError, field="n_classes") as refused:
        agents = {"odd": unnamed, "a": labelled(None), "b": labelled(None)}
        fw.calibrate(agents, method="fedwq-cp", alpha=0.1)
    assert "'odd'" in str(refused.value)


def test_thresholds_and_sets_speak_of_classes():
    agents = {"a": labelled(), "b": labelled(None, seed=1)}
    release = fw.calibrate(agents, method="fedwq-cp", alpha=0.2, by="label", classes=CLASSES)
    assert release.round.classes == CLASSES
    assert list(release.by_group("a")) == list(CLASSES)
    plain = fw.calibrate(
        {name: fw.Calibration(cal.scores, cal.labels, n_classes=3) for name, cal in agents.items()},
        method="fedwq-cp",
        alpha=0.2,
        by="label",
    )
    assert release.threshold("a", group="nevus") == plain.threshold("a", group=1)
    terms = {"method": "fedwq-cp", "alpha": 0.5, "classes": CLASSES}
    assert fw.calibrate({"a": [0.1, 0.2]}, **terms).round.n_classes == 3
    with pytest.raises(ClassesError):
        fw.calibrate({"a": fw.Calibration([0.1], n_classes=4)}, **terms)


def test_labels_of_a_calibration_may_be_names():
    cal = fw.Calibration([0.1, 0.2], ["other", "nevus"], classes=CLASSES)
    assert (cal.labels.tolist(), cal.n_classes) == ([2, 1], 3)
    assert cal.take(np.array([0])).classes == CLASSES
    with raises(InputError, field="n_classes"):
        fw.Calibration([0.1], n_classes=2, classes=CLASSES)


def _answers(rng, n, classes, right):
    """A model that is right so often beyond chance, and its labels."""
    labels = rng.integers(0, classes, n)
    top = np.where(rng.random(n) < right, labels, rng.integers(0, classes, n))
    return 0.3 / classes + 0.7 * np.eye(classes)[top], labels


def _noted(values, labels):
    cal = fw.Calibration(np.zeros(len(labels)), labels, n_classes=values.shape[1])
    return bool(list(of_data(None, fw.Outputs(values, labels), cal)))


@pytest.mark.parametrize(("classes", "n"), [(2, 3000), (3, 1500), (10, 300), (100, 600)])
def test_labels_that_do_not_fit_the_columns_are_noticed(classes, n):
    rng = np.random.default_rng(0)
    values, labels = _answers(rng, n, classes, 0.7)
    assert not _noted(values, labels)
    assert _noted(values, rng.permutation(labels))
    assert _noted(np.roll(values, 1, axis=1), labels)
    if classes > 2:
        first = labels < classes - 1
        assert _noted(values[first], labels[first] + 1)  # that count from 1


@pytest.mark.parametrize("n", [6, 30, 300, 3000])
@pytest.mark.parametrize("classes", [2, 10])
def test_weak_models_are_seldom_called_useless(classes, n):
    rng, runs = np.random.default_rng(n), 400 if n < 3000 else 100
    weak = sum(_noted(*_answers(rng, n, classes, 0.25)) for _ in range(runs))
    assert weak == 0  # twice or more as good as what the check calls useful
    edge = sum(_noted(*_answers(rng, n, classes, 0.1)) for _ in range(runs))
    assert edge <= 0.03 * runs  # just useful: 1 in 100, and the margins vary


def test_one_class_or_few_rows_are_no_sign():
    rng = np.random.default_rng(0)
    labels = (np.arange(1000) < 930).astype(int)
    always = np.tile([0.3, 0.7], (1000, 1))
    assert not _noted(always, labels)
    for _ in range(50):  # thirty rows, 93 % of one class, a model that ranks at random
        rows = rng.choice(1000, 30, replace=False)
        p = rng.beta(8, 1, 30)
        assert not _noted(np.column_stack([1 - p, p]), labels[rows])
    assert not _noted(np.full((6, 3), 1 / 3), np.array([1, 2, 1, 2, 1, 2]))


def test_labels_that_do_not_fit_are_warned_of_once():
    rng = np.random.default_rng(0)
    values, labels = _answers(rng, 300, 10, 0.9)
    right, wrong = fw.Outputs(values, labels), fw.Outputs(values[:, ::-1], labels)
    with pytest.warns(fw.LabelMismatchWarning) as caught:
        fw.calibrate({"a": right, "b": wrong}, method="fedwq-cp", alpha=[0.1, 0.2], score="lac")
    (only,) = caught
    assert only.filename == __file__
    assert [each.agents for each in only.message.findings] == [("b",)]


@pytest.mark.parametrize("method", ["fcp", "fedls-cp"])
def test_who_pools_scores_does_not_need_a_finite_threshold_of_its_own(method):
    labels = np.arange(60) % 2
    sites = {n: fw.Calibration(labels[:n] / 2, labels[:n], n_classes=2) for n in (6, 60)}
    release = fw.calibrate({f"s{n}": cal for n, cal in sites.items()}, alpha=0.1, method=method)
    assert not release.findings


@pytest.mark.parametrize("method", ["split-cp", fw.methods.get("auto", small="inf")])
def test_an_infinite_threshold_is_told_once(method):
    release = fw.calibrate({"a": [0.1, 0.2], "b": np.arange(60)}, alpha=0.1, method=method)
    assert [(f.code, f.agents) for f in release.findings] == [("infinite-threshold", ("a",))]


@pytest.mark.parametrize(("points", "useless"), [(6, True), (60, False)])
def test_the_server_knows_where_nothing_finite_can_be_borrowed(points, useless):
    release = fw.calibrate({"a": [0.1, 0.2], "b": np.arange(points)}, alpha=0.1)
    assert is_useless(replace(release, local={})) == useless


def test_a_series_of_another_index_is_refused():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame([[0.2, 0.8], [0.7, 0.3]], index=[5, 6])
    fw.Outputs(table, pandas.Series([1, 0], index=[5, 6]), ids=["a", "b"])
    for part in ("labels", "ids", "groups"):
        with pytest.raises(InputError) as refused:
            fw.Outputs(table, **{part: pandas.Series([1, 0], index=[6, 5])})
        assert refused.value.field == part


@pytest.mark.parametrize("first", ["a", "b"])
def test_columns_found_by_name_do_not_decide_the_order_of_classes(first):
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet([1, 1, 1], 60), rng.integers(0, 3, 60)
    agents = {
        "a": fw.Outputs(p, y, classes=("x", "y", "z")),
        "b": fw.Outputs(p[:, [2, 0, 1]], y, classes=("z", "x", "y"), by_name=True),
    }
    agents = {name: agents[name] for name in sorted(agents, reverse=first == "b")}
    release = fw.calibrate(agents, method="fedwq-cp", alpha=0.1, score="lac")
    assert release.round.classes == ("x", "y", "z")
    assert release.threshold("a") == release.threshold("b")
    with raises(ClassesError, field="classes"):
        fw.calibrate({"b": agents["b"]}, method="fedwq-cp", alpha=0.1, score="lac")
    named = fw.calibrate(
        {"b": agents["b"]}, method="fedwq-cp", alpha=0.1, score="lac", classes=("x", "y", "z")
    )
    assert named.threshold("b") == fw.calibrate(
        {"a": agents["a"]}, method="fedwq-cp", alpha=0.1, score="lac"
    ).threshold("a")


def test_names_may_be_those_of_numpy(tmp_path):
    names, path = np.unique(["b", "a"]), tmp_path / "a.json"
    release = fw.calibrate(dict.fromkeys(names, A), alpha=0.2, score=fw.AbsoluteResidual())
    assert release.round.agents == ("a", "b")
    release.predictor(names[0]).save(path)
    assert fw.load(path).agent == "a"
