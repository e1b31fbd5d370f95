"""Masks of images: the pixels that may belong to an object, all but a bounded share of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import Bools, Floats, as_array
from fedwqcp.errors import InputError
from fedwqcp.kernels import Integers
from fedwqcp.scores._base import Score

BINS = 1000
"""Steps of a score; the grid of `fed-crc` has as many, so that nothing is rounded twice."""
_PIXELS = 2**15
"""So many are scored at a time: they stay in the cache."""


@dataclass(frozen=True)
class Mask(Score):
    """One minus the probability of each pixel, rounded up to a thousandth.

    A pixel or voxel with probability p has the score V = ceil(1000 (1 - p)) / 1000. The predicted
    mask {V <= threshold} grows with the threshold, and an image's loss is the share of its true
    pixels that the mask misses. A method that controls a risk keeps its mean low.

    Parameters
    ----------
    empty : {"skip", "count"}, optional
        Images whose true mask is empty cannot miss anything: they are left out and counted apart,
        since their losses of 0 would let masks of other images be worse; or count like all others.

    References
    ----------
    Angelopoulos, Bates, Fisch, Lei, Schuster (2024), arXiv:2208.02814.

    Examples
    --------
    >>> Mask().invert([[0.9, 0.5], [0.2, 0.0]], 0.5)
    array([[ True,  True],
           [False, False]])
    """

    empty: Literal["skip", "count"] = "skip"

    losses: ClassVar[bool] = True

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # pixels have none
        return 0.0, 1.0

    @property
    def grid(self) -> Floats:
        """The values that a score can have, shape (1001,)."""
        return np.arange(BINS + 1) / BINS

    def counts(self, probability_map: npt.ArrayLike, mask: npt.ArrayLike) -> Integers:
        """Count the pixels of each score, and those of the true mask.

        Parameters
        ----------
        probability_map : array_like, shape (height, width) or more dimensions
            Probability of each pixel; unsigned integers are shares of their largest value.
        mask : array_like
            1 or True inside the object, 0 or False outside, of the same shape.

        Returns
        -------
        Integers, shape (2, 1001)
            All pixels, and those inside.

        Raises
        ------
        InputError
            If a value is no probability, the mask holds another number, or the shapes differ.
        """
        p, truth = as_map(probability_map), as_array(mask, "mask")
        if truth.shape != p.shape:
            raise InputError(f"must have the map's shape {p.shape}, got {truth.shape}", "mask")
        inside, counts = truth.astype(np.bool_).ravel(), np.zeros(2 * (BINS + 1), np.int64)
        if truth.dtype != np.bool_ and (truth.ravel() != inside).any():
            raise InputError("must hold 1 inside an object and 0 outside", field="mask")
        for rows, codes in _places(p):
            codes[:] += np.multiply(inside[rows], BINS + 1, dtype=np.intp)
            counts += np.bincount(codes, minlength=len(counts))
        outside, within = counts.reshape(2, -1)
        return np.stack([outside + within, within])

    def weights(self, inside: Integers) -> Floats:
        """Return the share of an image's true pixels at each score, shape (n, 1001)."""
        return np.asarray(inside / np.maximum(1, inside.sum(axis=1, keepdims=True)))

    def cut(self, threshold: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """Return how many values of a score are at most the threshold."""
        return np.asarray(np.searchsorted(self.grid, threshold, side="right"))

    def invert(self, probability_map: npt.ArrayLike, threshold: float) -> Bools:
        """Return the mask {V <= threshold}, in the shape of the map.

        Parameters
        ----------
        probability_map : array_like, shape (height, width) or more dimensions
            Probability of each pixel; unsigned integers are shares of their largest value.
        threshold : float
            A threshold; +inf marks every pixel.

        Returns
        -------
        Bools
            True inside the predicted mask.

        Raises
        ------
        InputError
            If a value is no probability.
        """
        p, cut = as_map(probability_map), self.cut(threshold)
        mask = np.empty(p.size, np.bool_)
        for rows, codes in _places(p):
            np.less(codes, cut, out=mask[rows])
        return mask.reshape(p.shape)


def as_map(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a probability map as an array of two or more dimensions."""
    what = "probability_map"
    p = as_array(values, what)
    if p.ndim < 2 or p.dtype.kind not in "fu":
        kind = f"{p.dtype} of shape {p.shape}"
        raise InputError(f"must be floats, or unsigned, of two axes or more, got {kind}", what)
    return p


def _places(p: npt.NDArray[Any]) -> Iterator[tuple[slice, npt.NDArray[np.intp]]]:
    """Score a map block by block, as places on the grid; in float64, whatever the map's type."""
    flat = p.ravel()
    largest = np.iinfo(p.dtype).max if p.dtype.kind == "u" else 1
    for start in range(0, p.size, _PIXELS):
        rows = slice(start, start + _PIXELS)
        scores = flat[rows].astype(np.float64)
        if largest > 1:
            scores /= largest
        elif not (scores.min() >= 0 and scores.max() <= 1):
            raise InputError(
                "must hold probabilities between 0 and 1: sigmoid outputs, not logits",
                field="probability_map",
            )
        np.subtract(1.0, scores, out=scores)
        scores *= BINS
        yield rows, np.ceil(scores, out=scores).astype(np.intp)
