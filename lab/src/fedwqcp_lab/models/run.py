"""The steps of a training: gradient, Adam, and the loop over batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fedwqcp_lab.models._torch import torch
from fedwqcp_lab.models.architecture import Architecture
from fedwqcp_lab.models.engine import Engine
from fedwqcp_lab.models.pixels import scaled
from fedwqcp_lab.models.stack import Stack, initial

_WARM = 3
"""Steps before a CUDA graph is captured; they are steps of the training like all others."""

_EVERY = 50
"""Steps between two reports where steps are not replayed."""


class Run:
    """The training of one stack.

    Parameters
    ----------
    architecture : Architecture
        The kind of model.
    engine : Engine
        With the device's defaults filled in.
    pixels : Tensor of uint8, shape (N, H, W, c)
        All images, on the device.
    targets : Tensor, shape (N,)
        Their labels.
    """

    def __init__(
        self,
        architecture: Architecture,
        engine: Engine,
        pixels: torch.Tensor,
        targets: torch.Tensor,
    ) -> None:
        self.architecture = architecture
        self.engine = engine
        self.pixels = pixels
        self.targets = targets

    def begin(self, rows: npt.NDArray[np.int64], streams: Sequence[Generator], rate: float) -> None:
        """Draw the weights, and let the head move its bias to where training starts.

        Parameters
        ----------
        rows : ndarray of int64, shape (G, n)
            Training rows of each model.
        streams : sequence of numpy.random.Generator
            One for each model.
        rate : float
            Learning rate.
        """
        self.rows, self.streams = rows, streams
        weights = initial(self.architecture, streams)
        *_, last = weights
        for model, own in enumerate(rows):
            start = self.architecture.head.start(self.targets[torch.from_numpy(own)])
            if start is not None:
                weights[last][model] += start
        device = self.pixels.device
        self.targets = self.targets.to(device)
        self.weights = {name: w.to(device).requires_grad_() for name, w in weights.items()}
        self.adam = torch.optim.Adam(
            list(self.weights.values()), lr=rate, fused=True, capturable=device.type == "cuda"
        )
        self.compiled = torch.compile(self._loss, dynamic=False) if self.engine.compile else None

    def train(self, epochs: int, batch: int, report: Callable[[float], None]) -> Stack:
        """Run all epochs.

        Parameters
        ----------
        epochs : int
            How many.
        batch : int
            Rows per step and model.
        report : callable
            Told the share done.

        Returns
        -------
        Stack
            The trained models.
        """
        models, n = self.rows.shape
        full = n // batch
        loop = _Loop(self, full, (models, batch))
        order = self._shuffled()
        for epoch in range(epochs):
            loop.start(order[:, : full * batch])
            loop.go(partial(_tell, report, epoch, epochs))
            if n % batch:
                self.step(order[:, full * batch :].to(self.pixels.device))
            if epoch + 1 < epochs:
                order = self._shuffled()  # while the device still works
            if self.pixels.is_cuda:
                torch.cuda.synchronize(self.pixels.device)
            report((epoch + 1) / epochs)
        weights = {name: w.detach() for name, w in self.weights.items()}
        return Stack(self.architecture, weights, self.engine)

    def step(self, rows: torch.Tensor) -> None:
        """Take one step with Adam.

        Parameters
        ----------
        rows : Tensor of int64, shape (G, b)
            The batch of each model.
        """
        for weight, slope in zip(self.weights.values(), self.slopes(rows), strict=True):
            weight.grad = slope.contiguous()  # fused Adam reads memory in order
        self.adam.step()

    def slopes(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradient of the summed loss: each model's part is its own.

        Parameters
        ----------
        rows : Tensor of int64, shape (G, b)
            The batch of each model.

        Returns
        -------
        tuple of Tensor
            One for each weight.
        """
        if self.compiled is not None:
            try:
                return torch.autograd.grad(self.compiled(rows), tuple(self.weights.values()))
            except Exception:  # a compiler is a convenience; the same sums run without it
                self.compiled = None
                self.engine = dataclasses.replace(self.engine, compile=False)
        return torch.autograd.grad(self._loss(rows), tuple(self.weights.values()))

    def _loss(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the sum of the models' losses on a batch."""
        x = scaled(self.pixels, rows, self.engine.dtype)
        y = self.targets.index_select(0, rows.flatten()).view(rows.shape)
        outputs = self.architecture.forward(self.weights, x, self.engine)
        return self.architecture.head.loss(outputs, y).sum()

    def _shuffled(self) -> torch.Tensor:
        """Return each model's rows in a new order of its own."""
        pairs = zip(self.rows, self.streams, strict=True)
        return torch.from_numpy(np.stack([rng.permutation(own) for own, rng in pairs]))


def _tell(report: Callable[[float], None], epoch: int, epochs: int, share: float) -> None:
    """Report the share done of all epochs, given that of one."""
    report((epoch + share) / epochs)


class _Loop:
    """The full batches of an epoch; on CUDA a graph that finds its next batch by itself."""

    def __init__(self, run: Run, steps: int, shape: tuple[int, int]) -> None:
        device = run.pixels.device
        self.run = run
        self.steps = steps
        self.shape = shape
        self.order = torch.zeros((steps, *shape), dtype=torch.int64, device=device)
        self.next = torch.zeros(1, dtype=torch.int64, device=device)
        self.graph: Any = None
        self.warm = 0

    def start(self, order: torch.Tensor) -> None:
        """Lay out the rows of an epoch: (G, steps * batch) -> (steps, G, batch)."""
        models, batch = self.shape
        self.order.copy_(order.reshape(models, self.steps, batch).transpose(0, 1).contiguous())
        self.next.zero_()

    def go(self, report: Callable[[float], None]) -> None:
        """Take all steps of the epoch."""
        for step in range(self.steps):
            if not self.run.engine.graph:
                self._plain()
                if (step + 1) % _EVERY == 0:
                    report((step + 1) / self.steps)
            elif self.graph is not None:
                self.graph.replay()
            else:
                self._before_graph()

    def _plain(self) -> None:
        """Take the step that the counter points to, and move the counter."""
        self.run.step(self.order.index_select(0, self.next)[0])
        self.next.add_(1)

    def _before_graph(self) -> None:
        """Warm up on a side stream, as capturing asks; then capture, and replay once."""
        if self.warm < _WARM:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self._plain()
            torch.cuda.current_stream().wait_stream(side)
            self.warm += 1
            return
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._plain()
        self.graph.replay()
