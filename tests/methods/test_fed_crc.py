"""Risk control: the false-negative rate by hand, by brute force, and what it promises."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods.fed_crc import FedCRC, LossCurve

SCORE = fw.MultiLabel()


def calibration(probs, labels, **more):
    """What an agent brings."""
    return fw.Calibration(SCORE.of_every_label(probs), weights=SCORE.weights(labels), **more)


A = calibration([[0.75, 0.5], [0.25, 1.0], [0.5, 0.5]], [[1, 1], [1, 0], [0, 0]])
B = calibration([[0.5, 0.75]], [[0, 1]])


def test_the_curve_of_an_agent_by_hand():
    # on the grid 0, 1/4, 1/2, 3/4, 1: row 0 loses 1/2 below 1/4 and 1/2 below 1/2, row 1 all of it
    # below 3/4, row 2 has no labels and loses nothing
    curve = FedCRC(points=4).summarize(A, 0.1)
    assert curve == LossCurve((2.0, 1.5, 1.0, 0.0, 0.0), 3)
    assert FedCRC(points=4).summarize(B, 0.1) == LossCurve((1.0, 0.0, 0.0, 0.0, 0.0), 1)


@pytest.mark.parametrize(
    ("settings", "alpha", "expected"),
    [
        # L = 3, 1.5, 1, 0, 0; N = 4, M = 2
        ({}, 0.6, 0.25),  # (1.5 + 2) / 6 = 0.583
        ({}, 0.5, 0.5),  # (1 + 2) / 6 = 0.5, reached exactly
        ({}, 0.4, 0.75),  # (0 + 2) / 6
        ({}, 0.3, inf),  # two unseen losses of 1 are more than 0.3 of 6
        ({"correction": "pooled"}, 0.5, 0.25),  # (1.5 + 1) / 5 = 0.5
        ({"correction": "pooled"}, 0.4, 0.5),  # (1 + 1) / 5 = 0.4
        ({"correction": "pooled"}, 0.1, inf),
    ],
)
def test_one_threshold_for_all_by_hand(settings, alpha, expected):
    method = FedCRC(points=4, **settings)
    release = fw.calibrate(
        {"a": A, "b": B}, method=method, alpha=alpha, score=SCORE, allow_large_alpha=True
    )
    assert release.threshold("a") == release.threshold("b") == expected


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_is_what_trying_every_threshold_gives(data):
    points, alpha = 20, data.draw(st.sampled_from([0.1, 0.25, 0.5]))
    entries = st.tuples(st.integers(0, 20), st.booleans())
    agents = []
    for _ in range(data.draw(st.integers(1, 3))):
        rows = data.draw(st.lists(st.lists(entries, min_size=3, max_size=3), max_size=12))
        cells = np.array([[p for p, _ in row] for row in rows], dtype=int).reshape(-1, 3)
        labels = np.array([[y for _, y in row] for row in rows], dtype=int).reshape(-1, 3)
        agents.append((cells, labels))
    N, M = sum(len(cells) for cells, _ in agents), len(agents)

    def loss(t):  # in twentieths, exactly
        total = Fraction(0)
        for cells, labels in agents:
            for v, y in zip(cells, labels, strict=True):
                if y.any():
                    total += Fraction(int((y.astype(bool) & (v > t)).sum()), int(y.sum()))
        return total

    cals = {
        f"a{i}": fw.Calibration(cells / 20, weights=SCORE.weights(labels))
        for i, (cells, labels) in enumerate(agents)
    }
    for correction, extra in (("mixture", M), ("pooled", 1)):
        level = Fraction(str(alpha))
        fits = [t for t in range(21) if (loss(t) + extra) / (N + extra) <= level]
        release = fw.calibrate(
            cals, method=FedCRC(correction, points=points), alpha=alpha, allow_large_alpha=True
        )
        assert release.threshold("a0") == (min(fits) / 20 if fits else inf)


@settings(max_examples=40, deadline=None)
@given(
    agents=st.lists(st.lists(st.integers(0, 1000), max_size=40), min_size=1, max_size=4),
    alpha=st.sampled_from([0.05, 0.1, 0.3]),
)
def test_with_misses_as_losses_it_is_fcp(agents, alpha):
    scores = {f"a{i}": np.array(own, float) / 1000 for i, own in enumerate(agents)}
    crc = fw.calibrate(scores, method="fed-crc", alpha=alpha, allow_large_alpha=True).threshold(
        "a0"
    )
    assert crc == fw.calibrate(scores, method="fcp", alpha=alpha, allow_large_alpha=True).threshold(
        "a0"
    )


def test_other_methods_do_not_read_weights():
    with pytest.raises(InputError):
        fw.calibrate({"a": A}, method="fedwq-cp", alpha=0.1)
    with pytest.raises(InputError):
        fw.calibrate({"a": [0.1]}, method="fcp", alpha=0.1, score="multi-label")


def test_coarse_losses_hold_few_levels_and_never_lower_the_threshold():
    rng = np.random.default_rng(5)
    agents = {name: rng.random(n) for name, n in (("a", 60), ("b", 83))}
    fine = fw.calibrate(agents, method=FedCRC(), alpha=0.3)
    coarse = fw.calibrate(agents, method=FedCRC(min_gap=5), alpha=0.3)
    assert fine.threshold("a") <= coarse.threshold("a") < 1
    for name, most in (("a", 12), ("b", 16)):
        exact, rounded = (np.array(r.received[name][0].losses) for r in (fine, coarse))
        assert len(set(rounded) - {0.0}) <= most
        assert (rounded >= exact).all()
