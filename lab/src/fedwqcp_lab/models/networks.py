"""The paper's networks, many of one kind at once: heads, layers, the CNN and the linear model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedwqcp_lab.models.engine import Engine


class Head(ABC):
    """The last step of a model."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Raw outputs per row."""

    @abstractmethod
    def targets(self, labels: npt.NDArray[Any]) -> torch.Tensor:
        """Return labels in the form that `loss` takes.

        Shapes: labels (n,) or (n, 1) -> (n,).
        """

    @abstractmethod
    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each model, averaged over its rows.

        Shapes: outputs (G, n, width); targets (G, n) -> (G,).
        """

    @abstractmethod
    def finish(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return predictions from raw outputs.

        Shapes: outputs (G, n, width) -> (G, n, width) or (G, n).
        """

    def start(self, targets: torch.Tensor) -> torch.Tensor | None:
        """Return what is added to the last bias before training.

        Shapes: targets (n,) -> (width,), or None.
        """
        del targets  # plain initialisation
        return None


@dataclass(frozen=True)
class Classes(Head):
    """Classes: logits, trained with cross-entropy.

    The softmax is left to whoever reads them: in float32 it rounds what is near 1 to 1.
    """

    count: int

    @property
    def width(self) -> int:
        """Raw outputs per row."""
        return self.count

    def targets(self, labels: npt.NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(labels.reshape(-1).astype(np.int64))

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        flat = torch.nn.functional.cross_entropy(
            outputs.flatten(0, 1), targets.flatten(), reduction="none"
        )
        return flat.view(targets.shape).mean(dim=1)

    def finish(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs


@dataclass(frozen=True)
class Mean(Head):
    """One number, trained with squared error."""

    @property
    def width(self) -> int:
        """Raw outputs per row."""
        return 1

    def targets(self, labels: npt.NDArray[Any]) -> torch.Tensor:
        return _numbers(labels)

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs[..., 0] - targets).square().mean(dim=1)

    def finish(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs[..., 0]


@dataclass(frozen=True)
class Quantiles(Head):
    """Conditional quantiles, trained with the pinball loss summed over the levels.

    At level t and error e = y - output the loss is max(t e, (t - 1) e). Training starts from the
    quantiles of the training targets: a model that sees its data once or five times has no steps
    to spare for finding their scale. Quantiles that cross are sorted.
    """

    levels: tuple[float, ...]  # for CQR alpha/2 and 1 - alpha/2

    @property
    def width(self) -> int:
        """Raw outputs per row."""
        return len(self.levels)

    def targets(self, labels: npt.NDArray[Any]) -> torch.Tensor:
        return _numbers(labels)

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        errors = [targets - outputs[..., i] for i in range(self.width)]
        losses = [
            torch.maximum(t * e, (t - 1) * e).mean(dim=1)
            for t, e in zip(self.levels, errors, strict=True)
        ]
        return torch.stack(losses).sum(dim=0)

    def finish(self, outputs: torch.Tensor) -> torch.Tensor:
        return outputs.sort(dim=-1).values

    def start(self, targets: torch.Tensor) -> torch.Tensor | None:
        at = np.quantile(targets.cpu().numpy(), self.levels)
        return torch.from_numpy(np.asarray(at, dtype=np.float32))


def _numbers(labels: npt.NDArray[Any]) -> torch.Tensor:
    """Return numbers as float32."""
    return torch.from_numpy(labels.reshape(-1).astype(np.float32))


class Architecture(ABC):
    """A kind of model: frozen, with the shape of its inputs and its head."""

    shape: tuple[int, int, int]  # height, width and channels of an image
    head: Head

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight of one model."""

    @abstractmethod
    def forward(
        self, weights: Mapping[str, torch.Tensor], x: torch.Tensor, engine: Engine
    ) -> torch.Tensor:
        """Return the raw outputs of a stack.

        Shapes: x (G, n, H, W, c) -> (G, n, width).
        """

    @property
    @abstractmethod
    def activations(self) -> int:
        """Numbers that one image keeps in memory in training, about."""

    @property
    def parameters(self) -> int:
        """Number of weights of one model."""
        return sum(torch.Size(shape).numel() for shape in self.shapes().values())


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Apply one linear layer per model.

    Shapes: x (G, n, d); weight (G, k, d); bias (G, k) -> (G, n, k).
    """
    # the weight stands on the left so that its gradient comes out in its own memory order
    columns = torch.baddbmm(bias.unsqueeze(2), weight, x.transpose(1, 2))
    return columns.transpose(1, 2)


def grouped_conv_pool(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Convolve 3x3, add the bias, rectify and take the maximum over 2x2, as a grouped convolution.

    The maximum comes first: it commutes with adding a bias and with rectifying, and leaves a
    quarter of the numbers.

    Shapes: x (G, n, H, W, c); weight (G, o, c, 3, 3); bias (G, o) -> (G, n, H // 2, W // 2, o).
    """
    G, n, H, W, c = x.shape
    o = weight.shape[1]
    planes = x.permute(1, 2, 3, 0, 4).reshape(n, H, W, G * c).permute(0, 3, 1, 2)
    kernels = weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)
    z = torch.nn.functional.conv2d(planes, kernels, padding=1, groups=G)
    top = torch.nn.functional.max_pool2d(z, 2)
    y = torch.relu(top + bias.flatten()[:, None, None])
    return y.permute(0, 2, 3, 1).reshape(n, H // 2, W // 2, G, o).permute(3, 0, 1, 2, 4)


SPLITS = 8
"""Parts in which the rows of a narrow weight gradient are summed, so that all of a GPU works."""


def conv_pool(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Convolve 3x3 with padding 1, add the bias, rectify and take the maximum over 2x2.

    Shapes: x (G, n, H, W, c); weight (G, o, c, 3, 3); bias (G, o) -> (G, n, H // 2, W // 2, o).
    """
    out: torch.Tensor = _ConvPool.apply(x, weight, bias)
    return out


class _ConvPool(torch.autograd.Function):
    """The layer with its gradient."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        """Keep the windows and which of each four was largest."""
        G, n, H, W, _ = x.shape
        patches = _windows(x)
        wide = _widen(weight)
        z = torch.bmm(patches, wide)
        y, winner = _pool(z, bias)
        ctx.save_for_backward(patches, wide, winner)
        ctx.shape = x.shape
        return y.view(G, n, H // 2, W // 2, -1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Send the gradient to the largest of each four."""
        patches, wide, winner = ctx.saved_tensors
        grad = grad.reshape(winner.shape)
        dz = _unpool(grad, winner)
        dbias = torch.where(winner < 4, grad, 0).sum(dim=1, dtype=torch.float32)
        dweight = _narrow(_product(patches, dz, ctx.shape[1]))
        if not ctx.needs_input_grad[0]:
            return None, dweight, dbias
        return _fold(torch.bmm(dz, wide.transpose(1, 2)), ctx.shape), dweight, dbias


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
    y = torch.relu(torch.maximum(upper, lower) + bias.unsqueeze(1))
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


FIRST, SECOND, HIDDEN = 32, 64, 128
"""Filters of the two convolutions and units of the hidden layer."""


@dataclass(frozen=True)
class LargeCNN(Architecture):
    """LargeCNN of the paper; averaging and with the head `Mean` its LargeCNNRegressor.

    conv 3x3, 32 -> ReLU -> maximum 2x2 -> conv 3x3, 64 -> ReLU -> maximum 2x2 -> flat, or the mean
    of each channel -> linear, 128 -> ReLU -> linear.

    Examples
    --------
    >>> from fedwqcp_lab.models.networks import Classes, Mean
    >>> LargeCNN((28, 28, 1), Classes(10)).parameters
    421642
    >>> LargeCNN((28, 28, 3), Mean(), averaging=True).parameters
    27841
    """

    shape: tuple[int, int, int]
    head: Head
    averaging: bool = False  # global average pooling before the linear layers

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
                x = grouped_conv_pool(x, weight, bias)
            else:
                x = conv_pool(x, weight, bias)
        first = x.permute(0, 1, 4, 2, 3)  # channels first, as torch flattens
        flat = first.mean(dim=(3, 4)) if self.averaging else first.flatten(2)
        hidden = torch.relu(linear(flat, weights["fc1.weight"], weights["fc1.bias"]))
        return linear(hidden, weights["fc2.weight"], weights["fc2.bias"])

    @property
    def activations(self) -> int:
        """Numbers that one image keeps in memory in training, about."""
        H, W, c = self.shape
        pixels = H * W
        # windows and four outputs each of the first convolution, then of the second, twice over
        return 2 * (pixels * (4 * c + FIRST) + pixels // 4 * (4 * FIRST + SECOND + FIRST))


@dataclass(frozen=True)
class VeryWeakLinear(Architecture):
    """VeryWeakLinear of the paper; with the head `Mean` its VeryWeakLinearRegressor.

    Examples
    --------
    >>> from fedwqcp_lab.models.networks import Classes
    >>> VeryWeakLinear((28, 28, 1), Classes(10)).parameters
    7850
    """

    shape: tuple[int, int, int]
    head: Head

    def shapes(self) -> dict[str, tuple[int, ...]]:
        H, W, c = self.shape
        return {"fc.weight": (self.head.width, H * W * c), "fc.bias": (self.head.width,)}

    def forward(
        self, weights: Mapping[str, torch.Tensor], x: torch.Tensor, engine: Engine
    ) -> torch.Tensor:
        del engine  # one product: nothing to choose
        flat = x.permute(0, 1, 4, 2, 3).flatten(2)  # channels first, as torch flattens
        return linear(flat, weights["fc.weight"], weights["fc.bias"])

    @property
    def activations(self) -> int:
        """Numbers that one image keeps in memory in training, about."""
        H, W, c = self.shape
        return 2 * H * W * c
