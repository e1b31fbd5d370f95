"""The smoothed pinball loss and federated averaging."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.methods._pinball import (
    SmoothedPinball,
    Step,
    descend,
    federated_quantiles,
    moreau_gradient,
)
from fedwqcp.methods.cphet import CPhet
from fedwqcp.methods.dp_fedcp import DPFedCP
from fedwqcp.wire.messages import Begin

numbers = st.floats(-5, 5)
levels = st.floats(0.01, 0.99)
smoothings = st.floats(1e-4, 1.0)


def as_printed(q, v, alpha, gamma):
    """The three cases of the specification."""
    if q < v - gamma * (1 - alpha):
        return -(1 - alpha)
    if q > v + gamma * alpha:
        return alpha
    return (q - v) / gamma


def quantile(v, w, alpha, atom=0.0):
    """Smallest score that reaches the level, the atom at 1."""
    v, w = [*v, 1.0], [*w, atom]
    for q in sorted(v):
        if sum(b for a, b in zip(v, w, strict=True) if a <= q) >= (1 - alpha) * sum(w) - 1e-12:
            return q
    raise AssertionError


@given(numbers, numbers, levels, smoothings)
def test_gradient_is_as_printed(q, v, alpha, gamma):
    found = moreau_gradient(np.array(q), v, alpha, gamma)
    assert found == pytest.approx(as_printed(q, v, alpha, gamma), abs=1e-12)


@st.composite
def problems(draw):
    """Scores with ties and saturation, weights of two targets, four atoms at 1."""
    n = draw(st.integers(0, 12))
    grid = st.sampled_from([0.0, 0.125, 0.25, 0.3, 0.5, 0.75, 1.0])
    v = draw(st.lists(grid, min_size=n, max_size=n))
    weights = st.sampled_from([0.0, 0.5, 1.0, 2.75])
    w = draw(st.lists(st.lists(weights, min_size=n, max_size=n), min_size=2, max_size=2))
    atoms = draw(st.lists(weights, min_size=4, max_size=4))
    return np.array(v), np.array(w).reshape(2, n), np.array(atoms)


@given(problems(), levels, smoothings, st.lists(st.floats(-1, 2), min_size=4, max_size=4))
def test_loss_sums_the_gradients_of_all_points(problem, alpha, gamma, q):
    v, w, atoms = problem
    found = SmoothedPinball(v, w, atoms, alpha=alpha, gamma=gamma).gradient(np.array(q))
    for p in range(4):
        points = [(x, y) for x, y in zip(v, w[p // 2], strict=True)] + [(1.0, atoms[p])]
        total = sum(y for _, y in points)
        slope = sum(y * as_printed(q[p], x, alpha, gamma) for x, y in points)
        assert found[p] == pytest.approx(slope / total if total else 0.0, abs=1e-9)


@given(problems(), levels, st.floats(1e-6, 1e-2))
def test_minimiser_lies_within_gamma_of_the_quantile(problem, alpha, gamma):
    v, w, atoms = problem
    loss = SmoothedPinball(v, w, atoms, alpha=alpha, gamma=gamma)
    for p in range(4):
        total = w[p // 2].sum() + atoms[p]
        partial = [w[p // 2][v <= x].sum() + (atoms[p] if x >= 1 else 0.0) for x in [*v, 1.0]]
        if not total or any(abs(s - (1 - alpha) * total) < 1e-6 * total for s in partial):
            continue  # the level is a partial sum: the quantile is an interval
        q = quantile(v, w[p // 2], alpha, atoms[p])
        at = np.full(4, q)
        assert loss.gradient(at - gamma)[p] < 0 < loss.gradient(at + gamma)[p]


def test_local_steps_by_hand():
    loss = SmoothedPinball(np.array([1.0]), np.ones((1, 1)), np.zeros(1), alpha=0.25, gamma=1e-3)
    rng = np.random.default_rng(0)
    step = descend(loss, np.array([0.0]), rng, steps=2, step_size=0.1, noise=0.0)
    assert step.shift == pytest.approx((0.15,))  # two steps of 0.1 * 0.75
    assert step.mean == pytest.approx((0.0375,))  # of 0 and 0.075


@pytest.mark.parametrize(("average", "expected"), [("last", 4.0), ("half", 2.5), ("all", 1.5)])
def test_server_weighs_agents_and_averages_rounds(average, expected):
    shares = np.array([[0.25], [0.75]])
    talk = federated_quantiles(lambda q: Begin(), np.array([0.0]), shares, 4, average)
    next(talk)
    for t in range(3):  # each round moves by 0.25 * 4 + 0.75 * 0 = 1, and reports q itself
        talk.send([Step((4.0,), (float(t),)), Step((0.0,), (float(t),))])
    with pytest.raises(StopIteration) as end:
        talk.send([Step((4.0,), (3.0,)), Step((0.0,), (3.0,))])
    assert end.value.value == pytest.approx([expected])


def test_server_refuses_steps_of_another_length():
    talk = federated_quantiles(lambda q: Begin(), np.zeros(2), np.ones((1, 2)), 1, "last")
    next(talk)
    with pytest.raises(InputError):
        talk.send([Step((1.0,), (1.0,))])


@pytest.mark.parametrize("bad", [((1.0,), ()), ((np.inf,), (0.0,)), ((0.0,), (np.nan,))])
def test_step_refuses_what_no_descent_gives(bad):
    with pytest.raises(InputError):
        Step(*bad)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"rounds": rounds} for rounds in (0, True)),
        {"local_steps": 0},
        {"step_size": 0.0},
        {"smoothing": np.inf},
        {"average": "first"},
    ],
)
@pytest.mark.parametrize("method", [DPFedCP, CPhet])
def test_settings_are_checked(method, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        method(**wrong)
    for noise in ("noise", "count_noise"):
        with pytest.raises(InputError):
            DPFedCP(**{noise: -1.0})
