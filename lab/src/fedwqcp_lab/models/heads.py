"""What a model puts out, and the loss that trains it: classes, a mean, or quantiles.

A head sees the raw outputs of a stack of G models, shape (G, n, width), in float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp_lab.models._torch import torch


class Head(ABC):
    """The last step of a model."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Raw outputs per row."""

    @abstractmethod
    def targets(self, labels: npt.NDArray[Any]) -> torch.Tensor:
        """Return labels in the form that `loss` takes.

        Parameters
        ----------
        labels : ndarray, shape (n,) or (n, 1)
            Classes or numbers.

        Returns
        -------
        Tensor, shape (n,)
            int64 or float32, on the CPU.

        Raises
        ------
        InputError
            If one cannot be trained on.
        """

    @abstractmethod
    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each model, averaged over its rows.

        Parameters
        ----------
        outputs : Tensor, shape (G, n, width)
            Raw outputs.
        targets : Tensor, shape (G, n)
            As `targets` gave them.

        Returns
        -------
        Tensor, shape (G,)
            One loss for each model.
        """

    @abstractmethod
    def finish(self, outputs: torch.Tensor) -> torch.Tensor:
        """Return what the models say.

        Parameters
        ----------
        outputs : Tensor, shape (G, n, width)
            Raw outputs.

        Returns
        -------
        Tensor, shape (G, n, width) or (G, n)
            Logits, predictions or quantiles, in float32.
        """

    def start(self, targets: torch.Tensor) -> torch.Tensor | None:
        """Return what is added to the last bias before training.

        Parameters
        ----------
        targets : Tensor, shape (n,)
            Training targets of one model.

        Returns
        -------
        Tensor, shape (width,), or None
            Nothing, unless a head says otherwise.
        """
        del targets  # plain initialisation
        return None


@dataclass(frozen=True)
class Classes(Head):
    """Classes: logits, trained with cross-entropy.

    The softmax is left to whoever reads them: in float32 it rounds what is near 1 to 1.

    Parameters
    ----------
    count : int
        Number of classes, at least 2.
    """

    count: int

    def __post_init__(self) -> None:
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 2:
            raise InputError(f"count must be a whole number of at least 2, got {self.count!r}")

    @property
    def width(self) -> int:
        """Raw outputs per row."""
        return self.count

    def targets(self, labels: npt.NDArray[Any]) -> torch.Tensor:
        flat = np.asarray(labels).reshape(-1)
        whole = flat.dtype.kind in "iu"
        if not whole or (flat.size and not 0 <= flat.min() <= flat.max() < self.count):
            raise InputError(f"labels must be whole numbers from 0 to {self.count - 1}")
        return torch.from_numpy(flat.astype(np.int64))

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

    Parameters
    ----------
    levels : tuple of float
        Rising, strictly between 0 and 1; for CQR alpha/2 and 1 - alpha/2.
    """

    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.levels, self.levels[1:], strict=False))
        if not self.levels or not rising or not 0 < self.levels[0] <= self.levels[-1] < 1:
            raise InputError(f"levels must rise strictly between 0 and 1, got {self.levels}")

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
    """Return finite numbers as float32."""
    flat = np.asarray(labels).reshape(-1).astype(np.float32)
    if not np.isfinite(flat).all():
        raise InputError("labels must be finite numbers")
    return torch.from_numpy(flat)
