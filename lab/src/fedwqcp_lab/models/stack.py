"""G trained models of one kind, and what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fedwqcp.errors import InputError
from fedwqcp_lab.models._torch import torch
from fedwqcp_lab.models.architecture import Architecture
from fedwqcp_lab.models.chunks import in_chunks
from fedwqcp_lab.models.engine import Engine
from fedwqcp_lab.models.pixels import place, scaled

_BUDGET = {"cpu": 2**25, "cuda": 2**33}
"""Bytes of activations that one batch of predictions may take."""


def initial(architecture: Architecture, streams: Sequence[Generator]) -> dict[str, torch.Tensor]:
    """Draw torch's default weights, each model from its own stream.

    Weight and bias of a layer are uniform within 1 / sqrt(inputs of the layer), which is what
    torch's `Conv2d` and `Linear` draw.

    Parameters
    ----------
    architecture : Architecture
        The kind of model.
    streams : sequence of numpy.random.Generator
        One for each model; they move on.

    Returns
    -------
    dict of str to Tensor
        Weights with a first axis of G models, in float32 on the CPU.
    """
    shapes = architecture.shapes()
    drawn: dict[str, list[npt.NDArray[np.float32]]] = {name: [] for name in shapes}
    for rng in streams:
        bound = 0.0
        for name, shape in shapes.items():
            if len(shape) > 1:  # a bias follows its weight and has its bound
                bound = 1 / math.sqrt(math.prod(shape[1:]))
            drawn[name].append(rng.uniform(-bound, bound, shape).astype(np.float32))
    return {name: torch.from_numpy(np.stack(each)) for name, each in drawn.items()}


@dataclass(frozen=True, eq=False)
class Stack:
    """Models of one kind side by side.

    Parameters
    ----------
    architecture : Architecture
        Their kind.
    weights : mapping of str to Tensor
        Their weights, with a first axis of G models.
    engine : Engine
        How they are computed.
    """

    architecture: Architecture
    weights: Mapping[str, torch.Tensor]
    engine: Engine

    def __len__(self) -> int:
        return len(next(iter(self.weights.values())))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(iter(self.weights.values())).device

    def state(self, model: int) -> dict[str, torch.Tensor]:
        """Return the weights of one model, as a plain torch module names them.

        Parameters
        ----------
        model : int
            Which of the stack.

        Returns
        -------
        dict of str to Tensor
            Copies on the CPU.
        """
        return {name: weight[model].cpu().clone() for name, weight in self.weights.items()}

    def predict(
        self,
        images: npt.NDArray[Any] | torch.Tensor,
        rows: npt.NDArray[np.integer[Any]] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return what every model says of images.

        Parameters
        ----------
        images : ndarray or Tensor of uint8, shape (N, H, W) or (N, H, W, c)
            Images; a tensor on the device is not copied.
        rows : ndarray of int, shape (G, n), optional
            The images each model sees; all by default.

        Returns
        -------
        ndarray of float32, shape (G, n, C), (G, n) or (G, n, L)
            Logits, predictions or quantiles.
        """
        pixels = check_images(self.architecture, images, self.device)
        if rows is None:
            rows = np.broadcast_to(np.arange(len(pixels)), (len(self), len(pixels)))
        chosen = check_rows(rows, len(self), len(pixels))
        engine = self.engine.exact()

        def _work(own: slice) -> npt.NDArray[np.float32]:
            with torch.no_grad():  # a thread's own setting
                return self._said(own, pixels, chosen[own], engine)

        with engine.active():
            return np.concatenate(in_chunks(engine, self.device, len(self), _work))

    def _said(
        self, own: slice, pixels: torch.Tensor, rows: npt.NDArray[np.int64], engine: Engine
    ) -> npt.NDArray[np.float32]:
        """Predict with some of the models, in batches that keep to the memory."""
        weights = {name: weight[own] for name, weight in self.weights.items()}
        per_image = 4 * self.architecture.activations * len(rows)
        batch = max(1, _BUDGET[self.device.type] // per_image)
        head, moved = self.architecture.head, torch.from_numpy(rows).to(self.device)
        parts = []
        for part in moved.split(batch, dim=1):
            x = scaled(pixels, part, engine.dtype)
            parts.append(head.finish(self.architecture.forward(weights, x, engine)))
        said: npt.NDArray[np.float32] = torch.cat(parts, dim=1).cpu().numpy()
        return said


def check_images(
    architecture: Architecture, images: npt.NDArray[Any] | torch.Tensor, device: torch.device
) -> torch.Tensor:
    """Return images on the device, or say why the models cannot take them.

    Parameters
    ----------
    architecture : Architecture
        The kind of model.
    images : ndarray or Tensor of uint8
        Images.
    device : torch.device
        Where the models are.

    Returns
    -------
    Tensor of uint8, shape (n, H, W, c)
        The images.

    Raises
    ------
    InputError
        If their shape is another than the models'.
    """
    pixels = place(images, device)
    if tuple(pixels.shape[1:]) != architecture.shape:
        raise InputError(
            f"images must have shape {architecture.shape}, got {tuple(pixels.shape[1:])}"
        )
    return pixels


def check_rows(
    rows: npt.NDArray[np.integer[Any]], models: int, images: int
) -> npt.NDArray[np.int64]:
    """Return row numbers, or say what is wrong with them.

    Parameters
    ----------
    rows : ndarray of int, shape (G, n)
        Rows for each model.
    models, images : int
        How many there are.

    Returns
    -------
    ndarray of int64, shape (G, n)
        The same rows.

    Raises
    ------
    InputError
        If there is not one list for each model, or a row is no image.
    """
    found = np.asarray(rows)
    if found.ndim != 2 or len(found) != models or found.dtype.kind not in "iu":
        raise InputError(
            f"rows must be whole numbers of shape ({models}, n), got shape {found.shape}"
        )
    if found.size and not 0 <= found.min() <= found.max() < images:
        raise InputError(f"rows must be from 0 to {images - 1}")
    return np.array(found, dtype=np.int64, order="C")
