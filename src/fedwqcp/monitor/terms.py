"""What a monitor promises: to whom, for which coverage, and how seldom it alarms falsely."""

from __future__ import annotations

from dataclasses import dataclass

from fedwqcp.arrays import as_alpha
from fedwqcp.errors import InputError
from fedwqcp.wire.round import check_names

MOST_CLASSES = 10_000
"""More classes are refused."""


@dataclass(frozen=True)
class Terms:
    """Terms of a monitor.

    Parameters
    ----------
    alpha : float
        Miscoverage level that was promised.
    agents : tuple of str
        All agents that will be watched; the false-alarm rate is shared among them.
    n_classes : int, optional
        Watch each of so many classes as well, where labels are given.
    class_alpha : float or tuple of float, optional
        Misses accepted within a class, one for all or one for each. By default alpha, which only a
        calibration by label promises: other thresholds may cover a hard class less.
    delta : float, optional
        Probability that any alarm is ever false, between one calibration and the next.
    tolerance : float, optional
        How much less than 1 - alpha is still accepted, such as `calibration_slack` gives.

    Raises
    ------
    InputError
        If a value is out of range, or a name is bad.
    """

    alpha: float
    agents: tuple[str, ...]
    n_classes: int = 0
    class_alpha: float | tuple[float, ...] | None = None
    delta: float = 0.05
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        as_alpha(self.alpha)
        if not isinstance(self.agents, tuple):
            raise InputError(f"agents must be a tuple of names, got {self.agents!r}")
        check_names(self.agents)
        if isinstance(self.n_classes, bool) or not isinstance(self.n_classes, int):
            raise InputError(f"n_classes must be a whole number, got {self.n_classes!r}")
        if self.n_classes == 1 or not 0 <= self.n_classes <= MOST_CLASSES:
            raise InputError(
                f"n_classes must be 0 or from 2 to {MOST_CLASSES}, got {self.n_classes}"
            )
        if self.class_alpha is not None and not self.n_classes:
            raise InputError("class_alpha needs n_classes: say how many classes are watched")
        if isinstance(self.class_alpha, tuple) and len(self.class_alpha) != self.n_classes:
            raise InputError(
                f"class_alpha must be one number or {self.n_classes}, got {len(self.class_alpha)}"
            )
        if not (isinstance(self.delta, float) and 0.0 < self.delta < 1.0):
            raise InputError(f"delta must be strictly between 0 and 1, got {self.delta!r}")
        if not (isinstance(self.tolerance, int | float) and self.tolerance >= 0.0):
            raise InputError(f"tolerance must be at least 0, got {self.tolerance!r}")
        for label in (None, *range(self.n_classes)):
            if not self.limit(label) < 1.0:
                raise InputError(f"alpha + tolerance must be below 1, got {self.limit(label):g}")

    def limit(self, label: int | None = None) -> float:
        """Return the share of misses that is still accepted.

        Parameters
        ----------
        label : int, optional
            Within this class; of all rows by default.

        Returns
        -------
        float
            alpha + tolerance.
        """
        alpha = self.alpha if label is None or self.class_alpha is None else self.class_alpha
        own = alpha[label] if isinstance(alpha, tuple) and label is not None else alpha
        return as_alpha(own) + self.tolerance

    def share(self, label: int | None = None) -> float:
        """Return the part of delta that one stream of an agent spends.

        Parameters
        ----------
        label : int, optional
            The stream of this class; that of all rows by default.

        Returns
        -------
        float
            The parts of all streams of all agents sum to delta.
        """
        own = self.delta / len(self.agents)
        if not self.n_classes:
            return own
        return own / 2 if label is None else own / (2 * self.n_classes)
