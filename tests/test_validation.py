import re

import numpy as np
import pytest
from hypothesis import given

from fedwqcp._validation import (
    as_alpha,
    as_class_labels,
    as_classes,
    as_floats,
    as_indicators,
    as_labels,
    as_probabilities,
    as_scores,
    as_uniforms,
    as_usual_alpha,
    check_same_classes,
)
from fedwqcp.errors import ClassesError, InputError
from refusals import raises
from strategies import probabilities

NAN, INF = float("nan"), float("inf")


@given(probabilities())
def test_sound_probabilities_pass_unchanged(probs) -> None:
    assert as_probabilities(probs) is probs


def test_other_types_of_probabilities_become_float64() -> None:
    assert as_probabilities([[1, 0], [0, 1]]).dtype == np.float64
    assert as_probabilities(np.array([[0.5, 0.5]], np.float16)).dtype == np.float64
    assert as_probabilities(np.array([[0.5, 0.5]], ">f8")).dtype == np.float64
    assert as_probabilities(np.array([[0.5, 0.5]], np.float32)).dtype == np.float32
    assert as_probabilities(np.empty((0, 3))).shape == (0, 3)
    assert as_probabilities(np.empty((0, 3), object)).dtype == np.float64


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([[0.5, 0.5], [NAN, 1.0]], "row 1: probabilities must be numbers, got NaN"),
        ([[0.5, 0.5], [-0.5, 1.5]], "row 1: probabilities must not be negative; .* not logits"),
        ([[2.0, -1.0]], "row 0: probabilities must not be negative"),
        ([[-INF, 1.0]], "row 0: probabilities must not be negative"),
        ([[0.5, 0.5], [2.0, 1.2]], "row 1: .* sum to 1, got 3.2; pass softmax outputs, not logits"),
        ([[0.2, 0.2]], "row 0: probabilities must sum to 1, got 0.4"),
        ([[33, 33, 35]], "row 0: .* got 101; these look like percentages: divide each row"),
        ([[33, 33, 33]], "row 0: .* got 99; these look like percentages: divide each row"),
        ([[INF, 0.0]], "row 0: probabilities must sum to 1, got inf"),
        ([0.5, 0.5], r"shape \(n, C\) with at least two classes, got shape \(2,\)"),
        ([[1.0], [1.0]], r"at least two classes, got shape \(2, 1\)"),
        ([[[0.5, 0.5]]], r"got shape \(1, 1, 2\)"),
        ([[0.5, 0.5], [1.0]], "rectangular"),
        ([["0.5", "0.5"]], r"array of numbers, got an array of <U3; pass values.astype\(float\)$"),
        ("a.npz", "array of numbers, got .*; a file is not read here: pass what it holds$"),
        ([[True, False]], "got an array of bool"),
        ([[0.5 + 0j, 0.5]], "got an array of complex128"),
        (None, "got an array of object"),
    ],
)
def test_wrong_probabilities_are_refused(probs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_probabilities(probs)


@pytest.mark.parametrize("one", [[0.2, 0.9], [[0.2], [0.9]]])
def test_one_column_of_two_classes_gets_an_error_that_says_what_to_pass(one) -> None:
    with pytest.raises(InputError):
        as_probabilities(one)


def test_labels_outside_are_counted_and_never_shown() -> None:
    with raises(InputError, row=1):
        as_labels([0, 17, 2, 17], 4, 3)
    with pytest.raises(InputError):
        as_labels([1, 2, 3], 3, 3)


def test_sums_may_be_off_as_three_decimals_are() -> None:
    as_probabilities([[0.5, 0.5049]])
    with raises(InputError, row=0):
        as_probabilities([[0.5, 0.5051]])


def test_sound_labels_pass() -> None:
    for dtype in (np.int8, np.uint64, np.int64):
        found = as_labels(np.array([0, 2], dtype), 2, 3)
        assert found.dtype == np.int64
        assert found.tolist() == [0, 2]
    assert as_labels([], 0, 3).dtype == np.int64


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 3], "row 1: labels must be integers from 0 to 2"),
        ([-1, 0], "row 0: labels must be integers from 0 to 2"),
        ([0], r"shape \(2,\), one for each row of the outputs, got shape \(1,\)$"),
        ([[0], [1]], r"got shape \(2, 1\); use labels.ravel\(\)"),
        ([[0, 1, 0], [1, 0, 0]], r"got shape \(2, 3\); use labels.argmax\(axis=1\)$"),
        (
            [0.0, 1.0],
            r"integers from 0 to 2, got an array of float64; pass labels.astype\(int\)$",
        ),
        ([1.0, 0.5], "row 1: labels must be integers from 0 to 2, got one that is not whole$"),
        ([0.0, NAN], "labels must be .* float64 with NaN or infinite entries: take these rows out"),
        (
            [True, False],
            r"integers from 0 to 2, got an array of bool \(False is .*\); pass labels.astype",
        ),
        (["0", "1"], r"got an array of <U1, which holds whole numbers; pass labels.astype\(int\)$"),
        (["a", "b"], "got an array of <U1; name the classes .* or number them from 0"),
        ([0, None], "got an array of object with missing entries .*: take these rows out first$"),
        (1, r"got shape \(\)"),
    ],
)
def test_wrong_labels_are_refused(labels, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_labels(labels, 2, 3)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["flu", None], "is missing: take such rows out first$"),
        (np.array(["flu", NAN], dtype=object), "is missing"),
        (
            np.array(["flu", 2], dtype=object),
            "is no text: pass all labels by name, or all",
        ),
        (["flu", ""], "is empty"),
        (["flu", "COLD"], "is spelled in another way: capital letters"),
        (["flu", "2"], "is a number: give all labels by name"),
        (["flu", "secret"], "is none of these$"),
    ],
)
def test_a_label_that_is_no_class_is_named_by_row_and_by_what_is_wrong(labels, message) -> None:
    with raises(InputError, row=1) as caught:
        as_class_labels(labels, ("flu", "cold"))
    assert "COLD" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_floats_have_the_shape_asked_for() -> None:
    assert as_floats([1, 2], "y", (2,)).dtype == np.float64
    assert as_floats(np.empty((0, 2)), "y", (None, 2)).shape == (0, 2)
    values = np.array([[1.0, 2.0]])
    assert as_floats(values, "y", (None, 2)) is values


