import numpy as np
from hypothesis import given

from fedwqcp.scores.lac import LAC
from strategies import Labelled, labelled


def test_by_hand() -> None:
    probs = [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]
    assert LAC().of_every_label(probs).tolist() == [[0.5, 0.75, 0.75], [0.0, 1.0, 1.0]]
    assert LAC().of(probs, [1, 0]).tolist() == [0.75, 0.0]
    assert list(LAC().invert(probs, 0.5)) == [(0,), (0,)]
    assert list(LAC().invert(probs, 0.25)) == [(), (0,)]
    assert list(LAC().invert(probs, 0.25, rule="leq_top1")) == [(0,), (0,)]


def test_trap_the_set_is_built_from_the_score() -> None:
    p = 0.3
    q = 1 - p
    assert not p >= 1 - q
    probs = [[p, 1 - p]]
    assert LAC().of(probs, [0])[0] == q
    assert list(LAC().invert(probs, q)) == [(0, 1)]


def test_a_probability_above_1_within_the_tolerance_scores_0() -> None:
    assert LAC().of([[1.0005, 0.0]], [0])[0] == 0.0


@given(labelled())
def test_single_precision_is_read_exactly(case: Labelled) -> None:
    doubled = case.probs.astype(np.float64)
    np.testing.assert_array_equal(LAC().of_every_label(case.probs), LAC().of_every_label(doubled))
