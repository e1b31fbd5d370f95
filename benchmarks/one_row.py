"""How long one row takes: a predictor beside a plain numpy version of the formula, and MAPIE.

    python benchmarks/one_row.py [--sites 200] [--page]

Prints minima in microseconds; MAPIE where it is installed (build/peers/bin/python). The plain
version checks that the row holds probabilities, as `predict_set` does, and for APS draws the row's
uniform. MAPIE's APS is not randomised.
"""

from __future__ import annotations

import argparse
import sys
import timeit
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

import fedwqcp as fw

ROOT = Path(__file__).resolve().parents[1]
ID, KEY = "row", "key"


def microseconds(call: Callable[[], object]) -> float:
    """Return the least time of a call."""
    return min(timeit.repeat(call, number=20, repeat=50)) / 20 * 1e6


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


def mapie(score: str, agent: fw.Outputs) -> Callable[[npt.ArrayLike], object] | None:
    """Return MAPIE's `predict_set` after its calibration; None where it is not installed."""
    if score == "aps" and agent.values.shape[1] == 2:
        return None  # it takes LAC alone
    try:
        from mapie.classification import SplitConformalClassifier
    except ImportError:
        return None
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    from peers import _classifier

    model = _classifier(agent.values.shape[1])
    split = SplitConformalClassifier(model, 0.9, conformity_score=score, prefit=True)
    return split.conformalize(agent.values, agent.labels).predict_set  # type: ignore[no-any-return]  # MAPIE is untyped


def row_of_table(classes: int, score: str, sites: int) -> str:
    """Time one number of classes and one score."""
    rng = np.random.default_rng(0)
    labels, row = np.arange(300) % classes, rng.dirichlet(np.ones(classes), 1)
    agent = fw.Outputs(rng.dirichlet(np.ones(classes), 300), labels, list(range(300)))
    agents = {f"site-{number}": agent for number in range(sites)}
    release = fw.calibrate(agents, method="fedwq-cp", score=score, alpha=0.1, key=KEY)
    predictor = release.predictor("site-0")
    q, ids = float(predictor.thresholds()[0, 0]), [ID] if score == "aps" else None
    formula = plain_lac if score == "lac" else plain_aps
    assert np.array_equal(predictor.predict_set(row, ids=ids).mask, formula(row, q))
    plain = microseconds(partial(formula, row, q))
    taken = microseconds(partial(predictor.predict_set, row, ids=ids))
    whole = microseconds(partial(release.predict_set, "site-0", row, ids=ids))
    peer = mapie(score, agent)
    theirs = "" if peer is None else f"{microseconds(partial(peer, row)):.0f}"
    return (
        f"| {classes} | {score} | {plain:.0f} | {taken:.0f} | {taken / plain:.1f} | {whole:.0f} | "
        f"{theirs} |"
    )


def main() -> None:
    """Print a row for each number of classes and each score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=200, help="sites of the release")
    parser.add_argument("--page", action="store_true", help="into docs/performance.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = product((2, 10, 100, 1000), ("lac", "aps"))
    lines = [
        "| classes | score | plain numpy | predictor | ratio | release | MAPIE |",
        "|---|---|---|---|---|---|---|",
        *(row_of_table(classes, score, given.sites) for classes, score in cases),
    ]
    print("\n".join(lines))
    if given.page:
        sys.path.insert(0, str(ROOT / "tools"))
        from page_parts import put

        put(ROOT / "docs/performance.md", "one row", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
