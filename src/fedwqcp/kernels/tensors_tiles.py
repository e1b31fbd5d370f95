"""How the Triton programs on a CUDA device take probabilities: in tiles of rows, read once."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeAlias

from fedwqcp.kernels._torch import torch

Tensor: TypeAlias = torch.Tensor

TILE = 1024
"""How many probabilities a warp holds: 32 for each thread."""

LONGEST = 4096
"""Longest row that stays in registers."""


class Programs(NamedTuple):
    """The Triton programs.

    Parameters
    ----------
    score_labels, cut : object
        Scores and sets of the ranked formulas.
    lac_scores, lac_sets : object
        Those of LAC.
    """

    score_labels: Any
    cut: Any
    lac_scores: Any
    lac_sets: Any


@cache
def programs() -> Programs | None:
    """Return the Triton programs, or None where Triton is not installed.

    Returns
    -------
    Programs or None
        The programs.
    """
    try:
        from fedwqcp.kernels import _tensor_cuts, _tensor_lac, _tensor_programs
    except ImportError:
        return None
    return Programs(
        _tensor_programs.score_labels,
        _tensor_cuts.cut,
        _tensor_lac.score_labels,
        _tensor_lac.sets,
    )


def fits(probs: Tensor, *, whole_rows: bool) -> bool:
    """Tell whether the programs serve these probabilities.

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


class Tiles(NamedTuple):
    """Probabilities, and how programs take them.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        Neighbouring columns lie next to each other.
    grid : tuple of int
        How many programs run.
    options : dict
        What they are compiled for: the width, how many neighbours are loaded at once, rows and
        columns of a tile, and warps; no product may be fused with a sum.
    """

    probs: Tensor
    grid: tuple[int]
    options: dict[str, int]


def tiles(probs: Tensor, *, whole_rows: bool) -> Tiles:
    """Cut probabilities into tiles.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        The probabilities.
    whole_rows : bool
        Whether a tile must be as wide as the rows.

    Returns
    -------
    Tiles
        One tile for each program, or several beside each other.
    """
    p = probs if probs.stride(1) == 1 else probs.contiguous()
    n, width = p.shape
    block = max(16, 1 << (width - 1).bit_length())
    if not whole_rows:
        block = min(block, TILE)
    rows = max(1, TILE // block)
    together = 16 // p.element_size()
    aligned = p.data_ptr() % 16 == 0 and p.stride(0) % together == 0
    options = {
        "C": width,
        "VEC": together if aligned else 1,
        "ROWS": rows,
        "BLOCK": block,
        "num_warps": max(1, block // TILE),
        "enable_fp_fusion": False,
    }
    return Tiles(p, (-(-n // rows),), options)


def flag(probs: Tensor) -> Tensor:
    """Return a flag that is not raised, for programs to raise where a row needs a closer look.

    Parameters
    ----------
    probs : Tensor
        For the device.

    Returns
    -------
    Tensor, shape (1,)
        The number 0.
    """
    return torch.zeros(1, dtype=torch.int32, device=probs.device)
