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
        "columns first float32": np.asfortranarray(spread.astype(np.float32)),
        "backwards": spread[::-1, ::-1],
        "read only": read_only,
        "sums above 1": spread * 1.0009,
        "sums at the limit": spread * (1 + 0.99 * SUM_TOLERANCE),
        "minus zero": np.array([[1.0, -0.0, 0.0]], np.float32),
        "no rows": spread[:0],
    }


def assert_same(probs: npt.NDArray[np.floating], labels: npt.NDArray[np.int64]) -> None:
    """Compare with the plain count."""
    plain = ranked.of_labels(probs, labels)
    for field in FIELDS:
        found = places.scored(probs, labels, lambda place, _, field=field: getattr(place, field))
        np.testing.assert_array_equal(found, getattr(plain, field))
    np.testing.assert_array_equal(places.masses(probs, labels), plain.upto)


@pytest.mark.parametrize("kind", list(inputs()))
def test_places_are_the_same(backend: str, kind: str) -> None:
    probs = inputs()[kind]
    for label in range(probs.shape[1]):
        assert_same(probs, np.full(len(probs), label))


@search
@given(case=labelled())
def test_places_are_the_same_everywhere(backend: str, case: Labelled) -> None:
    assert_same(case.probs, case.labels)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 15, 16, 17, 32, 100])
def test_many_short_rows(backend: str, n_classes: int) -> None:
    """More than go side by side, with a few that are tied, tiny or full among them."""
    rng = np.random.default_rng(n_classes)
    n = 30 if backend == "python" else 700
    probs = np.exp(3 * rng.normal(size=(n, n_classes)))
    probs[7] = 1
    probs[11, :2] = 1e30
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    assert_same(probs, rng.integers(0, n_classes, n))


def test_parts_of_rows_make_the_whole(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ROWS", 7)
    for kind in ("spread", "float32"):
        assert_same(inputs()[kind], np.arange(40) % 7)


def test_the_formula_is_told_which_rows(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ROWS", 7)
    rows = np.arange(40.0)
    found = places.scored(inputs()["spread"], np.zeros(40, int), lambda _, some: rows[some])
    np.testing.assert_array_equal(found, rows)


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
@pytest.mark.parametrize("n_classes", [3, 20, 60])
def test_what_is_wrong_is_said_in_the_same_words(backend, dtype, row, message, n_classes) -> None:
    if backend == "python":
        pytest.skip("numpy warns where machine integers wrap")
    probs = np.zeros((40, n_classes), dtype)
    probs[:, 0], probs[1, :3] = 1, row
    with pytest.raises(InputError, match=message):
        places.scored(probs, np.zeros(40, np.int64), lambda place, _: place.upto)
