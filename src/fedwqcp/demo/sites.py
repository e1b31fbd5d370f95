"""Six sites in folders of their own: each with its model's outputs on data of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fedwqcp.demo.data import by_label, digits, iid, stream
from fedwqcp.errors import MissingExtraError

SITES = ("st-mary", "lakeside", "north", "south", "east", "west")
"""Names of the sites."""
EPOCHS = 10
"""Passes over the training data."""


def write_sites(folder: Path, seed: int = 0, beta: float = 2.0) -> tuple[str, ...]:
    """Train a model at each site on digits, and write its outputs as files."""
    data = digits()
    train, held, test = iid(len(data), (2, 4, 3), stream(seed, "sites", "split"))
    rng = stream(seed, "sites", "partition")
    shares = by_label(data.targets[held], len(SITES), rng, beta=beta)
    for at, (name, share) in enumerate(zip(SITES, shares, strict=True)):
        model = _model(hidden=8 * (at + 1), start=int(stream(seed, "sites", name).integers(2**31)))
        for _ in range(EPOCHS):
            model.partial_fit(data.inputs[train], data.targets[train], classes=np.arange(10))
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, rows in (("cal", held[share]), ("test", test)):
            probs = np.asarray(model.predict_proba(data.inputs[rows]), dtype=np.float64)
            labels = data.targets[rows]
            np.savez(folder / name / f"{file}.npz", probs=probs, labels=labels, ids=rows)
    return SITES


def _model(hidden: int, start: int) -> Any:
    """Return a small network that has learnt nothing yet."""
    try:
        from sklearn.neural_network import MLPClassifier
    except ImportError as error:
        raise MissingExtraError("training the sites' models", "demo") from error
    return MLPClassifier((hidden,), learning_rate_init=0.01, batch_size=32, random_state=start)
