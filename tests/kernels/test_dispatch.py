"""Both backends give the sets of every label's score, and refuse the same rows."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import equality
from fedwqcp.errors import InputError
from fedwqcp.kernels import dispatch
from fedwqcp.scores._base import IntervalScore, RankedScore
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.raps import RAPS
from refusals import raises
from strategies import Labelled

Array = npt.NDArray[np.float64]


# Threads ------------------------------------------------------------------------------------------


def test_threads_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.delenv("FEDWQCP_THREADS", raising=False)
    assert dispatch.threads() == 1
    for wanted, granted in (("3", 3), ("999", 8), ("", 1)):
        monkeypatch.setenv("FEDWQCP_THREADS", wanted)
        assert dispatch.threads() == granted
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("FEDWQCP_THREADS", wrong)
        with pytest.raises(InputError):
            dispatch.threads()


@pytest.mark.parametrize(("size", "parts"), [(99, 1), (100, 6)])
def test_only_large_inputs_are_shared(
    monkeypatch: pytest.MonkeyPatch, size: int, parts: int
) -> None:
    monkeypatch.setenv("FEDWQCP_THREADS", "3")
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    monkeypatch.setattr(dispatch, "SHARED", 100)
    monkeypatch.setattr(dispatch, "PARTS", 2)
    seen: list[slice] = []
    done = np.zeros(200, int)

    def work(rows: slice) -> bool:
        seen.append(rows)
        done[rows] += 1
        return rows.start != 33

    assert dispatch.over_rows(200, size, work) is (parts == 1)
    assert len(seen) == parts
    assert done.tolist() == [1] * 200


# Checks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "row",
    [[0.5, -1e-30, 0.5], [0.5, np.nan, 0.5], [0.5, 0.6, 0.0], [0.5, np.inf, 0.5], [3e38, 3e38, 0]],
)
@pytest.mark.parametrize("n_classes", [3, 20, 60])
def test_what_is_wrong_is_said_of_the_same_row(backend, dtype, row, n_classes) -> None:
    probs = np.zeros((40, n_classes), dtype)
    probs[:, 0], probs[1, :3] = 1, row
    for work in (
        lambda: APS(randomized=False).of(probs, np.zeros(40, np.int64)),
        lambda: APS(randomized=False).invert(probs, 0.5),
        lambda: LAC().measure(probs, np.zeros(40, int), 0.9),
    ):
        with raises(InputError, row=1):
            work()


@pytest.mark.parametrize("n_classes", [2, 7, 15, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sizes_and_coverage_of_lac_are_those_of_its_sets(backend, dtype, n_classes) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(n_classes, 0.4), 50).astype(dtype)
    labels = rng.integers(0, n_classes, 50)
    for layout in (probs, np.asfortranarray(probs), probs[::-1, ::-1]):
        for q in (-1.0, 0.0, 0.6, 1 - float(probs[3, 1]), 0.95, 1.0, np.inf):
            for rule in ("leq", "leq_top1"):
                sets = LAC().invert(layout, q, rule)
                covered, sizes = LAC().measure(layout, labels, q, rule)
                assert sizes.tolist() == sets.sizes().tolist()
                assert covered.tolist() == sets.cover(labels).tolist()


# Sets --------------------------------------------------------------------------------------------

RANKED = [*equality.SCORES, APS(randomized=False), RAPS(penalty=0.01, randomized=False)]
ranked = pytest.mark.parametrize("score", RANKED, ids=repr)
sets = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assert_sets_of_every_label(score: RankedScore, case: Labelled, q: float) -> None:
    """Compare sets, coverage and sizes with those of every label's score."""
    u = case.u if score.randomized else None
    for rule in ("leq", "leq_top1", "until"):
        mask = score._block(np.ascontiguousarray(case.probs), np.asarray(q), rule, u)
        np.testing.assert_array_equal(score.invert(case.probs, q, rule, u=u).mask, mask)
        covered, sizes = score.measure(case.probs, case.labels, q, rule, u=u)
        assert covered.tolist() == mask[np.arange(len(mask)), case.labels].tolist()
        assert sizes.tolist() == mask.sum(axis=1).tolist()


def around(score: RankedScore, case: Labelled) -> list[float]:
    """Thresholds where rounding decides."""
    of = score.of(case.probs, case.labels, u=case.u if score.randomized else None)[:2]
    near = [of, np.nextafter(of, np.inf), np.nextafter(of, -np.inf)]
    return [-1.0, 0.0, 0.9, 1.0, 3.0, np.inf, *np.concatenate(near).tolist()]


