"""The weak model: one linear layer on the flattened image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedwqcp_lab.models import layers
from fedwqcp_lab.models._torch import torch
from fedwqcp_lab.models.architecture import Architecture, check_shape
from fedwqcp_lab.models.engine import Engine
from fedwqcp_lab.models.heads import Head


@dataclass(frozen=True)
class VeryWeakLinear(Architecture):
    """VeryWeakLinear of the paper; with the head `Mean` its VeryWeakLinearRegressor.

    Parameters
    ----------
    shape : tuple of int
        Height, width and channels of an image.
    head : Head
        Classes, a mean or quantiles.

    Examples
    --------
    >>> from fedwqcp_lab.models.heads import Classes
    >>> VeryWeakLinear((28, 28, 1), Classes(10)).parameters
    7850
    """

    shape: tuple[int, int, int]
    head: Head

    def __post_init__(self) -> None:
        check_shape(self.shape)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        H, W, c = self.shape
        return {"fc.weight": (self.head.width, H * W * c), "fc.bias": (self.head.width,)}

    def forward(
        self, weights: Mapping[str, torch.Tensor], x: torch.Tensor, engine: Engine
    ) -> torch.Tensor:
        del engine  # one product: nothing to choose
        flat = x.permute(0, 1, 4, 2, 3).flatten(2).float()  # channels first, as torch flattens
        return layers.linear(flat, weights["fc.weight"], weights["fc.bias"])

    @property
    def activations(self) -> int:
        """Numbers that one image keeps in memory in training, about."""
        H, W, c = self.shape
        return 2 * H * W * c

    @property
    def operations(self) -> int:
        """Multiplications and additions that one image needs in a forward pass."""
        H, W, c = self.shape
        return 2 * H * W * c * self.head.width
