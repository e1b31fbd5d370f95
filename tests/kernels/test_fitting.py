"""Labels within a threshold by the quick loops against those by sorting."""

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from fedwqcp.errors import InputError
from fedwqcp.kernels import compiled, crossing, fitting
from fedwqcp.kernels.limits import Limits
from fedwqcp.kernels.ranked import ONE
from fedwqcp.kernels.sorting import Out
from fedwqcp.scores._ranked import _limits
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS

Rows = npt.NDArray[np.floating]
KINDS = [
    "spread",
    "steep",
    "even",
    "nearly even",
    "closer than fixed point",
    "tied",
    "one and dust",
    "sure",
    "changing",
]


@pytest.fixture(autouse=True)
def _all_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "SMALL", 0)
    monkeypatch.setattr(compiled, "LARGE", 0)


def rows(kind: str, n: int, C: int, seed: int = 0) -> Rows:
    """Probabilities that are easy, or hard, to tell apart."""
    rng = np.random.default_rng((seed, C))
    logits = rng.normal(size=(n, C))
    weights = {
        "spread": np.exp(2 * logits),
        "steep": np.exp(30 * logits),
        "even": np.ones((n, C)),
        "nearly even": 1 + 1e-7 * logits,
        "closer than fixed point": 1 + 3e-16 * rng.integers(-2, 3, (n, C)),
        "tied": rng.integers(0, 4, (n, C)) + np.eye(C)[rng.integers(0, C, n)],
        "one and dust": np.eye(C)[rng.integers(0, C, n)] + 1e-12,
        "sure": np.where(rng.random((n, C)) < 2 / C, 1.0, 1e-12) + 1e-14,
        "changing": np.exp(rng.choice([0, 0.01, 2, 30], (n, 1)) * logits),
    }[kind]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def assert_same(score: APS | RAPS, p: Rows, q: float) -> None:
    """Compare sets, coverage and sizes with those by sorting."""
    C = p.shape[1]
    limits, y = _limits(score, q, C), np.arange(len(p)) % C
    found = crossing.mark(p, limits), *crossing.count(p, limits, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_loops", lambda: None)
        wanted = crossing.mark(p, limits), *crossing.count(p, limits, y)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3, 10, 15, 16, 17, 48, 49, 64, 100, 257, 600])
def test_sets_are_those_by_sorting(kind: str, n_classes: int, dtype: type) -> None:
    p = rows(kind, 150, n_classes).astype(dtype)  # nine groups of rows, and six more
    for score in (APS(randomized=False), RAPS(penalty=0.003, randomized=False)):
        own = score.of(p[:2], [1, 0])
        near = float(np.nextafter(own[1], -1))
        for q in (0.0, 0.3, 0.9, 0.9999, 0.999999, 1.0, 2.0, float(own[0]), near):
            assert_same(score, p, q)


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 80),
    n_classes=st.one_of(st.integers(2, 120), st.integers(250, 600)),
    q=st.floats(0, 1),
    single=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_any_rows(kind, n, n_classes, q, single, seed) -> None:
    p = rows(kind, n, n_classes, seed)
    assert_same(APS(randomized=False), p.astype(np.float32) if single else p, q)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_do_not_follow_each_other(dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "COPIED", 2**11)  # twenty rows at a time
    p = rows("changing", 90, 100).astype(dtype)
    for layout in (np.asfortranarray(p), p[::-1], p[::2], p[:, ::-1]):
        assert_same(APS(randomized=False), layout, 0.9)


@pytest.mark.parametrize("n_classes", [10, 30, 100])
def test_labels_that_do_not_follow_each_other(n_classes: int) -> None:
    p, y = rows("spread", 50, n_classes).astype(np.float32), np.arange(100) % n_classes
    for labels in (y[::2], y[:50][::-1], y[:50].astype(np.int8), y[:50].astype(">i8")):
        found = APS(randomized=False).measure(p, labels, 0.9)
        wanted = APS(randomized=False).measure(p, labels.astype(np.int64, order="C").copy(), 0.9)
        np.testing.assert_array_equal(found, wanted)
        sets = APS(randomized=False).invert(p, 0.9)
        assert found[0].tolist() == sets.cover(labels).tolist()


@pytest.mark.parametrize("n_classes", [10, 100])
def test_threads_share_nothing(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "SHARED", 0)
    monkeypatch.setattr(compiled, "PARTS", 20)
    monkeypatch.setenv("FEDWQCP_THREADS", "4")
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    p = rows("changing", 20_000, n_classes).astype(np.float32)
    for _ in range(3):
        assert_same(APS(randomized=False), p, 0.9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [2, 5, 10, 15, 49, 60])
