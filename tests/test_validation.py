import numpy as np
import pytest
from hypothesis import given

from fedwqcp._validation import (
    as_class_labels,
    as_classes,
    as_labels,
    as_probabilities,
    as_scores,
    as_usual_alpha,
)
from fedwqcp.errors import InputError
from refusals import raises
from strategies import probabilities

NAN, INF = float("nan"), float("inf")


@given(probabilities())
def test_sound_probabilities_pass_unchanged(probs) -> None:
    assert as_probabilities(probs) is probs


@pytest.mark.parametrize(
    ("probs", "row"),
    [
        ([[0.5, 0.5], [NAN, 1.0]], 1),
        ([[0.5, 0.5], [-0.5, 1.5]], 1),
        ([[2.0, -1.0]], 0),
        ([[-INF, 1.0]], 0),
        ([[0.5, 0.5], [2.0, 1.2]], 1),
        ([[0.2, 0.2]], 0),
        ([[33, 33, 35]], 0),
        ([[INF, 0.0]], 0),
        *((odd, None) for odd in ([0.5, 0.5], [[1.0], [1.0]], [[[0.5, 0.5]]], [[0.5, 0.5], [1.0]])),
        *((odd, None) for odd in ([["0.5", "0.5"]], "a.npz", [[True, False]], [[0.5 + 0j, 0.5]])),
        *((odd, None) for odd in (None, [0.2, 0.9], [[0.2], [0.9]])),
    ],
)
def test_wrong_probabilities_are_refused(probs, row) -> None:
    with raises(InputError, row=row):
        as_probabilities(probs)


def test_sums_may_be_off_as_three_decimals_are() -> None:
    as_probabilities([[0.5, 0.5049]])
    with raises(InputError, row=0):
        as_probabilities([[0.5, 0.5051]])


@pytest.mark.parametrize(
    ("labels", "row"),
    [
        ([0, 3], 1),
        ([-1, 0], 0),
        ([1.0, 0.5], 1),
        ([0.0, NAN], 1),
        *((odd, None) for odd in ([0], [[0], [1]], [[0, 1, 0], [1, 0, 0]], [0.0, 1.0], 1)),
        ([0, None], 1),
        (np.array([NAN, 1], dtype=object), 0),
        *((odd, None) for odd in ([True, False], ["0", "1"], ["a", "b"])),
    ],
)
def test_wrong_labels_are_refused(labels, row) -> None:
    with raises(InputError, row=row):
        as_labels(labels, 2, 3)


@pytest.mark.parametrize(
    "labels",
    [
        ["flu", None],
        np.array(["flu", NAN], dtype=object),
        np.array(["flu", 2], dtype=object),
        *(["flu", odd] for odd in ("", "COLD", "2", "secret")),
    ],
)
def test_a_label_that_is_no_class_is_named_by_its_row_and_never_shown(labels) -> None:
    with raises(InputError, row=1) as caught:
        as_class_labels(labels, ("flu", "cold"))
    assert "COLD" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_scores_may_be_infinite_upwards_only() -> None:
    assert as_scores([0.5, INF]).tolist() == [0.5, INF]
    assert as_scores([]).shape == (0,)
    for bad in (NAN, -INF):
        with raises(InputError, row=1):
            as_scores([0.5, bad])
    with pytest.raises(InputError):
        as_scores(["a"])


@pytest.mark.parametrize(
    ("alpha", "cure"),
    [
        (95, "for 95 % coverage write 0.05"),
        (5, "for 95 % coverage write 0.05"),
        (2.5, "for 97.5 % coverage write 0.025"),
        (0.9, "for 90 % coverage write 0.1"),
    ],
)
def test_a_coverage_is_recognised(alpha, cure) -> None:
    with pytest.raises(InputError, match=cure):
        as_usual_alpha(alpha)
    assert as_usual_alpha(0.9, allow_large=True) == 0.9
    assert as_usual_alpha(0.5) == 0.5


@pytest.mark.parametrize(
    "scores", [np.full((200, 4), 0.25), np.full((200, 3), 2.0), [[0.5]], 0.5, np.empty((3, 0))]
)
def test_a_matrix_in_place_of_scores_is_refused(scores) -> None:
    with pytest.raises(InputError):
        as_scores(scores)


@pytest.mark.parametrize(
    "classes",
    [
        "melanoma",
        ["melanoma"],
        [1, 2],
        ["1", "2"],
        *(["a", odd] for odd in ("a", " b", "b\n")),
        ["Cafe\u0301", "Caf\u00e9"],
    ],
)
def test_names_of_classes_that_are_refused(classes):
    with raises(InputError, field="classes"):
        as_classes(classes)


def test_names_of_classes_are_kept_in_one_form():
    assert as_classes(["Cafe\u0301", "Tee"]) == ("Caf\u00e9", "Tee")
    assert as_classes(np.array(["0", "1", "2"])) == ("0", "1", "2")
