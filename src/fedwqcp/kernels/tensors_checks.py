"""The checks of `arrays` on torch tensors; errors name a row and show no value of a person."""

from __future__ import annotations

from typing import TypeAlias

from fedwqcp.arrays import SUM_TOLERANCE
from fedwqcp.errors import InputError
from fedwqcp.kernels._torch import torch
from fedwqcp.kernels.tensors import blocks

Tensor: TypeAlias = torch.Tensor


def as_matrix(probs: Tensor) -> Tensor:
    """Return class probabilities as a float tensor of shape (n, C); values are not looked at.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        float32 and float64 are kept as they are; shorter floats become float32.

    Returns
    -------
    Tensor
        The same numbers, without a gradient.

    Raises
    ------
    InputError
        If it is no float tensor of two dimensions and at least two classes.
    """
    if not isinstance(probs, torch.Tensor) or not probs.is_floating_point():
        raise InputError("probabilities must be a tensor of floats")
    if probs.ndim != 2 or probs.shape[1] < 2:
        raise InputError(
            "probabilities must have shape (n, C) with at least two classes, "
            f"got shape {tuple(probs.shape)}"
        )
    values = probs.detach()
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def check_probabilities(probs: Tensor) -> None:
    """Refuse rows that are no distributions.

    Parameters
    ----------
    probs : Tensor, shape (n, C)
        The rows.

    Raises
    ------
    InputError
        If a sign, a sum or a NaN says that these are not probabilities.
    """
    for rows in blocks(probs):
        some = probs[rows]
        if not len(some):
            return
        lowest, sums = some.amin(1), some.sum(1, dtype=torch.float64)
        bad = ~((lowest >= 0) & ((sums - 1.0).abs() <= SUM_TOLERANCE))
        if not bool(bad.any()):
            continue
        at = int(bad.int().argmax())
        row = rows.start + at
        if bool(torch.isnan(lowest[at])):
            raise InputError(f"probabilities must be numbers, row {row} holds NaN")
        if float(lowest[at]) < 0:
            raise InputError(
                f"probabilities must not be negative, row {row} holds a negative value; "
                "pass softmax outputs, not logits"
            )
        raise InputError(
            f"probabilities of row {row} sum to {float(sums[at]):.6g}; "
            "pass softmax outputs, not logits"
        )


def as_labels(labels: Tensor, probs: Tensor) -> Tensor:
    """Return labels as int64 on the device of the probabilities; values are not looked at.

    Parameters
    ----------
    labels : Tensor, shape (n,)
        Integers.
    probs : Tensor, shape (n, C)
        The rows they belong to.

    Returns
    -------
    Tensor
        The same labels.

    Raises
    ------
    InputError
        If length or type is wrong.
    """
    n = len(probs)
    if not isinstance(labels, torch.Tensor) or labels.is_floating_point():
        raise InputError("labels must be a tensor of integers")
    if labels.dtype in (torch.bool, torch.complex64, torch.complex128):
        raise InputError(f"labels must be integers, got a tensor of {labels.dtype}")
    if labels.shape != (n,):
        raise InputError(f"labels must have shape ({n},), got shape {tuple(labels.shape)}")
    return labels.to(device=probs.device, dtype=torch.int64)


def check_labels(labels: Tensor, n_classes: int) -> None:
    """Refuse labels outside the classes.

    Parameters
    ----------
    labels : Tensor, shape (n,)
        The labels.
    n_classes : int
        Number of classes C.

    Raises
    ------
    InputError
        If one is negative or too large.
    """
    bad = (labels < 0) | (labels >= n_classes)
    if bool(bad.any()):
        row = int(bad.int().argmax())
        raise InputError(f"labels must be integers from 0 to {n_classes - 1}, row {row} is outside")


def as_uniforms(u: Tensor, probs: Tensor) -> Tensor:
    """Return uniforms as float64 on the device of the probabilities; values are not looked at.

    Parameters
    ----------
    u : Tensor, shape (n,)
        One number for each row.
    probs : Tensor, shape (n, C)
        The rows they belong to.

    Returns
    -------
    Tensor
        The same numbers.

    Raises
    ------
    InputError
        If the shape is another.
    """
    n = len(probs)
    if not isinstance(u, torch.Tensor) or u.shape != (n,):
        raise InputError(f"u must be a tensor of shape ({n},)")
    return u.detach().to(device=probs.device, dtype=torch.float64)


def check_uniforms(u: Tensor) -> None:
    """Refuse uniforms that are none.

    Parameters
    ----------
    u : Tensor, shape (n,)
        The numbers.

    Raises
    ------
    InputError
        If a value is NaN, infinite or outside [0, 1].
    """
    bad = ~torch.isfinite(u)
    if bool(bad.any()):
        raise InputError(f"u must be finite numbers, row {int(bad.int().argmax())} is not")
    if not bool(((u >= 0) & (u <= 1)).all()):
        raise InputError("u must lie between 0 and 1; draw it with uniforms(key, ids)")


def as_threshold(threshold: object, probs: Tensor) -> Tensor:
    """Return a threshold that broadcasts against the probabilities, float64, on their device.

    Parameters
    ----------
    threshold : float, array_like or Tensor
        Numbers, +inf or -inf among them.
    probs : Tensor, shape (n, C)
        The rows.

    Returns
    -------
    Tensor
        The threshold.

    Raises
    ------
    InputError
        If it is NaN or does not broadcast.
    """
    try:
        q = torch.as_tensor(threshold, dtype=torch.float64)
    except (TypeError, ValueError):
        raise InputError("the threshold must be a number or an array of numbers") from None
    if bool(torch.isnan(q).any()):
        raise InputError("the threshold must be a number or +inf, got NaN")
    try:
        fits = torch.broadcast_shapes(q.shape, probs.shape) == probs.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise InputError(
            f"a threshold of shape {tuple(q.shape)} does not fit scores of shape "
            f"{tuple(probs.shape)}: pass one number, one per label or a column with one per row"
        )
    return q.to(probs.device)