def test_the_loops_stay_within_their_arrays(uncompiled, n_classes, dtype, monkeypatch) -> None:
    """As Python, an instruction that reads or writes beyond an array fails."""
    monkeypatch.setattr(compiled, "_loops", lambda: uncompiled)
    for n in (1, 16, 17, 47):
        p, u = rows("changing", n, n_classes).astype(dtype), np.linspace(0, 1, n)
        y = np.arange(n) % n_classes
        with np.errstate(all="ignore"):
            for score in (APS(), APS(randomized=False), RAPS(penalty=0.003, randomized=False)):
                given = u if score.randomized else None
                mask = score._block(p, np.asarray(0.7), "leq", given)
                assert (score.invert(p, 0.7, u=given).mask == mask).all()
                covered, sizes = score.measure(p, y, 0.7, u=given)
                assert (covered == mask[np.arange(n), y]).all()
                assert (sizes == mask.sum(axis=1)).all()
                score.of(p, y, u=given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [3, 10, 15, 49, 100])
def test_randomised_sets_are_those_by_sorting(kind: str, n_classes: int, dtype: type) -> None:
    p = rows(kind, 60, n_classes).astype(dtype)
    u, y = np.random.default_rng(0).random(60), np.arange(60) % n_classes
    for score in (APS(), RAPS(penalty=0.003)):
        own = float(score.of(p[:1], [1], u=u[:1])[0])
        for q in (0.0, 0.3, 0.9, 0.999999, 1.0, own):
            for rule in ("leq", "leq_top1", "until"):
                found = score.invert(p, q, rule, u=u).mask, *score.measure(p, y, q, rule, u=u)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(compiled, "_loops", lambda: None)
                    wanted = score.invert(p, q, rule, u=u).mask, *score.measure(p, y, q, rule, u=u)
                for one, other in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_classes", [3, 20, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_above_one(n_classes: int, dtype: type) -> None:
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


def opened(p: Rows, q: float, marked: bool = False) -> list[int]:
    """How many rows each call of a quick loop leaves open."""
    limits, loops, found = _limits(APS(randomized=False), q, p.shape[1]), compiled._loops(), []

    def told(loop: Callable[..., int]) -> Callable[..., int]:
        return lambda *given: found.append(loop(*given)) or found[-1]

    spy = SimpleNamespace(**vars(loops))
    spy.count_fitting, spy.fit_of_few = told(loops.count_fitting), told(loops.fit_of_few)
    y = np.zeros(0 if marked else len(p), np.int64)
    out = Out.of_rows(len(p), p.shape[1] if marked else 0, False, not marked)
    quick = fitting._quick(spy, p, limits)
    assert quick is not None
    left = quick(p, y, out.arrays())
    assert left.tolist() == np.flatnonzero(out.fits < 0).tolist()
    assert len(left) == found[-1]
    return found


def test_most_rows_are_settled_at_once() -> None:
    p = rows("spread", 1600, 100).astype(np.float32)
    for marked in (False, True):
        assert opened(p, 0.9, marked)[0] < 0.01 * len(p)
        assert opened(p, 0.9, marked)[-1] <= 0.002 * len(p)
        assert opened(p.astype(float), 0.9, marked)[0] <= 0.002 * len(p)
    assert opened(p[:5], 0.9)[-1] == 0
    assert (
        opened(rows("spread", 1600, 10).astype(np.float32), 0.9)[0] < 40
    )  # the last few, and near


def test_first_cuts_come_back_from_rows_that_all_cross_at_the_top() -> None:
    sure = np.tile(np.eye(60, dtype=np.float32), (500, 1))
    spread = rows("spread", 3200, 60).astype(np.float32)
    limits = _limits(APS(randomized=False), 0.9, 60)
    cuts = np.array(fitting.START) / 60
    loop = fitting._by_cuts(compiled._loops(), limits, cuts)
    for p in (sure, spread):
        out = Out.of_rows(len(p), 0, False, True)
        loop(p, np.zeros(len(p), np.int64), out.arrays())
        assert (cuts > 0).all()
        assert (cuts <= 1).all()
    crossing_at = np.sort(spread, axis=1)[np.arange(3200), -1 - out.fits]
    shares = [(crossing_at < cut).mean() for cut in np.sort(cuts)]
    np.testing.assert_allclose(shares, [0.05, 0.35, 0.65, 0.95], atol=0.15)


def test_sums_that_float32_cannot_tell_from_a_limit_are_weighed_exactly() -> None:
    p = rows("spread", 160, 100).astype(np.float32)
    for q in np.cumsum(-np.sort(-p[5].astype(np.float64)))[[3, 30, 60]]:
        for limit in (q, np.nextafter(q, 0), np.nextafter(q, 1)):
            assert opened(p, limit) == [0]
            assert_same(APS(randomized=False), p, float(limit))


def test_numbers_that_float32_does_not_put_in_order_are_left_to_float64() -> None:
    single, double = opened(rows("steep", 160, 100).astype(np.float32), 1 - 1e-9)
    assert 0 < double < single


