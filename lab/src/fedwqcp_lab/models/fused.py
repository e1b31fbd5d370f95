"""The parts around the matrix products of `windows`, each as one Triton kernel (CUDA only).

Each gives what its namesake in `windows` gives; sums and maxima are taken in float32.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch

_BLOCK = 1024


def works(device: torch.device) -> bool:
    """Say whether the kernels can be compiled and run here."""
    if device.type != "cuda" or importlib.util.find_spec("triton") is None:
        return False
    try:
        unpool(torch.ones(1, 1, 1, device=device), torch.zeros(1, 1, 1, device=device).byte())
    except Exception:  # any failure of a compiler that we need not have
        return False
    return True


def windows(x: torch.Tensor) -> torch.Tensor:
    """Copy the 4x4 windows of padded images.

    Shapes: x (G, n, H, W, c) -> (G, n H/2 W/2, 16 c).
    """
    G, n, H, W, c = x.shape
    rows = n * (H // 2) * (W // 2)
    out = x.new_empty(G, rows, 16 * c)
    _launch("windows", 4 * G * rows, 4 * c, (x.contiguous(), out), (H, W, c))
    return out


def pool(z: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the largest of each four, add the bias and rectify.

    Shapes: z (G, rows, 4 o); bias (G, o) -> (G, rows, o) and (G, rows, o).
    """
    G, rows, columns = z.shape
    o = columns // 4
    y = z.new_empty(G, rows, o)
    winner = torch.empty_like(y, dtype=torch.uint8)
    _launch("pool", G * rows, o, (z, bias.contiguous(), y, winner), (rows, o))
    return y, winner


def unpool(grad: torch.Tensor, winner: torch.Tensor) -> torch.Tensor:
    """Put each gradient where its maximum was.

    Shapes: grad (G, rows, o); winner (G, rows, o) -> (G, rows, 4 o).
    """
    G, rows, o = grad.shape
    dz = grad.new_empty(G, rows, 4 * o)
    _launch("unpool", G * rows, o, (grad.contiguous(), winner, dz), (o,))
    return dz


def fold(patches: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Sum windows back into images.

    Shapes: patches (G, n H/2 W/2, 16 c) -> (G, n, H, W, c).
    """
    G, n, H, W, c = shape
    out = patches.new_empty(shape)
    _launch("fold", G * n * H * W, c, (patches, out), (H, W, c))
    return out


def _launch(
    name: str, total: int, width: int, tensors: tuple[Any, ...], sizes: tuple[int, ...]
) -> None:
    """Run a kernel over `total` rows of `width` neighbours."""
    from fedwqcp_lab.models import triton as _kernels

    lanes = 1 << (width - 1).bit_length()
    rows = max(1, _BLOCK // lanes)
    grid = ((total + rows - 1) // rows,)
    getattr(_kernels, name)[grid](*tensors, total, *sizes, ROWS=rows, LANES=lanes)
