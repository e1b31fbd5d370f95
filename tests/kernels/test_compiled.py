import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings

from fedwqcp.kernels import compiled, ranked
from strategies import Labelled, labelled

FIELDS = ("before", "upto", "rank", "top")


def inputs() -> dict[str, npt.NDArray[np.floating]]:
    """Probabilities of every layout and kind that the compiler sees apart."""
    rng = np.random.default_rng(0)
    spread = rng.dirichlet(np.full(7, 0.5), 300)
    tied = rng.multinomial(6, np.full(7, 1 / 7), 300) / 6
    read_only = spread.copy()
    read_only.flags.writeable = False
    return {
        "spread": spread,
        "tied": tied,
        "saturated": np.eye(7)[rng.integers(0, 7, 300)] * (1 - 1e-17) + 1e-18,
        "float32": spread.astype(np.float32),
        "tied float32": tied.astype(np.float32),
        "columns first": np.asfortranarray(spread),
        "every other row": np.repeat(spread, 2, axis=0)[::2],
        "backwards": spread[::-1, ::-1],
        "read only": read_only,
        "sums above 1": spread * 1.0009,
        "no rows": spread[:0],
    }


def assert_same(probs: npt.NDArray[np.floating], labels: npt.NDArray[np.int64]) -> None:
    """Count with numba, and without it."""
    counter = compiled.counter()
    assert counter is not None
    plain = ranked.of_labels(probs, labels)
    fast = ranked._capped(*counter(probs, labels), probs.shape[1])
    for field in FIELDS:
        one, other = getattr(plain, field), getattr(fast, field)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", list(inputs()))
def test_numba_counts_the_same(kind: str) -> None:
    pytest.importorskip("numba")
    probs = inputs()[kind]
    for label in range(7):
        assert_same(probs, np.full(len(probs), label))
    assert_same(probs, np.random.default_rng(1).integers(0, 7, len(probs)))


@settings(deadline=None)  # the first of them waits for the compiler
@given(labelled())
def test_numba_counts_the_same_everywhere(case: Labelled) -> None:
    pytest.importorskip("numba")
    assert_same(case.probs, case.labels)


@given(labelled())
def test_its_plain_form_counts_the_same(case: Labelled) -> None:
    plain = ranked._count(case.probs, case.labels)
    for one, other in zip(plain, compiled._count(case.probs, case.labels), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_large_input_is_counted_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def counter() -> compiled.Counter:
        def count(probs, labels):
            asked.append(probs.size)
            return compiled._count(probs, labels)

        return count

    monkeypatch.setattr(compiled, "counter", counter)
    monkeypatch.setattr(ranked, "LARGE", 21)
    probs = inputs()["spread"]
    ranked.of_labels(probs[:2], np.zeros(2, np.int64))
    assert asked == []
    ranked.of_labels(probs[:3], np.zeros(3, np.int64))
    assert asked == [21]


def test_without_numba_numpy_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    probs, labels = inputs()["tied"], np.zeros(300, np.int64)
    expected = ranked.of_labels(probs, labels)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "counter", compiled.counter.__wrapped__)
    monkeypatch.setattr(ranked, "LARGE", 1)
    assert compiled.counter() is None
    np.testing.assert_array_equal(ranked.of_labels(probs, labels).before, expected.before)


def test_without_a_folder_to_write_to_it_is_compiled_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def njit(nogil: bool, cache: bool = False):
        assert nogil
        if cache:
            raise RuntimeError("no locator available")
        return lambda function: function

    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=njit))
    assert compiled.counter.__wrapped__() is compiled._count


def test_neither_import_nor_a_small_input_loads_numba() -> None:
    code = (
        "import sys, numpy as np, fedwqcp as fw; "
        "fw.APS(randomized=False).of(np.full((100, 4), 0.25), np.zeros(100, int)); "
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