@ranked
@pytest.mark.parametrize("n_classes", [3, 10, 48, 49, 150])
def test_sets_of_many_rows(backend: str, score: RankedScore, n_classes: int) -> None:
    rng = np.random.default_rng(1)
    for k, family in enumerate(("random", "tied", "sharp", "equal", "saturated", "geometric")):
        n = 70
        probs = equality.rows(family, n, n_classes, rng).astype((np.float64, np.float32)[k % 2])
        case = Labelled(probs, rng.integers(0, n_classes, n), rng.random(n))
        for q in around(score, case):
            assert_sets_of_every_label(score, case, q)


@pytest.mark.parametrize("n_classes", [5, 60])
def test_inputs_are_left_as_they_are(backend: str, n_classes: int) -> None:
    probs = equality.rows("random", 6, n_classes, np.random.default_rng(0))
    for layout in (probs, np.asfortranarray(probs), probs[:1], probs[:1].astype(np.float32)):
        before = layout.copy()
        APS(randomized=False).invert(layout, 0.7)
        APS(randomized=False).measure(layout, np.zeros(len(layout), int), 0.7)
        np.testing.assert_array_equal(layout, before)


@pytest.mark.parametrize("score", [APS(), RAPS(penalty=0.003)], ids=repr)
@pytest.mark.parametrize("n_classes", [9, 30, 60])
def test_a_random_part_counts_capped_and_last_labels_in_full(backend, score, n_classes) -> None:
    """Rows that sum to more than 1 are capped; the last label reaches 1 from any sum."""
    n = 60
    rng = np.random.default_rng(n_classes)
    sums = rng.choice([1.003, 1 + 2e-6, 1 - 2e-6, 0.997], (n, 1))
    for scale, dtype in ((1, np.float32), (1, np.float64), (12, np.float32)):
        weights = np.exp(scale * rng.normal(size=(n, n_classes)))
        probs = (weights / weights.sum(axis=1, keepdims=True) * sums).astype(dtype)
        case = Labelled(probs, rng.integers(0, n_classes, n), rng.random(n))
        for q in (0.7, 0.9985, 0.9999, 0.999999, 1.0):
            assert_sets_of_every_label(score, case, q)


@pytest.mark.parametrize("n_classes", [3, 20, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_above_one(backend: str, n_classes: int, dtype: type) -> None:
    """Within the tolerance they count as 1; beyond it, and four infinities, they are refused."""
    p = np.zeros((40, n_classes), dtype)
    p[:, 0] = 1
    p[5, 0] = 1.003
    y, u = np.zeros(40, int), np.full(40, 0.9)
    assert APS().of(p, y, u=u)[5] == pytest.approx(0.9)
    assert APS(randomized=False).of(p, y)[5] == 1
    assert not APS().invert(p, 0.2, u=u).mask.any()
    assert not APS().measure(p, y, 0.2, u=u)[0].any()
    p[5, 0] = 1.0075
    for work in (APS(randomized=False).invert, lambda p, q: APS(randomized=False).of(p, y)):
        with pytest.raises(InputError, match="row 5"):
            work(p, 0.5)
    if n_classes > 4:
        p[5, :5] = np.inf, np.inf, np.inf, np.inf, 1
        with pytest.raises(InputError, match="row 5"):
            APS(randomized=False).of(p, y)


# Intervals ---------------------------------------------------------------------------------------

INTERVALS = [AbsoluteResidual(), CQR(), CQR(symmetric=False)]
interval = pytest.mark.parametrize("score", INTERVALS, ids=repr)
finite = st.floats(allow_nan=False, allow_infinity=False)


def assert_same_intervals(score: IntervalScore, outputs: Array, y: Array, q: float) -> None:
    """Compare with numpy's way."""
    with np.errstate(over="ignore"):
        plain = score._of(np.ascontiguousarray(outputs), y)
        at = np.full(len(y), q)
        ends = score._invert(np.ascontiguousarray(outputs), at, at)
    np.testing.assert_array_equal(score.of(outputs, y), plain)
    found = score.invert(outputs, q)
    np.testing.assert_array_equal(found.lower, ends.lower)
    np.testing.assert_array_equal(found.upper, ends.upper)


@interval
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(a=finite, b=finite, y=finite, q=st.floats(allow_nan=False))
def test_numbers_are_the_same_over_all_floats(backend, score, a, b, y, q) -> None:
    check_one(score, a, b, y, q)


def check_one(score: IntervalScore, a: float, b: float, y: float, q: float) -> None:
    """One point, more often than there are lanes, and thresholds at its own score."""
    outputs = np.array([[a, b]] * 17) if score.width == 2 else np.array([a] * 17)
    value = np.array([y] * 17)
    near = np.ravel(score.of(outputs, value))[0]
    with np.errstate(over="ignore"):
        thresholds = (q, float(near), float(np.nextafter(near, -np.inf)))
    for threshold in thresholds:
        assert_same_intervals(score, outputs, value, threshold)
