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

Tensors of the CPU share their memory with the numpy kernels. Elsewhere the work is in plain torch
operations on blocks of rows. Where Triton is there, torch compiles the pass over the rows, and
`fedwqcp.kernels.triton_sets` finds sets without a sort.

Probabilities are rounded to multiples of 2^-52. float64 holds every sum of a row of these, so sums
are exact in any order on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import inf, nan
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from fedwqcp._validation import SUM_TOLERANCE, Floats, as_labels, as_probabilities, as_uniforms
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.quantile import Overflow, threshold_rank
from fedwqcp.quantile import conformal_quantile as conformal_quantile_of_array
from fedwqcp.scores import LabelScore, Rule, key_digest
from fedwqcp.scores._base import as_threshold
from fedwqcp.scores.aps import APS
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS

try:
    import torch
except ImportError as error:  # pragma: no cover  # only without the extra
    raise MissingExtraError("working on tensors", "torch") from error

__all__ = [
    "SetMeasures",
    "TensorLabelScore",
    "conformal_quantile",
    "uniforms",
]

Tensor: TypeAlias = torch.Tensor

BLOCK = {"cpu": 2**18, "cuda": 2**25}
"""How many probabilities are worked on at a time, by kind of device."""

_MULTIPLIERS = (0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)  # torch's words are signed
_STEP = 0x9E3779B97F4A7C15 - 2**64


class SetMeasures(NamedTuple):
    """Coverage and size of the sets of labelled rows, without the sets.

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
        y = _as_labels(labels, p)
        if _on_cpu(p):
            return torch.from_numpy(self.score.of(p.numpy(), y.numpy(), _numpy(v)))
        formula = _formula(self.score)
        if formula is None:
            _check(p, y)
            return (1.0 - p.gather(1, y[:, None])[:, 0].to(torch.float64)).clamp(min=0.0)
        ranks, sound = rank_labels(p, y, v)
        scores = formula.of(ranks, 1.0 if v is None else v)
        _refuse(sound, p, y, v)  # last, since it waits for the device
        return scores

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
        q = _as_threshold(threshold, p)
        if _on_cpu(p):
            sets = self.score.invert(p.numpy(), q.numpy(), rule, _numpy(v))
            return torch.from_numpy(sets.mask)
        self.score.check_rule(rule)
        _check(p, None, v)
        return self._mask(p, v, q, rule)

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
        y = _as_labels(labels, p)
        q = _as_threshold(threshold, p)
        if _on_cpu(p):
            measures = self.score.measure(p.numpy(), y.numpy(), q.numpy(), rule, _numpy(v))
            return SetMeasures(*map(torch.from_numpy, measures))
        self.score.check_rule(rule)
        _check(p, y, v)
        by_row = q.ndim == 2 and len(q) > 1
        covered = torch.empty(len(p), dtype=torch.bool, device=p.device)
        sizes = torch.empty(len(p), dtype=torch.int64, device=p.device)
        for rows in _blocks(p):  # the sets of a block are forgotten with it
            level = q[rows] if by_row else q
            mask = self._mask(p[rows], None if v is None else v[rows], level, rule)
            covered[rows], sizes[rows] = _by_rows(_count, mask, y[rows])
        return SetMeasures(covered, sizes)

    def _mask(self, p: Tensor, u: Tensor | None, q: Tensor, rule: Rule) -> Tensor:
        """Return the sets of checked rows."""
        formula = _formula(self.score)
        if formula is not None:
            return find_sets(formula, p, u, q, rule)
        mask = p >= lac_least(q, p)
        return mask.scatter_(1, p.argmax(1, keepdim=True), True) if rule == "leq_top1" else mask

    def _rows(self, probs: Tensor, u: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Check shapes and types, and that u came exactly where it is needed."""
        p = _as_matrix(probs)
        if self.score.randomized != (u is not None):
            need = "needs one uniform per row" if self.score.randomized else "takes no u"
            raise InputError(f"{self.score!r} {need}; see fedwqcp.torch.uniforms")
        return p, None if u is None else _as_uniforms(u, p)


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
    first, second = (int.from_bytes(part, "little", signed=True) for part in (salt[:8], salt[8:]))
    bits = _mix(_mix(ids.to(torch.int64) ^ first) ^ second)
    return _shifted(bits, 11).to(torch.float64) * 2.0**-53


