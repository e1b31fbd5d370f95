"""CPhet against a weighted quantile written from the specification."""

from __future__ import annotations

import json
from math import ceil, inf

import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.record import parse
from fedwqcp.methods.cphet import (
    CPhet,
    SumsAt,
    Weigh,
    density_of,
)
from fedwqcp.methods.cphet.densities import (
    FeatureDensities,
    fit_mixture,
    ratio,
    read_mixture,
)
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Begin
from refusals import raises
from worked import ask_agent, calibrations, refusal_of

# --- the specification ----------------------------------------------------------------------------


def weighted_quantile(scores, weights, alpha, at_inf=0.0):
    """Smallest score of positive weight that reaches the level; +inf where none does."""
    total = sum(weights) + at_inf
    reached = [
        v
        for v, w in zip(scores, weights, strict=True)
        if w > 0
        and sum(b for a, b in zip(scores, weights, strict=True) if a <= v)
        >= (1 - alpha) * total - 1e-12 * total
    ]
    return min(reached, default=inf)


def gaussian(x, mean, covariance):
    d = len(mean)
    z = x - mean
    bottom = np.sqrt((2 * np.pi) ** d * np.linalg.det(covariance))
    return np.exp(-0.5 * z @ np.linalg.solve(covariance, z)) / bottom


def fitted(features, labels=None):
    """A list of (share, mean, covariance): one for each label, none from fewer than two points."""
    n, d = features.shape
    labels = np.zeros(n, dtype=int) if labels is None else labels
    parts, single = [], 0
    for y in sorted(set(labels.tolist())):
        x = features[labels == y]
        if len(x) < 2:
            single += len(x)
            continue
        parts.append((len(x) / n, x.mean(0), np.cov(x.T, bias=True).reshape(d, d)))
    if single:
        parts.append((single / n, features.mean(0), np.cov(features.T, bias=True).reshape(d, d)))
    return [(p, m, s + 1e-3 * np.trace(s) / d * np.eye(d)) for p, m, s in parts]


def density(parts, x):
    return sum(p * gaussian(x, m, s) for p, m, s in parts)


def cut(weights, level):
    n = len(weights)
    if not n:
        return []
    return np.minimum(weights, sorted(weights)[max(1, ceil(level * n - 1e-9)) - 1]).tolist()


def mixture(data, x):
    """The agents' mixture with shares N_i / N; an agent of fewer than two points has no density."""
    some = [a for a in data if len(a[0]) > 1]
    N = sum(len(a[0]) for a in some)
    return sum(len(a[0]) / N * density(fitted(a[1], a[2]), x) for a in some)


def pooled(data, target, level=0.995):
    """All scores, and lambda(x) of all points, cut at each agent."""
    scores, weights = [], []
    for v, x, _ in data:
        own = [density(target, row) / mixture(data, row) for row in x]
        scores += list(v)
        weights += cut(own, level)
    return scores, weights


# --- data -----------------------------------------------------------------------------------------


def shifted(seed, sizes, d=2, labels=True):
    """Agents whose inputs differ, with tied scores that depend on the input."""
    rng = np.random.default_rng(seed)
    data = []
    for i, n in enumerate(sizes):
        y = rng.integers(0, 3, size=n)
        x = rng.normal(loc=0.6 * i, scale=1 + 0.2 * i, size=(n, d)) + 0.4 * y[:, None]
        v = np.round(np.abs(rng.normal(size=n)) * (1 + np.abs(x[:, 0])) - 0.5, 1)
        data.append((v, x, y if labels else None))
    return data


SIZES = (40, 12, 0, 1, 25)

# --- pooled thresholds ----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("alpha", [0.1, 0.35])
def test_own_targets(labels, alpha):
    data = shifted(1, SIZES, labels=labels)
    release = fw.calibrate(calibrations(data), method="cphet", alpha=alpha)
    for i, (v, x, y) in enumerate(data):
        if len(v) < 2:
            assert release.threshold(f"a{i}") == inf  # its density is unknown
            continue
        scores, weights = pooled(data, fitted(x, y))
        assert release.threshold(f"a{i}") == weighted_quantile(scores, weights, alpha)
        effective = sum(weights) ** 2 / sum(w * w for w in weights)
        assert release.outcomes[0].effective[i] == pytest.approx(effective)
    assert str(release.guarantee) == "target-shift, approximate"


def test_target_that_the_caller_names():
    data = shifted(2, (60, 30))
    elsewhere = shifted(3, (0, 0, 80))[2]
    for level in (1.0, 0.9):
        method = CPhet(clip_weights=level)
        there = density_of(*elsewhere[1:])
        release = fw.calibrate(calibrations(data), method=method, target=there, alpha=0.2)
        scores, weights = pooled(data, fitted(*elsewhere[1:]), level)
        expected = weighted_quantile(scores, weights, 0.2)
        assert release.threshold("a0") == release.threshold("a1") == expected
        effective = sum(weights) ** 2 / sum(w * w for w in weights)
        assert release.outcomes[0].effective == pytest.approx(effective)


@pytest.mark.parametrize("part", ["effective", "sizes", "mixtures"])
def test_a_release_with_unequal_lists_is_refused_where_it_is_read(part):
    agents = calibrations(shifted(7, (30, 20, 10)))
    method, target = CPhet(scope="local"), "mixture"
    if part == "effective":
        method, target = CPhet(), "own"
    release = fw.calibrate(agents, method=method, target=target, alpha=0.1)
    changed = json.loads(encode(release.public()))
    (outcome,) = changed["outcomes"]
    (outcome if part == "effective" else outcome["densities"])[part].pop()
    with pytest.raises(RecordError):
        parse(json.dumps(changed).encode(), "release.json")


