from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedwqcp.errors import InputError
from fedwqcp.outputs import Outputs
from fedwqcp.scores import key_digest, row_ids, text_ids, uniforms
from refusals import raises

MANY = np.arange(100_000)
FAMILIES = {
    "counted": lambda: uniforms("round-1", MANY),
    "far apart": lambda: uniforms("round-1", MANY * 2**40),
    "negative": lambda: uniforms(7, -MANY),
    "text": lambda: uniforms("round-1", [f"patient-{i}" for i in range(100_000)]),
    "of one id": lambda: np.array([uniforms(key, [5])[0] for key in range(20_000)]),
}


@cache
def drawn(family: str) -> np.ndarray:
    """Uniforms of a family, drawn where a test needs them and not where tests are collected."""
    return FAMILIES[family]()


def assert_even(counts: np.ndarray) -> None:
    """Every count lies within its exact binomial distribution, at 1e-6 over all of them."""
    cells, draws = counts.size, int(counts.sum())
    exact = stats.binom(draws, 1 / cells)
    level = 1e-6 / (2 * cells)
    assert exact.ppf(level) <= counts.min()
    assert counts.max() <= exact.isf(level)


def test_these_numbers_never_change() -> None:
    """A federation's rows keep their sets from release to release."""
    numbers = uniforms("k", [0, 1, -1]) * 2**53
    assert numbers.tolist() == [1459005255679860, 8452790348746016, 8226302982041344]
    texts = uniforms(3, ["a", "b"]) * 2**53
    assert texts.tolist() == [6493765124739588, 1101117708662647]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_they_are_uniform(family: str) -> None:
    u = drawn(family)
    assert ((u >= 0) & (u < 1)).all()
    assert_even(np.histogram(u, bins=64, range=(0, 1))[0])
    assert_even(np.bincount((u * 2**53).astype(np.int64) % 64, minlength=64))
    assert stats.kstest(u, "uniform").pvalue > 1e-6


@pytest.mark.parametrize("family", list(FAMILIES))
def test_neighbours_are_independent(family: str) -> None:
    u = drawn(family)
    assert_even(np.histogram2d(u[:-1:2], u[1::2], bins=12, range=[(0, 1)] * 2)[0])


@given(st.integers() | st.text(), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_each_is_a_function_of_key_and_id(key: str | int, ids: list[int]) -> None:
    at_once = uniforms(key, np.array(ids, np.int64))
    one_by_one = [uniforms(key, np.array([i], np.int64))[0] for i in ids]
    assert at_once.tolist() == one_by_one
    assert (at_once * 2**53 % 1 == 0).all()


def test_numbers_and_text_are_different_ids_and_keys() -> None:
    assert uniforms("k", [7])[0] != uniforms("k", ["7"])[0]
    assert uniforms(7, [1])[0] != uniforms("7", [1])[0]
    assert uniforms("k", np.array([7], np.uint8))[0] == uniforms("k", [7])[0]


@pytest.mark.parametrize(("key", "same"), [(np.int64(7), 7), (np.uint8(7), 7), (np.str_("k"), "k")])
def test_a_key_of_numpy_is_the_same_key(key, same) -> None:
    assert uniforms(key, [1, 2]).tolist() == uniforms(same, [1, 2]).tolist()
    assert uniforms(key, ["a"]).tolist() == uniforms(same, ["a"]).tolist()


@pytest.mark.parametrize("key", [7.0, None, True, b"k", "\ud800"])
def test_other_keys_are_refused(key) -> None:
    with pytest.raises(InputError):
        uniforms(key, [1])
    with pytest.raises(InputError):
        key_digest(key)


@pytest.mark.parametrize(
    "ids", [[7.0], [7, None], ["a", None], [True], np.array([True], object), [b"\xff"], [10**5000]]
)
def test_ids_that_are_no_text_are_refused(ids) -> None:
    """7.0 would be another id than 7, and all rows without one would share a uniform."""
    with pytest.raises(InputError):
        text_ids(ids)


@pytest.mark.parametrize(
    "ids",
    [["a", float("nan"), "b"], ("a", "", None), ["a", None], np.array(["a", ""]), [7.0, np.nan],
     np.array(["a", np.nan], object), np.array([b"a", b""])],
)  # fmt: skip
def test_a_missing_id_is_refused_by_its_row(ids) -> None:
    for read in (text_ids, lambda ids: Outputs([[0.5, 0.5]] * len(ids), ids=ids)):
        with raises(InputError, row=1) as caught:
            read(ids)
        assert caught.value.row == 1


@pytest.mark.parametrize("ids", [[0.5], [[1, 2]], 3, [None], [True]])
def test_other_ids_are_refused(ids) -> None:
    with pytest.raises(InputError, match="ids must"):
        uniforms("k", ids)


def test_rows_name_themselves_by_their_content() -> None:
    rows = np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    ids = row_ids(rows)
    assert ids.dtype == np.int64
    assert ids[0] == ids[2] != ids[1]
    assert row_ids(rows[1:2])[0] == ids[1]
    assert row_ids(np.asfortranarray(rows)).tolist() == ids.tolist()
    assert row_ids(rows.astype(np.float32)).tolist() == ids.tolist()
    assert len(set(row_ids([1.0, 2.0, 3.0]).tolist())) == 3


def test_rows_must_be_numbers() -> None:
    with raises(InputError, row=1):
        row_ids([[1.0], [np.nan]])


@pytest.mark.parametrize("ids", [["a", 1], (1, "a"), np.array(["a", 1], object)])
def test_ids_of_two_kinds_are_refused(ids) -> None:
    """NumPy would write 1 as "1", which is another id."""
    with pytest.raises(InputError):
        uniforms("k", ids)
