"""A 3x3 convolution and its 2x2 maximum as one batched matrix product over 4x4 windows.

The four outputs that one 2x2 maximum compares depend on a 4x4 window of the input. Windows step by
2, so an input number is copied 4 times, where a matrix of 3x3 patches copies it 9 times; the kernel
is written four times, shifted, into a matrix with 16 c rows and 4 o columns. The products grow by
16/9; on a GPU the bytes decide, and the products of all models are one call.
"""

from __future__ import annotations

import math
from typing import Any

from fedwqcp_lab.models import fused
from fedwqcp_lab.models._torch import torch

SPLITS = 8
"""Parts in which the rows of a narrow weight gradient are summed, so that all of a GPU works."""


def conv_pool(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, fuse: bool = False
) -> torch.Tensor:
    """Convolve 3x3 with padding 1, add the bias, rectify and take the maximum over 2x2.

    Parameters
    ----------
    x : Tensor, shape (G, n, H, W, c)
        Inputs of G models; H and W are even.
    weight : Tensor, shape (G, o, c, 3, 3)
        Kernels in float32; they are used in the precision of `x`.
    bias : Tensor, shape (G, o)
        Biases in float32.
    fuse : bool
        Whether the parts around the matrix products run as single Triton kernels (CUDA only).

    Returns
    -------
    Tensor, shape (G, n, H // 2, W // 2, o)
        Outputs.
    """
    out: torch.Tensor = _ConvPool.apply(x, weight, bias, fuse)
    return out


class _ConvPool(torch.autograd.Function):
    """The layer with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, fuse: bool
    ) -> torch.Tensor:
        """Keep the windows and which of each four was largest."""
        G, n, H, W, _ = x.shape
        patches = fused.windows(x) if fuse else _windows(x)
        wide = _widen(weight.to(x.dtype))
        z = torch.bmm(patches, wide)
        y, winner = fused.pool(z, bias) if fuse else _pool(z, bias)
        ctx.save_for_backward(patches, wide, winner)
        ctx.shape, ctx.fuse = x.shape, fuse
        return y.view(G, n, H // 2, W // 2, -1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Send the gradient to the largest of each four."""
        patches, wide, winner = ctx.saved_tensors
        grad = grad.reshape(winner.shape)
        unpool, fold = (fused.unpool, fused.fold) if ctx.fuse else (_unpool, _fold)
        dz = unpool(grad, winner)
        dbias = torch.where(winner < 4, grad, 0).sum(dim=1, dtype=torch.float32)
        dweight = _narrow(_product(patches, dz, ctx.shape[1]).float())
        if not ctx.needs_input_grad[0]:
            return None, dweight, dbias, None
        return fold(torch.bmm(dz, wide.transpose(1, 2)), ctx.shape), dweight, dbias, None


def _windows(x: torch.Tensor) -> torch.Tensor:
    """Copy the 4x4 windows: (G, n, H, W, c) -> (G, n H/2 W/2, 16 c)."""
    G, n, H, W, c = x.shape
    padded = torch.nn.functional.pad(x, (0, 0, 1, 1, 1, 1))
    g, i, row, column, channel = padded.stride()
    view = padded.as_strided(
        (G, n, H // 2, W // 2, 4, 4, c), (g, i, 2 * row, 2 * column, row, column, channel)
    )
    return view.reshape(G, n * (H // 2) * (W // 2), 16 * c)


def _widen(weight: torch.Tensor) -> torch.Tensor:
    """Write each kernel four times, shifted: (G, o, c, 3, 3) -> (G, 16 c, 4 o)."""
    G, o, c = weight.shape[:3]
    wide = weight.new_zeros(G, 4, 4, c, 2, 2, o)
    kernel = weight.permute(0, 3, 4, 2, 1)
    for r in (0, 1):
        for s in (0, 1):
            wide[:, r : r + 3, s : s + 3, :, r, s] = kernel
    return wide.view(G, 16 * c, 4 * o)


def _narrow(wide: torch.Tensor) -> torch.Tensor:
    """Sum the four shifted kernels: the transpose of `_widen`."""
    G, rows, columns = wide.shape
    four = wide.view(G, 4, 4, rows // 16, 2, 2, columns // 4)
    kernel = four[:, 0:3, 0:3, :, 0, 0] + four[:, 0:3, 1:4, :, 0, 1]
    kernel = kernel + four[:, 1:4, 0:3, :, 1, 0] + four[:, 1:4, 1:4, :, 1, 1]
    return kernel.permute(0, 4, 3, 1, 2).contiguous()


def _product(patches: torch.Tensor, dz: torch.Tensor, images: int) -> torch.Tensor:
    """Multiply windows and gradients; a narrow product is summed in parts over the images."""
    G, rows, k = patches.shape
    parts = math.gcd(images, SPLITS) if k < 128 else 1
    left = patches.view(G * parts, rows // parts, k)
    right = dz.view(G * parts, rows // parts, -1)
    product = torch.bmm(left.transpose(1, 2), right)
    return product if parts == 1 else product.view(G, parts, k, -1).sum(dim=1)


def _pool(z: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Take the largest of each four, add the bias, rectify; 4 marks where nothing passes."""
    G, rows, columns = z.shape
    a, b, c, d = z.view(G, rows, 4, columns // 4).unbind(dim=2)
    upper, lower = torch.maximum(a, b), torch.maximum(c, d)
    y = torch.relu(torch.maximum(upper, lower) + bias.to(z.dtype).unsqueeze(1))
    second, fourth = (b > a).to(torch.uint8), (d > c).to(torch.uint8)
    winner = torch.where(lower > upper, fourth + 2, second)  # ties: the first, as in max_pool2d
    return y, winner.masked_fill_(y <= 0, 4)


def _unpool(grad: torch.Tensor, winner: torch.Tensor) -> torch.Tensor:
    """Put each gradient where its maximum was: (G, rows, o) -> (G, rows, 4 o)."""
    G, rows, o = grad.shape
    phases = torch.arange(4, dtype=torch.uint8, device=grad.device).view(4, 1)
    here = winner.unsqueeze(2) == phases
    return torch.where(here, grad.unsqueeze(2), 0).view(G, rows, 4 * o)


def _fold(patches: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Sum the windows back into images: the transpose of `_windows`."""
    G, n, H, W, c = shape
    h, w = H // 2, W // 2
    parts = patches.view(G, n, h, w, 2, 2, 2, 2, c)
    image = patches.new_zeros(G, n, h + 1, 2, w + 1, 2, c)
    for a in (0, 1):
        for b in (0, 1):
            image[:, :, a : a + h, :, b : b + w] += parts[:, :, :, :, a, :, b].permute(
                0, 1, 2, 4, 3, 5, 6
            )
    return image.view(G, n, H + 2, W + 2, c)[:, :, 1:-1, 1:-1].contiguous()
