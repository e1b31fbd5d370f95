"""How long one row takes: `predict_set` beside a plain numpy version of the same formula.

Run: python benchmarks/one_row.py
Prints minima in microseconds. The plain version checks that the row holds probabilities, as
`predict_set` does, and for APS draws the row's uniform.
"""

from __future__ import annotations

import timeit
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

import fedwqcp as fw

ID, KEY = "row", "key"


def microseconds(call: Callable[[], object]) -> float:
    """Return the least time of a call."""
    return min(timeit.repeat(call, number=20, repeat=150)) / 20 * 1e6


def checked(row: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return a row that holds probabilities."""
    p = np.asarray(row, dtype=np.float64)
    assert p.ndim == 2 and p.min() >= 0 and np.abs(p.sum(axis=1) - 1).max() <= 5e-3  # noqa: PT018
    return p


def plain_lac(row: npt.ArrayLike, q: float) -> npt.NDArray[np.bool_]:
    """Return {y : 1 - p(y) <= q}."""
    return np.asarray(1 - checked(row) <= q)


def plain_aps(row: npt.ArrayLike, q: float) -> npt.NDArray[np.bool_]:
    """Return {y : mass before y + u p(y) <= q}."""
    p, u = checked(row), fw.uniforms(KEY, [ID])
    order = np.argsort(-p, axis=1, kind="stable")
    ordered = np.take_along_axis(p, order, axis=1)
    mask = np.empty(p.shape, np.bool_)
    within = np.cumsum(ordered, axis=1) - (1 - u[:, None]) * ordered <= q
    np.put_along_axis(mask, order, within, axis=1)
    return mask


def main() -> None:
    """Print a row for each number of classes."""
    warnings.simplefilter("ignore")
    print("| classes | score | plain | `predict_set` | ratio |\n|---|---|---|---|---|")
    for classes in (2, 10, 100, 1000):
        rng = np.random.default_rng(0)
        labels, row = rng.integers(classes, size=300), rng.dirichlet(np.ones(classes), 1)
        agent = fw.Outputs(rng.dirichlet(np.ones(classes), 300), labels, list(range(300)))
        for score, formula in (("lac", plain_lac), ("aps", plain_aps)):
            release = fw.calibrate(
                {"a": agent, "b": agent}, method="fedwq-cp", score=score, alpha=0.1, key=KEY
            )
            q, ids = float(release.threshold("a")), [ID] if score == "aps" else None
            ours = release.predict_set("a", row, ids=ids)
            assert np.array_equal(ours.mask, formula(row, q))
            plain = microseconds(partial(formula, row, q))
            taken = microseconds(partial(release.predict_set, "a", row, ids=ids))
            print(f"| {classes} | {score} | {plain:.0f} | {taken:.0f} | {taken / plain:.1f} |")


if __name__ == "__main__":
    main()
