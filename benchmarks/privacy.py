"""What differential privacy costs in set size, on Fashion-MNIST.

Run: python benchmarks/privacy.py --data FOLDER   (needs scikit-learn; writes results/privacy/)
Its ``tables()`` are those of docs/explanation/privacy.md.

A linear model is trained on 6000 images. Of the rest, 10000 are for test, and calibration samples
are drawn again and again from the others. Over the mechanism's noise the mean is exact.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fedwqcp as fw
from fedwqcp.methods._noise import count_bins, edges_of, mechanism
from fedwqcp.wire.messages import LocalQuantile
from fedwqcp_lab.comparison import markdown_table
from fedwqcp_lab.datasets.loading import load

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "privacy" / "records.jsonl"
ALPHA, BINS, GAMMA = 0.1, 1000, 0.1
SIZES = (50, 200, 1000, 5000)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
AGENTS = (300, 400, 600, 1000, 1500, 2200)
REPEATS, ROUNDS = 400, 400


class Curve:
    """Coverage and mean size on the test images, for every threshold."""

    def __init__(self, scores: np.ndarray, labels: np.ndarray) -> None:
        self.own = np.sort(scores[np.arange(len(labels)), labels])
        self.every = np.sort(scores, axis=None)
        self.n = len(labels)

    def at(self, q: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        """Return coverage and mean size."""
        covered = np.searchsorted(self.own, q, side="right") / self.n
        return covered, np.searchsorted(self.every, q, side="right") / self.n


def outputs(data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Train a linear model, and return probabilities and labels of images that it did not see."""
    from sklearn.linear_model import LogisticRegression

    found = load("fashionmnist", data)
    images = np.concatenate([found.train_images, found.test_images]).reshape(-1, 784) / 255.0
    labels = np.concatenate([found.train_labels, found.test_labels]).astype(np.int64)
    order = np.random.default_rng(0).permutation(len(images))
    train, rest = order[:6000], order[6000:]
    model = LogisticRegression(max_iter=60, C=0.05).fit(images[train], labels[train])
    return model.predict_proba(images[rest]), labels[rest]


def measure(data: Path) -> Iterator[dict[str, object]]:
    """Give one record for each setting."""
    probs, labels = outputs(data)
    score, rng = fw.APS(), np.random.default_rng(1)
    u = rng.uniform(size=len(labels))
    curve = Curve(score.of_every_label(probs[:10_000], u=u[:10_000]), labels[:10_000])
    pool = score.of(probs[10_000:], labels[10_000:], u=u[10_000:])
    accuracy = float((probs[:10_000].argmax(axis=1) == labels[:10_000]).mean())
    yield {"kind": "model", "accuracy": accuracy, "test": 10_000, "pool": len(pool)}
    for n in SIZES:
        samples = [rng.choice(pool, n, replace=False) for _ in range(REPEATS)]
        q = np.array([fw.conformal_quantile(sample, ALPHA) for sample in samples])
        yield {"kind": "agent", "n": n, "epsilon": None, **summed(curve.at(q))}
        for epsilon in EPSILONS:
            found = private(samples, epsilon, curve)
            yield {"kind": "agent", "n": n, "epsilon": epsilon, **found}
    for each in (None, *EPSILONS):
        yield {"kind": "mean", "epsilon": each, **round_of(pool, each, curve)}


def private(samples: list[np.ndarray], epsilon: float, curve: Curve) -> dict[str, float]:
    """Return coverage and size of one agent's private thresholds."""
    edges = edges_of(BINS, None)
    found = mechanism(
        len(samples[0]), ALPHA, epsilon=epsilon, bins=BINS, gamma=GAMMA,
        failure=GAMMA * ALPHA,
    )  # fmt: skip
    if found is None:
        return {"coverage": 1.0, "size": 10.0, "finite": 0.0}
    covered, sizes = curve.at(edges)
    weights = [found.weights(count_bins(sample, edges)) for sample in samples]
    chances = np.array(weights, dtype=np.float64)
    chances /= chances.sum(axis=1, keepdims=True)
    return {"coverage": float((chances @ covered).mean()), "size": float((chances @ sizes).mean()),
            "finite": 1.0}  # fmt: skip


def summed(found: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Return means over repeats."""
    return {"coverage": float(found[0].mean()), "size": float(found[1].mean()), "finite": 1.0}


def round_of(pool: np.ndarray, epsilon: float | None, curve: Curve) -> dict[str, float]:
    """Return coverage and size of FedWQ-CP on the thresholds of six agents."""
    rng, edges = np.random.default_rng(2), edges_of(BINS, None)
    rule: Any = fw.methods.get("fedwq-cp", overflow="exclude")
    mechanisms = {
        n: None if epsilon is None else mechanism(
            n, ALPHA, epsilon=epsilon, bins=BINS, gamma=GAMMA, failure=GAMMA * ALPHA
        )
        for n in AGENTS
    }  # fmt: skip
    thresholds = []
    for _ in range(ROUNDS):
        answers = []
        for n in AGENTS:
            sample = rng.choice(pool, n, replace=False)
            if epsilon is None:
                q = fw.conformal_quantile(sample, ALPHA)
            elif mechanisms[n] is None:
                q = np.inf
            else:
                q = edges[mechanisms[n].draw(count_bins(sample, edges), rng)]
            answers.append(LocalQuantile(float(q), n))
        thresholds.append(rule.aggregate(answers, ALPHA).value)
    used = (
        sum(each is not None for each in mechanisms.values())
        if epsilon is not None
        else len(AGENTS)
    )
    return {**summed(curve.at(np.array(thresholds))), "used": used}


def tables() -> dict[str, str]:
    """Return the table of the page, from the records alone."""
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    agent = {(r["n"], r["epsilon"]): r for r in records if r["kind"] == "agent"}
    head = ["epsilon", *(f"n = {n}" for n in SIZES)]
    rows = [
        ["none" if e is None else f"{e:g}", *(shown(agent[n, e]) for n in SIZES)]
        for e in (None, *EPSILONS)
    ]
    return {"sizes": markdown_table([head, *rows])}


def shown(record: dict[str, float]) -> str:
    """Write size and coverage."""
    if not record["finite"]:
        return "+inf"
    return f"{record['size']:.2f} ({record['coverage']:.3f})"


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    lines = [json.dumps(record) + "\n" for record in measure(parser.parse_args().data)]
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    RECORDS.write_text("".join(lines))


if __name__ == "__main__":
    main()
