"""An agent's calibration data, which never leave it, and how many of them answers disclose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import (
    Floats,
    Labels,
    Texts,
    as_class_labels,
    as_floats,
    as_labels,
    as_optional_classes,
    as_scores,
    checked,
    plain,
    unchecked,
)
from fedwqcp.errors import InputError
from fedwqcp.groups import as_groups, combinations, in_group
from fedwqcp.quantile import Overflow, Scores, threshold_rank

SUM_TOLERANCE = 1e-9
"""How far the weights of a point may pass 1 by rounding."""


@dataclass(frozen=True, eq=False, init=False)
class Calibration:
    """Scores of an agent's calibration points, with what else a method or a round needs of them.

    Parameters
    ----------
    scores : array_like, shape (n,) or (n, columns)
        Nonconformity scores, as ``score.of`` gives them.
    labels : array_like, shape (n,), optional
        Class labels, for methods that correct for label shift and for thresholds by label.
    features : array_like, shape (n, d), optional
        Features of the inputs, for methods that correct for covariate shift.
    n_classes : int, optional
        Number of classes; needed where labels are used; `calibrate` finds it
        from the labels of all agents.
    groups : array_like, shape (n,), sequence of sets or mapping of columns, optional
        Group of each point, text or integers, for thresholds by group; or all its groups, as
        `Outputs` take them.
    weights : array_like, shape (n, m), optional
        For methods that control a risk: a point then has m scores, and its loss at a threshold is
        the weight of those above it. Not negative, at most 1 in each row.
    classes : sequence of str, optional
        Names of the classes, in the order of the columns of the probabilities. A round that names
        classes refuses others and another order; labels may then be names.

    Raises
    ------
    InputError
        If a score is NaN or -inf, or lengths differ.
    """

    scores: Floats
    labels: Labels | None
    features: Floats | None
    n_classes: int | None
    groups: Texts | None
    weights: Floats | None
    classes: tuple[str, ...]

    @checked
    def __init__(
        self,
        scores: npt.ArrayLike,
        labels: npt.ArrayLike | None = None,
        features: npt.ArrayLike | None = None,
        n_classes: int | None = None,
        *,
        groups: npt.ArrayLike | None = None,
        weights: npt.ArrayLike | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        values = as_scores(scores, columns=True)
        n = len(values)
        names, n_classes = as_optional_classes(classes), plain(n_classes)
        if names and n_classes not in (None, len(names)):
            raise InputError(
                f"must be {len(names)}, as many as classes are named, got {n_classes}",
                field="n_classes",
            )
        n_classes = len(names) or n_classes
        if labels is not None:
            labels = as_class_labels(labels, names)
        fields = {
            "scores": values,
            "labels": None if labels is None else as_labels(labels, n, n_classes),
            "features": None if features is None else as_floats(features, "features", (n, None)),
            "n_classes": n_classes,
            "groups": None if groups is None else as_groups(groups, n),
            "weights": None if weights is None else _as_weights(weights, values.shape),
            "classes": names,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """Number of calibration points."""
        return len(self.scores)

    @property
    def columns(self) -> int:
        """Number of scores of a point that have a threshold of their own."""
        return 1 if self.scores.ndim == 1 or self.weights is not None else self.scores.shape[1]

    def column(self, index: int) -> Calibration:
        """Return the same points with one column of the scores.

        Parameters
        ----------
        index : int
            Which column.

        Returns
        -------
        Calibration
            Scores of shape (n,); all m scores where they have weights.
        """
        if self.scores.ndim == 1 or self.weights is not None:
            return self
        return self._with(self.scores[:, index], slice(None))

    def take(self, rows: npt.NDArray[Any] | slice) -> Calibration:
        """Return some of the points.

        Parameters
        ----------
        rows : ndarray or slice
            Which: their places, or a truth value for each.

        Returns
        -------
        Calibration
            These points alone.
        """
        return self._with(self.scores[rows], rows)

    def part(self, *, label: int | None = None, group: str | None = None) -> Calibration:
        """Return the points of one class, or of one group.

        Parameters
        ----------
        label : int, optional
            Which class.
        group : str, optional
            Which group.

        Returns
        -------
        Calibration
            These points alone.
        """
        if group is not None:
            assert self.groups is not None  # checked when the data came
            return self.take(in_group(self.groups, group))
        labels = np.zeros(0, np.int64) if self.labels is None else self.labels  # without points
        return self.take(np.asarray(labels == label))

    def by_class(self, method: str) -> list[Scores]:
        """Return the scores of each class, for a method that needs them.

        Parameters
        ----------
        method : str
            Name of the method, for the error.

        Returns
        -------
        list
            One sample for each class.
        """
        labels, C = self.labelled(method)
        return [self.scores[labels == c] for c in range(C)]

    def class_count(self, method: str) -> int:
        """Return the number of classes, for a method that needs labels.

        Parameters
        ----------
        method : str
            Name of the method, for the error.

        Returns
        -------
        int
            C.

        Raises
        ------
        InputError
            If there are no labels.
        """
        if (self.labels is None and self.n) or self.n_classes is None:
            raise InputError(
                f"{method} needs the labels of the calibration points",
                cure=(
                    "pass Calibration(scores, labels=..., n_classes=...)",
                    "it is for scores of classes, and the round's score has none",
                ),
            )
        return self.n_classes

    def sizes(self, *kinds: str) -> npt.NDArray[np.int64]:
        """Return how many points each class has, each combination of groups, or both crossed.

        Parameters
        ----------
        *kinds : {"class", "group"}
            What the points are divided by; what they do not have is left out.

        Returns
        -------
        ndarray of int64
            Sizes of the parts that have points.
        """
        groups = None if self.groups is None else combinations(self.groups)
        by = {"class": self.labels, "group": groups}
        codes = [codes for codes in (by[kind] for kind in kinds) if codes is not None]
        cells = codes[0] if len(codes) == 1 else np.stack(codes)
        return np.asarray(np.unique(cells, axis=-1, return_counts=True)[1])

    def digest(self) -> str:
        """Return a digest by which the same sample is known again; it stays at the agent.

        Returns
        -------
        str
            SHA-256 of scores, labels, features and weights.
        """
        digest = sha256()
        for values in (self.scores, self.labels, self.features, self.weights):
            digest.update(b"-" if values is None else np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    def labelled(self, method: str) -> tuple[Labels, int]:
        """Return labels and number of classes, for a method that needs them.

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
        n_classes = self.class_count(method)
        return np.zeros(0, np.int64) if self.labels is None else self.labels, n_classes

    def featured(self, method: str) -> Floats:
        """Return the features, for a method that needs them.

        Parameters
        ----------
        method : str
            Name of the method, for the error.

        Returns
        -------
        Floats
            Shape (n, d).

        Raises
        ------
        InputError
            If there are no features.
        """
        if self.features is None:
            raise InputError(
                f"{method} needs the features of the calibration points",
                cure=(
                    "pass Calibration(scores, features=...)",
                    "add columns x0, x1, ... to the file (in an .npz file an array features)",
                ),
            )
        return self.features

    def _with(self, scores: Floats, rows: npt.NDArray[Any] | slice) -> Calibration:
        """Return these scores with the other data of some points."""
        parts = {name: getattr(self, name) for name in ("labels", "features", "groups", "weights")}
        there = {name: part[rows] for name, part in parts.items() if part is not None}
        return unchecked(self, scores=scores, **there)

    def __repr__(self) -> str:
        parts = [f"n={self.n}"]
        more = ("labels", "features", "groups", "weights")
        parts += [name for name in more if getattr(self, name) is not None]
        return f"Calibration({', '.join(parts)})"


