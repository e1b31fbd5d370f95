"""Data that need no download: digits, tumours and a synthetic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from fedwqcp.errors import InputError
from fedwqcp_lab.datasets.partition import Floats, Labels


@dataclass(frozen=True, eq=False)
class EmbeddedDataset:
    """Inputs and what is to be predicted from them.

    Parameters
    ----------
    name : str
        As tables show it.
    inputs : Floats, shape (n, d)
        Inputs between 0 and 1.
    targets : Labels or Floats, shape (n,)
        Class labels, or real values.
    n_classes : int or None
        Number of classes; None for a regression.
    """

    name: str
    inputs: Floats
    targets: Labels | Floats
    n_classes: int | None

    def __len__(self) -> int:
        return len(self.inputs)


def digits(rows: int | None = None) -> EmbeddedDataset:
    """Return the 1797 handwritten digits of 8 x 8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    inputs = np.asarray(pixels, dtype=np.float64)[:rows] / 16.0
    return EmbeddedDataset("digits", inputs, np.asarray(labels, dtype=np.int64)[:rows], 10)


def breast_cancer() -> EmbeddedDataset:
    """Return the 569 tumours with 30 measurements that come with scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    measured, labels = load_breast_cancer(return_X_y=True)
    low, high = measured.min(axis=0), measured.max(axis=0)
    inputs = np.asarray((measured - low) / (high - low), dtype=np.float64)
    return EmbeddedDataset("breast-cancer", inputs, np.asarray(labels, dtype=np.int64), 2)


def friedman(rows: int, rng: Generator) -> EmbeddedDataset:
    """Return a synthetic regression after Friedman (1991).

    y = 10 sin(pi x0 x1) + 20 (x2 - 1/2)^2 + 10 x3 + 5 x4 + noise, with ten inputs uniform on [0, 1]
    of which five matter, and standard normal noise.
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    x = rng.random((rows, 10))
    mean = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    mean += 10 * x[:, 3] + 5 * x[:, 4]
    return EmbeddedDataset("synthetic (Friedman)", x, mean + rng.standard_normal(rows), None)
