import numpy as np
import pytest

from fedwqcp.errors import InputError
from fedwqcp.scores.aps import APS
from fedwqcp.scores.lac import LAC

P = [[0.5, 0.375, 0.125], [0.25, 0.625, 0.125]]
WHOLE = APS(randomized=False)


def test_thresholds_per_label_and_per_row() -> None:
    assert list(WHOLE.invert(P, [0.5, 0.5, 1.0])) == [(0, 2), (2,)]
    assert list(WHOLE.invert(P, [[0.5], [1.0]])) == [(0,), (0, 1, 2)]
    assert list(WHOLE.invert(P, [[0.0], [np.inf]])) == [(), (0, 1, 2)]


@pytest.mark.parametrize("q", [[0.1, 0.2], np.zeros((2, 3, 1)), [[0.1], [0.2], [0.3]]])
def test_other_shapes_of_a_threshold_are_refused(q) -> None:
    with pytest.raises(InputError, match=r"does not fit scores of shape \(2, 3\)"):
        WHOLE.invert(P, q)


def test_a_threshold_is_a_number() -> None:
    with pytest.raises(InputError, match="must be a number or \\+inf, got NaN"):
        WHOLE.invert(P, np.nan)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(InputError, match="rule must be one of leq, leq_top1, until, got 'lt'"):
        WHOLE.invert(P, 0.5, rule="lt")


def test_until_needs_an_order() -> None:
    with pytest.raises(InputError, match="rule 'until' reads labels in order and does not fit LAC"):
        LAC().invert(P, 0.5, rule="until")


def test_uniforms_come_exactly_where_they_are_needed() -> None:
    for call in (
        lambda: APS().of(P, [0, 0]),
        lambda: APS().of_every_label(P),
        lambda: APS().invert(P, 0.5),
    ):
        with pytest.raises(InputError, match=r"pass u=uniforms\(key, ids\), or use randomized="):
            call()
    with pytest.raises(InputError, match="not randomised: leave u out"):
        WHOLE.of(P, [0, 0], u=[0.5, 0.5])
    with pytest.raises(InputError, match=r"u must have shape \(2,\)"):
        APS().of(P, [0, 0], u=[0.5])


def test_the_top_label_is_the_first_of_equals() -> None:
    tied = [[0.25, 0.25, 0.25, 0.25]]
    for score in (LAC(), WHOLE):
        assert score.invert(tied, -1.0, rule="leq_top1")[0] == (0,)


def test_wrong_probabilities_and_labels_are_refused() -> None:
    with pytest.raises(InputError, match="not logits"):
        WHOLE.of_every_label([[3.0, -1.0]])
    with pytest.raises(InputError, match="not logits"):
        WHOLE.invert([[3.0, 1.0]], 0.5)
    with pytest.raises(InputError, match="row 1 is outside"):
        WHOLE.of(P, [0, 3])
