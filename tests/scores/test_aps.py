import numpy as np
import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.scores.aps import APS

P = [[0.6, 0.3, 0.1]]
WHOLE = APS(randomized=False)


def test_scores_of_the_worked_example() -> None:
    np.testing.assert_allclose(WHOLE.of_every_label(P), [[0.6, 0.9, 1.0]], rtol=1e-15)
    np.testing.assert_allclose(APS().of_every_label(P, u=[0.3]), [[0.18, 0.69, 0.93]], rtol=1e-15)
    tied = [[0.25, 0.25, 0.5]]
    assert WHOLE.of_every_label(tied).tolist() == [[0.75, 1.0, 0.5]]


@pytest.mark.parametrize(
    ("q", "rule", "labels"),
    [
        (0.95, "leq", (0, 1)),
        (0.95, "until", (0, 1, 2)),
        (0.5, "leq", ()),
        (0.5, "leq_top1", (0,)),
        (0.5, "until", (0,)),
        (-1.0, "leq", ()),
        (-1.0, "leq_top1", (0,)),
        (-1.0, "until", (0,)),
        (1.0, "leq", (0, 1, 2)),
    ],
)
def test_sets_of_the_worked_example(q: float, rule, labels: tuple[int, ...]) -> None:
    assert WHOLE.invert(P, q, rule=rule)[0] == labels


def test_randomised_sets_by_hand() -> None:
    assert APS().invert(P, 0.7, u=[0.3])[0] == (0, 1)
    assert APS().invert(P, 0.1, u=[0.3])[0] == ()
    # without its random part the second label ends at 0.9, where the order is left
    assert APS().invert(P, 0.7, rule="until", u=[0.3])[0] == (0, 1)
    assert APS().invert(P, 0.91, rule="until", u=[1.0])[0] == (0, 1, 2)


def test_trap_float32_sums_pass_1_and_exact_ones_do_not() -> None:
    probs = np.array([[8, 1, 1, 1]], np.float32) / np.float32(11)
    plain = APS(randomized=False, precision="float32")
    assert plain.of(probs, [3])[0] > 1
    assert plain.invert(probs, 1.0)[0] == (0, 1, 2)
    assert WHOLE.of(probs, [3])[0] == 1
    assert WHOLE.invert(probs, 1.0)[0] == (0, 1, 2, 3)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(InputError):
        APS(precision="half")


def test_float32_calibrates_on_rows_that_other_scores_accept() -> None:
    loose = fw.Outputs([[0.601, 0.403], [0.3, 0.704], [0.9, 0.104]], [1, 0, 1])
    score = APS(randomized=False, precision="float32")
    assert fw.calibrate({"a": loose, "b": loose}, score=score, alpha=0.3).threshold("a") > 1.001
