"""Sets where labels or rows have thresholds of their own are those of every label's score."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fedwqcp import kernels
from fedwqcp.errors import InputError
from fedwqcp.kernels import dispatch
from fedwqcp.kernels.numpy import cross_by_value
from fedwqcp.scores._base import RankedScore
from fedwqcp.scores.aps import APS
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS
from kernel_rows import KINDS, RANKED, many_rows, rows
from strategies import Labelled

always_compiled = pytest.mark.usefixtures("always_compiled")
ranked = pytest.mark.parametrize("score", RANKED, ids=repr)
Array = npt.NDArray[np.float64]


def own_thresholds(score: RankedScore, case: Labelled) -> Iterator[Array]:
    """Thresholds by label and by row: where rounding decides, and where nothing or all fits."""
    u = case.u if score.randomized else None
    scores = score.of_every_label(case.probs, u=u)
    n, n_classes = scores.shape
    up, down = np.nextafter(scores, np.inf), np.nextafter(scores, -np.inf)
    some = np.choose(np.arange(n_classes) % 4, [scores[0], up[0], down[0], scores[-1]])
    ends = np.resize([0.4, np.inf, 0.9, -np.inf, 1.0, -0.1, 3.0], n_classes)
    yield from (some, np.linspace(0.8, 0.99, n_classes), np.full(n_classes, 0.9))
    yield from (np.where(np.arange(n_classes) % 3, some, ends), ends)
    own = np.take_along_axis(scores, case.labels[:, None], axis=1)
    yield from (own, np.nextafter(own, -np.inf), np.linspace(0.7, 0.99, n)[:, None])
    yield np.resize([0.4, np.inf, 0.9, -np.inf, 1.0, -0.1, 3.0], n)[:, None]


def assert_own_thresholds(score: RankedScore, case: Labelled, some: slice = slice(None)) -> None:
    """Compare sets, coverage and sizes with those of every label's score."""
    u = case.u if score.randomized else None
    p, rows = np.ascontiguousarray(case.probs), np.arange(len(case.probs))
    for q in list(own_thresholds(score, case))[some]:
        mask = score._block(p, q, "leq", u)
        np.testing.assert_array_equal(score.invert(case.probs, q, u=u).mask, mask)
        covered, sizes = score.measure(case.probs, case.labels, q, u=u)
        assert covered.tolist() == mask[rows, case.labels].tolist()
        assert sizes.tolist() == mask.sum(axis=1).tolist()


@ranked
@pytest.mark.parametrize("n_classes", [2, 10, 15, 16, 49])
def test_thresholds_by_label_and_by_row(backend: str, score: RankedScore, n_classes: int) -> None:
    rng = np.random.default_rng(1)
    few = 18 if n_classes <= 15 else 2
    for k, spread in enumerate(many_rows(n_classes, few if backend == "python" else 70)):
        probs = spread.astype(np.float32) if k % 2 else spread
        n = len(probs)
        case = Labelled(probs, rng.integers(0, n_classes, n), rng.random(n))
        some = slice(k % 3, None, 3) if backend == "python" else slice(None)  # each one twice
        assert_own_thresholds(score, case, some)


@always_compiled
@pytest.mark.parametrize("penalty", [1e15, 1e30, 1e38, 1e300])
@pytest.mark.parametrize("n_classes", [10, 26, 100])
def test_penalties_beyond_float32(n_classes: int, penalty: float) -> None:
    p, rng = rows(KINDS[0], 40, n_classes), np.random.default_rng(2)
    case = Labelled(p.astype(np.float32), rng.integers(0, n_classes, 40), rng.random(40))
    for score in (RAPS(penalty=penalty, randomized=False), SAPS(penalty=penalty)):
        assert_own_thresholds(score, case)
        u = case.u if score.randomized else None
        for dtype in (np.float32, np.float64):
            for q in (0.5, penalty, 3 * penalty):
                mask = score._block(p.astype(dtype), np.float64(q), "leq", u)
                assert (score.invert(p.astype(dtype), q, u=u).mask == mask).all()