def own_data(cal: Calibration | None, method: str) -> Calibration:
    """Return the agent's data, which its threshold is found from, or say how to pass them."""
    if cal is None:
        raise InputError(
            f"{method} needs the agent's calibration data to predict",
            cure=(
                "pass calibration=Outputs(probs, labels, ids) to predict_set",
                "pass --calibration FILE",
            ),
        )
    return cal


@dataclass(frozen=True)
class Disclosure:
    """How many scores of one sample the answers of a whole round can disclose.

    An order statistic is one score. A count at a value says between which two scores the value
    lies, so different counts are counted: with enough values each becomes an order statistic.

    Parameters
    ----------
    size : int
        Scores of the sample.
    scores : int
        How many of them the server can learn.
    part : int or None, optional
        The class that the sample is of; None for all points of the agent.
    each_level : bool, optional
        Whether every level of the round discloses other scores, so that they add up.
    ranks : tuple of int, optional
        Which they are, where they are order statistics; the same rank again discloses nothing new.
    """

    size: int
    scores: int
    part: int | None = None
    each_level: bool = True
    ranks: tuple[int, ...] = ()

    @classmethod
    def of_ranks(cls, size: int, ranks: Iterable[int], part: int | None = None) -> Disclosure:
        """Return what order statistics disclose, from their ranks.

        Parameters
        ----------
        size : int
            Scores of the sample.
        ranks : iterable of int
            Their ranks, from 1.
        part : int or None, optional
            The class that the sample is of.

        Returns
        -------
        Disclosure
            One score for each rank.
        """
        distinct = tuple(sorted(set(ranks)))
        return cls(size, len(distinct), part, ranks=distinct)


def one_score(
    cal: Calibration, alpha: float, overflow: Overflow = "propagate"
) -> tuple[Disclosure, ...]:
    """Return what a local threshold discloses: one score, or none where it is +inf."""
    rank = threshold_rank(cal.n, alpha, overflow)
    return (Disclosure.of_ranks(cal.n, () if rank is None else (rank,)),)


def _as_weights(weights: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Check the weights of scores."""
    if len(shape) != 2:
        raise InputError("weights need scores of shape (n, m), one for each weight")
    mass = as_floats(weights, "weights", shape)
    if mass.size and not (mass.min() >= 0 and mass.sum(axis=1).max() <= 1 + SUM_TOLERANCE):
        raise InputError("weights must not be negative, and at most 1 in each row")
    return mass
