import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings

from fedwqcp.arrays import SUM_TOLERANCE
from fedwqcp.errors import InputError
from fedwqcp.kernels import places, ranked
from strategies import Labelled, labelled

FIELDS = ("before", "upto", "rank", "top")
search = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def inputs() -> dict[str, npt.NDArray[np.floating]]:
    """Probabilities of every layout and kind that a loop may stumble over."""
    rng = np.random.default_rng(0)
    spread = rng.dirichlet(np.full(7, 0.5), 40)
    tied = rng.multinomial(6, np.full(7, 1 / 7), 40) / 6
    read_only = spread.copy()
    read_only.flags.writeable = False
    tiny = np.full((40, 7), 2.0**-30)
    tiny[:, :4] = 2.0**-29, np.nextafter(np.float32(2**-29), np.float32(0)), 1e-20, 1 - 2.0**-27
    return {
        "spread": spread,
        "tied": tied,
        "saturated": np.eye(7)[rng.integers(0, 7, 40)] * (1 - 1e-17) + 1e-18,
        "float32": spread.astype(np.float32),
        "tied float32": tied.astype(np.float32),
        "tiny float32": tiny.astype(np.float32),
        "whole float32": np.eye(7, dtype=np.float32)[rng.integers(0, 7, 40)],
        "columns first": np.asfortranarray(spread),
        "backwards": spread[::-1, ::-1],
        "read only": read_only,
        "sums above 1": spread * 1.0009,
        "sums at the limit": spread * (1 + 0.99 * SUM_TOLERANCE),
        "minus zero": np.array([[1.0, -0.0, 0.0]], np.float32),
        "no rows": spread[:0],
    }


def assert_same(probs: npt.NDArray[np.floating], labels: npt.NDArray[np.int64]) -> None:
    """Compare with the plain count."""
    plain, fast = ranked.of_labels(probs, labels), places.of_labels(probs, labels)
    for field in FIELDS:
        one, other = getattr(plain, field), getattr(fast, field)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", list(inputs()))
def test_places_are_the_same(backend: str, kind: str) -> None:
    probs = inputs()[kind]
    for label in range(probs.shape[1]):
        assert_same(probs, np.full(len(probs), label))


@search
@given(case=labelled())
def test_places_are_the_same_everywhere(backend: str, case: Labelled) -> None:
    assert_same(case.probs, case.labels)


def test_wide_rows_are_summed_in_full(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "WIDE", 6)
    assert_same(inputs()["float32"], np.zeros(40, np.int64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, -1e-30, 0.5], "row 1 holds a negative value"),
        ([0.5, np.nan, 0.5], "row 1 holds NaN"),
        ([0.5, 0.6, 0.0], r"row 1 sum to 1\.1;"),
        ([0.5, np.inf, 0.5], "row 1 sum to inf"),
    ],
)
def test_what_is_wrong_is_said_in_the_same_words(backend, dtype, row, message: str) -> None:
    if backend == "python":
        pytest.skip("numpy warns where machine integers wrap")
    with pytest.raises(InputError, match=message):
        places.of_labels(np.array([[1, 0, 0], row], dtype), np.zeros(2, np.int64))
