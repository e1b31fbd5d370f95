"""Where the kernels on tensors find torch."""

from __future__ import annotations

from fedwqcp.errors import MissingExtraError

try:
    import torch
except ImportError as error:  # pragma: no cover  # only without the extra
    raise MissingExtraError("working on tensors", "torch") from error

__all__ = ["torch"]
