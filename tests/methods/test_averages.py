"""The mean of thresholds is the exact ratio of two sums, rounded once."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods import UnfitAnswerError
from fedwqcp.methods._averages import mean_threshold, weighted_mean
from fedwqcp.methods._search import Counts
from fedwqcp.methods.fcp import FCP
from fedwqcp.methods.fedls_cp import ClassSketches, FedLSCP, SketchesAndThreshold
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.messages import Begin, LocalQuantile
from refusals import raises
from strategies import alphas
from worked import samples, threshold

finite = st.floats(allow_nan=False, allow_infinity=False)
weight = st.one_of(st.integers(1, 10**7), st.integers(1, 2**63 - 1), st.integers(1, 10**30))


def by_definition(values, weights):
    """The same in fractions."""
    pairs = zip(values, weights, strict=True)
    return float(sum(Fraction(v) * w for v, w in pairs) / sum(weights))


@example([(0.1, 1), (0.2, 2**63)])
@example([(0.1, 2**63 - 1), (0.2, 2**63)])
@given(st.lists(st.tuples(finite, weight), min_size=1, max_size=30))
def test_it_is_the_ratio_of_exact_sums(pairs):
    values, weights = zip(*pairs, strict=True)
    assert weighted_mean(values, weights) == by_definition(values, weights)


@pytest.mark.parametrize("sign", [1, -1])
def test_long_runs_of_the_largest_parts_do_not_overflow(sign):
    largest = sign * np.nextafter(2.0, 1.0)  # a mantissa of ones
    values, weights = np.full(10_000, largest), np.full(10_000, 2**48 - 1)
    values[::7] /= 4
    expected = by_definition(values.tolist(), weights.tolist())
    assert weighted_mean(values, weights) == expected


def test_arrays_and_lists_give_the_same_bits():
    rng = np.random.default_rng(5)
    values, weights = rng.random(9_000) ** 9, rng.integers(1, 10**6, 9_000)
    expected = by_definition(values.tolist(), weights.tolist())
    assert weighted_mean(values, weights) == expected
    assert weighted_mean(values.tolist(), weights.tolist()) == expected


def test_nothing_and_infinity():
    assert weighted_mean([], []) == inf
    assert weighted_mean([0.5, inf], [10**9, 1]) == inf


# at alpha = 0.4 the third smallest of four: 0.8 and 0.1, their mean 0.45; one point is too few
A, B, FEW = [0.1, 0.2, 0.8, 0.9], [0.0, 0.1, 0.1, 0.2], [5.0]
FLOORED = [FCP(floor=True), FCP(sketch="order", floor=True), FedLSCP(floor=True)]


def labelled(agents):
    """Give every second point another class."""
    return {
        name: fw.Calibration(scores, np.arange(len(scores)) % 2, n_classes=2)
        for name, scores in agents.items()
    }


def mean_of(agents, alpha, **options):
    """Run FedWQ-CP without those that have too few points."""
    return fw.calibrate(
        agents,
        method=fw.methods.get("fedwq-cp", overflow="exclude"),
        alpha=alpha,
        allow_large_alpha=True,
        **options,
    )


def test_fcp_by_hand():
    agents = {"a": np.array(A), "b": np.array(B)}
    # the sixth of eight is 0.2, below the mean 0.45 of both thresholds
    assert threshold(agents, "fcp", 0.4) == 0.2
    assert threshold(agents, "fcp", 0.4, floor=True) == 0.45
    assert threshold(agents, "fcp", 0.4, floor=True, sketch="exact") == 0.45
    # points 0.2, 0.9 and 0.1, 0.2 stand for two scores each: the third are 0.9 and 0.2 at most
    assert threshold(agents, "fcp", 0.4, floor=True, sketch="order", min_gap=2) == 0.55
    assert threshold(agents, "fcp", 0.2, floor=True) == 0.9  # its own is above the mean 0.55


def test_a_point_above_that_is_infinite_is_no_missing_threshold():
    agents = {"a": np.array([0.9] * 9 + [inf]), "b": np.full(90, 0.1)}
    assert mean_of(agents, 0.4).threshold("a") == pytest.approx(0.18)
    for sketch in ("bisection", "exact", "order"):
        floored = threshold(agents, "fcp", 0.4, floor=True, sketch=sketch)
        assert floored >= mean_of(agents, 0.4).threshold("a")


def test_fedls_by_hand():
    agents = {name: fw.Calibration(x, [0] * 4, n_classes=2) for name, x in (("a", A), ("b", B))}
    plain = fw.calibrate(agents, method=FedLSCP(n0=0, min_gap=2, min_class=1), alpha=0.4)
    release = fw.calibrate(
        agents, method=FedLSCP(n0=0, floor=True, min_gap=2, min_class=1), alpha=0.4
    )
    assert [plain.threshold(name) for name in "ab"] == [0.9, 0.2]  # of ranks 2 and 4, m/5 >= 0.6
    assert [release.threshold(name) for name in "ab"] == [0.9, 0.45]
    assert release.received["a"] == (SketchesAndThreshold((4, 0), ((0.2, 0.9), ()), 0.8),)
    assert release.rounds == 1
    assert release.bytes_up("a") < plain.bytes_up("a") + 60


@pytest.mark.parametrize("method", FLOORED)
def test_agents_with_too_few_points_set_no_floor(method):
    agents = labelled({"a": A * 9, "b": B * 9, "c": FEW, "d": []})
    release = fw.calibrate(agents, method=method, alpha=0.4)
    assert mean_of(agents, 0.4).threshold("a") <= release.threshold("a") < 5
    assert mean_threshold([LocalQuantile(inf, 5), LocalQuantile(inf, 0)]) == -inf
    few = fw.calibrate(labelled({"a": FEW, "b": FEW}), method=method, alpha=0.4)
    assert few.threshold("a") == fw.calibrate(
        labelled({"a": FEW, "b": FEW}), method=type(method)(), alpha=0.4
    ).threshold("a")


@pytest.mark.guarantee("fcp", "With ``floor`` the lower bound stays")
@pytest.mark.guarantee("fedls-cp", "``floor`` only adds coverage: bounds from below stay")
@settings(max_examples=100)
@given(samples(infinite=True), alphas(2), st.sampled_from(FLOORED))
def test_no_threshold_is_below_that_of_fedwq_cp(agents, alpha, method):
    levels = tuple(dict.fromkeys((alpha, 0.3)))
    found = fw.calibrate(labelled(agents), method=method, alpha=levels, allow_large_alpha=True)
    plain = fw.calibrate(
        labelled(agents), method=type(method)(), alpha=levels, allow_large_alpha=True
    )
    mean = mean_of(agents, levels)
    for level in levels:
        for name in agents:
            q = found.threshold(name, level)
            assert q >= plain.threshold(name, level)
            if any(fw.conformal_quantile(own, level) < inf for own in agents.values()):
                assert q >= mean.threshold(name, level)


@pytest.mark.guarantee("fedls-cp", "is covered with probability at least 1 - alpha in finite")
@settings(max_examples=100)
@given(samples(infinite=True), alphas())
def test_with_the_target_own_no_threshold_is_below_the_agents_own(agents, alpha):
    """Split conformal prediction at least: its set lies within this one."""
    found = fw.calibrate(
        labelled(agents), method=FedLSCP(floor=True), alpha=alpha, allow_large_alpha=True
    )
    for name, scores in agents.items():
        own = fw.conformal_quantile(scores, alpha)
        assert found.threshold(name) >= (own if own < inf else -inf)


@pytest.mark.parametrize("method", FLOORED)
def test_it_holds_within_every_group_and_column(method):
    rng = np.random.default_rng(4)
    by_label = {
        name: fw.Calibration(rng.beta(1, b, size=90), rng.integers(3, size=90), n_classes=3)
        for name, b in (("a", 1), ("b", 9), ("c", 2))
    }
    found = fw.calibrate(by_label, method=method, alpha=0.1, by="label")
    mean = mean_of(by_label, 0.1, by="label")
    for name in by_label:
        assert (np.array(found.threshold(name)) >= mean.threshold(name)).all()
    if isinstance(method, FCP):
        columns = {name: rng.normal(size=(80, 2)) for name in "ab"}
        found = fw.calibrate(columns, method=method, alpha=0.2, score=Custom(2))
        assert (
            np.array(found.threshold("a")) >= mean_of(columns, 0.2, score=Custom(2)).threshold("a")
        ).all()


def test_a_release_names_it_and_says_what_stays():
    for method in FLOORED:
        release = fw.calibrate(labelled({"a": A, "b": B}), method=method, alpha=0.4)
        assert release.round.method.settings["floor"] is True
        assert (
            release.guarantee
            == fw.calibrate(labelled({"a": A, "b": B}), method=type(method)(), alpha=0.4).guarantee
        )
        assert "FedWQ-CP" not in type(method)().assumption


def test_what_cannot_hold_is_refused():
    with pytest.raises(InputError, match="cannot be secure"):
        fw.calibrate({"a": A, "b": B}, method=FCP(floor=True), alpha=0.4, secure=(0.0, 1.0))
    with raises(InputError, field="threshold"):  # nobody can raise it beyond them
        SketchesAndThreshold((1,), ((0.3,),), 0.4)
    with raises(InputError, field="threshold"):
        SketchesAndThreshold((0,), ((),), 0.4)
    assert SketchesAndThreshold((0,), ((),), inf).scores() == (inf,)
    fit, bare = SketchesAndThreshold((1,), ((0.3,),), inf), ClassSketches((1,), ((0.3,),))
    with pytest.raises(UnfitAnswerError) as error:
        FedLSCP(floor=True, min_class=1).aggregate([fit, bare], 0.4)
    assert error.value.position == 1
    dialogue = FCP(floor=True).exchange(0.4)
    assert next(dialogue) == Begin()
    with pytest.raises(UnfitAnswerError):
        dialogue.send([LocalQuantile(0.8, 4), Counts(4)])
