"""The unit of work: one dataset under one seed, as saved model outputs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels
from fedwqcp.demo.data import Indices
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.files import write_atomic

Numbers = npt.NDArray[Any]
SETTING = "setting.npz"
"""The file that ends a unit: it is written last, so where it is the others are."""


@dataclass(frozen=True, eq=False)
class Side:
    """What one agent's model says.

    Parameters
    ----------
    name : str
        The agent.
    calibration, test : ndarray, shape (n, C) or (n,)
        Logits or predictions for its own calibration points (in a pool: for those of all agents)
        and for the test points.
    quantiles, test_quantiles : ndarray, shape (n, 2), optional
        The same from a model with quantile heads.
    """

    name: str
    calibration: Numbers
    test: Numbers
    quantiles: Numbers | None = None
    test_quantiles: Numbers | None = None

    @property
    def model(self) -> Literal["strong", "weak"]:
        """What kind of model it has, as its name begins."""
        return "strong" if self.name.startswith("S") else "weak"


@dataclass(frozen=True, eq=False)
class Setting:
    """What all agents of a unit share.

    Parameters
    ----------
    dataset, title, status, note : str
        The data, and how this copy stands to the published one.
    task : {"classification", "regression"}
        What is predicted.
    n_classes : int or None
        Classes, or ordinal labels of a regression; None for a real target.
    seed : int
        The seed.
    device : str
        Where the models were trained.
    agents : tuple of str
        Their names.
    owners : Labels, shape (n,)
        The agent, by its place, that each calibration point belongs to.
    rows : Indices, shape (n,)
        Where each calibration point stands in the official training data.
    labels, test_labels : ndarray
        The truth at calibration and test points.
    features : Floats, shape (n, d)
        Principal components of the calibration inputs.
    label_law : Floats
        Share of each class in the training data; empty for a regression.
    feature_law : Floats
        The law of the training inputs' components, as `density_of` writes it.
    """

    dataset: str
    title: str
    status: str
    note: str
    task: Literal["classification", "regression"]
    n_classes: int | None
    seed: int
    device: str
    agents: tuple[str, ...]
    owners: Labels
    rows: Indices
    labels: Numbers
    test_labels: Numbers
    features: Floats
    label_law: Floats
    feature_law: Floats

    def part(self, place: int) -> Indices:
        """Return the calibration points of an agent.

        Parameters
        ----------
        place : int
            Its place among the agents.

        Returns
        -------
        Indices
            In increasing order.
        """
        return np.flatnonzero(self.owners == place)


@dataclass(frozen=True, eq=False)
class Unit:
    """A setting and what every agent's model says in it.

    Parameters
    ----------
    setting : Setting
        What the agents share.
    sides : tuple of Side
        The agents.
    """

    setting: Setting
    sides: tuple[Side, ...]

    @property
    def quantiles(self) -> bool:
        """Whether every agent has a model with quantile heads too."""
        return all(side.quantiles is not None for side in self.sides)


_TEXT = ("dataset", "title", "status", "note", "task", "n_classes", "seed", "device", "agents")
_ARRAYS = ("owners", "rows", "labels", "test_labels", "features", "label_law", "feature_law")


def found(folder: Path) -> bool:
    """Tell whether a unit was saved whole.

    Parameters
    ----------
    folder : Path
        Its folder.

    Returns
    -------
    bool
        Whether it can be loaded.
    """
    return (folder / SETTING).exists()


def save(unit: Unit, folder: Path) -> None:
    """Write a unit: files for each agent, then what they share.

    Parameters
    ----------
    unit : Unit
        What to write.
    folder : Path
        Where to; it is made where it is missing.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    kind: Kind = "logits" if unit.setting.task == "classification" else "predictions"
    for side in unit.sides:
        _write(folder / f"{side.name}.npz", side.calibration, side.test, kind)
        if side.quantiles is not None and side.test_quantiles is not None:
            path = folder / f"{side.name}-quantiles.npz"
            _write(path, side.quantiles, side.test_quantiles, "quantiles")
    text = json.dumps({name: getattr(unit.setting, name) for name in _TEXT})
    buffer = io.BytesIO()
    arrays = {name: getattr(unit.setting, name) for name in _ARRAYS}
    np.savez(buffer, about=np.array(text), **arrays)
    write_atomic(folder / SETTING, buffer.getvalue())


def load(folder: Path) -> Unit:
    """Read a unit.

    Parameters
    ----------
    folder : Path
        Where `save` wrote it.

    Returns
    -------
    Unit
        The same.

    Raises
    ------
    RecordError
        If a file is missing or damaged.
    """
    try:
        with np.load(folder / SETTING, allow_pickle=False) as archive:
            parts: dict[str, Any] = {name: archive[name] for name in _ARRAYS}
            about: dict[str, Any] = json.loads(str(archive["about"]))
        setting = Setting(**{**about, **parts, "agents": tuple(about["agents"])})
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise RecordError(
            f"{folder} does not hold model outputs that can be read: {error}; "
            "delete the folder and run again"
        ) from None
    return Unit(setting, tuple(_side(folder, name) for name in setting.agents))


def _side(folder: Path, name: str) -> Side:
    """Read what one agent's models say."""
    own = read_outputs(folder / f"{name}.npz")
    path = folder / f"{name}-quantiles.npz"
    if not path.exists():
        return Side(name, own.cal, own.test)
    heads = read_outputs(path)
    return Side(name, own.cal, own.test, heads.cal, heads.test)


def _write(path: Path, calibration: Numbers, test: Numbers, kind: Kind) -> None:
    """Write what one model says, in float32."""
    cal, new = (array.astype(np.float32, copy=False) for array in (calibration, test))
    write_outputs(path, ModelOutputs(cal, new, kind))


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


def write_outputs(path: Path, outputs: ModelOutputs) -> None:
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


def read_outputs(
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
