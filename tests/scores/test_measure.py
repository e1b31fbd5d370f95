"""Coverage and sizes without sets are those of the sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.scores import LabelScore
from fedwqcp.scores.aps import APS
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.ordinal_aps import OrdinalAPS
from fedwqcp.scores.raps import RAPS
from strategies import Labelled, labelled

P = [[0.5, 0.375, 0.125], [0.25, 0.625, 0.125]]
SCORES = [LAC(), APS(), APS(randomized=False, precision="float32"), RAPS(), OrdinalAPS()]


def test_by_hand() -> None:
    covered, sizes = APS(randomized=False).measure(P, [1, 0], 0.875)
    assert covered.tolist() == [True, True]
    assert sizes.tolist() == [2, 2]
    covered, sizes = LAC().measure(P, [1, 0], 0.5)
    assert covered.tolist() == [False, False]
    assert sizes.tolist() == [1, 1]


@pytest.mark.parametrize("score", SCORES, ids=repr)
@settings(max_examples=40, deadline=None)
@given(case=labelled(), q=st.floats(-0.5, 1.5))
def test_it_is_what_the_sets_say(score: LabelScore, case: Labelled, q: float) -> None:
    u = case.u if score.randomized else None
    n, n_classes = case.probs.shape
    for threshold in (q, np.full(n_classes, q), np.full((n, 1), q)):
        for rule in ("leq", "leq_top1"):
            sets = score.invert(case.probs, threshold, rule, u=u)
            covered, sizes = score.measure(case.probs, case.labels, threshold, rule, u=u)
            assert covered.tolist() == sets.cover(case.labels).tolist()
            assert sizes.tolist() == sets.sizes().tolist()


@given(case=labelled(), q=st.floats(-0.5, 1.5) | st.sampled_from([0.0, 1.0, np.inf, 1 - 1e-12]))
def test_lac_compares_probabilities_as_it_would_scores(case: Labelled, q: float) -> None:
    expected = LAC().of_every_label(case.probs) <= q
    np.testing.assert_array_equal(LAC().invert(case.probs, q).mask, expected)


def test_it_refuses_what_invert_refuses() -> None:
    with pytest.raises(InputError, match="rule must be one of"):
        LAC().measure(P, [0, 0], 0.5, rule="lt")
    with pytest.raises(InputError, match="does not fit LAC"):
        LAC().measure(P, [0, 0], 0.5, rule="until")
    with pytest.raises(InputError, match="row 1 is outside"):
        LAC().measure(P, [0, 3], 0.5)
