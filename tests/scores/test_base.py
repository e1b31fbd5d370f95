"""What all scores of labels share: thresholds, rules, uniforms; coverage and sizes without sets."""

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
WHOLE = APS(randomized=False)


def test_thresholds_per_label_and_per_row() -> None:
    assert list(WHOLE.invert(P, [0.5, 0.5, 1.0])) == [(0, 2), (2,)]
    assert list(WHOLE.invert(P, [[0.5], [1.0]])) == [(0,), (0, 1, 2)]
    assert list(WHOLE.invert(P, [[0.0], [np.inf]])) == [(), (0, 1, 2)]


@pytest.mark.parametrize(
    "call",
    [
        *(lambda q=q: WHOLE.invert(P, q) for q in ([0.1, 0.2], np.zeros((2, 3, 1)), np.nan)),
        lambda: WHOLE.invert(P, 0.5, rule="lt"),
        lambda: LAC().invert(P, 0.5, rule="until"),
        lambda: WHOLE.of_every_label([[3.0, -1.0]]),
        lambda: WHOLE.invert([[3.0, 1.0]], 0.5),
        lambda: WHOLE.of(P, [0, 3]),
        lambda: LAC().measure(P, [0, 0], 0.5, rule="lt"),
        lambda: LAC().measure(P, [0, 0], 0.5, rule="until"),
        lambda: LAC().measure(P, [0, 3], 0.5),
        lambda: APS().of(P, [0, 0]),
        lambda: APS().of_every_label(P),
        lambda: APS().invert(P, 0.5),
        lambda: WHOLE.of(P, [0, 0], u=[0.5, 0.5]),
        lambda: APS().of(P, [0, 0], u=[0.5]),
        lambda: APS().of(P, [0, 0], u=[0.5, 2.0]),
    ],
)
def test_what_does_not_fit_is_refused(call) -> None:
    with pytest.raises(InputError):
        call()


def test_the_top_label_is_the_first_of_equals() -> None:
    tied = [[0.25, 0.25, 0.25, 0.25]]
    for score in (LAC(), WHOLE):
        assert score.invert(tied, -1.0, rule="leq_top1")[0] == (0,)


def test_coverage_and_sizes_by_hand() -> None:
    covered, sizes = APS(randomized=False).measure(P, [1, 0], 0.875)
    assert covered.tolist() == [True, True]
    assert sizes.tolist() == [2, 2]
    covered, sizes = LAC().measure(P, [1, 0], 0.5)
    assert covered.tolist() == [False, False]
    assert sizes.tolist() == [1, 1]


@pytest.mark.parametrize("score", SCORES, ids=repr)
@settings(max_examples=40, deadline=None)
@given(case=labelled(), q=st.floats(-0.5, 1.5))
def test_coverage_and_sizes_are_those_of_the_sets(
    score: LabelScore, case: Labelled, q: float
) -> None:
    u = case.u if score.randomized else None
    n, n_classes = case.probs.shape
    for threshold in (q, np.full(n_classes, q), np.full((n, 1), q)):
        for rule in ("leq", "leq_top1"):
            sets = score.invert(case.probs, threshold, rule, u=u)
            covered, sizes = score.measure(case.probs, case.labels, threshold, rule, u=u)
            assert covered.tolist() == sets.cover(case.labels).tolist()
            assert sizes.tolist() == sets.sizes().tolist()
