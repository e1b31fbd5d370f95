"""Scores of a regressor's output and a real y."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, as_floats
from fedwqcp.scores._base import Score
from fedwqcp.sets import Intervals


class IntervalScore(Score):
    """A score of a regressor's output and a real y."""

    width: ClassVar[int] = 1
    """Numbers a model puts out for each row."""

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # an interval has no classes
        return 0.0, np.inf

    def of(self, outputs: npt.ArrayLike, y: npt.ArrayLike) -> Floats:
        """Return the scores, shape (n,) or (n, columns).

        A score is the smallest threshold whose interval holds y, rounding included.

        Parameters
        ----------
        outputs : array_like, shape (n,) or (n, width)
            What the model put out.
        y : array_like, shape (n,)
            The true values.

        Returns
        -------
        Floats
            The scores.
        """
        out = self._outputs(outputs)
        return self._of(out, as_floats(y, "y", (len(out),)))

    @abstractmethod
    def invert(self, outputs: npt.ArrayLike, threshold: npt.ArrayLike) -> Intervals:
        """Return the prediction intervals {y : V(x, y) <= threshold}.

        Parameters
        ----------
        outputs : array_like, shape (n,) or (n, width)
            What the model put out.
        threshold : array_like
            Shape () for one threshold, (n, 1) for one per row, (columns,) for one per column.

        Returns
        -------
        Intervals
            One interval per row.
        """

    @abstractmethod
    def _of(self, out: Floats, y: Floats) -> Floats:
        """Score checked outputs."""

    def _outputs(self, outputs: npt.ArrayLike) -> Floats:
        """Check the model's outputs."""
        shape = (None,) if self.width == 1 else (None, self.width)
        return as_floats(outputs, f"outputs for {type(self).__name__}", shape)