# --- an agent's own scores ------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_local_scope_weights_own_scores_towards_the_target(named):
    data = shifted(9, (50, 20, 1, 0))
    agents = calibrations(data)
    elsewhere = shifted(3, (0, 0, 80))[2][1:]
    target = density_of(*elsewhere) if named else "mixture"
    method = CPhet(scope="local", clip_weights=0.9)
    release = fw.calibrate(agents, method=method, target=target, alpha=0.2)
    assert release.rounds == (0 if named else 1)
    size = fitted(*elsewhere)

    def ratio(i, x):
        top = density(size, x) if named else mixture(data, x)
        return top / density(fitted(*data[i][1:]), x)

    for i in (0, 1):
        v, x, _ = data[i]
        weights = cut([ratio(i, row) for row in x], 0.9)
        assert release.threshold(f"a{i}") == weighted_quantile(v, weights, 0.2)
    assert release.threshold("a2") == release.threshold("a3") == inf


# --- refusals -------------------------------------------------------------------------------------


def test_agents_must_share_their_features():
    agents = {
        "a": fw.Calibration([0.1, 0.2], features=[[0.0], [1.0]]),
        "b": fw.Calibration([0.1, 0.2], features=[[0.0, 0.0], [1.0, 2.0]]),
    }
    with raises(InputError, field="answers"):
        fw.calibrate(agents, method="cphet", alpha=0.1)
    there = density_of([[0.0, 0.0], [1.0, 2.0]])
    with pytest.raises(InputError):
        fw.calibrate({"a": agents["a"]}, method="cphet", target=there, alpha=0.1)


PAIR = fw.Calibration([0.25, 0.75], features=[[0.0], [2.0]])
TWO = FeatureDensities((2, 2), (density_of(PAIR.features), density_of(PAIR.features + 1)))


def answered(method, question):
    return method.answer(PAIR, question, 0.1, np.random.default_rng(0))


def grid(length):
    return SumsAt(tuple(np.linspace(0, 1, length).tolist()), TWO)


@pytest.mark.parametrize(
    ("method", "question"),
    [
        (CPhet(), grid(1001)),
        (CPhet(), grid(512 // 2 + 1)),  # there are two targets
        (CPhet(target="mixture"), grid(513)),
        (CPhet(scope="local", target="mixture"), Weigh(TWO)),
        (CPhet(scope="local", target="mixture"), grid(1)),
        (CPhet(scope="local"), Begin()),
    ],
)
def test_an_agent_answers_only_what_the_settings_need(method, question):
    with pytest.raises(refusal_of(method, question, PAIR.n_classes)):
        ask_agent(method, PAIR, question)
    assert ask_agent(CPhet(), PAIR, grid(512 // 2))
    assert ask_agent(CPhet(target="mixture"), PAIR, grid(512))


@pytest.mark.parametrize("mean", [1.7e308, -1e101])
def test_a_density_out_of_all_scale_is_refused(mean):
    wild = FeatureDensities((2, 2), (density_of(PAIR.features), (1.0, 1.0, 1.0, mean, 1.0)))
    with raises(InputError, field="density"):
        answered(CPhet(), Weigh(wild))


def test_far_inputs_keep_finite_weights():
    logs = np.array([0.0, -1e9, -inf, -inf])
    found = ratio(logs, np.array([-1e6, 0.0, 0.0, -inf]))
    assert found.tolist() == [np.exp(100.0), 0.0, 0.0, 0.0]


SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 4.0], [2.0, 4.0]])


def test_one_gaussian_by_hand():
    mixture = fit_mixture(SQUARE)
    assert mixture.weights.tolist() == [1.0]
    assert mixture.means.tolist() == [[1.0, 2.0]]
    eps = 1e-3 * (1 + 4) / 2
    assert mixture.covariances[0] == pytest.approx(np.diag([1 + eps, 4 + eps]))


def test_single_points_share_the_density_of_the_sample():
    x = np.array([[0.0], [2.0], [10.0], [20.0]])
    mixture = fit_mixture(x, np.array([0, 0, 1, 2]))
    assert mixture.weights == pytest.approx([0.5, 0.5])
    assert mixture.means.ravel() == pytest.approx([1.0, 8.0])  # no mean is a person's features
    assert mixture.covariances.ravel() == pytest.approx([1.001, 1.001 * np.var(x)])


@pytest.mark.parametrize(
    "numbers",
    [
        (),
        (1.0,),
        (1.5, 1.0, 1.0, 0.0, 1.0),
        (0.0, 1.0),
        (1.0, 33.0),
        (1.0, 1.0, 1.0, 0.0),
        (1.0, 1.0, 1.0, 0.0, np.nan),
        (1.0, 1.0, 0.9, 0.0, 1.0),
        (2.0, 1.0, 2.0, -1.0, 0.0, 0.0, 1.0, 1.0),
        (1.0, 1.0, 1.0, 0.0, -1.0),
        (1.0, 2.0, 1.0, 0.0, 0.0, 1.0, 2.0, 1.0),
        (1.0, 1.0, 1.0, 1.7e308, 1.0),
        (1.0, 1.0, 1.0, 0.0, 1e101),
        (1.0, 1.0, 1.0, 0.0, 1e-101),
        (1.0, 2.0, 1.0, 0.0, 0.0, 1e-100, 1 - 1e-15, 1e100),
        (1.0, np.inf, 1.0, 0.0, 1.0),
    ],
)
def test_numbers_that_are_no_mixture_are_refused(numbers):
    with raises(InputError, field="density"):
        read_mixture(numbers)
