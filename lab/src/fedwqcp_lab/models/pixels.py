"""Images as bytes on the device; what a batch needs is gathered and scaled from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError
from fedwqcp_lab.models._torch import torch


def place(images: npt.NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return images as bytes on a device, once for all that use them.

    Parameters
    ----------
    images : ndarray or Tensor of uint8, shape (n, H, W) or (n, H, W, c)
        What `place` gave before is passed on as it is.
    device : torch.device
        Where.

    Returns
    -------
    Tensor of uint8, shape (n, H, W, c)
        The images.

    Raises
    ------
    InputError
        If they are no such images.
    """
    if not isinstance(images, torch.Tensor):
        array = np.asarray(images)
        if array.dtype != np.uint8:
            raise InputError(f"images must be uint8, got {array.dtype}")
        images = torch.tensor(array)
    if images.dtype != torch.uint8 or images.ndim not in (3, 4):
        raise InputError(
            f"images must be uint8 of shape (n, H, W) or (n, H, W, c), got {tuple(images.shape)}"
        )
    return (images if images.ndim == 4 else images.unsqueeze(-1)).to(device).contiguous()


def scaled(pixels: torch.Tensor, rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Gather images and scale them from bytes to -1 ... 1.

    Parameters
    ----------
    pixels : Tensor of uint8, shape (n, H, W, c)
        All images.
    rows : Tensor of int64, shape (G, b)
        Which.
    dtype : torch.dtype
        Type of the result.

    Returns
    -------
    Tensor, shape (G, b, H, W, c)
        (x / 255 - 0.5) / 0.5.
    """
    chosen = pixels.index_select(0, rows.flatten()).float()
    return chosen.div_(255).sub_(0.5).div_(0.5).to(dtype).view(*rows.shape, *pixels.shape[1:])
