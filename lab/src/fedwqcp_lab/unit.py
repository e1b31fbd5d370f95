"""The unit of work: one dataset under one seed, as saved model outputs."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from fedwqcp.arrays import Floats, Labels
from fedwqcp.demo.partition import Indices
from fedwqcp.errors import RecordError
from fedwqcp.federation.files import write_atomic
from fedwqcp_lab.models import outputs
from fedwqcp_lab.models.outputs import Kind, ModelOutputs

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
        The law of the training inputs' components, as `law_of` writes it.
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
    own = outputs.load(folder / f"{name}.npz")
    path = folder / f"{name}-quantiles.npz"
    if not path.exists():
        return Side(name, own.cal, own.test)
    heads = outputs.load(path)
    return Side(name, own.cal, own.test, heads.cal, heads.test)


def _write(path: Path, calibration: Numbers, test: Numbers, kind: Kind) -> None:
    """Write what one model says, in float32."""
    cal, new = (array.astype(np.float32, copy=False) for array in (calibration, test))
    outputs.save(path, ModelOutputs(cal, new, kind))
