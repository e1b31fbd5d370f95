import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedwqcp import metrics
from fedwqcp.scores import uniforms
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.lac import LAC
from fedwqcp_lab.boards import IntervalBoard, LabelBoard
from fedwqcp_lab.scored import probabilities
from units import labels_unit, lines_unit

SCORES = [
    APS(),
    APS(randomized=False),
    APS(randomized=False, precision="float32"),
    LAC(),
]


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("rule", ["leq", "leq_top1", "until"])
@pytest.mark.parametrize("threshold", [0.0, 0.37, 0.95, 1.0, np.inf, "each", "per label"])
def test_a_board_gives_what_the_score_inverts_to(score, rule, threshold):
    if rule == "until" and isinstance(score, LAC):
        pytest.skip("until reads labels in order")
    unit = labels_unit()
    probs, truth = probabilities(unit.sides[0].test, score), unit.setting.test_labels
    u = uniforms("k", np.arange(len(truth))) if score.randomized else None
    if threshold == "each":  # a value that some score has exactly
        threshold = float(np.sort(score.of_every_label(probs, u).ravel())[len(truth)])
    if threshold == "per label":
        threshold = np.array([0.2, 0.9, 1.0, np.inf])
    board = LabelBoard(score, probs, truth, u)
    sets = score.invert(probs, threshold, rule, u)
    wanted = metrics.measure("a", sets, truth)
    found = board.measure(threshold, rule)
    assert np.array_equal(board.sets(threshold, rule).mask, sets.mask)
    assert (found.n, found.hits, found.size) == (wanted.n, wanted.hits, wanted.size)
    assert found.clipped is None


@given(st.floats(-1, 6) | st.just(np.inf))
def test_intervals_are_measured_raw_clipped_and_as_labels(threshold):
    unit = lines_unit()
    side, truth = unit.sides[0], unit.setting.test_labels
    for score, outputs in ((AbsoluteResidual(), side.test), (CQR(), side.test_quantiles)):
        sets = score.invert(outputs, threshold)
        found = IntervalBoard(score, outputs, truth, 5).measure(threshold, "leq_top1")
        assert found.hits == int(sets.cover(truth).sum())
        assert found.hits == int(sets.labels(5).cover(truth.astype(int)).sum())
        assert found.size == sets.sizes().mean()
        assert found.clipped <= min(4.0, found.size) + 1e-12
        assert found.labels <= 5


def test_a_hand_made_interval():
    board = IntervalBoard(AbsoluteResidual(), np.array([0.0, 2.0]), np.array([1.0, 2.0]), 5)
    found = board.measure(1.5, "leq")
    assert (found.n, found.hits, found.size) == (2, 2, 3.0)
    assert found.clipped == (1.5 + 3.0) / 2
    assert found.labels == (2 + 3) / 2


def test_real_values_have_no_labels():
    board = IntervalBoard(AbsoluteResidual(), np.zeros(1), np.zeros(1), None)
    assert board.measure(1.0, "leq").labels is None
