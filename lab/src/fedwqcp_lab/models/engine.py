"""How many models are trained at once: devices, precision, batches in chunks, pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Literal, TypeAlias, TypeVar

import numpy.typing as npt
import torch

from fedwqcp.errors import InputError

Layout: TypeAlias = Literal["windows", "grouped"]
"""Convolutions as batched products over windows, or as one grouped convolution."""

Precision: TypeAlias = Literal["fp32", "tf32"]
"""float32; float32 with products in TF32."""


@dataclass(frozen=True)
class Engine:
    """Choices of computation; None lets the device decide.

    Parameters
    ----------
    layout : {"windows", "grouped"}, optional
        Form of the convolutions. By default windows on CUDA, grouped on the CPU.
    precision : {"fp32", "tf32"}, optional
        By default tf32 on CUDA, fp32 on the CPU.
    graph : bool, optional
        Whether steps are replayed as a CUDA graph. By default on CUDA.
    chunk : int, optional
        Most models that are computed as one. By default all on CUDA, one on the CPU.
    """

    layout: Layout | None = None
    precision: Precision | None = None
    graph: bool | None = None
    chunk: int | None = None

    def on(self, device: torch.device) -> Engine:
        """Return the choices with the device's defaults filled in."""
        cuda = device.type == "cuda"
        layout = self.layout or ("windows" if cuda else "grouped")
        return dataclasses.replace(
            self,
            layout=layout,
            precision=self.precision or ("tf32" if cuda else "fp32"),
            graph=cuda and self.graph is not False,
            chunk=self.chunk or (None if cuda else 1),
        )

    @contextmanager
    def active(self) -> Iterator[None]:
        """Set torch's precision for the time of a block."""
        before = torch.get_float32_matmul_precision()
        tf32 = self.precision != "fp32"
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        convolutions = torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=tf32
        )
        try:
            with convolutions if self.layout == "grouped" else nullcontext():
                yield
        finally:
            torch.set_float32_matmul_precision(before)


def find_device(name: str | torch.device = "auto") -> torch.device:
    """Return a device by its name."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"device must be auto, cpu or cuda, got {name!r}") from None
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device must be auto, cpu or cuda, got {name!r}")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: torch sees no CUDA device here; use cpu")
    return device


T = TypeVar("T")


def in_chunks(
    engine: Engine, device: torch.device, models: int, work: Callable[[slice], T]
) -> list[T]:
    """Do something for every chunk of a stack.

    On a CPU each chunk has one thread, and several run at a time: small models do not gain from
    threads of their own, and results do not depend on the number of cores.
    """
    size = engine.chunk or models
    chunks = [slice(first, min(first + size, models)) for first in range(0, models, size)]
    if device.type != "cpu":
        with torch.cuda.device(device):
            return [work(chunk) for chunk in chunks]
    before = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(
            min(before, len(chunks)), initializer=partial(torch.set_num_threads, 1)
        ) as pool:
            return list(pool.map(work, chunks))
    finally:
        torch.set_num_threads(before)


class Progress:
    """Progress over all chunks: the listener gets a share, 0 to 1, from one thread at a time."""

    def __init__(self, listener: Callable[[float], None] | None, models: int) -> None:
        self._listener = listener
        self._models = models
        self._done: dict[int, float] = {}
        self._lock = Lock()

    def of(self, chunk: slice) -> Callable[[float], None]:
        """Return what one chunk tells its own share to."""
        weight = (chunk.stop - chunk.start) / self._models

        def _tell(share: float) -> None:
            with self._lock:
                self._done[chunk.start] = weight * share
                if self._listener is not None:
                    self._listener(min(1.0, sum(self._done.values())))

        return _tell


def place(images: npt.NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return images as bytes on a device, once for all that use them.

    Shapes: images (n, H, W) or (n, H, W, c) -> (n, H, W, c).
    """
    if not isinstance(images, torch.Tensor):
        images = torch.tensor(images)
    return (images if images.ndim == 4 else images.unsqueeze(-1)).to(device).contiguous()


def scaled(pixels: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Gather images and scale them from bytes to -1 ... 1.

    Shapes: pixels (n, H, W, c); rows (G, b) -> (G, b, H, W, c).
    """
    chosen = pixels.index_select(0, rows.flatten()).float()
    return chosen.div_(255).sub_(0.5).div_(0.5).view(*rows.shape, *pixels.shape[1:])