@pytest.mark.parametrize(
    ("values", "shape", "message"),
    [
        ([1.0], (2,), r"y must have shape \(2,\), got shape \(1,\)"),
        ([1.0], (None, 2), r"y must have shape \(n, 2\), got shape \(1,\)"),
        ([[1.0]], (None, 2), r"y must have shape \(n, 2\), got shape \(1, 1\)"),
        ([1.0, NAN], (2,), "row 1: y must be finite numbers"),
        ([[1.0, 1.0], [1.0, INF]], (None, 2), "row 1: .* must be finite numbers"),
        ([True], (1,), "y must be an array of numbers, got an array of bool"),
        (["a"], (1,), "y must be an array of numbers"),
        ([[1.0], [1.0, 2.0]], (2,), "y must be a rectangular array"),
    ],
)
def test_wrong_floats_are_refused(values, shape, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_floats(values, "y", shape)


def test_scores_may_be_infinite_upwards_only() -> None:
    assert as_scores([0.5, INF]).tolist() == [0.5, INF]
    assert as_scores([]).shape == (0,)
    for bad in (NAN, -INF):
        with raises(InputError, row=1):
            as_scores([0.5, bad])
    with pytest.raises(InputError):
        as_scores(["a"])


def test_uniforms_lie_in_the_unit_interval() -> None:
    assert as_uniforms([0.0, 1.0], 2).tolist() == [0.0, 1.0]
    assert as_uniforms([], 0).shape == (0,)
    for bad in (-1e-9, 1.0 + 1e-9):
        with pytest.raises(InputError):
            as_uniforms([0.5, bad], 2)
    for bad in ([0.5], [0.5, NAN]):
        with pytest.raises(InputError, match="u must"):
            as_uniforms(bad, 2)


@pytest.mark.parametrize("alpha", [0.05, np.float32(0.5), np.float64(0.1), 1e-9])
def test_levels_between_0_and_1_pass(alpha) -> None:
    assert as_alpha(alpha) == float(alpha)


@pytest.mark.parametrize("alpha", [0, 1, 0.0, 1.0, -0.1, NAN, INF, True, None, "x", [0.1], 200])
def test_other_levels_are_refused(alpha) -> None:
    with pytest.raises(InputError) as caught:
        as_alpha(alpha)
    assert "write" not in str(caught.value)


@pytest.mark.parametrize(
    ("alpha", "cure"),
    [
        (95, "for 95 % coverage write 0.05"),
        (90, "for 90 % coverage write 0.1"),
        (5, "for 95 % coverage write 0.05"),
        (2.5, "for 97.5 % coverage write 0.025"),
    ],
)
def test_a_percentage_is_recognised(alpha, cure) -> None:
    message = f"between 0 and 1, got {alpha!r} (alpha is the miscoverage: {cure})"
    with pytest.raises(InputError, match=re.escape(message)):
        as_alpha(alpha)


def test_a_level_in_quotes_is_named() -> None:
    with pytest.raises(InputError):
        as_alpha("0.1")


def test_a_coverage_is_taken_for_a_level_only_where_it_is_allowed() -> None:
    message = (
        "alpha must be at most 0.5, got 0.9 (alpha is the miscoverage: for 90 % coverage write "
        "0.1); for 10 % coverage pass allow_large_alpha=True"
    )
    with pytest.raises(InputError, match=re.escape(message)):
        as_usual_alpha(0.9)
    assert as_usual_alpha(0.9, allow_large=True) == 0.9
    assert as_usual_alpha(0.5) == 0.5


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        (np.full((200, 4), 0.25), "(200, 4): these look like probabilities; pass score.of(probs, "),
        (np.full((200, 3), 2.0), "(200, 3): pass score.of(probs, labels), or name the score that "),
        ([[0.5]], "(1, 1): pass scores.ravel()"),
        (0.5, "got shape ()"),
        (np.empty((3, 0)), "got shape (3, 0)"),
    ],
)
def test_a_matrix_in_place_of_scores_is_named(scores, says) -> None:
    with pytest.raises(InputError) as caught:
        as_scores(scores)
    assert says in str(caught.value)


