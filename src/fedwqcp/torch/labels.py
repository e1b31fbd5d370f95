"""Scores of class probabilities on tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.kernels import tensors, tensors_checks, tensors_fused, tensors_lac, tensors_tiles
from fedwqcp.kernels._torch import torch
from fedwqcp.kernels.tensors import Formula
from fedwqcp.kernels.tensors_fused import Cut
from fedwqcp.scores import LabelScore, Rule
from fedwqcp.scores.aps import APS
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS

Tensor: TypeAlias = torch.Tensor


class Measured(NamedTuple):
    """What sets would say of labelled rows, without the sets.

    Parameters
    ----------
    covered : Tensor, shape (n,)
        Whether each set holds its label.
    sizes : Tensor, shape (n,)
        How many labels each set holds.
    """

    covered: Tensor
    sizes: Tensor


@dataclass(frozen=True)
class TensorLabelScore:
    """A score of class probabilities, on tensors.

    Parameters
    ----------
    score : LabelScore
        LAC, APS, RAPS or SAPS; on tensors of the CPU any score of labels.
    """

    score: LabelScore

    def of(self, probs: Tensor, labels: Tensor, u: Tensor | None = None) -> Tensor:
        """Return the score of one label per row.

        Parameters
        ----------
        probs : Tensor, shape (n, C)
            Class probabilities.
        labels : Tensor, shape (n,)
            Labels from 0 to C - 1.
        u : Tensor, shape (n,), optional
            Uniforms of a randomised score, as `uniforms` gives them.

        Returns
        -------
        Tensor, shape (n,)
            float64, on the device of the probabilities.
        """
        p, v = self._rows(probs, u)
        y = tensors_checks.as_labels(labels, p)
        if _at_home(p):
            return torch.from_numpy(self.score.of(p.numpy(), y.numpy(), _numpy(v)))
        formula = _formula(self.score)
        if tensors_tiles.fits(p, whole_rows=False):
            if formula is None:
                scores, flag = tensors_lac.score_labels(p, y)
            else:
                scores, flag = tensors_fused.score_labels(formula, p, y, v)
            if bool(flag):
                _look(p, y, v)
            return scores
        _look(p, y, v)
        if formula is None:
            return tensors_lac.scored(p.gather(1, y[:, None])[:, 0])
        return tensors.scored(formula, tensors.of_labels(p, y), 1.0 if v is None else v)

    def invert(
        self, probs: Tensor, threshold: object, rule: Rule = "leq", u: Tensor | None = None
    ) -> Tensor:
        """Return the prediction sets as a mask, {y : V(x, y) <= threshold}.

        Parameters
        ----------
        probs : Tensor, shape (n, C)
            Class probabilities.
        threshold : float or Tensor
            Shape () for one threshold, (C,) for one per label, (n, 1) for one per row.
        rule : {"leq", "leq_top1", "until"}, optional
            How the threshold becomes a set.
        u : Tensor, shape (n,), optional
            Uniforms of a randomised score.

        Returns
        -------
        Tensor, shape (n, C)
            True where the label belongs to the row's set.
        """
        p, v = self._rows(probs, u)
        q = tensors_checks.as_threshold(threshold, p)
        if _at_home(p):
            sets = self.score.invert(p.numpy(), q.numpy(), rule, _numpy(v))
            return torch.from_numpy(sets.mask)
        _check_rule(self.score, rule)
        formula = _formula(self.score)
        cut = _cut(formula, p, v, q, rule=rule, y=None)
        if cut is not None:
            assert cut.mask is not None
            return cut.mask
        _look(p, None, v)
        if formula is None:
            return _lac_sets(p, q, rule)
        return tensors.sets(formula, p, v, q, rule)

    def measure(
        self,
        probs: Tensor,
        labels: Tensor,
        threshold: object,
        rule: Rule = "leq",
        u: Tensor | None = None,
    ) -> Measured:
        """Return which sets hold their label and how large they are; no set is kept.

        Parameters
        ----------
        probs : Tensor, shape (n, C)
            Class probabilities.
        labels : Tensor, shape (n,)
            Labels from 0 to C - 1.
        threshold : float or Tensor
            As for `invert`.
        rule : {"leq", "leq_top1", "until"}, optional
            How the threshold becomes a set.
        u : Tensor, shape (n,), optional
            Uniforms of a randomised score.

        Returns
        -------
        Measured
            One entry for each row.
        """
        p, v = self._rows(probs, u)
        y = tensors_checks.as_labels(labels, p)
        q = tensors_checks.as_threshold(threshold, p)
        if _at_home(p):
            found = self.score.measure(p.numpy(), y.numpy(), q.numpy(), rule, _numpy(v))
            return Measured(*map(torch.from_numpy, found))
        _check_rule(self.score, rule)
        cut = _cut(_formula(self.score), p, v, q, rule=rule, y=y)
        if cut is not None and cut.covered is not None and cut.sizes is not None:
            return Measured(cut.covered, cut.sizes)
        tensors_checks.check_labels(y, p.shape[1])
        return self._in_blocks(p, y, q, rule, v)

    def _in_blocks(self, p: Tensor, y: Tensor, q: Tensor, rule: Rule, u: Tensor | None) -> Measured:
        """Measure sets that are made and forgotten block by block."""
        covered = torch.empty(len(p), dtype=torch.bool, device=p.device)
        sizes = torch.empty(len(p), dtype=torch.int64, device=p.device)
        by_row = q.ndim == 2 and len(q) > 1
        for rows in tensors.blocks(p):
            level = q[rows] if by_row else q
            mask = self.invert(p[rows], level, rule, None if u is None else u[rows])
            covered[rows] = mask.gather(1, y[rows, None])[:, 0]
            sizes[rows] = mask.sum(1)
        return Measured(covered, sizes)

    def _rows(self, probs: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Check shapes and types, and that u came exactly where it is needed."""
        p = tensors_checks.as_matrix(probs)
        if self.score.randomized != (u is not None):
            need = "needs one uniform per row" if self.score.randomized else "takes no u"
            raise InputError(f"{self.score!r} {need}; see fedwqcp.torch.uniforms")
        v = None if u is None else tensors_checks.as_uniforms(u, p)
        if v is not None and _at_home(p):
            tensors_checks.check_uniforms(v)
        return p, v


