"""One pass over the probabilities on a CUDA device: scores without a sort, sets without an order.

Every label before the end of a set is more probable than it, so a set is found from one value of
its row: the smallest whose first label can still belong by the mass before it. A program reads its
rows once, halves the range of values in registers until that one is left, and settles equal labels
by their index. The same pass checks the rows, and raises one flag if any needs a closer look. The
programs are Triton's; without it, and for rows too long for registers, the caller uses `tensors`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from fedwqcp.kernels._torch import torch
from fedwqcp.kernels.tensors import Formula, Rule, Tensor
from fedwqcp.kernels.tensors_tiles import Programs, flag, programs, tiles

KINDS = ("aps", "raps", "saps")
RULES = ("leq", "leq_top1", "until")


def score_labels(
    formula: Formula, probs: Tensor, labels: Tensor, u: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the score of one label of each row, and whether any input looks wrong.

    Parameters
    ----------
    formula : Formula
        Which score.
    probs : Tensor, shape (n, C)
        Probabilities, not yet checked.
    labels : Tensor, shape (n,)
        Labels, int64, not yet checked.
    u : Tensor or None
        Uniforms of shape (n,), not yet checked; None where nothing is random.

    Returns
    -------
    tuple of Tensor
        Scores; and a flag that is not 0 if some row is hardly a distribution, its label no class,
        or its uniform outside [0, 1].
    """
    p, grid, options = tiles(probs, whole_rows=False)
    scores = torch.empty(len(p), dtype=torch.float64, device=p.device)
    raised = flag(p)
    share, share_stride = _strided(u, p)
    _found().score_labels[grid](
        *(p, labels.contiguous(), share, _settings(formula, p.device), scores, raised),
        *(len(p), p.stride(0), share_stride),
        WIDE=p.dtype == torch.float64,
        KIND=KINDS.index(formula.kind),
        **options,
    )
    return scores, raised


class Cut(NamedTuple):
    """What `cut` found.

    Parameters
    ----------
    mask : Tensor or None
        The sets, shape (n, C), where no labels were given.
    sizes, covered : Tensor or None
        How many labels each set holds and whether it holds its own, where labels were given.
    flag : Tensor, shape (1,)
        Not 0 if some input looks wrong, as `score_labels` has it.
    """

    mask: Tensor | None
    sizes: Tensor | None
    covered: Tensor | None
    flag: Tensor


def cut(
    formula: Formula,
    probs: Tensor,
    u: Tensor | None,
    q: Tensor,
    *,
    rule: Rule,
    labels: Tensor | None = None,
) -> Cut:
    """Return the sets of all rows, or with labels only what they say of these.

    Parameters
    ----------
    formula : Formula
        Which score.
    probs : Tensor, shape (n, C)
        Probabilities, not yet checked.
    u : Tensor or None
        Uniforms of shape (n,), not yet checked; None where nothing is random.
    q : Tensor
        One threshold, or one for each row: shape () or (n, 1), float64.
    rule : {"leq", "leq_top1", "until"}
        How a threshold becomes a set.
    labels : Tensor, optional
        Labels, int64, not yet checked; then no mask is made.

    Returns
    -------
    Cut
        Sets, or coverage and sizes; and the flag.
    """
    p, grid, options = tiles(probs, whole_rows=True)
    (level, level_stride), (share, share_stride) = _strided(q, p), _strided(u, p)
    found = wanted(p, labels)
    _found().cut[grid](
        *(p, level, share, _settings(formula, p.device), *pointers(found, labels)),
        *(len(p), p.stride(0), level_stride, share_stride),
        WIDE=p.dtype == torch.float64,
        KIND=KINDS.index(formula.kind),
        RULE=RULES.index(rule),
        WRITE=labels is None,
        **options,
    )
    return found


def wanted(probs: Tensor, labels: Tensor | None) -> Cut:
    """Return room for sets, or with labels for what they say of these.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        The probabilities.
    labels : Tensor or None
        The labels.

    Returns
    -------
    Cut
        Tensors to be filled, and a flag that is not raised.
    """
    n, device = len(probs), probs.device
    if labels is None:
        mask = torch.empty(probs.shape, dtype=torch.bool, device=device)
        return Cut(mask, None, None, flag(probs))
    sizes = torch.empty(n, dtype=torch.int64, device=device)
    covered = torch.empty(n, dtype=torch.bool, device=device)
    return Cut(None, sizes, covered, flag(probs))


def pointers(found: Cut, labels: Tensor | None) -> tuple[Tensor, ...]:
    """Return labels, mask, sizes, covered and flag for a program.

    Parameters
    ----------
    found : Cut
        Room for the results.
    labels : Tensor or None
        The labels.

    Returns
    -------
    tuple of Tensor
        Truth values as the bytes they are; the flag stands for what the program does not touch.
    """
    parts = (None if labels is None else labels.contiguous(), *found)
    return tuple(found.flag if part is None else _bytes(part) for part in parts)


def _found() -> Programs:
    """Return the programs, which `fits` found."""
    ready = programs()
    assert ready is not None
    return ready


def _bytes(part: Any) -> Tensor:
    """Return truth values as the bytes they are."""
    return part.view(torch.int8) if part.dtype == torch.bool else part


def _strided(values: Tensor | None, probs: Tensor) -> tuple[Tensor, int]:
    """Return one number for each row, or one for all with stride 0; None is the number 1."""
    if values is None:
        return torch.ones(1, dtype=torch.float64, device=probs.device), 0
    flat = values.to(device=probs.device, dtype=torch.float64).reshape(-1).contiguous()
    return flat, 0 if len(flat) == 1 else 1


@lru_cache(maxsize=64)
def _settings(formula: Formula, device: Any) -> Tensor:
    """Return the settings in double precision, which a plain argument would not keep."""
    pair = [formula.penalty, float(formula.k_reg)]
    return torch.tensor(pair, dtype=torch.float64, device=device)