def test_for_few_rows_no_other_loop_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    p = rows("steep", 160, 100).astype(np.float32)
    monkeypatch.setattr(compiled, "LARGE", 2**20)
    monkeypatch.setattr(compiled, "_seen", [2**20])
    assert len(opened(p, 1 - 1e-9)) == 1
    assert_same(APS(randomized=False), p, 1 - 1e-9)


def test_what_no_quick_loop_serves() -> None:
    p = rows("spread", 20, 60).astype(np.float32)
    limits, loops = _limits(APS(randomized=False), 0.9, 60), compiled._loops()
    assert fitting._quick(loops, p, Limits(limits.at, by_top=True)) is None
    assert fitting._quick(loops, p, _limits(APS(randomized=False), 1.0, 60)) is None
    assert fitting._quick(loops, np.full((20, 9000), 1 / 9000), limits) is None


@pytest.mark.parametrize("n_classes", [10, 60])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, -1e-30, -0.0, -0.5, 5.0])
def test_unsound_rows_are_left_open(wrong: float, n_classes: int) -> None:
    for p in (rows("spread", 64, n_classes).astype(np.float32), rows("spread", 64, 60)):
        before = opened(p, 0.9)[-1]
        p[7, 3] = wrong
        assert opened(p, 0.9)[-1] > before
        if wrong != 0:
            with pytest.raises(InputError, match="row 7"):
                APS(randomized=False).invert(p, 0.9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrong", [-1e-17, -1e-20, -1e-30])
def test_a_sign_that_fixed_point_loses_is_seen(wrong: float, dtype: type) -> None:
    p = rows("spread", 64, 60).astype(dtype)
    p[7, 1] += p[7, 0]
    p[7, 0] = wrong
    y, u = np.ones(64, int), np.full(64, 0.5)
    for work in (
        lambda: APS(randomized=False).measure(p, y, 0.9),
        lambda: APS(randomized=False).invert(p, 0.9),
        lambda: APS().measure(p, y, 0.9, u=u),
    ):
        with pytest.raises(InputError, match="row 7"):
            work()


def near_zeros(n: int, C: int) -> Rows:
    """Rows of which most labels have probability 0."""
    p = np.zeros((n, C), np.float32)
    p[:, : C // 10] = rows("spread", n, C // 10)
    return p


@pytest.mark.parametrize("n_classes", [300, 1000])
def test_cuts_among_zeros(n_classes: int) -> None:
    p, score = near_zeros(48, n_classes), RAPS(penalty=1e-4, randomized=False)
    for rank in (n_classes // 2, n_classes * 17 // 20):
        q = 1 + 1e-4 * (rank - 1)
        for threshold in (q, np.nextafter(q, 0), np.nextafter(np.nextafter(q, 0), 0)):
            assert_same(score, p, float(threshold))


def test_cuts_among_zeros_stay_within_their_arrays(uncompiled, monkeypatch) -> None:
    monkeypatch.setattr(compiled, "_loops", lambda: uncompiled)
    q = float(np.nextafter(1 + 1e-4 * 149, 0))
    assert_same(APS(randomized=False), near_zeros(16, 300), 0.9)
    assert_same(RAPS(penalty=1e-4, randomized=False), near_zeros(16, 300), q)


def test_what_is_written_in_place_of_other_things_does_not_overlap() -> None:
    from fedwqcp.kernels import _cuts, _waiting

    assert _waiting.SIZES + 16 <= _waiting.OVER
    assert _waiting.OVER + 32 <= _cuts.ROOM == _waiting.WAIT


def test_two_that_are_no_numbers_do_not_cancel() -> None:
    p = rows("spread", 32, 100).astype(np.float32)
    p[7, 13] = p[7, 14] = np.nan
    with pytest.raises(InputError, match="row 7"):
        APS(randomized=False).measure(p, np.zeros(32, int), 0.9)


def test_rows_near_the_tolerance_are_sorted_instead() -> None:
    assert_same(APS(randomized=False), rows("spread", 40, 60) * 1.0048, 0.9)
    assert_same(APS(randomized=False), (rows("spread", 40, 9) * 1.0048).astype(np.float32), 0.9)


def test_limits_as_numbers() -> None:
    one, half = int(ONE), int(ONE) // 2
    limits = Limits(np.array([one, one, half + 1, -1]), by_top=False)
    assert limits.reals().tolist() == [np.inf, np.inf, float(Fraction(half + 1, one)), -np.inf]
    assert not limits.none
    assert Limits(limits.at, by_top=True).reals()[-1] == -(2.0**-52)
    assert Limits(np.full(4, one), by_top=False).reals().tolist() == [np.inf] * 4
    assert Limits(np.full(4, one), by_top=False).none
