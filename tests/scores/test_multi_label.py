"""Scores of labels that occur together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.metrics import false_negatives

SCORE = fw.MultiLabel()
SHAPE = st.tuples(st.integers(1, 6), st.integers(1, 5))


def test_by_hand():
    probs = [[0.75, 0.5, 0.25], [1.0, 0.0, 0.5]]
    assert SCORE.of_every_label(probs).tolist() == [[0.25, 0.5, 0.75], [0.0, 1.0, 0.5]]
    assert SCORE.weights([[1, 0, 1], [0, 0, 0]]).tolist() == [[0.5, 0, 0.5], [0, 0, 0]]
    assert SCORE.weights(np.array([[True, True]])).tolist() == [[0.5, 0.5]]
    assert [SCORE.invert(probs, 0.5)[row] for row in range(2)] == [(0, 1), (0, 2)]
    assert [SCORE.invert(probs, [[0.0], [1.0]])[row] for row in range(2)] == [(), (0, 1, 2)]
    assert SCORE.bounds(3) == (0, 1)


@given(data=st.data(), q=st.floats(-0.5, 1.5))
def test_the_loss_is_the_weight_of_the_scores_above(data, q):
    shape = data.draw(SHAPE)
    probs = data.draw(hnp.arrays(np.float64, shape, elements=st.floats(0, 1)))
    labels = data.draw(hnp.arrays(np.bool_, shape))
    above = SCORE.weights(labels) * (SCORE.of_every_label(probs) > q)
    found = false_negatives(SCORE.invert(probs, q), labels)
    np.testing.assert_allclose(above.sum(axis=1), found, rtol=0, atol=1e-12)
    assert false_negatives(SCORE.invert(probs, 1.0), labels).sum() == 0


@pytest.mark.parametrize(
    "call",
    [
        *(lambda p=p: SCORE.of_every_label(p) for p in ([[1.5]], [[-0.5]], [[np.nan]], [0.5])),
        *(lambda y=y: SCORE.weights(y) for y in ([[2]], [1])),
        lambda: SCORE.invert([[0.5, 0.5]], [0.1, 0.2, 0.3]),
    ],
)
def test_wrong_input_is_refused(call):
    with pytest.raises(InputError):
        call()
