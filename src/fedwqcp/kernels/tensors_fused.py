"""One pass over the probabilities on a CUDA device: scores without a sort, sets without an order.

Every label before the end of a set is more probable than it, so a set is found from one value of
its row: the smallest whose first label can still belong by the mass before it. A program reads its
rows once, halves the range of values in registers until that one is left, and settles equal labels
by their index. The programs are Triton's; without it, and for rows too long for registers, the
caller uses `tensors`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from fedwqcp.kernels._torch import torch
from fedwqcp.kernels.tensors import Formula, Rule, Tensor

KINDS = ("aps", "raps", "saps")
RULES = ("leq", "leq_top1", "until")
TILE = 1024
"""How many probabilities a warp holds: 32 for each thread."""

LONGEST = 4096
"""Longest row that stays in registers."""


@cache
def programs() -> tuple[Any, Any] | None:
    """Return the Triton programs for scores and for sets, or None where Triton is not installed.

    Returns
    -------
    tuple or None
        The programs.
    """
    try:
        from fedwqcp.kernels._tensor_cuts import cut
        from fedwqcp.kernels._tensor_programs import score_labels
    except ImportError:
        return None
    return score_labels, cut


def fits(probs: Tensor, *, whole_rows: bool) -> bool:
    """Tell whether the fused programs serve these probabilities.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        The probabilities.
    whole_rows : bool
        Whether a program must hold a row at a time, as sets need.

    Returns
    -------
    bool
        True where they do.
    """
    return (
        probs.device.type == "cuda"
        and probs.dtype in (torch.float32, torch.float64)
        and 0 < probs.shape[0] < 2**31
        and (not whole_rows or probs.shape[1] <= LONGEST)
        and programs() is not None
    )


def score_labels(
    formula: Formula, probs: Tensor, labels: Tensor, u: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the score of one label of each row, and which rows are unsound.

    Parameters
    ----------
    formula : Formula
        Which score.
    probs : Tensor, shape (n, C)
        Probabilities, not yet checked.
    labels : Tensor, shape (n,)
        Labels, int64, not yet checked.
    u : Tensor or None
        Uniforms of shape (n,), None where nothing is random.

    Returns
    -------
    tuple of Tensor
        Scores, and flags that are not 0 where a row is no distribution or its label no class.
    """
    p = _by_rows(probs)
    n, width = p.shape
    scores = torch.empty(n, dtype=torch.float64, device=p.device)
    flags = torch.empty(n, dtype=torch.int8, device=p.device)
    share, share_stride = _strided(u, p)
    rows, block, warps = _tile(width)
    _program(0)[(_cdiv(n, rows),)](
        *(p, labels.contiguous(), share, _settings(formula, p), scores, flags),
        *(n, p.stride(0), share_stride),
        C=width,
        VEC=_aligned(p),
        WIDE=p.dtype == torch.float64,
        KIND=KINDS.index(formula.kind),
        ROWS=rows,
        BLOCK=block,
        num_warps=warps,
        enable_fp_fusion=False,
    )
    return scores, flags


class Cut(NamedTuple):
    """What `cut` found.

    Parameters
    ----------
    mask : Tensor or None
        The sets, shape (n, C), if they were wanted.
    sizes : Tensor, shape (n,)
        How many labels each set holds.
    covered : Tensor or None
        Whether each set holds its label, if labels were given.
    flags : Tensor, shape (n,)
        Not 0 where a row is no distribution.
    """

    mask: Tensor | None
    sizes: Tensor
    covered: Tensor | None
    flags: Tensor


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
        Uniforms of shape (n,), None where nothing is random.
    q : Tensor
        One threshold, or one for each row: shape () or (n, 1), float64.
    rule : {"leq", "leq_top1", "until"}
        How a threshold becomes a set.
    labels : Tensor, optional
        Checked labels; then no mask is made.

    Returns
    -------
    Cut
        Sets or coverage, sizes, and flags.
    """
    p = _by_rows(probs)
    n, width = p.shape
    write = labels is None
    found = Cut(
        torch.empty((n, width) if write else (1, 1), dtype=torch.bool, device=p.device),
        torch.empty(n, dtype=torch.int64, device=p.device),
        torch.empty(1 if write else n, dtype=torch.bool, device=p.device),
        torch.empty(n, dtype=torch.int8, device=p.device),
    )
    rows, block, warps = _tile(width, whole=True)
    (level, level_stride), (share, share_stride) = _strided(q, p), _strided(u, p)
    _program(1)[(_cdiv(n, rows),)](
        *(p, level, share, _settings(formula, p)),
        found.sizes if labels is None else labels.contiguous(),
        *(_bytes(part) for part in found),
        *(n, p.stride(0), level_stride, share_stride),
        C=width,
        VEC=_aligned(p),
        WIDE=p.dtype == torch.float64,
        KIND=KINDS.index(formula.kind),
        RULE=RULES.index(rule),
        WRITE=write,
        COVER=not write,
        ROWS=rows,
        BLOCK=block,
        num_warps=warps,
        enable_fp_fusion=False,
    )
    return found._replace(covered=None) if write else found._replace(mask=None)


def _program(which: int) -> Any:
    """Return one of the programs, which `fits` found."""
    found = programs()
    assert found is not None
    return found[which]


def _bytes(part: Any) -> Tensor:
    """Return truth values as the bytes they are."""
    return part.view(torch.int8) if part.dtype == torch.bool else part


def _tile(width: int, *, whole: bool = False) -> tuple[int, int, int]:
    """Return how many rows and columns a program takes, and its warps."""
    block = max(16, 1 << (width - 1).bit_length())
    if not whole:
        block = min(block, TILE)
    return max(1, TILE // block), block, max(1, block // TILE)


def _by_rows(probs: Tensor) -> Tensor:
    """Return the probabilities with neighbouring columns next to each other."""
    return probs if probs.stride(1) == 1 else probs.contiguous()


def _aligned(probs: Tensor) -> int:
    """Return how many neighbours can always be loaded at once."""
    together = 16 // probs.element_size()
    fit = probs.data_ptr() % 16 == 0 and probs.stride(0) % together == 0
    return together if fit else 1


def _strided(values: Tensor | None, probs: Tensor) -> tuple[Tensor, int]:
    """Return one number for each row, or one for all with stride 0; None is the number 1."""
    if values is None:
        return torch.ones(1, dtype=torch.float64, device=probs.device), 0
    flat = values.to(device=probs.device, dtype=torch.float64).reshape(-1).contiguous()
    return flat, 0 if len(flat) == 1 else 1


def _settings(formula: Formula, probs: Tensor) -> Tensor:
    """Return the settings in double precision, which a plain argument would not keep."""
    pair = [formula.penalty, float(formula.k_reg)]
    return torch.tensor(pair, dtype=torch.float64, device=probs.device)


def _cdiv(n: int, by: int) -> int:
    """Divide, rounding up."""
    return -(-n // by)
