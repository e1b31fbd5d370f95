"""The unit of work: one dataset under one seed, as saved model outputs.

Outputs are written once and read by every method and score: for each agent one ``.npz`` with the
arrays ``cal_logits`` and ``test_logits`` (or ``..._predictions``, ``..._quantiles``) in float32,
and one file of what the agents share. Files are written atomically.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.errors import RecordError
from fedwqcp.files import make_folder, write_atomic
from fedwqcp_lab.datasets.partition import Floats, Indices, Labels

Numbers: TypeAlias = npt.NDArray[Any]

SETTING = "setting.npz"
"""The file that ends a unit: it is written last, so where it is the others are."""

OutputKind: TypeAlias = Literal["logits", "predictions", "quantiles"]
"""The kind of a model's outputs."""

_DAMAGED = (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error)

_TEXT = ("dataset", "title", "status", "note", "task", "n_classes", "seed", "device", "agents")

_STORED_AS = {"label_distribution": "label_law", "feature_distribution": "feature_law"}
"""What fields are called in files where that is not their name."""


@dataclass(frozen=True, eq=False)
class Unit:
    """What the agents share, and each agent's model outputs."""

    setting: UnitSetting
    outputs: tuple[AgentOutputs, ...]

    @property
    def quantiles(self) -> bool:
        """Whether every agent has a model with quantile heads too."""
        return all(agent.quantiles is not None for agent in self.outputs)


@dataclass(frozen=True, eq=False)
class UnitSetting:
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
    groups, test_groups : Labels
        What agents hold in unequal shares, of calibration and test points: the class; in a
        regression the cluster.
    features : Floats, shape (n, d)
        Principal components of the calibration inputs.
    label_distribution : Floats
        Label distribution of the training data; empty for a regression.
    feature_distribution : Floats
        Feature density of the training inputs' components, as `density_of` writes it.
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
    groups: Labels
    test_groups: Labels
    features: Floats
    label_distribution: Floats
    feature_distribution: Floats

    @property
    def output(self) -> OutputKind:
        """The kind of an agent's model outputs, those with quantile heads apart."""
        return "logits" if self.task == "classification" else "predictions"

    def part(self, place: int) -> Indices:
        """Return the calibration points of an agent."""
        return np.flatnonzero(self.owners == place)


_ARRAYS = tuple(field.name for field in fields(UnitSetting) if field.name not in _TEXT)


@dataclass(frozen=True, eq=False)
class AgentOutputs:
    """One agent's model outputs.

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


def save(unit: Unit, folder: Path) -> None:
    """Write a unit: files for each agent, then what they share."""
    make_folder(folder)
    for agent in unit.outputs:
        _write(folder / f"{agent.name}.npz", unit.setting.output, agent.calibration, agent.test)
        if agent.quantiles is not None and agent.test_quantiles is not None:
            path = folder / f"{agent.name}-quantiles.npz"
            _write(path, "quantiles", agent.quantiles, agent.test_quantiles)
    text = json.dumps({name: getattr(unit.setting, name) for name in _TEXT})
    arrays = {_STORED_AS.get(name, name): getattr(unit.setting, name) for name in _ARRAYS}
    write_atomic(folder / SETTING, _npz({"about": np.array(text), **arrays}))


def load(folder: Path) -> Unit:
    """Read a unit."""
    try:
        with np.load(folder / SETTING, allow_pickle=False) as archive:
            parts: dict[str, Any] = {n: archive[_STORED_AS.get(n, n)] for n in _ARRAYS}
            about: dict[str, Any] = json.loads(str(archive["about"]))
        setting = UnitSetting(**{**about, **parts, "agents": tuple(about["agents"])})
    except (*_DAMAGED, TypeError) as error:
        raise RecordError(
            f"{folder} does not hold model outputs that can be read: {error}; "
            "delete the folder and run again"
        ) from None
    outputs = []
    for name in setting.agents:
        own = _read(folder / f"{name}.npz", setting.output)
        path = folder / f"{name}-quantiles.npz"
        heads = _read(path, "quantiles") if path.exists() else (None, None)
        outputs.append(AgentOutputs(name, *own, *heads))
    return Unit(setting, tuple(outputs))


def found(folder: Path) -> bool:
    """Tell whether a unit was saved whole."""
    return (folder / SETTING).exists()


def _write(path: Path, kind: OutputKind, calibration: Numbers, test: Numbers) -> None:
    """Write the outputs of one model, in float32."""
    both = {f"cal_{kind}": calibration, f"test_{kind}": test}
    write_atomic(path, _npz({name: a.astype(np.float32, copy=False) for name, a in both.items()}))


def _read(path: Path, kind: OutputKind) -> tuple[Numbers, Numbers]:
    """Read what `_write` wrote: outputs for calibration and test points."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            calibration, test = archive[f"cal_{kind}"], archive[f"test_{kind}"]
        axes = 1 if kind == "predictions" else 2
        if {(a.dtype, a.ndim, a.shape[1:]) for a in (calibration, test)} != {
            (np.dtype(np.float32), axes, test.shape[1:])
        }:
            raise ValueError(f"not two arrays of float32 with {axes} axes and equal columns")
    except FileNotFoundError:
        raise RecordError(f"{path}: there are no saved outputs; train the models first") from None
    except _DAMAGED:
        raise RecordError(
            f"{path} is damaged or holds no {kind} of a model; delete it and train again"
        ) from None
    return calibration, test


def _npz(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as an uncompressed archive."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
