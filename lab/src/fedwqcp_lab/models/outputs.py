"""Saved outputs of one agent's model: written once, read by every method and score.

One uncompressed ``.npz`` for each dataset, seed and agent, with the arrays ``cal_logits`` and
``test_logits`` (or ``..._predictions``, ``..._quantiles``) in float32.
A file is whole or not there.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import InputError, RecordError

Kind: TypeAlias = Literal["logits", "predictions", "quantiles"]
"""What a model puts out."""

_DAMAGED = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class ModelOutputs:
    """What one model says of its calibration rows and of the test rows.

    Parameters
    ----------
    cal : ndarray of float32, shape (n, C), (n, L) or (n,)
        Of the calibration rows of the seed's split, in their order.
    test : ndarray of float32, shape (m, C), (m, L) or (m,)
        Of the test split.
    kind : {"logits", "predictions", "quantiles"}
        What the numbers are.
    """

    cal: npt.NDArray[np.float32]
    test: npt.NDArray[np.float32]
    kind: Kind = "logits"

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        axes = 1 if self.kind == "predictions" else 2
        for name, array in (("cal", self.cal), ("test", self.test)):
            if array.dtype != np.float32 or array.ndim != axes:
                raise InputError(
                    f"{name}: {self.kind} must be float32 with {axes} axes, "
                    f"got {array.dtype} of shape {array.shape}"
                )
        if self.cal.shape[1:] != self.test.shape[1:]:
            raise InputError(
                f"cal and test must have the same columns, got {self.cal.shape[1:]} "
                f"and {self.test.shape[1:]}"
            )

    def __repr__(self) -> str:
        return f"ModelOutputs({self.kind}, cal={self.cal.shape}, test={self.test.shape})"


def path_of(folder: Path, dataset: str, seed: int, agent: str) -> Path:
    """Return where the outputs of one agent are.

    Parameters
    ----------
    folder : Path
        Root of all outputs.
    dataset : str
        Name of the data.
    seed : int
        Seed of the run.
    agent : str
        Name of the agent.

    Returns
    -------
    Path
        ``folder/dataset/seed/agent.npz``.
    """
    return folder / dataset / str(seed) / f"{agent}.npz"


def save(path: Path, outputs: ModelOutputs) -> None:
    """Write outputs whole or not at all.

    Parameters
    ----------
    path : Path
        Where; folders are made, an existing file is replaced in one step.
    outputs : ModelOutputs
        What.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    arrays: dict[str, Any] = {
        f"cal_{outputs.kind}": outputs.cal,
        f"test_{outputs.kind}": outputs.test,
    }
    part = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def load(
    path: Path, *, cal: tuple[int, ...] | None = None, test: tuple[int, ...] | None = None
) -> ModelOutputs:
    """Read saved outputs.

    Parameters
    ----------
    path : Path
        Which file.
    cal, test : tuple of int, optional
        Shapes that the arrays must have.

    Returns
    -------
    ModelOutputs
        What the file holds.

    Raises
    ------
    RecordError
        If the file is not there or damaged, or holds other shapes.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            kind = next(k for k in get_args(Kind) if f"cal_{k}" in archive.files)
            found = ModelOutputs(archive[f"cal_{kind}"], archive[f"test_{kind}"], kind)
    except FileNotFoundError:
        raise RecordError(f"{path}: there are no saved outputs; train the models first") from None
    except (*_DAMAGED, StopIteration):
        raise RecordError(
            f"{path} is damaged or holds no model outputs; delete it and train again"
        ) from None
    for name, array, shape in (("cal", found.cal, cal), ("test", found.test, test)):
        if shape is not None and array.shape != tuple(shape):
            raise RecordError(
                f"{path}: {name} must have shape {tuple(shape)}, got {array.shape}; it belongs to "
                "other data: delete it and train again"
            )
    return found
