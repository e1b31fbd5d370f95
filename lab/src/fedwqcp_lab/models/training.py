"""Stacks of like models, trained side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.random import Generator

from fedwqcp_lab.models.engine import Engine, Progress, find_device, in_chunks, place, scaled
from fedwqcp_lab.models.networks import Architecture

_BUDGET = {"cpu": 2**25, "cuda": 2**33}
"""Bytes of activations that one batch of predictions may take."""

_WARM = 3
"""Steps before a CUDA graph is captured; they are steps of the training like all others."""

_EVERY = 50
"""Steps between two reports where steps are not replayed."""

RATE = 1e-3
"""Learning rate of Adam."""

BATCH = 64
"""Images per step and model."""


def initial(architecture: Architecture, streams: Sequence[Generator]) -> dict[str, torch.Tensor]:
    """Draw torch's default weights, each model from its own stream.

    Weight and bias of a layer are uniform within 1 / sqrt(inputs of the layer), which is what
    torch's `Conv2d` and `Linear` draw.
    """
    shapes = architecture.shapes()
    weights: dict[str, list[npt.NDArray[np.float32]]] = {name: [] for name in shapes}
    for rng in streams:
        bound = 0.0
        for name, shape in shapes.items():
            if len(shape) > 1:  # a bias follows its weight and has its bound
                bound = 1 / math.sqrt(math.prod(shape[1:]))
            weights[name].append(rng.uniform(-bound, bound, shape).astype(np.float32))
    return {name: torch.from_numpy(np.stack(each)) for name, each in weights.items()}


@dataclass(frozen=True, eq=False)
class Stack:
    """Models of one kind side by side."""

    architecture: Architecture
    weights: Mapping[str, torch.Tensor]  # the first axis counts the G models
    engine: Engine

    def __len__(self) -> int:
        return len(next(iter(self.weights.values())))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(iter(self.weights.values())).device

    def predict(
        self,
        images: npt.NDArray[Any] | torch.Tensor,
        rows: npt.NDArray[np.integer[Any]] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the outputs of every model for images.

        Shapes: images (N, H, W) or (N, H, W, c); rows (G, n) -> (G, n, C), (G, n) or (G, n, L).
        """
        pixels = place(images, self.device)
        if rows is None:
            rows = np.broadcast_to(np.arange(len(pixels)), (len(self), len(pixels)))
        chosen = np.array(rows, dtype=np.int64, order="C")

        def _work(own: slice) -> npt.NDArray[np.float32]:
            with torch.no_grad():  # a thread's own setting
                return self._predict(own, pixels, chosen[own])

        with self.engine.active():
            return np.concatenate(in_chunks(self.engine, self.device, len(self), _work))

    def _predict(
        self, own: slice, pixels: torch.Tensor, rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Predict with some of the models, in batches that keep to the memory."""
        weights = {name: weight[own] for name, weight in self.weights.items()}
        per_image = 4 * self.architecture.activations * len(rows)
        batch = max(1, _BUDGET[self.device.type] // per_image)
        head, moved = self.architecture.head, torch.from_numpy(rows).to(self.device)
        parts = []
        for part in moved.split(batch, dim=1):
            x = scaled(pixels, part)
            parts.append(head.finish(self.architecture.forward(weights, x, self.engine)))
        outputs: npt.NDArray[np.float32] = torch.cat(parts, dim=1).cpu().numpy()
        return outputs


class Run:
    """The training of one stack, from newly drawn weights.

    Shapes: pixels (N, H, W, c), on the device; targets (N,); rows (G, n).
    """

    def __init__(
        self,
        architecture: Architecture,
        engine: Engine,
        pixels: torch.Tensor,
        targets: torch.Tensor,
        *,
        rows: npt.NDArray[np.int64],
        streams: Sequence[Generator],
    ) -> None:
        self.architecture, self.engine, self.pixels = architecture, engine, pixels
        self.rows, self.streams = rows, streams
        weights = initial(architecture, streams)
        *_, last = weights
        for model, own in enumerate(rows):
            start = architecture.head.start(targets[torch.from_numpy(own)])
            if start is not None:
                weights[last][model] += start
        device = pixels.device
        self.targets = targets.to(device)
        self.weights = {name: w.to(device).requires_grad_() for name, w in weights.items()}
        self.adam = torch.optim.Adam(
            list(self.weights.values()), lr=RATE, fused=True, capturable=device.type == "cuda"
        )

    def train(self, epochs: int, batch: int, report: Callable[[float], None]) -> Stack:
        """Run all epochs."""
        models, n = self.rows.shape
        full = n // batch
        loop = _Loop(self, full, (models, batch))
        order = self._shuffled()
        for epoch in range(epochs):
            loop.start(order[:, : full * batch])
            for share in loop.steps_taken():
                report((epoch + share) / epochs)
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

        Shapes: rows (G, b).
        """
        for weight, gradient in zip(self.weights.values(), self.gradients(rows), strict=True):
            weight.grad = gradient.contiguous()  # fused Adam reads memory in order
        self.adam.step()

    def gradients(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the gradient of the summed loss: each model's part is its own.

        Shapes: rows (G, b).
        """
        x = scaled(self.pixels, rows)
        y = self.targets.index_select(0, rows.flatten()).view(rows.shape)
        outputs = self.architecture.forward(self.weights, x, self.engine)
        loss = self.architecture.head.loss(outputs, y).sum()
        return torch.autograd.grad(loss, tuple(self.weights.values()))

    def _shuffled(self) -> torch.Tensor:
        """Return each model's rows in a new order of its own."""
        pairs = zip(self.rows, self.streams, strict=True)
        return torch.from_numpy(np.stack([rng.permutation(own) for own, rng in pairs]))


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

    def steps_taken(self) -> Iterator[float]:
        """Take all steps of the epoch; now and then yield the share that is done."""
        for step in range(self.steps):
            if not self.run.engine.graph:
                self._plain()
                if (step + 1) % _EVERY == 0:
                    yield (step + 1) / self.steps
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


def train(
    architecture: Architecture,
    images: npt.NDArray[Any] | torch.Tensor,
    labels: npt.NDArray[Any],
    rows: npt.NDArray[np.integer[Any]],
    streams: Sequence[Generator],
    *,
    epochs: int,
    batch: int = BATCH,
    device: str | torch.device = "auto",
    engine: Engine | None = None,
    progress: Callable[[float], None] | None = None,
) -> Stack:
    """Train models of one kind side by side with Adam.

    Model g is trained on the images ``rows[g]``; ``streams[g]`` draws its initial weights, then the
    order of its rows in each epoch. Each has a state of Adam of its own: what becomes of it depends
    on no other model in its stack, rounding apart. The same streams on the same device give the
    same bits.

    Shapes: images (N, H, W) or (N, H, W, c); labels (N,) or (N, 1); rows (G, n).
    """
    where = find_device(device)
    how = (engine or Engine()).on(where)
    pixels = place(images, where)
    targets = architecture.head.targets(labels)
    chosen = np.array(rows, dtype=np.int64, order="C")
    shares = Progress(progress, len(streams))

    def _work(own: slice) -> Stack:
        run = Run(architecture, how, pixels, targets, rows=chosen[own], streams=streams[own])
        return run.train(epochs, batch, shares.of(own))

    with how.active():
        return _joined(in_chunks(how, where, len(streams), _work))


def _joined(stacks: Sequence[Stack]) -> Stack:
    """Put the chunks together again."""
    first = stacks[0]
    weights = {name: torch.cat([s.weights[name] for s in stacks]) for name in first.weights}
    return Stack(first.architecture, weights, first.engine)