def test_tensors_that_numpy_cannot_read_are_named() -> None:
    torch = pytest.importorskip("torch", reason="the extra [torch] is not installed")
    with_grad, half = torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16)
    for call in (as_scores, lambda x: as_labels(x, 2, 3), lambda x: as_floats(x, "y", (2,))):
        for tensor in (with_grad, half):
            with pytest.raises(InputError, match=r"pass \w+\.detach\(\)\.cpu\(\)"):
                call(tensor)
    assert as_scores(with_grad.detach().cpu()).tolist() == [1.0, 1.0]
    assert as_scores(half.detach().cpu().float()).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: as_labels([0, 987654], 2, 3),
        lambda: as_floats([987654.0, NAN], "y", (2,)),
        lambda: as_scores([987654.0, NAN]),
        lambda: as_uniforms([0.5, 987654.0], 2),
        lambda: as_probabilities([[987654.0, -1.0]]),
    ],
)
def test_an_error_shows_nothing_of_a_person(call) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert "987654" not in str(caught.value)


def test_indicators_are_ones_and_zeros():
    assert as_indicators([[1, 0]], (1, 2)).tolist() == [[True, False]]
    assert as_indicators(np.array([[True]]), (None, None)).tolist() == [[True]]
    for wrong in ([[2, 0]], [[0.5, 0]], [[np.nan, 0]], [[1, 0, 1]]):
        with pytest.raises(InputError, match="labels must"):
            as_indicators(wrong, (1, 2))


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        ("melanoma", "must be a list of names, got one text"),
        (["melanoma"], "must name at least two, got 1"),
        ([1, 2], r"must be names, got int: pass list\(map\(str, classes\)\)"),
        (["a", "a"], "each name may occur once"),
        (["a", " b"], "none of them a space at an end, got ' b'"),
        (["a", "b\n"], "1 to 64 printable characters"),
        (["1", "2"], "'1' is class 0, counted from 0; write 'class 1'"),
        (["Cafe\u0301", "Caf\u00e9"], "each name may occur once"),
    ],
)
def test_names_of_classes_that_are_refused(classes, says):
    with pytest.raises(InputError, match=f"classes: .*{says}"):
        as_classes(classes)


def test_names_of_classes_are_kept_in_one_form():
    assert as_classes(["Cafe\u0301", "Tee"]) == ("Caf\u00e9", "Tee")
    assert as_classes(np.array(["0", "1", "2"])) == ("0", "1", "2")


def test_other_classes_are_named():
    check_same_classes(("a", "b"), ["a", "b"])
    with raises(ClassesError, field="classes"):
        check_same_classes(("b", "a"), ("a", "b"))
    with raises(ClassesError, field="classes"):
        check_same_classes(("c", "a", "d"), ("a", "b"))
