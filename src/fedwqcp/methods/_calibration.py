"""An agent's calibration data. It has no way to become bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels, as_floats, as_labels, as_scores, real_array
from fedwqcp.errors import InputError


@dataclass(frozen=True, eq=False, init=False)
class Calibration:
    """Scores of an agent's calibration points, with labels and features where a method needs them.

    Parameters
    ----------
    scores : array_like, shape (n,) or (n, columns)
        Nonconformity scores, as ``score.of`` gives them.
    labels : array_like, shape (n,), optional
        Class labels, for methods that correct for label shift.
    features : array_like, shape (n, d), optional
        Features of the inputs, for methods that correct for covariate shift.
    n_classes : int, optional
        Number of classes; needed where labels are used; `calibrate` finds it
        from the labels of all agents.

    Raises
    ------
    InputError
        If a score is NaN or -inf, or lengths differ.
    """

    scores: Floats
    labels: Labels | None
    features: Floats | None
    n_classes: int | None

    def __init__(
        self,
        scores: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        features: npt.ArrayLike | None = None,
        n_classes: int | None = None,
    ) -> None:
        values = real_array(scores, "scores")
        if values.ndim == 2 and values.shape[1]:
            values = np.stack([as_scores(column) for column in values.T], axis=1)
        else:
            values = as_scores(values)
        n = len(values)
        y = None
        if labels is not None:
            most = np.iinfo(np.int64).max if n_classes is None else n_classes
            y = as_labels(labels, n, most)
        x = None if features is None else as_floats(features, "features", (n, None))
        for name, value in (("scores", values), ("labels", y), ("features", x)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_classes", n_classes)

    @property
    def n(self) -> int:
        """Number of calibration points."""
        return len(self.scores)

    @property
    def columns(self) -> int:
        """Number of scores of a point."""
        return 1 if self.scores.ndim == 1 else self.scores.shape[1]

    def column(self, index: int) -> Calibration:
        """Return the same points with one column of the scores.

        Parameters
        ----------
        index : int
            Which column.

        Returns
        -------
        Calibration
            Scores of shape (n,).
        """
        if self.scores.ndim == 1:
            return self
        return Calibration(self.scores[:, index], self.labels, self.features, self.n_classes)

    def labelled(self, method: str) -> tuple[Labels, int]:
        """Return labels and number of classes, for a method that cannot do without.

        Parameters
        ----------
        method : str
            Name of the method, for the error.

        Returns
        -------
        tuple
            Labels of shape (n,), and C.

        Raises
        ------
        InputError
            If there are no labels.
        """
        if self.labels is None or self.n_classes is None:
            raise InputError(
                f"{method} needs the labels of the calibration points: "
                "pass Calibration(scores, labels=..., n_classes=...)"
            )
        return self.labels, self.n_classes

    def __repr__(self) -> str:
        parts = [f"n={self.n}"]
        parts += ["labels"] if self.labels is not None else []
        parts += ["features"] if self.features is not None else []
        return f"Calibration({', '.join(parts)})"
