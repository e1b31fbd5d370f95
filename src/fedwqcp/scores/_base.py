"""What a score is: of labels, of a label's place in its row, of real values.

`LabelScore` checks arguments in ``of``, ``invert`` and ``measure``, and hands checked arrays to
``_of_labels``, ``_mask`` and ``_measure``. These score every label of a block of rows at a time;
`RankedScore` and LAC replace them by kernels where these fit. Every file of this folder whose name
does not begin with an underscore is a score: the registry finds it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache
from math import inf, isnan
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from fedwqcp._validation import (
    Bools,
    CheckedSettings,
    Floats,
    Labels,
    Probabilities,
    as_floats,
    as_labels,
    as_probabilities,
    as_uniforms,
    shown,
)
from fedwqcp.errors import InputError
from fedwqcp.kernels import Given, Integers, KernelFormula, Ranked, Sets, dispatch
from fedwqcp.kernels.numpy import blocks, rank_every_label
from fedwqcp.sets import Intervals, LabelSets


class Score(CheckedSettings, ABC):
    """A nonconformity score; larger is stranger. A frozen dataclass of its settings."""

    losses: ClassVar[bool] = False
    """Whether a point has several scores, whose weights above a threshold are its loss."""

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
        """Return the range of the score; a threshold outside is refused, except +inf.

        Parameters
        ----------
        n_classes : int, optional
            Number of classes, for scores of labels.

        Returns
        -------
        tuple of float
            Lowest and highest value.
        """


Rule: TypeAlias = Literal["leq", "leq_top1", "until"]
"""How a threshold becomes a set of labels.