@always_compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [10, 100, 600])
def test_own_thresholds_of_any_rows(kind: str, n_classes: int) -> None:
    p, rng = rows(kind, 40, n_classes), np.random.default_rng(2)
    labels, u = rng.integers(0, n_classes, 40), rng.random(40)
    for dtype, score in zip((np.float32, np.float64) * 3, RANKED[::-1], strict=True):
        assert_own_thresholds(score, Labelled(p.astype(dtype), labels, u))
        assert_own_thresholds(score, Labelled(p.astype(np.float32)[::2], labels[::2], u[::2]))


@pytest.mark.parametrize("kind", ["spread", "even", "tied", "changing"])
def test_many_labels_in_doubt(backend: str, kind: str) -> None:
    """So many that they are put into buckets, and where all are equal, sorted."""
    rng = np.random.default_rng(3)
    for k, score in enumerate(RANKED[:4:2] if backend == "python" else RANKED):
        p = rows(kind, 3, 250).astype(np.float64 if k % 2 else np.float32)
        case = Labelled(p, rng.integers(0, 250, 3), rng.random(3))
        assert_own_thresholds(score, case, slice(0, 3) if backend == "python" else slice(None))


@always_compiled
def test_numpy_takes_over_where_most_labels_need_their_exact_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p, taken, plain = rows("even", 60, 200).astype(np.float32), [], dispatch.mask_by_label
    monkeypatch.setattr(dispatch, "mask_by_label", lambda *a: taken.append(len(a[0])) or plain(*a))
    monkeypatch.setattr(kernels.own_thresholds, "EXACT", 8)
    score = APS(randomized=False)
    scores = score.of_every_label(p)
    for q, by_numpy in ((scores[0] + 0.001, 0), (scores[0], 60)):
        taken.clear()
        assert (score.invert(p, q).mask == (scores <= q)).all()
        assert sum(taken) == by_numpy


@always_compiled
def test_a_row_without_a_limit_costs_no_more_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """SAPS by row: thresholds of +inf, as those of a group with few points."""
    ranked, rng = [], np.random.default_rng(8)
    p = rows("steep", 40, 300).astype(np.float32)
    y, u = rng.integers(0, 300, 40), rng.random(40)
    monkeypatch.setattr(
        dispatch, "cross_by_value", lambda p, *a: ranked.append(len(p)) or cross_by_value(p, *a)
    )
    monkeypatch.setattr(kernels.own_thresholds, "EXACT", 8)
    q = np.where(np.arange(40) % 3, 0.9, np.inf)[:, None]
    covered, sizes = SAPS().measure(p, y, q, u=u)
    assert ranked == []
    assert (sizes == SAPS()._block(p, q, "leq", u).sum(axis=1)).all()
    assert covered[::3].all()


