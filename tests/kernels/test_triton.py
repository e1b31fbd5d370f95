"""The Triton programs give the scores and sets of numpy; without a GPU Triton interprets them."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels on tensors need the extra 'torch'")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is first imported
pytest.importorskip("triton", reason="Triton runs on Linux alone")

from fedwqcp.kernels import torch as passes  # noqa: E402
from fedwqcp.kernels.torch import Formula  # noqa: E402
from fedwqcp.scores.aps import APS  # noqa: E402
from fedwqcp.scores.lac import LAC  # noqa: E402
from fedwqcp.scores.raps import RAPS  # noqa: E402
from fedwqcp.scores.saps import SAPS  # noqa: E402

SCORES = {
    "aps": (APS(), Formula("aps")),
    "aps, whole": (APS(randomized=False), Formula("aps")),
    "raps": (RAPS(penalty=0.013, k_reg=2), Formula("raps", 0.013, 2)),
    "saps": (SAPS(penalty=0.07), Formula("saps", 0.07)),
}


def rows(n_classes: int, dtype: type, *kinds: str) -> np.ndarray:
    """Five rows of each kind, or of all."""
    rng = np.random.default_rng(n_classes)
    drawn = {
        "spread": rng.dirichlet(np.full(n_classes, 0.3), 5),
        "tied": rng.multinomial(6, np.full(n_classes, 1 / n_classes), 5) / 6,
        "equal": np.full((5, n_classes), 1 / n_classes),
        "saturated": np.eye(n_classes)[rng.integers(0, n_classes, 5)],
        "nearly": np.eye(n_classes)[rng.integers(0, n_classes, 5)] * (1 - 1e-9) + 1e-9 / n_classes,
    }
    return np.concatenate([drawn[kind] for kind in kinds or drawn]).astype(dtype)


def thresholds(scores: np.ndarray) -> list[float | np.ndarray]:
    """One in the middle, one that is a score, one for each row, and the ends."""
    return [0.8, float(scores[2]), scores[:, None], 1.0, np.inf, -1.0]


def on_device(*arrays: np.ndarray | None) -> list:
    return [None if a is None else torch.from_numpy(a).to(DEVICE) for a in arrays]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", list(SCORES))
def test_scores_sets_and_cover_are_those_of_numpy(name: str, dtype: type) -> None:
    score, formula = SCORES[name]
    probs = rows(7, dtype)
    n, rng = len(probs), np.random.default_rng(0)
    labels, u = rng.integers(0, 7, n), rng.random(n) if score.randomized else None
    p, y, share = on_device(probs, labels, u)
    expected = score.of(probs, labels, u=u)
    scores, flag = passes.fused_scores(formula, p, y, share)
    assert not flag
    np.testing.assert_array_equal(scores.cpu().numpy(), expected)
    for at, q in enumerate(thresholds(expected)):
        rule = passes.RULES[at % 3]
        level = torch.as_tensor(q, dtype=torch.float64)
        mask = score.invert(probs, q, rule, u).mask
        found = passes.fused_sets(formula, p, share, level, rule=rule)
        np.testing.assert_array_equal(found.mask.cpu().numpy(), mask)
        held = passes.fused_sets(formula, p, share, level, rule=rule, labels=y)
        assert held.mask is None
        np.testing.assert_array_equal(held.sizes.cpu().numpy(), mask.sum(1))
        np.testing.assert_array_equal(held.covered.cpu().numpy(), mask[np.arange(n), labels])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [7, 16, 100])
def test_lac_is_that_of_numpy(n_classes: int, dtype: type) -> None:
    probs, lac = rows(n_classes, dtype), LAC()
    n, rng = len(probs), np.random.default_rng(1)
    labels = rng.integers(0, n_classes, n)
    p, y = on_device(probs, labels)
    expected = lac.of(probs, labels)
    scores, flag = passes.fused_lac_scores(p, y)
    assert not flag
    np.testing.assert_array_equal(scores.cpu().numpy(), expected)
    own = [*thresholds(expected), rng.random(n_classes), rng.random((n, n_classes))]
    for q in own:
        level = torch.as_tensor(q, dtype=torch.float64).to(DEVICE)
        for rule in ("leq", "leq_top1"):
            mask = lac.invert(probs, q, rule).mask
            found = passes.fused_lac_sets(p, level, top=rule == "leq_top1")
            np.testing.assert_array_equal(found.mask.cpu().numpy(), mask)
            held = passes.fused_lac_sets(p, level, top=rule == "leq_top1", labels=y)
            np.testing.assert_array_equal(held.sizes.cpu().numpy(), mask.sum(1))
            np.testing.assert_array_equal(held.covered.cpu().numpy(), mask[np.arange(n), labels])


@pytest.mark.parametrize("n_classes", [2, 16, 17, 100, 1500])
def test_rows_of_any_length(n_classes: int) -> None:
    probs = rows(n_classes, np.float32, "spread")
    labels = np.random.default_rng(0).integers(0, n_classes, 5)
    p, y = on_device(probs, labels)
    score, formula = SCORES["aps, whole"]
    scores, _ = passes.fused_scores(formula, p, y, None)
    np.testing.assert_array_equal(scores.cpu().numpy(), score.of(probs, labels))
    found = passes.fused_sets(formula, p, None, torch.tensor(0.9, dtype=torch.float64), rule="leq")
    np.testing.assert_array_equal(found.mask.cpu().numpy(), score.invert(probs, 0.9).mask)


def test_strided_rows() -> None:
    probs = np.repeat(rows(9, np.float32, "spread"), 2, axis=0)
    labels = np.arange(5)
    p, y = on_device(probs, labels)
    score, formula = SCORES["aps, whole"]
    scores, _ = passes.fused_scores(formula, p[::2], y, None)
    np.testing.assert_array_equal(scores.cpu().numpy(), score.of(probs[::2], labels))
    turned = p[::2].T.contiguous().T
    scores, _ = passes.fused_scores(formula, turned, y, None)
    np.testing.assert_array_equal(scores.cpu().numpy(), score.of(probs[::2], labels))


@pytest.mark.parametrize("wrong", [np.nan, -0.25, 0.5])
def test_an_unsound_row_is_flagged(wrong: float) -> None:
    probs = rows(4, np.float64, "spread")
    probs[3, 1] += wrong
    p, y = on_device(probs, np.zeros(5, np.int64))
    formula = Formula("aps")
    assert passes.fused_scores(formula, p, y, None)[1].tolist() == [1]
    level = torch.tensor(0.5, dtype=torch.float64)
    assert passes.fused_sets(formula, p, None, level, rule="leq").flag.tolist() == [1]
    assert passes.fused_lac_scores(p, y)[1].tolist() == [1]
    assert passes.fused_lac_sets(p, level, top=False).flag.tolist() == [1]


@pytest.mark.parametrize("label", [-1, 4])
def test_a_label_outside_is_flagged(label: int) -> None:
    p, y = on_device(rows(4, np.float64, "spread"), np.array([0, label, 1, 2, 3]))
    level = torch.tensor(0.5, dtype=torch.float64)
    assert passes.fused_scores(Formula("aps"), p, y, None)[1].tolist() == [1]
    assert passes.fused_sets(Formula("aps"), p, None, level, rule="leq", labels=y).flag
    assert passes.fused_lac_scores(p, y)[1].tolist() == [1]
    assert passes.fused_lac_sets(p, level, top=False, labels=y).flag.tolist() == [1]


@pytest.mark.parametrize("wrong", [np.nan, -0.5, 1.5])
def test_a_uniform_outside_is_flagged(wrong: float) -> None:
    p, y, u = on_device(rows(4, np.float32, "spread"), np.zeros(5, np.int64), np.full(5, 0.5))
    level = torch.tensor(0.5, dtype=torch.float64)
    assert not passes.fused_scores(Formula("aps"), p, y, u)[1]
    assert not passes.fused_sets(Formula("aps"), p, u, level, rule="leq").flag
    u[2] = wrong
    assert passes.fused_scores(Formula("aps"), p, y, u)[1]
    assert passes.fused_sets(Formula("aps"), p, u, level, rule="leq").flag


def test_trap_sums_of_float32_mislead_and_exact_sums_put_it_right() -> None:
    step = np.float32(2.0**-10)
    probs = np.full((1, 1024), step)
    probs[0, ::2] += np.float32(2.0**-33)  # a sum in float32 does not see it
    probs[0, 1::2] -= np.float32(2.0**-33)
    score, formula = SCORES["aps, whole"]
    (p,) = on_device(probs)
    for rank in (500, 512, 513, 900):
        q = np.sort(score.of_every_label(probs)[0])[rank - 1]
        found = passes.fused_sets(
            formula, p, None, torch.tensor(q, dtype=torch.float64), rule="leq"
        )
        assert found.mask.sum(1).tolist() == [rank]
        np.testing.assert_array_equal(found.mask.cpu().numpy(), score.invert(probs, q).mask)
