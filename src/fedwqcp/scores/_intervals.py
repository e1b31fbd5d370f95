"""Scores of a regressor's output and a real y, and their exact inversion.

In floating point ``y <= f + q`` and ``y - f <= q`` are different statements. Here a score and its
interval are two sides of one: `distance` is raised by one unit in the last place where rounding
would lose y, and `reach` is lowered by one where rounding would gain a y of larger distance. Then
``distance(f, y) <= q`` holds exactly where ``y <= reach(f, q)`` does, for all floats, and likewise
`ratio` and `stretch`. One unit is always enough, because rounding is monotone and keeps floats.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Bools, Floats, as_floats
from fedwqcp.kernels import dispatch
from fedwqcp.scores._base import Score, as_threshold
from fedwqcp.sets import Intervals


class IntervalScore(Score):
    """A score of a regressor's output and a real y."""

    width: ClassVar[int] = 1
    """Numbers a model puts out for each row."""

    _is_distance: ClassVar[bool] = False  # whether V is how far y lies outside all outputs

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
        if (fast := self._fast_of(outputs, y)) is not None:
            return fast
        out = self._outputs(outputs)
        values = as_floats(y, "y", (len(out),))
        with np.errstate(over="ignore"):  # a distance beyond the largest float is +inf
            return self._of(out, values)

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
        if (fast := self._fast_invert(outputs, threshold)) is not None:
            return fast
        out = self._outputs(outputs)
        shape = (len(out), self.columns)
        q = np.broadcast_to(as_threshold(threshold, shape), shape)
        with np.errstate(over="ignore"):
            return self._invert(out, q[:, 0], q[:, -1])

    @abstractmethod
    def _of(self, out: Floats, y: Floats) -> Floats:
        """Score checked outputs."""

    @abstractmethod
    def _invert(self, out: Floats, q_low: Floats, q_high: Floats) -> Intervals:
        """Build the intervals of checked outputs; both thresholds are one, if a point has one."""

    def _outputs(self, outputs: npt.ArrayLike) -> Floats:
        """Check the model's outputs."""
        return as_floats(outputs, *self._wanted())

    def _wanted(self) -> tuple[str, tuple[int | None, ...]]:
        """Say what outputs are and what shape they must have."""
        shape = (None,) if self.width == 1 else (None, self.width)
        return f"outputs for {type(self).__name__}", shape

    def _fast_of(self, outputs: npt.ArrayLike, y: npt.ArrayLike) -> Floats | None:
        """Score in one compiled pass, where that is possible."""
        if not self._is_distance or self.columns > 1:
            return None
        out = as_floats(outputs, *self._wanted(), checked=False)
        return dispatch.interval_scores(out, as_floats(y, "y", (len(out),), checked=False))

    def _fast_invert(self, outputs: npt.ArrayLike, threshold: npt.ArrayLike) -> Intervals | None:
        """Build the intervals in one compiled pass, where that is possible."""
        if not self._is_distance:
            return None
        out = as_floats(outputs, *self._wanted(), checked=False)
        q = as_threshold(threshold, (len(out), self.columns))
        if q.ndim == 2:
            return None
        q_low, q_high = np.broadcast_to(q, 2).tolist()
        ends = dispatch.interval_ends(out, (q_low, q_high))
        return None if ends is None else Intervals(*ends)


def distance(base: Floats, y: Floats) -> Floats:
    """Return y - base, raised where base plus the rounded difference would fall short of y.

    Parameters
    ----------
    base, y : Floats
        Where to measure from and to; -base and -y measure downwards.

    Returns
    -------
    Floats
        The smallest q with ``y <= reach(base, q)``.
    """
    q = y - base
    return _nudged(q, base + q < y, np.inf)


def reach(base: Floats, q: Floats) -> Floats:
    """Return base + q, lowered where its distance from the base would pass q.

    Parameters
    ----------
    base, q : Floats
        Where to start, and how far to go.

    Returns
    -------
    Floats
        The largest y with ``distance(base, y) <= q``.
    """
    y = base + q
    return _nudged(y, distance(base, y) > q, -np.inf)


def ratio(length: Floats, scale: Floats) -> Floats:
    """Return length / scale, raised where scale times the rounded ratio would fall short.

    Parameters
    ----------
    length, scale : Floats
        What to measure, and a positive unit.

    Returns
    -------
    Floats
        The smallest q with ``length <= stretch(q, scale)``.
    """
    q = length / scale
    return _nudged(q, q * scale < length, np.inf)


def stretch(q: Floats, scale: Floats) -> Floats:
    """Return q * scale, lowered where its ratio to the scale would pass q.

    Parameters
    ----------
    q, scale : Floats
        How many units, and a positive unit.

    Returns
    -------
    Floats
        The largest length with ``ratio(length, scale) <= q``.
    """
    length = q * scale
    return _nudged(length, ratio(length, scale) > q, -np.inf)


def _nudged(values: Floats, where: Bools, towards: float) -> Floats:
    """Move some values, which are the caller's own, by one unit in the last place."""
    values[where] = np.nextafter(values[where], towards)
    return values
