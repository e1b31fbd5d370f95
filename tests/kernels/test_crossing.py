"""Sets and sizes by crossing against sets by scoring every label, ties and rounding included."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings

from fedwqcp.errors import InputError
from fedwqcp.kernels import compiled, networks, sorting
from fedwqcp.kernels.limits import Limits, limits_of
from fedwqcp.kernels.ranked import ONE
from fedwqcp.scores._ranked import RankedScore
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS
from strategies import Labelled, labelled

SCORES = [
    APS(),
    APS(randomized=False),
    RAPS(penalty=0.3, k_reg=2),
    RAPS(penalty=0.01, randomized=False),
    SAPS(),
    SAPS(penalty=0.0, randomized=False),
]
score = pytest.mark.parametrize("score", SCORES, ids=repr)
search = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def rows(C: int, n: int = 70) -> Iterator[npt.NDArray[np.floating]]:
    """Probabilities that are spread, tied, steep, flat, saturated, or halved at each label."""
    rng = np.random.default_rng(C)
    halves = rng.permuted(np.tile(2.0 ** -np.arange(C), (n, 1)), axis=1)
    for weights in (
        rng.exponential(size=(n, C)),
        rng.integers(0, 4, (n, C)) + np.eye(C)[rng.integers(0, C, n)],
        np.exp(8 * rng.normal(size=(n, C))),
        np.ones((n, C)),
        np.where(rng.random((n, C)) < 0.05, 1, 1e-18),
        halves,
    ):
        yield weights / weights.sum(axis=1, keepdims=True)


def assert_same(score: RankedScore, case: Labelled, q: float) -> None:
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


@score
@search
@given(case=labelled())
def test_sets_are_those_of_every_label(backend: str, score: RankedScore, case: Labelled) -> None:
    for q in around(score, case)[:8]:
        assert_same(score, case, q)


@score
@pytest.mark.parametrize("n_classes", [3, 10, 48, 49, 150])
def test_sets_of_many_rows(backend: str, score: RankedScore, n_classes: int) -> None:
    rng = np.random.default_rng(1)
    every = rows(n_classes, 6 if backend == "python" else 70)
    for k, spread in enumerate(every):
        probs = spread.astype(np.float32) if k % 2 else spread
        n = len(probs)
        case = Labelled(probs, rng.integers(0, n_classes, n), rng.random(n))
        for q in around(score, case)[:: 5 if backend == "python" else 1]:
            assert_same(score, case, q)


def test_any_layout_serves(backend: str) -> None:
    probs = next(rows(60, 8))
    rng = np.random.default_rng(2)
    for layout in (np.asfortranarray(probs), probs[::-1, ::-1], np.repeat(probs, 2, axis=0)[::2]):
        case = Labelled(layout, rng.integers(0, 60, 8), rng.random(8))
        assert_same(APS(), case, 0.7)


@pytest.mark.parametrize("n_classes", [5, 60])
def test_inputs_are_left_as_they_are(backend: str, n_classes: int) -> None:
    probs = next(rows(n_classes, 6))
    for layout in (probs, np.asfortranarray(probs), probs[:1], probs[:1].astype(np.float32)):
        before = layout.copy()
        APS(randomized=False).invert(layout, 0.7)
        APS(randomized=False).measure(layout, np.zeros(len(layout), int), 0.7)
        np.testing.assert_array_equal(layout, before)


def test_more_labels_than_fit_beside_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "PACKED", 8)
    for probs in rows(9, 5):
        assert_same(APS(randomized=False), Labelled(probs, np.arange(5), np.ones(5)), 0.6)


def test_rows_near_the_tolerance_are_sorted_instead(backend: str) -> None:
    probs = next(rows(60, 8)) * 1.0049
    assert_same(APS(), Labelled(probs, np.arange(8), np.linspace(0, 1, 8)), 0.7)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "SMALL", 0)
    monkeypatch.setattr(compiled, "LARGE", 0)
    monkeypatch.setattr(compiled, "SHARED", 1)
    monkeypatch.setenv("FEDWQCP_THREADS", "2")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for probs in rows(60):
        assert_same(
            APS(randomized=False), Labelled(probs, np.zeros(70, np.int64), np.ones(70)), 0.8
        )


def test_wrong_rows_are_refused(backend: str) -> None:
    for n_classes in (4, 60):
        probs = np.full((5, n_classes), 1 / n_classes)
        probs[3, 1] = -0.5
        with pytest.raises(InputError, match="row 3 holds a negative value"):
            APS(randomized=False).invert(probs, 0.5)


def test_no_rows(backend: str) -> None:
    for n_classes in (4, 60):
        assert APS(randomized=False).invert(np.empty((0, n_classes)), 0.5).mask.shape == (
            0,
            n_classes,
        )


def test_networks_sort() -> None:
    for n in range(2, 12):
        for bits in range(2**n):  # a network that sorts all zeros and ones sorts everything
            row = [bits >> k & 1 for k in range(n)]
            for a, b in networks.network(n):
                row[a], row[b] = max(row[a], row[b]), min(row[a], row[b])
            assert row == sorted(row, reverse=True)


def test_limits_by_hand() -> None:
    half = int(ONE) // 2

    def within(mass):
        return mass + np.arange(4) * half <= 2 * half + 7

    for guess in (np.zeros(4), np.ones(4), np.array([1.0, 0.5, 0.0, 0.0])):
        limits = limits_of(within, guess, by_top=False)
        assert limits.at.tolist() == [ONE, ONE, half + 7, 7, -1]
    mass, top = Limits(limits.at, by_top=True).pair()
    assert top is limits.at
    assert (mass > ONE).all()
