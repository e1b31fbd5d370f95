"""The counts of `ranked` on torch tensors, wherever they live, in plain torch operations.

A probability in units of 2^-52 is a whole number of at most 53 bits, and so is every sum of a row:
float64 holds both exactly, and so does float32 a single float32 probability. Sums of such floats
are therefore exact in any order, and results are those of `ranked` to the last bit on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fedwqcp.kernels._torch import torch

Tensor: TypeAlias = torch.Tensor

ONE = 2.0**52
BLOCK = {"cpu": 2**18, "cuda": 2**25}
"""How many probabilities are worked on at a time, by kind of device."""

Rule: TypeAlias = Literal["leq", "leq_top1", "until"]


@dataclass(frozen=True)
class Formula:
    """A score of places: which one, and its settings.

    Parameters
    ----------
    kind : {"aps", "raps", "saps"}
        Which formula.
    penalty : float, optional
        What a rank adds.
    k_reg : int, optional
        How many ranks are free of it.
    """

    kind: Literal["aps", "raps", "saps"]
    penalty: float = 0.0
    k_reg: int = 0


@dataclass(frozen=True, eq=False)
class Places:
    """Where labels stand in their rows, as `ranked.Ranked` says it.

    Parameters
    ----------
    before, upto : Tensor
        Mass of the labels ranked strictly before, and the same with the label's own; float64.
    rank : Tensor
        1-based rank, int64.
    top : Tensor
        Largest probability of the row.
    """

    before: Tensor
    upto: Tensor
    rank: Tensor
    top: Tensor

    def previous(self) -> Places:
        """Return the place of the label ranked one before.

        Returns
        -------
        Places
            Rank 0 and mass 0 for the most probable label.
        """
        return Places(self.before, self.before, self.rank - 1, self.top)


def fixed_point(probs: Tensor) -> Tensor:
    """Return probabilities in units of 2^-52, whole numbers in float64.

    Parameters
    ----------
    probs : Tensor
        Numbers between 0 and about 1.

    Returns
    -------
    Tensor
        Rounded once, half to even.
    """
    return torch.round(probs.to(torch.float64) * ONE)


def of_labels(probs: Tensor, labels: Tensor) -> Places:
    """Return where one label of each row stands, without sorting.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        Checked probabilities.
    labels : Tensor, shape (n,)
        Checked labels.

    Returns
    -------
    Places
        Fields of shape (n,).
    """
    index, parts = torch.arange(probs.shape[1], device=probs.device), []
    for rows in blocks(probs):
        p, y = fixed_point(probs[rows]), labels[rows, None]
        own = p.gather(1, y)
        ahead = (p > own) | ((p == own) & (index < y))
        before = torch.where(ahead, p, 0.0).sum(1)
        rank = ahead.sum(1) + 1
        parts.append(_capped(before, before + own[:, 0], rank, p.amax(1), len(index)))
    fields = zip(*(vars(part).values() for part in parts), strict=True)
    return Places(*(torch.cat(field) for field in fields))


def of_every_label(probs: Tensor) -> Places:
    """Return where every label of each row stands.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        Checked probabilities.

    Returns
    -------
    Places
        Fields of shape (n, C); ``top`` has shape (n, 1).
    """
    p = fixed_point(probs)
    ordered, order = torch.sort(-p, dim=1, stable=True)
    upto = torch.empty_like(p).scatter_(1, order, torch.cumsum(-ordered, 1))
    places = torch.arange(1, p.shape[1] + 1, device=p.device).expand_as(p)
    rank = torch.empty_like(order).scatter_(1, order, places)
    return _capped(upto - p, upto, rank, p.amax(1, keepdim=True), p.shape[1])


def scored(formula: Formula, place: Places, u: Tensor | float) -> Tensor:
    """Return the scores of labels at these places.

    Parameters
    ----------
    formula : Formula
        Which score.
    place : Places
        Where the labels stand.
    u : Tensor or float
        Uniforms that broadcast against the places; 1 where nothing is random.

    Returns
    -------
    Tensor
        The scores, float64.
    """
    if formula.kind == "saps":
        steps = (place.rank - 2).to(torch.float64) + u
        return torch.where(place.rank == 1, u * place.top, place.top + steps * formula.penalty)
    mass = place.before + u * (place.upto - place.before)
    if formula.kind == "raps":
        steps = torch.clamp(place.rank - formula.k_reg, min=0).to(torch.float64)
        return mass + formula.penalty * steps
    return mass


def belongs(
    formula: Formula, place: Places, u: Tensor | float, q: Tensor, rule: Rule = "leq"
) -> Tensor:
    """Return whether labels at these places belong to their sets.

    Parameters
    ----------
    formula : Formula
        Which score.
    place : Places
        Where the labels stand.
    u : Tensor or float
        Uniforms that broadcast against the places.
    q : Tensor
        Thresholds that broadcast against the places.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set.

    Returns
    -------
    Tensor
        Truth values.
    """
    inside = scored(formula, place, u) <= q
    if rule == "leq":
        return inside
    inside |= place.rank == 1
    if rule == "until":
        inside |= scored(formula, place.previous(), 1.0) < q
    return inside


def sets(
    formula: Formula, probs: Tensor, u: Tensor | None, q: Tensor, rule: Rule = "leq"
) -> Tensor:
    """Return the sets of all rows as a mask.

    Parameters
    ----------
    formula : Formula
        Which score.
    probs : Tensor, shape (n, C)
        Checked probabilities.
    u : Tensor or None
        Uniforms of shape (n,), None where nothing is random.
    q : Tensor
        Thresholds that broadcast against the probabilities.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set.

    Returns
    -------
    Tensor, shape (n, C)
        True where the label belongs to the row's set.
    """
    wide = q.expand(probs.shape)

    mask = torch.empty(probs.shape, dtype=torch.bool, device=probs.device)
    for rows in blocks(probs):
        share = 1.0 if u is None else u[rows, None]
        mask[rows] = belongs(formula, of_every_label(probs[rows]), share, wide[rows], rule)
    return mask


def blocks(probs: Tensor) -> Iterator[slice]:
    """Cut the rows into blocks; no rows are one block.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        The rows.

    Yields
    ------
    slice
        Some of them.
    """
    step = max(1, BLOCK.get(probs.device.type, 2**20) // max(1, probs.shape[1]))
    for start in range(0, max(len(probs), 1), step):
        yield slice(start, min(start + step, len(probs)))


def _capped(before: Tensor, upto: Tensor, rank: Tensor, top: Tensor, n_classes: int) -> Places:
    """Cap masses at 1, let the last label reach exactly 1, and leave fixed point."""
    upto = torch.where(rank == n_classes, ONE, upto.clamp(max=ONE))
    return Places(before.clamp(max=ONE) / ONE, upto / ONE, rank, top.clamp(max=ONE) / ONE)
