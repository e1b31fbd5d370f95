"""A few numbers that stand for an image: principal components of the training pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fedwqcp.arrays import Floats
from fedwqcp.demo.partition import Indices
from fedwqcp_lab.unit import Numbers

FIT_ROWS = 4096
"""Most training rows that the components are fitted on."""

PASSES = 4
"""Passes of the subspace iteration; more changes no digit that a density estimate could see."""

CHUNK = 4096
"""Rows that are turned into floats at a time."""


@dataclass(frozen=True, eq=False)
class Components:
    """A linear map from pixels to components.

    Parameters
    ----------
    mean : Floats, shape (p,)
        Mean pixel values, between 0 and 1.
    directions : Floats, shape (p, d)
        Orthonormal columns, largest variance first.
    """

    mean: Floats
    directions: Floats

    def of(self, inputs: Numbers, rows: Indices) -> Floats:
        """Return the components of some rows.

        Parameters
        ----------
        inputs : ndarray, shape (n, ...)
            Images of bytes, or numbers between 0 and 1.
        rows : Indices
            Which.

        Returns
        -------
        Floats, shape (m, d)
            One line for each row.
        """
        parts = [
            (_pixels(inputs, rows[at : at + CHUNK]) - self.mean) @ self.directions
            for at in range(0, len(rows), CHUNK)
        ]
        empty = np.empty((0, self.directions.shape[1]))
        return np.concatenate([empty, *parts]).astype(np.float64)


def fit(inputs: Numbers, rows: Indices, dimensions: int, rng: Generator) -> Components:
    """Fit principal components by subspace iteration on some of the rows.

    Parameters
    ----------
    inputs : ndarray, shape (n, ...)
        Images of bytes, or numbers between 0 and 1.
    rows : Indices
        The training rows; of more than `FIT_ROWS` a random part is used.
    dimensions : int
        How many; no more than inputs have numbers, nor rows less one.
    rng : numpy.random.Generator
        Source of the choice of rows and of the start.

    Returns
    -------
    Components
        The map.
    """
    chosen = np.sort(rng.permutation(rows)[:FIT_ROWS])
    x = _pixels(inputs, chosen)
    mean = x.mean(axis=0)
    x = x - mean
    d = min(dimensions, x.shape[1], max(1, len(x) - 1))
    basis = rng.standard_normal((x.shape[1], min(x.shape[1], d + 10)), dtype=np.float32)
    for _ in range(PASSES):
        basis = np.linalg.qr(x.T @ (x @ basis))[0]
    inner = np.linalg.svd(x @ basis, full_matrices=False)[2].T[:, :d]
    return Components(mean, basis @ inner)


def _pixels(inputs: Numbers, rows: Indices) -> npt.NDArray[np.float32]:
    """Return rows as flat vectors between 0 and 1."""
    flat = inputs[rows].reshape(len(rows), -1)
    scale = np.float32(255 if inputs.dtype == np.uint8 else 1)
    return np.asarray(flat, dtype=np.float32) / scale
