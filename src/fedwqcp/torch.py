"""Scores, sets and thresholds on PyTorch tensors, where they live; results are those of numpy.

>>> import torch
>>> import fedwqcp as fw
>>> from fedwqcp.torch import TensorLabelScore, conformal_quantile
>>> aps = TensorLabelScore(fw.APS(randomized=False))
>>> probs = torch.tensor([[0.5, 0.25, 0.25], [0.75, 0.125, 0.125]])
>>> aps.of(probs, torch.tensor([1, 0])).tolist()
[0.75, 0.75]
>>> aps.invert(probs, 0.75).tolist()
[[True, True, False], [True, False, False]]
>>> conformal_quantile(torch.tensor([0.3, 0.1, 0.2, 0.4], dtype=torch.float64), alpha=0.2)
0.4

Tensors of the CPU share their memory with the numpy kernels. On a CUDA device one pass over the
probabilities checks and scores them, or finds the sets, without a sort (by Triton, which torch
brings along); where that does not fit, plain torch operations do the same in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple, TypeAlias

from fedwqcp._validation import Floats
from fedwqcp.errors import InputError
from fedwqcp.kernels import torch as passes
from fedwqcp.kernels.torch import Formula, FusedSets, distance, ratio, reach, stretch, torch
from fedwqcp.quantile import Overflow, threshold_rank
from fedwqcp.quantile import conformal_quantile as conformal_quantile_of_array
from fedwqcp.scores import IntervalScore, LabelScore, Rule, key_digest
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.normalized_residual import NormalizedResidual
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS

__all__ = [
    "SetMeasures",
    "TensorIntervalScore",
    "TensorIntervals",
    "TensorLabelScore",
    "conformal_quantile",
    "uniforms",
]


Tensor: TypeAlias = torch.Tensor

_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_STEP = 0x9E3779B97F4A7C15


class SetMeasures(NamedTuple):
    """Coverage and size of the sets of labelled rows, without the sets.

    Parameters
    ----------
    covered : Tensor, shape (n,)
        Whether each set holds its label, or each interval its value.
    sizes : Tensor, shape (n,)
        How many labels each set holds, or how long each interval is.
    """

    covered: Tensor
    sizes: Tensor


@dataclass(frozen=True)
class TensorLabelScore:
    """A score of class probabilities, on tensors.

    Parameters
    ----------
    score : LabelScore
        LAC, APS (of ``precision="exact"``), RAPS or SAPS; on tensors of the CPU any score of
        labels.
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
        self.score.check_rule(rule)
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
    ) -> SetMeasures:
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
        SetMeasures
            One entry for each row.
        """
        p, v = self._rows(probs, u)
        y = passes.as_labels(labels, p)
        q = passes.as_threshold(threshold, p)
        if _on_cpu(p):
            found = self.score.measure(p.numpy(), y.numpy(), q.numpy(), rule, _numpy(v))
            return SetMeasures(*map(torch.from_numpy, found))
        self.score.check_rule(rule)
        fused = _fused_sets(_formula(self.score), p, v, q, rule=rule, y=y)
        if fused is not None and fused.covered is not None and fused.sizes is not None:
            return SetMeasures(fused.covered, fused.sizes)
        passes.check_labels(y, p.shape[1])
        return self._in_blocks(p, y, q, rule, v)

    def _in_blocks(
        self, p: Tensor, y: Tensor, q: Tensor, rule: Rule, u: Tensor | None
    ) -> SetMeasures:
        """Measure sets that are made and forgotten block by block."""
        covered = torch.empty(len(p), dtype=torch.bool, device=p.device)
        sizes = torch.empty(len(p), dtype=torch.int64, device=p.device)
        by_row = q.ndim == 2 and len(q) > 1
        for rows in passes.blocks(p):
            level = q[rows] if by_row else q
            mask = self.invert(p[rows], level, rule, None if u is None else u[rows])
            covered[rows] = mask.gather(1, y[rows, None])[:, 0]
            sizes[rows] = mask.sum(1)
        return SetMeasures(covered, sizes)

    def _rows(self, probs: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Check shapes and types, and that u came exactly where it is needed."""
        p = passes.as_matrix(probs)
        if self.score.randomized != (u is not None):
            need = "needs one uniform per row" if self.score.randomized else "takes no u"
            raise InputError(f"{self.score!r} {need}; see fedwqcp.torch.uniforms")
        return p, None if u is None else passes.as_uniforms(u, p)


