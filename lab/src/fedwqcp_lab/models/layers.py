"""Layers of a stack: G models compute side by side, each with its own weights."""

from __future__ import annotations

from fedwqcp_lab.models._torch import torch


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Apply one linear layer per model.

    Parameters
    ----------
    x : Tensor, shape (G, n, d)
        Inputs.
    weight : Tensor, shape (G, k, d)
        Weights in float32; they are used in the precision of `x`.
    bias : Tensor, shape (G, k)
        Biases.

    Returns
    -------
    Tensor, shape (G, n, k)
        Outputs.
    """
    # the weight stands on the left so that its gradient comes out in its own memory order
    columns = torch.baddbmm(bias.to(x.dtype).unsqueeze(2), weight.to(x.dtype), x.transpose(1, 2))
    return columns.transpose(1, 2)


def grouped_conv_pool(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Convolve 3x3, add the bias, rectify and take the maximum over 2x2, as a grouped convolution.

    The maximum comes first: it commutes with adding a bias and with rectifying, and leaves a
    quarter of the numbers.

    Parameters
    ----------
    x : Tensor, shape (G, n, H, W, c)
        Inputs.
    weight : Tensor, shape (G, o, c, 3, 3)
        Kernels.
    bias : Tensor, shape (G, o)
        Biases.

    Returns
    -------
    Tensor, shape (G, n, H // 2, W // 2, o)
        Outputs.
    """
    G, n, H, W, c = x.shape
    o = weight.shape[1]
    planes = x.permute(1, 2, 3, 0, 4).reshape(n, H, W, G * c).permute(0, 3, 1, 2)
    kernels = weight.to(x.dtype).flatten(0, 1).contiguous(memory_format=torch.channels_last)
    z = torch.nn.functional.conv2d(planes, kernels, padding=1, groups=G)
    top = torch.nn.functional.max_pool2d(z, 2)
    y = torch.relu(top + bias.to(x.dtype).flatten()[:, None, None])
    return y.permute(0, 2, 3, 1).reshape(n, H // 2, W // 2, G, o).permute(3, 0, 1, 2, 4)
