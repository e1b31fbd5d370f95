"""The one place where torch is imported."""

from __future__ import annotations

from fedwqcp.errors import MissingExtraError

try:
    import torch
except ImportError as error:  # pragma: no cover  # only without the extra
    raise MissingExtraError("training models", "torch") from error

__all__ = ["torch"]
