"""Scores that the caller computed: only their thresholds are known here."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fedwqcp._validation import check_least
from fedwqcp.scores._base import Score


@dataclass(frozen=True)
class Custom(Score):
    """A score of the caller's own; it has no bounds, and its sets are the caller's to build.

    Parameters
    ----------
    columns : int, optional
        How many scores a point has; each column is calibrated at alpha / columns.
    """

    columns: int = 1

    def __post_init__(self) -> None:
        check_least(self.columns, 1, "columns")

    def bounds(self, n_classes: int | None = None) -> tuple[float, float]:
        del n_classes  # nothing is known of the score
        return -inf, inf
