"""Thresholds and uniforms on tensors."""

from __future__ import annotations

from hashlib import blake2b
from math import inf
from typing import TypeAlias

from fedwqcp.errors import InputError
from fedwqcp.kernels.torch import torch
from fedwqcp.quantile import Overflow, check_overflow, conformal_rank
from fedwqcp.quantile import conformal_quantile as of_array

Tensor: TypeAlias = torch.Tensor

_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_STEP = 0x9E3779B97F4A7C15


def conformal_quantile(scores: Tensor, alpha: float, overflow: Overflow = "propagate") -> float:
    """Return the split-conformal threshold of scores in a tensor.

    Parameters
    ----------
    scores : Tensor, shape (n,)
        Nonconformity scores, on any device.
    alpha : float
        Miscoverage level, strictly between 0 and 1.
    overflow : {"propagate", "clip", "exclude"}, optional
        The value where the rank passes n, as `fedwqcp.conformal_quantile` has it.

    Returns
    -------
    float
        One of the scores, or +inf.

    Raises
    ------
    InputError
        If a score is NaN or -inf, or alpha or overflow is not a valid choice.
    """
    values = scores.detach()
    if values.device.type == "cpu":
        return of_array(values.double().numpy(), alpha, overflow)
    return _on_device(values, alpha, overflow)


def uniforms(key: str | int, ids: Tensor) -> Tensor:
    """Return one number in [0, 1) per row id, the same as `fedwqcp.uniforms` gives for integers.

    Parameters
    ----------
    key : str or int
        Which family of uniforms.
    ids : Tensor, shape (n,)
        Integers, on any device.

    Returns
    -------
    Tensor, shape (n,)
        float64, on the device of the ids.

    Raises
    ------
    InputError
        If ids are no integers.

    Examples
    --------
    >>> import torch
    >>> uniforms("ward-3", torch.tensor([4, 9])).shape
    torch.Size([2])
    """
    if ids.is_floating_point() or ids.dtype == torch.bool or ids.ndim != 1:
        raise InputError("ids must be a tensor of integers of shape (n,)")
    salt = blake2b(f"{type(key).__name__}:{key}".encode(), digest_size=16).digest()
    first, second = (int.from_bytes(salt[at : at + 8], "little") for at in (0, 8))
    bits = _mix(_mix(ids.to(torch.int64) ^ _signed(first)) ^ _signed(second))
    return _shifted(bits, 11).to(torch.float64) * 2.0**-53


def _on_device(values: Tensor, alpha: float, overflow: Overflow) -> float:
    """Select where the scores live; one number travels."""
    check_overflow(overflow)
    if values.ndim != 1:
        raise InputError(f"scores must have shape (n,), got shape {tuple(values.shape)}")
    if bool((values.isnan() | (values == -inf)).any()):
        raise InputError("scores must be numbers or +inf, one is NaN or -inf")
    n = len(values)
    rank = conformal_rank(n, alpha)
    if rank > n and (overflow != "clip" or not n):
        return inf
    return float(torch.sort(values).values[min(rank, n) - 1])  # a radix sort, which is linear


def _mix(x: Tensor) -> Tensor:
    """Scramble 64-bit words (the finaliser of SplitMix64), in arithmetic modulo 2^64."""
    x = x + _signed(_STEP)
    x = (x ^ _shifted(x, 30)) * _signed(_MULTIPLIERS[0])
    x = (x ^ _shifted(x, 27)) * _signed(_MULTIPLIERS[1])
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """Shift to the right, filling with zeros."""
    return (x >> by) & (2 ** (64 - by) - 1)


def _signed(word: int) -> int:
    """Return an unsigned word as torch's signed one."""
    return word - 2**64 if word >= 2**63 else word