@always_compiled
@pytest.mark.parametrize("n_classes", [65, 600])
def test_rows_that_grow_flatter_and_sharper(n_classes: int) -> None:
    """What earlier rows needed misses what later ones do, on both sides."""
    rng, n = np.random.default_rng(4), 300
    scale = np.concatenate([np.linspace(8, 0.02, n // 2), np.linspace(0.02, 8, n // 2)])
    p = np.exp(scale[:, None] * rng.standard_normal((n, n_classes)))
    p /= p.sum(axis=1, keepdims=True)
    for dtype, score in zip((np.float32, np.float64) * 3, RANKED, strict=True):
        case = Labelled(p.astype(dtype), rng.integers(0, n_classes, n), rng.random(n))
        assert_own_thresholds(score, case, slice(0, 5))


@always_compiled
@pytest.mark.parametrize("n_classes", [10, 65])
def test_no_score_is_within_a_negative_threshold_however_small(n_classes: int) -> None:
    """With u = 0 the first label has score 0, and float32 knows no number so near to it."""
    p, u = np.eye(n_classes, dtype=np.float32), np.zeros(n_classes)
    for q in (-5e-324, np.full((n_classes, 1), -1e-46), np.full(n_classes, -1e-300)):
        assert not APS().invert(p, q, u=u).mask.any()
        assert not APS().measure(p, np.arange(n_classes), q, u=u)[1].any()
    assert APS().measure(p, np.arange(n_classes), 0.0, u=u)[0].all()


@always_compiled
@pytest.mark.parametrize("n_classes", [10, 65])
def test_no_positive_score_is_within_zero_however_small(n_classes: int) -> None:
    """Scores of 1e-46 and less are 0 in float32."""
    p, u = np.eye(n_classes, dtype=np.float32), np.full(n_classes, 1e-46)
    for q in (0.0, np.zeros((n_classes, 1)), np.zeros(n_classes), 9e-47):
        assert not APS().invert(p, q, u=u).mask.any()
        assert not APS().measure(p, np.arange(n_classes), q, u=u)[1].any()
    assert APS().measure(p, np.arange(n_classes), 1e-46, u=u)[0].all()


@pytest.mark.parametrize("n_classes", [10, 60])
def test_one_row_with_its_own_threshold(backend: str, n_classes: int) -> None:
    for k, probs in enumerate(many_rows(n_classes, 1)):
        for score in RANKED[k : k + 1] if backend == "python" else RANKED:
            assert_own_thresholds(score, Labelled(probs, np.array([4]), np.array([0.3])))


@pytest.mark.parametrize("n_classes", [10, 60])
def test_wrong_rows_are_refused_with_thresholds_by_label(backend: str, n_classes: int) -> None:
    probs = next(many_rows(n_classes, 40))
    for wrong in (-1e-30, np.nan, np.inf):
        bad = probs.copy()
        bad[7, 0] = wrong
        with pytest.raises(InputError, match="row 7: "):
            APS(randomized=False).invert(bad, np.full(n_classes, 0.9))


def test_any_layout_serves(backend: str) -> None:
    probs, rng = next(many_rows(60, 8)), np.random.default_rng(2)
    for layout in (np.asfortranarray(probs), probs[::-1, ::-1], np.repeat(probs, 2, axis=0)[::2]):
        case = Labelled(layout, rng.integers(0, 60, 8), rng.random(8))
        assert_own_thresholds(APS(), case)


WITHOUT_AVX512 = """
import os
import numpy as np
import fedwqcp as fw
from fedwqcp.kernels import compilation

compilation.SMALL = 0
rng = np.random.default_rng(5)
for C in (20, 65, 300):
    p = rng.dirichlet(np.full(C, 0.3), 90)
    y, u = rng.integers(0, C, 90), rng.random(90)
    for score in (fw.APS(), fw.RAPS(penalty=0.01), fw.SAPS(penalty=0.01)):
        for q in (rng.normal(0.9, 0.03, C), np.where(np.arange(C) % 4, 0.8, np.inf), 0.9):
            for probs in (p, p.astype(np.float32)):
                found = []
                for backend in ("numpy", "numba"):
                    os.environ["FEDWQCP_BACKEND"] = backend
                    sets, measured = score.invert(probs, q, u=u), score.measure(probs, y, q, u=u)
                    found.append((sets.mask, *measured))
                for one, other in zip(*found, strict=True):
                    np.testing.assert_array_equal(one, other)
from numba.core.registry import cpu_target
assert "+avx512f" not in cpu_target.target_context.codegen().magic_tuple()[2]
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names an x86 processor")
def test_processors_without_avx512_give_the_same_sets(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    narrow = {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": "+sse4.2,+popcnt"}
    environment = {**os.environ, **narrow, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", WITHOUT_AVX512], check=True, env=environment)