``leq``: the labels with V <= q. ``leq_top1``: these and the most probable label. ``until``: labels
in order until their score, random part left out, first reaches q, the crossing label and all of
``leq`` included; never empty.
"""

RULES = get_args(Rule)


class LabelScore(Score):
    """A score of class probabilities and a label."""

    _ranks_labels: ClassVar[bool] = False  # whether labels have an order, which "until" needs

    def of(
        self, probs: npt.ArrayLike, labels: npt.ArrayLike, u: npt.ArrayLike | None = None
    ) -> Floats:
        """Return the score of one label per row, shape (n,).

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        labels : array_like, shape (n,)
            Labels from 0 to C - 1.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score, as `uniforms` gives them.

        Returns
        -------
        Floats
            The scores.
        """
        p = as_probabilities(probs, checked=False)
        y = as_labels(labels, len(p), p.shape[1])
        return self._of_labels(p, y, self._uniforms(u, len(p)))

    def of_every_label(self, probs: npt.ArrayLike, u: npt.ArrayLike | None = None) -> Floats:
        """Return the score of every label, shape (n, C).

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score; one serves all labels of a row.

        Returns
        -------
        Floats
            The scores.
        """
        p = as_probabilities(probs)
        return self._of_every_label(p, self._uniforms(u, len(p)))

    def invert(
        self,
        probs: npt.ArrayLike,
        threshold: npt.ArrayLike,
        rule: Rule = "leq",
        u: npt.ArrayLike | None = None,
    ) -> LabelSets:
        """Return the prediction sets {y : V(x, y) <= threshold}.

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        threshold : array_like
            Shape () for one threshold, (C,) for one per label, (n, 1) for one per row.
        rule : {"leq", "leq_top1", "until"}, optional
            How the threshold becomes a set; see `Rule`.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score.

        Returns
        -------
        LabelSets
            One set per row.
        """
        p = as_probabilities(probs, checked=False)
        v = self._uniforms(u, len(p))
        q = as_threshold(threshold, p.shape)
        return LabelSets(self._mask(p, q, self.check_rule(rule), v))

    def measure(
        self,
        probs: npt.ArrayLike,
        labels: npt.ArrayLike,
        threshold: npt.ArrayLike,
        rule: Rule = "leq",
        u: npt.ArrayLike | None = None,
    ) -> tuple[Bools, Integers]:
        """Return which sets hold their label, and how large they are, without building them.

        Parameters
        ----------
        probs : array_like, shape (n, C)
            Class probabilities.
        labels : array_like, shape (n,)
            The true labels.
        threshold : array_like
            As `invert` takes it.
        rule : {"leq", "leq_top1", "until"}, optional
            How the threshold becomes a set; see `Rule`.
        u : array_like, shape (n,), optional
            Uniforms of a randomised score.

        Returns
        -------
        tuple of Bools and Integers, each of shape (n,)
            What `LabelSets.cover` and `LabelSets.sizes` give for the sets of `invert`.
        """
        p = as_probabilities(probs, checked=False)
        y = as_labels(labels, len(p), p.shape[1])
        v = self._uniforms(u, len(p))
        q = as_threshold(threshold, p.shape)
        return self._measure(p, y, q, self.check_rule(rule), v)

    @abstractmethod
    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        """Score every label of checked probabilities."""

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        """Check probabilities and score one label per row."""
        dispatch.check(p)
        scores_of_labels = np.empty(len(p))
        for rows in blocks(*p.shape):
            scores = self._of_every_label(p[rows], None if u is None else u[rows])
            scores_of_labels[rows] = np.take_along_axis(scores, y[rows, None], axis=1)[:, 0]
        return scores_of_labels

    def _mask(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        """Check probabilities and mark the labels of each set."""
        mask = np.empty(p.shape, np.bool_)
        for rows, sets in self._blocks(p, q, rule, u):
            mask[rows] = sets
        return mask

    def _measure(
        self, p: Probabilities, y: Labels, q: Floats, rule: Rule, u: Floats | None
    ) -> tuple[Bools, Integers]:
        """Check probabilities, and tell which sets hold their label and how large they are."""
        covered, sizes = np.empty(len(p), np.bool_), np.empty(len(p), np.int64)
        for rows, mask in self._blocks(p, q, rule, u):
            sets = LabelSets(mask)
            covered[rows], sizes[rows] = sets.cover(y[rows]), sets.sizes()
        return covered, sizes

    def _blocks(
        self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None
    ) -> Iterator[tuple[slice, Bools]]:
        """Check probabilities, and mark the labels of the sets of a block of rows at a time."""
        dispatch.check(p)
        by_row = q.ndim == 2 and len(q) > 1
        for rows in blocks(*p.shape):
            thresholds = q[rows] if by_row else q
            yield rows, self._block(p[rows], thresholds, rule, None if u is None else u[rows])

    def _block(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        """Mark the labels of each set by scoring every label."""
        mask = self._of_every_label(p, u) <= q
        return mask | self._top(p) if rule == "leq_top1" else mask

    def check_rule(self, rule: Rule) -> Rule:
        """Refuse a rule that is unknown or does not fit.

        Parameters
        ----------
        rule : str
            How a threshold becomes a set of labels.

        Returns
        -------
        str
            The same.

        Raises
        ------
        InputError
            Naming the rules that fit.
        """
        if not isinstance(rule, str) or rule not in RULES:
            raise InputError(f"rule must be one of {', '.join(RULES)}, got {shown(rule)}")
        if rule == "until" and not self._ranks_labels:
            raise InputError(
                f"rule 'until' reads labels in order and does not fit {type(self).__name__}; "
                "use 'leq' or 'leq_top1'"
            )
        return rule

    def _top(self, p: Probabilities) -> Bools:
        """Mark the most probable label of each row, the first of equals."""
        return np.asarray(p.argmax(axis=1)[:, None] == np.arange(p.shape[1]))

    def _uniforms(self, u: npt.ArrayLike | None, n: int) -> Floats | None:
        """Check that u is given exactly where the score is randomised."""
        if not self.randomized:
            if u is not None:
                raise InputError(f"{self!r} is not randomised: leave u out")
            return None
        if u is None:
            raise InputError(
                f"{self!r} is randomised and needs one uniform per row: "
                "pass u=uniforms(key, ids), or use randomized=False"
            )
        return as_uniforms(u, n)


GrowsWith: TypeAlias = Literal["mass", "top"]
"""What a score grows with, beside the rank: the mass up to the label, or the largest probability of
the row. The formula is one of the two that `KernelFormula` names."""


class RankedScore(LabelScore):
    """A score that is a formula of where the label stands in its row."""

    _ranks_labels: ClassVar[bool] = True

    @property
    def _grows_with(self) -> GrowsWith | None:
        """What tells the labels within a threshold from the others; None if all must be scored."""
        return "mass"

    @abstractmethod
    def _formula(self, ranked: Ranked, u: Floats | float) -> Floats:
        """Return the score of labels at these places; u = 1 where nothing is random."""

    def _places(self, p: Probabilities) -> Ranked:
        """Return where every label stands."""
        return rank_every_label(p)

    def _of_every_label(self, p: Probabilities, u: Floats | None) -> Floats:
        return self._formula(self._places(p), 1.0 if u is None else u[:, None])

    def _of_labels(self, p: Probabilities, y: Labels, u: Floats | None) -> Floats:
        if self._grows_with is None:
            return super()._of_labels(p, y, u)
        return dispatch.score_labels(p, y, _kernel_formula(self, p.shape[1]), u)

    def _mask(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        if self._grows_with is None:
            return super()._mask(p, q, rule, u)
        return self._sets(p, None, q, rule, u).mask

    def _measure(
        self, p: Probabilities, y: Labels, q: Floats, rule: Rule, u: Floats | None
    ) -> tuple[Bools, Integers]:
        if self._grows_with is None:
            return super()._measure(p, y, q, rule, u)
        sets = self._sets(p, y, q, rule, u)
        return sets.covered, sets.sizes

    def _sets(
        self, p: Probabilities, y: Labels | None, q: Floats, rule: Rule, u: Floats | None
    ) -> Sets:
        """Find the masks, or with true labels coverage and sizes."""
        if q.size == 1:
            q = q.reshape(())
        elif q.ndim == 2 and len(q) == 1 < len(p):  # the same for all rows
            q = q[0]
        formula = _kernel_formula(self, p.shape[1])
        return dispatch.find_sets(p, formula, u, Given(q, rule), y)

    def _block(self, p: Probabilities, q: Floats, rule: Rule, u: Floats | None) -> Bools:
        mask = super()._block(p, q, rule, u)
        if rule == "until":
            ranked = self._places(p)
            mask |= (self._formula(ranked.previous(), 1.0) < q) | (ranked.rank == 1)
        return mask

    def _top(self, p: Probabilities) -> Bools:
        return np.asarray(self._places(p).rank == 1)


@lru_cache(maxsize=64)
def _kernel_formula(score: RankedScore, n_classes: int) -> KernelFormula:
    """Return a score as kernels take it."""
    nothing, ranks = np.zeros(n_classes + 1), np.arange(n_classes + 1)
    penalties = score._formula(Ranked(nothing, nothing, ranks, nothing), 1.0)
    penalties.flags.writeable = False
    return KernelFormula(score._formula, penalties, score._grows_with == "top")


def check_penalty(penalty: float) -> None:
    """Refuse a penalty on ranks that is not a finite number of at least 0."""
    if not 0 <= penalty < inf:
        raise InputError(f"penalty must be a finite number of at least 0, got {penalty!r}")


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
        with np.errstate(over="ignore"):  # a distance beyond the largest float is +inf
            if not self._is_distance or self.columns > 1:
                out = self._outputs(outputs)
                return self._of(out, as_floats(y, "y", (len(out),)))
            out = as_floats(outputs, *self._expected(), checked=False)
            values = as_floats(y, "y", (len(out),), checked=False)
            compiled = dispatch.interval_scores(out, values)
            if compiled is not None:
                return compiled
            return self._of(self._outputs(out), as_floats(values, "y", (len(out),)))

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
        out = as_floats(outputs, *self._expected(), checked=False)
        q = as_threshold(threshold, (len(out), self.columns))
        q_low, q_high = np.broadcast_to(q, (len(out), 2)).T  # equal where a point has one score
        with np.errstate(over="ignore"):  # an end beyond the largest float is infinite
            if not self._is_distance or q.ndim == 2:
                return self._invert(self._outputs(out), q_low, q_high)

            low, high = np.broadcast_to(q, 2).tolist()
            ends = dispatch.interval_ends(out, (low, high))
            if ends is None:
                return self._invert(self._outputs(out), q_low, q_high)
            return Intervals(*ends)

    @abstractmethod
    def _of(self, out: Floats, y: Floats) -> Floats:
        """Score checked outputs."""

    @abstractmethod
    def _invert(self, out: Floats, q_low: Floats, q_high: Floats) -> Intervals:
        """Build the intervals of checked outputs; scores of one column have q_low = q_high."""

    def _outputs(self, outputs: npt.ArrayLike) -> Floats:
        """Check the model's outputs."""
        return as_floats(outputs, *self._expected())

    def _expected(self) -> tuple[str, tuple[int | None, ...]]:
        """Return how errors call the outputs, and the shape that they must have."""
        shape = (None,) if self.width == 1 else (None, self.width)
        return f"outputs for {type(self).__name__}", shape


def as_threshold(threshold: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return a threshold that broadcasts against scores of the given shape, or refuse it."""
    try:
        q = np.asarray(threshold, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
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
            "pass one number, one per column of the scores, or a column with one per row"
        )
    return q
