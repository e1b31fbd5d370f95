"""Compare the compiled loops with the reference in numpy, to the last bit, on adversarial rows.

Run: python tests/equality.py --cases 50000 --seed 0
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

import fedwqcp as fw
from changed import replace
from fedwqcp.kernels import dispatch
from fedwqcp.kernels.selection import order_statistic
from fedwqcp.scores import row_ids

Rows = npt.NDArray[Any]
Rng = np.random.Generator

FAMILIES: dict[str, Callable[[Rng, int, int], Rows]] = {
    "random": lambda r, n, C: np.exp(2 * r.standard_normal((n, C))),
    "sharp": lambda r, n, C: np.exp(8 * r.standard_normal((n, C))),
    "saturated": lambda r, n, C: np.exp(30 * r.standard_normal((n, C))),
    "flat": lambda r, n, C: np.exp(0.01 * r.standard_normal((n, C))),
    "close": lambda r, n, C: 1 + 1e-7 * r.standard_normal((n, C)),
    "closer than 2^-52": lambda r, n, C: 1 + 3e-16 * r.integers(-2, 3, (n, C)),
    "tied": lambda r, n, C: r.integers(0, 4, (n, C)) + np.eye(C)[r.integers(0, C, n)],
    "equal": lambda r, n, C: np.ones((n, C)),
    "zeros": lambda r, n, C: (
        np.exp(2 * r.standard_normal((n, C))) * (r.random((n, C)) < 0.1)
        + 1e-3 * np.eye(C)[r.integers(0, C, n)]
    ),
    "one-hot": lambda r, n, C: np.eye(C)[r.integers(0, C, n)],
    "tiny": lambda r, n, C: np.exp(-3 * r.exponential(4, (n, C))) + np.eye(C)[r.integers(0, C, n)],
    "subnormal": lambda r, n, C: (
        np.where(r.random((n, C)) < 0.5, 1.2e-38 * r.random((n, C)), r.random((n, C)))
        + np.eye(C)[r.integers(0, C, n)]
    ),
    "geometric": lambda r, n, C: (
        0.5 ** r.permuted(np.broadcast_to(np.arange(C) % 80, (n, C)), axis=1).astype(float)
    ),
    "mixed": lambda r, n, C: np.exp(
        r.choice([0, 0.01, 1, 3, 8, 30], (n, 1)) * r.standard_normal((n, C))
    ),
    "quantised": lambda r, n, C: np.round(255 * r.random((n, C)) ** 4) + np.eye(C)[0],
}
SCORES = [
    fw.APS(),
    fw.RAPS(penalty=0.01, k_reg=2),
    fw.RAPS(penalty=0.3, k_reg=0),
    fw.RAPS(penalty=1e-9),
    fw.SAPS(penalty=0.05),
    fw.SAPS(penalty=0.0),
]
CLASSES = (2, 3, 5, 10, 16, 17, 31, 32, 33, 47, 48, 49, 64, 100, 257, 1000, 1025)


def rows(family: str, n: int, n_classes: int, rng: Rng) -> Rows:
    """Return rows of probabilities that are easy, or hard, to tell apart."""
    weights = FAMILIES[family](rng, n, n_classes)
    p = weights / weights.sum(axis=1, keepdims=True)
    if rng.random() < 0.1:  # sums off 1 within the tolerance
        p *= 1 + 0.004 * rng.uniform(-1, 1, (n, 1))
    return p


def thresholds(scores: Rows, n_classes: int, rng: Rng) -> Iterator[Any]:
    """Yield thresholds: anywhere, at scores and one unit beside them; by row and by label."""
    n = len(scores)
    near = [lambda q: q, lambda q: np.nextafter(q, -np.inf), lambda q: np.nextafter(q, np.inf)]
    yield from (0.9, 0.3, 1.0, 0.0, -0.1, np.inf, float(np.quantile(scores, 0.9)))
    for beside in near:
        yield float(beside(rng.choice(scores)))
        yield beside(scores)[:, None].copy()
        yield beside(rng.choice(scores, n_classes))
    yield 0.9 + 0.02 * rng.standard_normal((n, 1))
    yield 0.9 + 0.02 * rng.standard_normal(n_classes)
    yield rng.random(n_classes) * scores.max()
    yield rng.random((n, n_classes))


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what the compiled loops give, and numpy."""
    with patch.object(dispatch, "backend", lambda: dispatch.Backend(None, "numpy")):
        wanted = work()
    return work(), wanted


def same(work: Callable[[], Any]) -> bool:
    """Tell whether both give the same arrays, signs of zero and all."""
    found, wanted = both(work)
    return all(
        np.array_equal(one, other) and np.array_equal(np.signbit(one), np.signbit(other))
        for one, other in zip(found, wanted, strict=True)
    )