# Ranked scores: where labels stand, and what the formulas make of it ------------------------------


class RankedTensors(NamedTuple):
    """Where labels stand in their rows, as `fedwqcp.kernels.Ranked` says it."""

    before: Tensor
    upto: Tensor
    rank: Tensor
    top: Tensor


@dataclass(frozen=True)
class Formula:
    """A ranked score: which one, what a rank adds, and how many ranks are free of it."""

    kind: Literal["aps", "raps", "saps"]
    penalty: float = 0.0
    k_reg: int = 0

    def of(self, ranks: RankedTensors, u: Tensor | float) -> Tensor:
        """Return the scores of labels at these places; u = 1 where nothing is random."""
        if self.kind == "saps":
            steps = (ranks.rank - 2).to(torch.float64) + u
            return torch.where(ranks.rank == 1, u * ranks.top, ranks.top + steps * self.penalty)
        mass = ranks.before + u * (ranks.upto - ranks.before)
        if self.kind == "raps":
            steps = torch.clamp(ranks.rank - self.k_reg, min=0).to(torch.float64)
            return mass + self.penalty * steps
        return mass

    def belongs(self, ranks: RankedTensors, u: Tensor | float, q: Tensor, rule: Rule) -> Tensor:
        """Return whether labels at these places belong to their sets."""
        inside = self.of(ranks, u) <= q
        if rule == "leq":
            return inside
        inside |= ranks.rank == 1
        if rule == "until":  # the label before, with its whole mass
            inside |= self.of(ranks._replace(upto=ranks.before, rank=ranks.rank - 1), 1.0) < q
        return inside


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


def _rounded(probs: Tensor) -> Tensor:
    """Return probabilities as multiples of 2^-52, half to even; float32 of at least 2^-29 are."""
    edge = 1.0 if probs.dtype == torch.float64 else 2.0**-29
    return torch.where(probs < edge, (probs + edge) - edge, probs)


def _ahead(probs: Tensor, labels: Tensor, value: Tensor, u: Tensor | None) -> tuple[Tensor, ...]:
    """Return where labels of probability ``value`` stand, and whether all that came is sound."""
    p, value = _rounded(probs), _rounded(value)
    columns = torch.arange(p.shape[1], device=p.device, dtype=torch.int32)
    ahead = (p > value[:, None]) | ((p == value[:, None]) & (columns < labels[:, None]))
    before = torch.where(ahead, p, 0.0).sum(1, dtype=torch.float64)
    rank = ahead.sum(1, dtype=torch.int32) + 1
    ranks = _capped(before, before + value, rank, p.amax(1), p.shape[1])
    return *ranks, *_sound(probs, labels, u)