class TensorIntervals(NamedTuple):
    """One closed interval for each row; it is empty where ``lower > upper``.

    Parameters
    ----------
    lower, upper : Tensor, shape (n,)
        The ends, float64; infinite ends are allowed.
    """

    lower: Tensor
    upper: Tensor


@dataclass(frozen=True)
class TensorIntervalScore:
    """A score of a regressor's output and a real y, on tensors.

    Parameters
    ----------
    score : IntervalScore
        AbsoluteResidual, NormalizedResidual or CQR.
    """

    score: IntervalScore

    def __post_init__(self) -> None:
        if not isinstance(self.score, AbsoluteResidual | NormalizedResidual | CQR):
            raise InputError(f"{self.score!r} works on arrays alone; pass outputs.cpu().numpy()")

    def of(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the scores, shape (n,) or (n, columns).

        Parameters
        ----------
        outputs : Tensor, shape (n,) or (n, width)
            What the model put out.
        y : Tensor, shape (n,)
            The true values.

        Returns
        -------
        Tensor
            float64, on the device of the outputs.
        """
        low, high, scale = self._centre(outputs)
        values = _finite(y, "y", (len(low),)).to(low.device)
        below, above = distance(-low, -values), distance(high, values)
        if self.score.columns == 2:
            return torch.stack([below, above], 1)
        worst = torch.maximum(below, above)
        return worst if scale is None else ratio(worst, scale)

    def invert(self, outputs: Tensor, threshold: object) -> TensorIntervals:
        """Return the prediction intervals {y : V(x, y) <= threshold}.

        Parameters
        ----------
        outputs : Tensor, shape (n,) or (n, width)
            What the model put out.
        threshold : float or Tensor
            Shape () for one threshold, (n, 1) for one per row, (columns,) for one per column.

        Returns
        -------
        TensorIntervals
            One interval per row.
        """
        low, high, scale = self._centre(outputs)
        q = passes.as_threshold(threshold, low[:, None].expand(-1, self.score.columns))
        below, above = q.expand(len(low), 2).T  # equal where a point has one score
        if scale is not None:
            below, above = stretch(below, scale), stretch(above, scale)
        return TensorIntervals(-reach(-low, below), reach(high, above))

    def measure(self, outputs: Tensor, y: Tensor, threshold: object) -> SetMeasures:
        """Return which intervals hold their value and how long they are.

        Parameters
        ----------
        outputs : Tensor, shape (n,) or (n, width)
            What the model put out.
        y : Tensor, shape (n,)
            The true values.
        threshold : float or Tensor
            As for `invert`.

        Returns
        -------
        SetMeasures
            One entry for each row; sizes are lengths.
        """
        lower, upper = self.invert(outputs, threshold)
        values = _finite(y, "y", (len(lower),)).to(lower.device)
        return SetMeasures((lower <= values) & (values <= upper), (upper - lower).clamp(min=0.0))

    def _centre(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the lower and the upper estimate, and the spread that distances are divided by."""
        n = len(outputs)
        out = _finite(outputs, "outputs", (n,) if self.score.width == 1 else (n, 2))
        if isinstance(self.score, CQR):
            ends = out.sort(1).values
            return ends[:, 0], ends[:, 1], None
        if not isinstance(self.score, NormalizedResidual):
            return out, out, None
        negative = out[:, 1] < 0
        if bool(negative.any()):
            row = int(negative.int().argmax())
            raise InputError("spreads must be at least 0, got a negative one", row=row)
        return out[:, 0], out[:, 0], out[:, 1].clamp(min=self.score.floor)


def conformal_quantile(scores: Tensor, alpha: float, overflow: Overflow = "propagate") -> float:
    """Return the split-conformal threshold of scores in a tensor.

    Parameters
    ----------
    scores : Tensor, shape (n,)
        Nonconformity scores, on any device.
    alpha : float
        Miscoverage level, strictly between 0 and 1.
    overflow : {"propagate", "clip", "exclude"}, optional
        The value where the rank passes n, as `fedwqcp.conformal_quantile` has it.

    Returns
    -------
    float
        One of the scores, or +inf.

    Raises
    ------
    InputError
        If a score is NaN or -inf, or alpha or overflow is not a valid choice.
    """
    if not isinstance(scores, torch.Tensor):
        raise InputError(f"scores must be a tensor, got {type(scores).__name__}")
    values = scores.detach()
    if values.device.type == "cpu":
        return conformal_quantile_of_array(values.double().numpy(), alpha, overflow)
    return _quantile_on_device(values, alpha, overflow)


def uniforms(key: str | int, ids: Tensor) -> Tensor:
    """Return one number in [0, 1) per row id, the same as `fedwqcp.uniforms` gives for integers.

    Parameters
    ----------
    key : str or int
        Which family of uniforms.
    ids : Tensor, shape (n,)
        Integers, on any device.

    Returns
    -------
    Tensor, shape (n,)
        float64, on the device of the ids.

    Raises
    ------
    InputError
        If ids are no integers.

    Examples
    --------
    >>> import torch
    >>> uniforms("ward-3", torch.tensor([4, 9])).shape
    torch.Size([2])
    """
    of_integers = isinstance(ids, torch.Tensor) and not ids.is_floating_point()
    if not of_integers or ids.dtype == torch.bool or ids.ndim != 1:
        raise InputError("ids must be a tensor of integers of shape (n,)")
    salt = key_digest(key)
    first, second = (int.from_bytes(salt[at : at + 8], "little") for at in (0, 8))
    bits = _mix(_mix(ids.to(torch.int64) ^ _signed(first)) ^ _signed(second))
    return _shifted(bits, 11).to(torch.float64) * 2.0**-53


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


def _lac_sets(p: Tensor, q: Tensor, rule: Rule) -> Tensor:
    mask = p >= passes.lac_least(q, p)
    return mask.scatter_(1, p.argmax(1, keepdim=True), True) if rule == "leq_top1" else mask


def _fused_sets(
    formula: Formula | None, p: Tensor, u: Tensor | None, q: Tensor, *, rule: Rule, y: Tensor | None
) -> FusedSets | None:
    """Return sets, or coverage and sizes, by Triton; None where it does not take such input."""
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
    return None if values is None else values.numpy()


def _finite(values: Tensor, what: str, shape: tuple[int, ...]) -> Tensor:
    """Return finite numbers as float64 of a shape."""
    if not isinstance(values, torch.Tensor) or tuple(values.shape) != shape:
        raise InputError(f"{what} must be a tensor of shape {shape}")
    numbers = values.detach().to(torch.float64)
    if not bool(torch.isfinite(numbers).all()):
        bad = ~torch.isfinite(numbers.reshape(len(numbers), -1)).all(1)
        raise InputError(f"{what} must be finite numbers", row=int(bad.int().argmax()))
    return numbers


def _quantile_on_device(values: Tensor, alpha: float, overflow: Overflow) -> float:
    """Select where the scores live; one number travels."""
    if values.ndim != 1:
        raise InputError(f"scores must have shape (n,), got shape {tuple(values.shape)}")
    if bool((values.isnan() | (values == -inf)).any()):
        raise InputError("scores must be numbers or +inf, one is NaN or -inf")
    rank = threshold_rank(len(values), alpha, overflow)
    if rank is None:
        return inf
    return float(torch.sort(values).values[rank - 1])  # a radix sort, which is linear


def _mix(x: Tensor) -> Tensor:
    """Scramble 64-bit words (the finaliser of SplitMix64), in arithmetic modulo 2^64."""
    x = x + _signed(_STEP)
    x = (x ^ _shifted(x, 30)) * _signed(_MULTIPLIERS[0])
    x = (x ^ _shifted(x, 27)) * _signed(_MULTIPLIERS[1])
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Shift to the right, filling with zeros."""
    return (x >> by) & (2 ** (64 - by) - 1)


def _signed(word: int) -> int:
    """Return an unsigned word as torch's signed one."""
    return word - 2**64 if word >= 2**63 else word