def _formula(score: LabelScore) -> Formula | None:
    """Return a ranked score's formula; None for LAC, which needs no order."""
    if isinstance(score, LAC):
        return None
    if isinstance(score, APS) and score.precision == "exact":
        return Formula("aps")
    if isinstance(score, RAPS):
        return Formula("raps", score.penalty, score.k_reg)
    if isinstance(score, SAPS):
        return Formula("saps", score.penalty)
    raise InputError(f"{score!r} works on the CPU alone; pass probs.cpu()")


def _check_rule(score: LabelScore, rule: str) -> None:
    """Refuse a rule that is unknown, or does not fit."""
    if rule not in tensors_fused.RULES:
        raise InputError(f"rule must be one of {', '.join(tensors_fused.RULES)}, got {rule!r}")
    if rule == "until" and isinstance(score, LAC):
        raise InputError("rule 'until' reads labels in order and does not fit LAC")


def _lac_sets(p: Tensor, q: Tensor, rule: Rule) -> Tensor:
    """Return the sets of LAC."""
    mask = p >= tensors_lac.smallest(q, p)
    return mask.scatter_(1, p.argmax(1, keepdim=True), True) if rule == "leq_top1" else mask


def _cut(
    formula: Formula | None, p: Tensor, u: Tensor | None, q: Tensor, *, rule: Rule, y: Tensor | None
) -> Cut | None:
    """Return sets, or what they say of labels, in one pass; None where that does not fit."""
    if not tensors_tiles.fits(p, whole_rows=True) or not (formula is None or _by_row(q, p)):
        return None
    if formula is None:
        cut = tensors_lac.cut(p, q, top=rule == "leq_top1", labels=y)
    else:
        cut = tensors_fused.cut(formula, p, u, q, rule=rule, labels=y)
    if bool(cut.flag):
        _look(p, y, u)
    return cut


def _by_row(q: Tensor, p: Tensor) -> bool:
    """Tell whether all labels of a row have one threshold."""
    return q.numel() == 1 or tuple(q.shape) == (len(p), 1)


def _look(p: Tensor, y: Tensor | None, u: Tensor | None) -> None:
    """Look at every row, and refuse what is wrong."""
    if u is not None:
        tensors_checks.check_uniforms(u)
    tensors_checks.check_probabilities(p)
    if y is not None:
        tensors_checks.check_labels(y, p.shape[1])


def _at_home(p: Tensor) -> bool:
    """Tell whether numpy can read the tensor's memory."""
    return str(p.device.type) == "cpu"


def _numpy(values: Tensor | None) -> Floats | None:
    """Return the memory of a tensor as an array."""
    return None if values is None else values.numpy()
