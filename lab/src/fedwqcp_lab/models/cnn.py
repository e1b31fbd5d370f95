"""The strong model: two convolutions and two linear layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedwqcp_lab.models import layers
from fedwqcp_lab.models._torch import torch
from fedwqcp_lab.models.architecture import Architecture, check_shape
from fedwqcp_lab.models.engine import Engine
from fedwqcp_lab.models.heads import Head
from fedwqcp_lab.models.windows import conv_pool

FIRST, SECOND, HIDDEN = 32, 64, 128
"""Filters of the two convolutions and units of the hidden layer."""


@dataclass(frozen=True)
class LargeCNN(Architecture):
    """LargeCNN of the paper; averaging and with the head `Mean` its LargeCNNRegressor.

    conv 3x3, 32 -> ReLU -> maximum 2x2 -> conv 3x3, 64 -> ReLU -> maximum 2x2 -> flat, or the mean
    of each channel -> linear, 128 -> ReLU -> linear.

    Parameters
    ----------
    shape : tuple of int
        Height, width and channels of an image; height and width are multiples of 4.
    head : Head
        Classes, a mean or quantiles.
    averaging : bool
        Whether the image is averaged away before the linear layers (global average pooling).

    Examples
    --------
    >>> from fedwqcp_lab.models.heads import Classes, Mean
    >>> LargeCNN((28, 28, 1), Classes(10)).parameters
    421642
    >>> LargeCNN((28, 28, 3), Mean(), averaging=True).parameters
    27841
    """

    shape: tuple[int, int, int]
    head: Head
    averaging: bool = False

    def __post_init__(self) -> None:
        check_shape(self.shape, multiple=4)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        H, W, c = self.shape
        flat = SECOND if self.averaging else SECOND * (H // 4) * (W // 4)
        return {
            "conv1.weight": (FIRST, c, 3, 3),
            "conv1.bias": (FIRST,),
            "conv2.weight": (SECOND, FIRST, 3, 3),
            "conv2.bias": (SECOND,),
            "fc1.weight": (HIDDEN, flat),
            "fc1.bias": (HIDDEN,),
            "fc2.weight": (self.head.width, HIDDEN),
            "fc2.bias": (self.head.width,),
        }

    def forward(
        self, weights: Mapping[str, torch.Tensor], x: torch.Tensor, engine: Engine
    ) -> torch.Tensor:
        for name in ("conv1", "conv2"):
            weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
            if engine.layout == "grouped":
                x = layers.grouped_conv_pool(x, weight, bias)
            else:
                x = conv_pool(x, weight, bias, fuse=bool(engine.fuse))
        first = x.permute(0, 1, 4, 2, 3)  # channels first, as torch flattens
        flat = first.mean(dim=(3, 4)) if self.averaging else first.flatten(2)
        hidden = torch.relu(layers.linear(flat, weights["fc1.weight"], weights["fc1.bias"]))
        return layers.linear(hidden.float(), weights["fc2.weight"], weights["fc2.bias"])

    @property
    def activations(self) -> int:
        """Numbers that one image keeps in memory in training, about."""
        H, W, c = self.shape
        pixels = H * W
        # windows and four outputs each of the first convolution, then of the second, twice over
        return 2 * (pixels * (4 * c + FIRST) + pixels // 4 * (4 * FIRST + SECOND + FIRST))

    @property
    def operations(self) -> int:
        """Multiplications and additions that one image needs in a forward pass."""
        H, W, c = self.shape
        shapes = self.shapes()
        convolutions = H * W * 9 * c * FIRST + H * W // 4 * 9 * FIRST * SECOND
        products = sum(torch.Size(shapes[f"{name}.weight"]).numel() for name in ("fc1", "fc2"))
        return 2 * (convolutions + products)