def compare(rng: Rng, classes: tuple[int, ...] = CLASSES) -> Iterator[tuple[str, bool]]:
    """Yield cases of one family, type, score and number of classes, and whether both agree."""
    C, family = int(rng.choice(classes)), str(rng.choice(list(FAMILIES)))
    n, dtype = int(rng.integers(1, 70 if C > 100 else 140)), rng.choice([np.float32, np.float64])
    p = rows(family, n, C, rng).astype(dtype)
    if rng.random() < 0.1:
        p = np.asfortranarray(p)
    y, u = rng.integers(0, C, n), rng.random(n)
    y[: n // 2] = p[: n // 2].argmax(axis=1)
    u[rng.random(n) < 0.1] = rng.choice([0.0, 1.0, 2.0**-53])
    score = SCORES[rng.integers(len(SCORES))]
    for one, v in ((score, u), (replace(score, randomized=False), None)):
        name = f"{C} {family} {np.dtype(dtype)} {one}"
        yield f"of {name}", same(lambda one=one, v=v: [one.of(p, y, u=v)])
        for q in thresholds(one.of(p, y, u=v), C, rng):
            for rule in ("leq", "leq_top1", "until"):
                call = f"{name} {rule} q {np.shape(q) or q!r}"
                args = {"threshold": q, "rule": rule, "u": v}
                yield f"invert {call}", same(lambda a=args, one=one: [one.invert(p, **a).mask])
                yield f"measure {call}", same(lambda a=args, one=one: one.measure(p, y, **a))
    lac = fw.LAC()
    yield f"of LAC {C} {family}", same(lambda: [lac.of(p, y)])
    for q in thresholds(lac.of(p, y), C, rng):
        name = f"LAC {C} {family} {np.shape(q) or q!r}"
        yield f"invert {name}", same(lambda q=q: [lac.invert(p, q).mask])
        yield f"measure {name}", same(lambda q=q: lac.measure(p, y, q))


def ends(score: Any, outputs: Rows, q: float) -> list[Rows]:
    """Return both ends of intervals."""
    found = score.invert(outputs, q)
    return [found.lower, found.upper]


def compare_others(rng: Rng) -> Iterator[tuple[str, bool]]:
    """Yield cases of intervals, quantiles and hashes."""
    n = int(rng.integers(1, 300))
    scale = 10.0 ** rng.integers(-300, 300, (n, 2)) if rng.random() < 0.5 else 1.0
    out, y = rng.standard_normal((n, 2)) * scale, rng.standard_normal(n)
    for score, given in ((fw.AbsoluteResidual(), out[:, 0].copy()), (fw.CQR(), out)):
        with np.errstate(over="ignore"):
            near = score.of(given, y)
        yield f"of {score}", same(lambda s=score, g=given: [s.of(g, y)])
        for q in (0.3, float(near[0]), float(np.nextafter(near[0], 0)), -0.1, np.inf, -np.inf):
            yield f"ends {score} {q}", same(lambda s=score, g=given, q=q: ends(s, g, q))
    m = int(rng.integers(8192, 30_000))
    values = rng.choice(
        [rng.random(m), rng.integers(0, 5, m) / 4, np.sort(rng.random(m)), np.ones(m)]
    )
    values[rng.random(m) < rng.choice([0, 0.4])] = np.inf
    for rank in (1, 2, m // 2, m - 1, m, int(rng.integers(1, m + 1))):
        yield f"rank {rank} of {m}", same(lambda r=rank: [np.array(order_statistic(values, r))])
    alphabet = ["", "a", "7", "é", "€", "😀", "patient-", "\0x", "x" * int(rng.integers(1, 300))]
    ids = [
        "".join(rng.choice(alphabet, rng.integers(0, 6))) for _ in range(int(rng.integers(1, 40)))
    ]
    yield "ids", same(lambda: [fw.uniforms("key", ids)])
    table = rng.standard_normal((int(rng.integers(1, 30)), int(rng.integers(0, 70))))
    yield f"rows {table.shape}", same(lambda: [row_ids(table)])


def main() -> None:
    """Compare as many cases as asked for, and print those that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    assert dispatch.backend().loops is not None, dispatch.backend().name
    rng, cases, wrong = np.random.default_rng(options.seed), 0, 0
    while cases < options.cases:
        for part in (compare(rng), compare_others(rng)):
            for name, right in part:
                cases, wrong = cases + 1, wrong + (not right)
                if not right and wrong <= 20:
                    print("differs:", name)
    print(f"{cases} cases, {wrong} differ ({dispatch.backend().name})")
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
