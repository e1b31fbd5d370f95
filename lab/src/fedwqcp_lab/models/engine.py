"""How a stack is computed: layout, precision, graphs. Nothing here changes what is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from fedwqcp.errors import InputError
from fedwqcp_lab.models import fused
from fedwqcp_lab.models._torch import torch

Layout: TypeAlias = Literal["windows", "grouped"]
"""Convolutions as batched products over windows, or as one grouped convolution."""

Precision: TypeAlias = Literal["fp32", "tf32", "bf16"]
"""float32; float32 with products in TF32; activations in bfloat16, weights in float32."""


@dataclass(frozen=True)
class Engine:
    """Choices of computation; None lets the device decide.

    Parameters
    ----------
    layout : {"windows", "grouped"}, optional
        Form of the convolutions. By default windows on CUDA, grouped on the CPU.
    precision : {"fp32", "tf32", "bf16"}, optional
        By default tf32 on CUDA, fp32 on the CPU.
    graph : bool, optional
        Whether steps are replayed as a CUDA graph. By default on CUDA.
    fuse : bool, optional
        Whether Triton kernels do the work around the products of the windows layout. By default on
        CUDA where Triton works.
    compile : bool
        Whether loss and gradient go through `torch.compile`; plain torch where that fails.
    chunk : int, optional
        Most models that are computed as one. By default all on CUDA, one on the CPU.
    workers : int, optional
        Chunks at a time on the CPU. By default as many as torch has threads.
    """

    layout: Layout | None = None
    precision: Precision | None = None
    graph: bool | None = None
    fuse: bool | None = None
    compile: bool = False
    chunk: int | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        for name, known in (("layout", get_args(Layout)), ("precision", get_args(Precision))):
            value = getattr(self, name)
            if value is not None and value not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        for name in ("chunk", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value!r}")

    def on(self, device: torch.device) -> Engine:
        """Return the choices with the device's defaults filled in.

        Parameters
        ----------
        device : torch.device
            Where the stack is computed.

        Returns
        -------
        Engine
            No layout, precision, graph or fuse is None; what the device cannot do is off.
        """
        cuda = device.type == "cuda"
        layout = self.layout or ("windows" if cuda else "grouped")
        fuse = cuda and layout == "windows" and self.fuse is not False and fused.works(device)
        return dataclasses.replace(
            self,
            layout=layout,
            precision=self.precision or ("tf32" if cuda else "fp32"),
            graph=cuda and self.graph is not False,
            fuse=fuse and not self.compile,
            chunk=self.chunk or (None if cuda else 1),
        )

    def exact(self) -> Engine:
        """Return the engine for predictions.

        Returns
        -------
        Engine
            The same with activations in float32: bfloat16 is for training alone.
        """
        return dataclasses.replace(
            self, precision="tf32" if self.precision == "bf16" else self.precision
        )

    @property
    def dtype(self) -> torch.dtype:
        """Type of the activations."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    @contextmanager
    def active(self) -> Iterator[None]:
        """Set torch's precision for the time of a block.

        Yields
        ------
        None
            The settings of before come back at the end.
        """
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
    """Return a device by its name.

    Parameters
    ----------
    name : str or torch.device
        "cpu", "cuda", "cuda:1"; "auto" takes CUDA where there is one.

    Returns
    -------
    torch.device
        The device.

    Raises
    ------
    InputError
        If there is no such device here.
    """
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
