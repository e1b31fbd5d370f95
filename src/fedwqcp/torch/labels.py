"""Scores of class probabilities on tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.kernels import torch as passes
from fedwqcp.kernels.torch import Formula, FusedSets, torch
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
        y = passes.as_labels(labels, p)
        if _on_cpu(p):
            return torch.from_numpy(self.score.of(p.numpy(), y.numpy(), _numpy(v)))
        formula = _formula(self.score)
        if passes.triton_serves(p, whole_rows=False):
            if formula is None:
                scores, flag = passes.fused_lac_scores(p, y)
            else:
                scores, flag = passes.fused_scores(formula, p, y, v)
            if bool(flag):
                _check(p, y, v)
            return scores
        _check(p, y, v)
        if formula is None:
            return passes.lac_scores(p.gather(1, y[:, None])[:, 0])
        return passes.score_places(formula, passes.rank_labels(p, y), 1.0 if v is None else v)

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
        q = passes.as_threshold(threshold, p)
        if _on_cpu(p):
            sets = self.score.invert(p.numpy(), q.numpy(), rule, _numpy(v))
            return torch.from_numpy(sets.mask)
        _check_rule(self.score, rule)
        formula = _formula(self.score)
        fused = _fused_sets(formula, p, v, q, rule=rule, y=None)
        if fused is not None:
            assert fused.mask is not None
            return fused.mask
        _check(p, None, v)
        if formula is None:
            return _lac_sets(p, q, rule)
        return passes.sets(formula, p, v, q, rule)

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
        y = passes.as_labels(labels, p)
        q = passes.as_threshold(threshold, p)
        if _on_cpu(p):
            found = self.score.measure(p.numpy(), y.numpy(), q.numpy(), rule, _numpy(v))
            return Measured(*map(torch.from_numpy, found))
        _check_rule(self.score, rule)
        fused = _fused_sets(_formula(self.score), p, v, q, rule=rule, y=y)
        if fused is not None and fused.covered is not None and fused.sizes is not None:
            return Measured(fused.covered, fused.sizes)
        passes.check_labels(y, p.shape[1])
        return self._in_blocks(p, y, q, rule, v)

    def _in_blocks(self, p: Tensor, y: Tensor, q: Tensor, rule: Rule, u: Tensor | None) -> Measured:
        """Measure sets that are made and forgotten block by block."""
        covered = torch.empty(len(p), dtype=torch.bool, device=p.device)
        sizes = torch.empty(len(p), dtype=torch.int64, device=p.device)
        by_row = q.ndim == 2 and len(q) > 1
        for rows in passes.blocks(p):
            level = q[rows] if by_row else q
            mask = self.invert(p[rows], level, rule, None if u is None else u[rows])
            covered[rows] = mask.gather(1, y[rows, None])[:, 0]
            sizes[rows] = mask.sum(1)
        return Measured(covered, sizes)

    def _rows(self, probs: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Check shapes and types, and that u came exactly where it is needed."""
        p = passes.as_matrix(probs)
        if self.score.randomized != (u is not None):
            need = "needs one uniform per row" if self.score.randomized else "takes no u"
            raise InputError(f"{self.score!r} {need}; see fedwqcp.torch.uniforms")
        v = None if u is None else passes.as_uniforms(u, p)
        if v is not None and _on_cpu(p):
            passes.check_uniforms(v)
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
    if rule not in passes.RULES:
        raise InputError(f"rule must be one of {', '.join(passes.RULES)}, got {rule!r}")
    if rule == "until" and isinstance(score, LAC):
        raise InputError("rule 'until' reads labels in order and does not fit LAC")


def _lac_sets(p: Tensor, q: Tensor, rule: Rule) -> Tensor:
    """Return the sets of LAC."""
    mask = p >= passes.lac_least(q, p)
    return mask.scatter_(1, p.argmax(1, keepdim=True), True) if rule == "leq_top1" else mask


def _fused_sets(
    formula: Formula | None, p: Tensor, u: Tensor | None, q: Tensor, *, rule: Rule, y: Tensor | None
) -> FusedSets | None:
    """Return sets, or what they say of labels, by Triton; None where that does not serve."""
    if not passes.triton_serves(p, whole_rows=True) or not (formula is None or _by_row(q, p)):
        return None
    if formula is None:
        fused = passes.fused_lac_sets(p, q, top=rule == "leq_top1", labels=y)
    else:
        fused = passes.fused_sets(formula, p, u, q, rule=rule, labels=y)
    if bool(fused.flag):
        _check(p, y, u)
    return fused


def _by_row(q: Tensor, p: Tensor) -> bool:
    """Tell whether all labels of a row have one threshold."""
    return q.numel() == 1 or tuple(q.shape) == (len(p), 1)


def _check(p: Tensor, y: Tensor | None, u: Tensor | None) -> None:
    """Check every row in full, and refuse what is wrong."""
    if u is not None:
        passes.check_uniforms(u)
    passes.check_probabilities(p)
    if y is not None:
        passes.check_labels(y, p.shape[1])


def _on_cpu(p: Tensor) -> bool:
    """Tell whether numpy can read the tensor's memory."""
    return str(p.device.type) == "cpu"


def _numpy(values: Tensor | None) -> Floats | None:
    """Return the memory of a tensor as an array."""
    return None if values is None else values.numpy()
