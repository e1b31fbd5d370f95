"""What every score is, and the shapes of its threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isnan

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError


class Score(ABC):
    """A nonconformity score; larger is stranger. A frozen dataclass of its settings."""

    @property
    def columns(self) -> int:
        """How many scores a point has; each column is calibrated at alpha / columns."""
        return 1

    @property
    def randomized(self) -> bool:
        """Whether the score takes a uniform ``u`` per row."""
        return False

    @abstractmethod
    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        """Return the range of the score; a threshold outside is refused, +inf apart.

        Parameters
        ----------
        n_classes : int, optional
            Number of classes, for scores of labels.

        Returns
        -------
        tuple of float
            Lowest and highest value.
        """


def as_threshold(threshold: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return a threshold that broadcasts against scores of the given shape.

    Parameters
    ----------
    threshold : array_like
        Numbers, +inf or -inf among them.
    shape : tuple of int
        Shape of the score matrix.

    Returns
    -------
    Floats
        The threshold.

    Raises
    ------
    InputError
        If it is NaN or does not broadcast.
    """
    try:
        q = np.asarray(threshold, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the threshold must be a number or an array of numbers") from None
    if np.isnan(q).any() if q.ndim else isnan(q):
        raise InputError("the threshold must be a number or +inf, got NaN")
    try:
        fits = q.ndim == 0 or np.broadcast_shapes(q.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f"a threshold of shape {q.shape} does not fit scores of shape {shape}: "
            "pass one number, one per label or a column with one per row"
        )
    return q
