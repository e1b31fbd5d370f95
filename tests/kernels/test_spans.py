import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedwqcp.errors import InputError
from fedwqcp.kernels import compiled, spans
from fedwqcp.scores._intervals import IntervalScore
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.cqr import CQR

SCORES = [AbsoluteResidual(), CQR(), CQR(symmetric=False)]
score = pytest.mark.parametrize("score", SCORES, ids=repr)
Array = npt.NDArray[np.float64]
finite = st.floats(allow_nan=False, allow_infinity=False)


def assert_same(score: IntervalScore, outputs: Array, y: Array, q: float) -> None:
    """Compare with numpy's way."""
    with np.errstate(over="ignore"):
        plain = score._of(np.ascontiguousarray(outputs), y)
        at = np.full(len(y), q)
        ends = score._invert(np.ascontiguousarray(outputs), at, at)
    np.testing.assert_array_equal(score.of(outputs, y), plain)
    found = score.invert(outputs, q)
    np.testing.assert_array_equal(found.lower, ends.lower)
    np.testing.assert_array_equal(found.upper, ends.upper)


@score
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(a=finite, b=finite, y=finite, q=st.floats(allow_nan=False))
def test_numbers_are_the_same_over_all_floats(backend, score, a, b, y, q) -> None:
    if backend == "python":
        with np.errstate(over="ignore"):
            check_one(score, a, b, y, q)
    else:
        check_one(score, a, b, y, q)


def check_one(score: IntervalScore, a: float, b: float, y: float, q: float) -> None:
    """One point, more often than there are lanes, and thresholds at its own score."""
    outputs = np.array([[a, b]] * 17) if score.width == 2 else np.array([a] * 17)
    value = np.array([y] * 17)
    near = np.ravel(score.of(outputs, value))[0]
    with np.errstate(over="ignore"):
        thresholds = (q, float(near), float(np.nextafter(near, -np.inf)))
    for threshold in thresholds:
        assert_same(score, outputs, value, threshold)


@score
def test_layouts_and_threads(score: IntervalScore, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    for name, value in (("SMALL", 0), ("LARGE", 0), ("SHARED", 1)):
        monkeypatch.setattr(compiled, name, value)
    monkeypatch.setenv("FEDWQCP_THREADS", "2")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(100, score.width)), rng.normal(size=100)
    for layout in (outputs, np.asfortranarray(outputs), outputs[::-1]):
        assert_same(score, layout if score.width == 2 else layout[:, 0], y, 0.3)


@score
def test_large_outputs_are_the_same(backend: str, score: IntervalScore, monkeypatch) -> None:
    """Written past the cache, with a few left over."""
    monkeypatch.setattr(spans, "LARGE", 0)
    rng = np.random.default_rng(1)
    outputs = rng.normal(size=(250, 2)) * 10.0 ** rng.integers(-300, 300, (250, 2))
    outputs[40:60] = 0
    outputs = outputs if score.width == 2 else outputs[:, 0].copy()
    assert_same(score, outputs, rng.normal(size=250), 0.3)
    for row in (7, 12, 249):
        wrong = outputs.copy()
        wrong[row] = np.nan
        assert spans.ends(wrong, (1.0, 1.0)) is None


@score
def test_what_is_not_finite_is_refused(backend: str, score: IntervalScore) -> None:
    outputs, y = np.zeros((3, score.width)), np.zeros(3)
    outputs[2, -1] = np.inf
    outputs = outputs if score.width == 2 else outputs[:, 0]
    message = "must be finite numbers, row 2 is not"
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match=message):
        score.of(outputs, y)
    with np.errstate(invalid="ignore"), pytest.raises(InputError, match=message):
        score.invert(outputs, 1.0)
    y[1] = np.nan
    with pytest.raises(InputError, match="y must be finite numbers, row 1 is not"):
        score.of(np.zeros_like(outputs), y)


def test_thresholds_per_row_and_per_column(backend: str) -> None:
    outputs = np.array([[1.0, 3.0], [1.0, 3.0]])
    assert list(CQR().invert(outputs, [[0.5], [1.0]])) == [(0.5, 3.5), (0.0, 4.0)]
    assert CQR(symmetric=False).invert(outputs, [0.5, 1.0])[0] == (0.5, 4.0)
