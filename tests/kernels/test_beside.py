"""Rows searched side by side against rows searched one after the other and sorted."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from fedwqcp.errors import InputError
from fedwqcp.kernels import _beside, compiled, crossing
from fedwqcp.scores._ranked import _limits
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS

Rows = npt.NDArray[np.float32]


def rows(kind: str, n: int, C: int, seed: int = 0) -> Rows:
    """Probabilities that are easy, or hard, to tell apart."""
    rng = np.random.default_rng((seed, C))
    logits = rng.normal(size=(n, C))
    weights = {
        "spread": np.exp(2 * logits),
        "steep": np.exp(30 * logits),
        "even": np.ones((n, C)),
        "nearly even": 1 + 1e-7 * logits,
        "tied": rng.integers(0, 4, (n, C)) + np.eye(C)[rng.integers(0, C, n)],
        "one and dust": np.eye(C)[rng.integers(0, C, n)] + 1e-12,
        "mixed": np.exp(rng.choice([0, 0.01, 2, 30], (n, 1)) * logits),
    }[kind]
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def assert_same(score: APS | RAPS, p: Rows, q: float) -> None:
    """Compare sets, coverage and sizes with those by sorting."""
    C = p.shape[1]
    limits, y = _limits(score, q, C), np.arange(len(p)) % C
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "SMALL", 0)
        patch.setattr(compiled, "LARGE", 0)
        found = crossing.mark(p, limits), *crossing.count(p, limits, y)
        patch.setattr(compiled, "_loops", lambda: None)
        wanted = crossing.mark(p, limits), *crossing.count(p, limits, y)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


KINDS = ["spread", "steep", "even", "nearly even", "tied", "one and dust", "mixed"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [49, 50, 51, 52, 100, 111, 112])
def test_sets_are_those_by_sorting(kind: str, n_classes: int) -> None:
    p = rows(kind, 150, n_classes)  # four full blocks and a part of one
    for score in (APS(randomized=False), RAPS(penalty=0.003, randomized=False)):
        own = float(score.of(p[:1], [3])[0])
        for q in (0.0, 0.3, 0.9, 0.9999, own, float(np.nextafter(own, -1))):
            assert_same(score, p, q)


@settings(max_examples=40, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 40),
    n_classes=st.integers(49, 112),
    q=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_any_rows(kind: str, n: int, n_classes: int, q: float, seed: int) -> None:
    assert_same(APS(randomized=False), rows(kind, n, n_classes, seed), q)


def searched(p: Rows, q: float) -> npt.NDArray[np.bool_]:
    """Which rows of one block are settled side by side."""
    side = np.zeros(((p.shape[1] + 3) // 4 * 2, _beside.ROWS), np.uint64)
    steps = np.zeros((len(side), 2 * _beside.ROWS), np.int32)
    w = np.zeros(_beside.END, np.int32)
    pairs = crossing.in_pairs(p)
    _beside.load(pairs, p.view(np.uint32), side)
    if not _beside.begin(side, steps, np.zeros(_beside.ROWS, np.float32), w):
        return np.zeros(len(p), np.bool_)
    limits = np.minimum(_limits(APS(randomized=False), q, p.shape[1]).steps(), 2**31 - 1)
    _beside.search(steps, limits.astype(np.int32), w, np.int32(2**30 // p.shape[1]))
    return w[_beside.OPEN : _beside.END][: len(p)] == 0


def test_most_rows_are_settled_side_by_side() -> None:
    settled = [searched(rows("spread", 32, 100, seed), 0.9).mean() for seed in range(20)]
    assert np.mean(settled) > 0.9
    assert searched(rows("spread", 5, 61), 0.9).shape == (5,)
    assert not searched(rows("tied", 32, 100), 0.9).all()  # others must do it


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -1e-30, -0.5, 5.0, 3.0])
def test_unsound_rows_are_left_to_others(wrong: float) -> None:
    p = rows("spread", 32, 100)
    assert searched(p, 0.9).any()
    p[7, 13] = wrong
    assert not searched(p, 0.9).any()


def test_two_that_are_no_numbers_do_not_cancel() -> None:
    p = rows("spread", 32, 100)
    p[7, 13] = p[7, 14] = np.nan
    assert not searched(p, 0.9).any()


def test_wrong_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "SMALL", 0)
    monkeypatch.setattr(compiled, "LARGE", 0)
    p = rows("spread", 70, 60)
    p[40, 3] = -1e-9
    with pytest.raises(InputError, match="row 40 holds a negative value"):
        APS(randomized=False).invert(p, 0.9)


def test_rows_near_the_tolerance_are_sorted_instead() -> None:
    assert_same(APS(randomized=False), rows("spread", 40, 60) * np.float32(1.0048), 0.9)


@pytest.mark.parametrize("step", [1, 2**24 - 1, 2**24 + 1, 2**25 + 3, 2**29 + 1, 2**30])
def test_the_least_number_of_so_many_steps(step: int) -> None:
    least = _beside.from_step(step)
    below = np.nextafter(np.float32(least), np.float32(0))
    assert int(float(least) * 2**30) >= step > int(float(below) * 2**30)