def _count(mask: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    """Return whether each set holds its label, and its size."""
    return mask.gather(1, labels[:, None])[:, 0], mask.sum(1)


def _sound(probs: Tensor, labels: Tensor | None, u: Tensor | None) -> tuple[Tensor]:
    """Return which rows are probabilities, with a label of the classes and a uniform."""
    off = (probs.sum(1, dtype=torch.float64) - 1.0).abs()
    sound = (probs >= 0).all(1) & (off <= SUM_TOLERANCE)
    if labels is not None:
        sound &= (labels >= 0) & (labels < probs.shape[1])
    if u is not None:
        sound &= (u >= 0) & (u <= 1)
    return (sound,)


def rank_labels(probs: Tensor, labels: Tensor, u: Tensor | None) -> tuple[RankedTensors, Tensor]:
    """Return where one label of each row stands, without sorting, and which rows are sound."""
    inside = labels.clamp(0, probs.shape[1] - 1)[:, None]
    value = probs.gather(1, inside)[:, 0]  # outside, or the pass is a slow loop
    *ranks, sound = _by_rows(_ahead, probs, labels, value, u)
    return RankedTensors(*ranks), sound


def _by_rows(
    work: Callable[..., tuple[Tensor, ...]], probs: Tensor, *parts: Tensor | None
) -> tuple[Tensor, ...]:
    """Run a reduction of rows: as one compiled pass where Triton is there, else block by block."""
    if _triton() is not None and probs.device.type == "cuda" and len(probs) > 1:
        for part in (probs, *parts):  # one program for any number of rows, columns constant in it
            if part is not None:
                torch._dynamo.maybe_mark_dynamic(part, 0)
        return _compiled(work)(probs, *parts)
    blocks = (
        work(*(None if part is None else part[rows] for part in (probs, *parts)))
        for rows in _blocks(probs)
    )
    return tuple(map(torch.cat, zip(*blocks, strict=True)))


def _capped(
    before: Tensor, upto: Tensor, rank: Tensor, top: Tensor, n_classes: int
) -> RankedTensors:
    """Cap masses at 1, and let the last label reach exactly 1."""
    upto = torch.where(rank == n_classes, 1.0, upto.clamp(max=1.0))
    return RankedTensors(before.clamp(max=1.0), upto, rank, top.double().clamp(max=1.0))


def find_sets(formula: Formula, p: Tensor, u: Tensor | None, q: Tensor, rule: Rule) -> Tensor:
    """Return the sets of all checked rows as a mask, shape (n, C)."""
    one_per_row = q.numel() == 1 or tuple(q.shape) == (len(p), 1)
    programs = _triton()
    if programs is not None and p.device.type == "cuda" and one_per_row and programs.serves(p):
        sets: Tensor = programs.find_sets(formula, p, u, q, rule)
        return sets
    mask = torch.empty(p.shape, dtype=torch.bool, device=p.device)
    levels = q.expand(p.shape)
    for rows in _blocks(p):
        ordered, order = torch.sort(-_rounded(p[rows]).double(), dim=1, stable=True)
        upto = torch.cumsum(-ordered, 1)
        rank = torch.arange(1, p.shape[1] + 1, device=p.device).expand_as(order)
        ranks = _capped(upto + ordered, upto, rank, -ordered[:, :1], p.shape[1])
        level = levels[rows].gather(1, order) if q.ndim and q.shape[-1] > 1 else levels[rows, :1]
        inside = formula.belongs(ranks, 1.0 if u is None else u[rows, None], level, rule)
        mask[rows] = torch.empty_like(inside).scatter_(1, order, inside)
    return mask


@cache
def _triton() -> Any | None:
    """Return the module of Triton programs, or None where Triton is not installed."""
    try:
        from fedwqcp.kernels import triton_sets
    except ImportError:
        return None
    return triton_sets


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as torch compiles it."""
    compiled: Callable[..., Any] = torch.compile(function)
    return compiled


# LAC in plain torch: one comparison for each probability ------------------------------------------


def lac_least(q: Tensor, like: Tensor) -> Tensor:
    """Return the least probability, in the type of ``like``, whose score is at most a threshold.

    The score falls as the probability grows, rounding included, so ``p >= lac_least(q, p)`` says
    exactly what ``1 - p <= q`` says; `fedwqcp.scores.lac` says why. +inf where none reaches.
    """
    least = 1.0 - q - (q >= 0.5) * 2.0**-54
    least = torch.where(1.0 - least > q, _next(least, inf), least)
    if like.dtype != torch.float64:
        near = least.to(like.dtype)
        least = torch.where(near.to(torch.float64) < least, _next(near, inf), near)
    return torch.where(q < 0, inf, least).to(device=like.device, dtype=like.dtype)


def _next(values: Tensor, towards: float) -> Tensor:
    """Return the next float in one direction."""
    return torch.nextafter(values, torch.full_like(values, towards))


# Checks: the same as those of arrays; errors name a row and show no value of a person -------------


def _as_matrix(probs: Tensor) -> Tensor:
    """Return class probabilities as floats of shape (n, C) without a gradient; no value is read.

    float32 and float64 are kept as they are; shorter floats become float32.
    """
    if not isinstance(probs, torch.Tensor) or not probs.is_floating_point():
        raise InputError("probabilities must be a tensor of floats")
    if probs.ndim != 2 or probs.shape[1] < 2:
        raise InputError(
            "probabilities must have shape (n, C) with at least two classes, "
            f"got shape {tuple(probs.shape)}"
        )
    values = probs.detach()
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _check(probs: Tensor, labels: Tensor | None = None, u: Tensor | None = None) -> None:
    """Refuse rows that are not probabilities, labels outside, and uniforms outside [0, 1]."""
    (sound,) = _by_rows(_sound, probs, labels, u)
    _refuse(sound, probs, labels, u)


def _refuse(sound: Tensor, probs: Tensor, labels: Tensor | None, u: Tensor | None) -> None:
    """Refuse what is not sound; the checks of arrays word it."""
    if bool(sound.all()):
        return
    if u is not None:
        as_uniforms(u.cpu().numpy(), len(u))
    if labels is not None:
        as_labels(labels.cpu().numpy(), len(labels), probs.shape[1])
    as_probabilities(probs.cpu().numpy())


def _as_labels(labels: Tensor, probs: Tensor) -> Tensor:
    """Return labels as int64 on the device of the probabilities; no value is read."""
    n = len(probs)
    kind = labels.dtype if isinstance(labels, torch.Tensor) else torch.bool
    if kind == torch.bool or kind.is_floating_point or kind.is_complex:
        raise InputError("labels must be a tensor of integers")
    if labels.shape != (n,):
        raise InputError(f"labels must have shape ({n},), got shape {tuple(labels.shape)}")
    return labels.to(device=probs.device, dtype=torch.int64)


def _as_uniforms(u: Tensor, probs: Tensor) -> Tensor:
    """Return uniforms as float64 on the device of the probabilities; no value is read."""
    n = len(probs)
    if not isinstance(u, torch.Tensor) or u.shape != (n,):
        raise InputError(f"u must be a tensor of shape ({n},)")
    return u.detach().to(device=probs.device, dtype=torch.float64)


def _as_threshold(threshold: Any, probs: Tensor) -> Tensor:
    """Return a threshold that broadcasts against the probabilities, float64, on their device."""
    shape = tuple(probs.shape)
    if not isinstance(threshold, torch.Tensor):
        return torch.tensor(as_threshold(threshold, shape), device=probs.device)
    q = threshold.detach().to(probs.device, torch.float64)
    worst = nan if bool(torch.isnan(q).any()) else 0.0
    as_threshold(np.broadcast_to(worst, q.shape), shape)  # words what is wrong
    return q


def _blocks(probs: Tensor) -> Iterator[slice]:
    """Yield the rows in blocks; no rows are one block."""
    step = max(1, BLOCK.get(probs.device.type, 2**20) // max(1, probs.shape[1]))
    for start in range(0, max(len(probs), 1), step):
        yield slice(start, min(start + step, len(probs)))


def _on_cpu(p: Tensor) -> bool:
    """Tell whether numpy can read the tensor's memory."""
    return str(p.device.type) == "cpu"


def _numpy(values: Tensor | None) -> Floats | None:
    return None if values is None else values.numpy()


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
    x = x + _STEP
    x = (x ^ _shifted(x, 30)) * _MULTIPLIERS[0]
    x = (x ^ _shifted(x, 27)) * _MULTIPLIERS[1]
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Shift to the right, filling with zeros."""
    return (x >> by) & (2 ** (64 - by) - 1)
