"""The Triton program gives the sets of numpy; without a GPU Triton interprets it."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the kernels on tensors need the extra 'torch'")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is first imported
pytest.importorskip("triton", reason="Triton runs on Linux alone")

from fedwqcp.kernels import triton_sets as programs  # noqa: E402
from fedwqcp.scores.aps import APS  # noqa: E402
from fedwqcp.scores.raps import RAPS  # noqa: E402
from fedwqcp.scores.saps import SAPS  # noqa: E402
from fedwqcp.torch import Formula  # noqa: E402

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


def sets_of(formula: Formula, probs, u, q, rule: str) -> np.ndarray:
    share = None if u is None else torch.from_numpy(u).to(DEVICE)
    level = torch.as_tensor(q, dtype=torch.float64)
    p = probs if isinstance(probs, torch.Tensor) else torch.from_numpy(probs).to(DEVICE)
    return programs.find_sets(formula, p, share, level, rule).cpu().numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", list(SCORES))
def test_sets_are_those_of_numpy(name: str, dtype: type) -> None:
    score, formula = SCORES[name]
    probs = rows(7, dtype)
    rng = np.random.default_rng(0)
    labels, u = rng.integers(0, 7, len(probs)), rng.random(len(probs)) if score.randomized else None
    for at, q in enumerate(thresholds(score.of(probs, labels, u=u))):
        rule = programs.RULES[at % 3]
        expected = score.invert(probs, q, rule, u).mask
        np.testing.assert_array_equal(sets_of(formula, probs, u, q, rule), expected)


@pytest.mark.parametrize("n_classes", [2, 16, 17, 100, 1500])
def test_rows_of_any_length(n_classes: int) -> None:
    probs = rows(n_classes, np.float32, "spread")
    score, formula = SCORES["aps, whole"]
    found = sets_of(formula, probs, None, 0.9, "leq")
    np.testing.assert_array_equal(found, score.invert(probs, 0.9).mask)


def test_strided_rows() -> None:
    probs = np.repeat(rows(9, np.float32, "spread"), 2, axis=0)
    score, formula = SCORES["aps, whole"]
    expected = score.invert(probs[::2], 0.8).mask
    p = torch.from_numpy(probs).to(DEVICE)[::2]
    for laid in (p, p.T.contiguous().T):
        np.testing.assert_array_equal(sets_of(formula, laid, None, 0.8, "leq"), expected)


def test_trap_sums_of_float32_mislead_and_exact_sums_put_it_right() -> None:
    step = np.float32(2.0**-10)
    probs = np.full((1, 1024), step)
    probs[0, ::2] += np.float32(2.0**-33)  # a sum in float32 does not see it
    probs[0, 1::2] -= np.float32(2.0**-33)
    score, formula = SCORES["aps, whole"]
    for rank in (500, 512, 513, 900):
        q = np.sort(score.of_every_label(probs)[0])[rank - 1]
        found = sets_of(formula, probs, None, q, "leq")
        assert found.sum() == rank
        np.testing.assert_array_equal(found, score.invert(probs, q).mask)
