"""Training many models at once: one step of a stack is one step of each of its models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from fedwqcp.errors import InputError
from fedwqcp_lab.models._torch import torch
from fedwqcp_lab.models.architecture import Architecture
from fedwqcp_lab.models.chunks import Progress, in_chunks
from fedwqcp_lab.models.engine import Engine, find_device
from fedwqcp_lab.models.run import Run
from fedwqcp_lab.models.stack import Stack, check_images, check_rows

RATE = 1e-3
"""Learning rate of Adam."""

BATCH = 64
"""Images per step and model."""


def train(
    architecture: Architecture,
    images: npt.NDArray[Any] | torch.Tensor,
    labels: npt.NDArray[Any],
    rows: npt.NDArray[np.integer[Any]],
    streams: Sequence[Generator],
    *,
    epochs: int,
    batch: int = BATCH,
    rate: float = RATE,
    device: str | torch.device = "auto",
    engine: Engine | None = None,
    progress: Callable[[float], None] | None = None,
) -> Stack:
    """Train models of one kind side by side with Adam.

    Each model has its own rows, initial weights and order of rows, and a state of Adam of its own;
    what becomes of it does not depend on which others share its stack, rounding apart. The same
    streams on the same device give the same bits.

    Parameters
    ----------
    architecture : Architecture
        The kind of model.
    images : ndarray or Tensor of uint8, shape (N, H, W) or (N, H, W, c)
        Images; what `pixels.place` gave is not copied.
    labels : ndarray, shape (N,) or (N, 1)
        Classes or numbers.
    rows : ndarray of int, shape (G, n)
        The images each model is trained on.
    streams : sequence of numpy.random.Generator
        One for each model, for its weights, then for its order in each epoch.
    epochs : int
        Passes over the rows; each in a new order, its last batch may be smaller.
    batch : int
        Rows per step and model.
    rate : float
        Learning rate.
    device : str or torch.device
        Where: "cpu", "cuda" or "auto".
    engine : Engine, optional
        How.
    progress : callable, optional
        Told the share done, from 0 to 1, from time to time.

    Returns
    -------
    Stack
        The trained models, in the order of `rows`.

    Raises
    ------
    InputError
        If shapes, rows or settings do not fit.
    """
    where = find_device(device)
    how = (engine or Engine()).on(where)
    pixels = check_images(architecture, images, where)
    targets = architecture.head.targets(labels)
    if len(targets) != len(pixels):
        raise InputError(f"labels must be {len(pixels)}, one for each image, got {len(targets)}")
    chosen = check_rows(rows, len(streams), len(pixels))
    if not chosen.size or epochs < 1 or batch < 1:
        raise InputError("there must be at least one model, row, epoch and row per batch")
    shares = Progress(progress, len(streams))

    def _work(own: slice) -> Stack:
        run = Run(architecture, how, pixels, targets)
        run.begin(chosen[own], streams[own], rate)
        return run.train(epochs, batch, shares.of(own))

    with how.active():
        return _joined(in_chunks(how, where, len(streams), _work))


def _joined(stacks: Sequence[Stack]) -> Stack:
    """Put the chunks together again."""
    first = stacks[0]
    weights = {name: torch.cat([s.weights[name] for s in stacks]) for name in first.weights}
    return Stack(first.architecture, weights, first.engine)
