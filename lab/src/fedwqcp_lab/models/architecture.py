"""What a trainer needs to know of a kind of model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from fedwqcp.errors import InputError
from fedwqcp_lab.models._torch import torch
from fedwqcp_lab.models.engine import Engine
from fedwqcp_lab.models.heads import Head


class Architecture(ABC):
    """A kind of model: frozen, with the shape of its inputs and its head.

    Attributes
    ----------
    shape : tuple of int
        Height, width and channels of an image.
    head : Head
        The last step.
    """

    shape: tuple[int, int, int]
    head: Head

    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each weight of one model.

        Returns
        -------
        dict
            In the order of initialisation, named as in a plain torch module; each weight is
            followed by its bias, the last pair belongs to the head.
        """

    @abstractmethod
    def forward(
        self, weights: Mapping[str, torch.Tensor], x: torch.Tensor, engine: Engine
    ) -> torch.Tensor:
        """Return the raw outputs of a stack.

        Parameters
        ----------
        weights : mapping of str to Tensor
            As `shapes` names them, with a first axis of G models.
        x : Tensor, shape (G, n, H, W, c)
            Scaled images, in the precision of the engine.
        engine : Engine
            With the device's defaults filled in.

        Returns
        -------
        Tensor, shape (G, n, width)
            In float32.
        """

    @property
    @abstractmethod
    def activations(self) -> int:
        """Numbers that one image keeps in memory in training, about."""

    @property
    @abstractmethod
    def operations(self) -> int:
        """Multiplications and additions that one image needs in a forward pass."""

    @property
    def parameters(self) -> int:
        """Number of weights of one model."""
        return sum(torch.Size(shape).numel() for shape in self.shapes().values())


def check_shape(shape: tuple[int, int, int], multiple: int = 1) -> None:
    """Refuse the shape of an image that a model cannot take.

    Parameters
    ----------
    shape : tuple of int
        Height, width and channels.
    multiple : int
        What height and width must be divisible by.

    Raises
    ------
    InputError
        If it is no such shape.
    """
    if len(shape) != 3 or min(shape) < 1 or shape[0] % multiple or shape[1] % multiple:
        raise InputError(
            f"shape must be (height, width, channels), height and width multiples of {multiple}, "
            f"got {shape}"
        )
