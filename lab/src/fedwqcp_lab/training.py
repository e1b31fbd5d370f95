"""The one door to training: from a dataset and seeds to units of model outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fedwqcp.demo.streams import stream
from fedwqcp_lab import small
from fedwqcp_lab.datasets import catalog, files
from fedwqcp_lab.datasets.loading import Split, load
from fedwqcp_lab.experiment import Experiment
from fedwqcp_lab.plans import DatasetPlan
from fedwqcp_lab.settings import Material, division, setting_of
from fedwqcp_lab.unit import Numbers, Setting, Side, Unit

if TYPE_CHECKING:
    from fedwqcp_lab.models.networks import Head

OnShare: TypeAlias = Callable[[str, float], None]
"""Told what is being done, and which share of a dataset's training is behind."""


def check_data(plans: Iterable[DatasetPlan], data: Path | None = None) -> None:
    """Refuse to begin where data that will be needed later are not there.

    Parameters
    ----------
    plans : iterable of DatasetPlan
        The datasets.
    data : Path, optional
        Folder with data.

    Raises
    ------
    InputError
        If the files of one are nowhere; it names them, the places and how to get them.
    """
    for plan in plans:
        entry = catalog.find(plan.source)
        if not entry.embedded and files.locate(entry, data) is None:
            raise files.missing(entry, data)


def train_units(
    plan: DatasetPlan,
    experiment: Experiment,
    seeds: Sequence[int],
    *,
    data: Path | None = None,
    device: str = "auto",
    on_share: OnShare,
) -> Iterator[Unit]:
    """Train all agents' models on one dataset, and ask them about calibration and test points.

    Parameters
    ----------
    plan : DatasetPlan
        The dataset.
    experiment : Experiment
        Agents and epochs.
    seeds : sequence of int
        One unit each; models of all seeds are trained side by side.
    data : Path, optional
        Folder with data.
    device : str, optional
        Where: "auto", "cpu" or "cuda".
    on_share : callable
        Told how far it is.

    Yields
    ------
    Unit
        Seed by seed.

    Raises
    ------
    InputError
        If the dataset is not there.
    MissingExtraError
        If torch, or scikit-learn for embedded data, is not installed.
    """
    if catalog.find(plan.source).embedded:
        material = small.material_of(plan.source)
        for done, seed in enumerate(seeds):
            on_share(f"{plan.name}: training seed {seed}", done / len(seeds))
            yield small.unit_of(material, plan, experiment, seed)
        return
    on_share(f"{plan.name}: reading", 0.0)
    loaded = load(plan.source, data)
    material = Material(
        loaded.dataset,
        loaded.status,
        loaded.note,
        loaded.train_images,
        loaded.train_labels,
        loaded.test_images,
        loaded.test_labels,
    )
    yield from _Networks(material, plan, experiment, device, on_share).units(seeds)


@dataclass(frozen=True, eq=False)
class _Networks:
    """The paper's networks on one dataset, all seeds and agents of one kind at once."""

    material: Material
    plan: DatasetPlan
    experiment: Experiment
    device: str
    on_share: OnShare
    settings: dict[int, Setting] = field(default_factory=dict)

    def units(self, seeds: Sequence[int]) -> Iterator[Unit]:
        """Train, and ask."""
        from fedwqcp_lab.models.engine import find_device

        where = device_name(find_device(self.device))
        for seed in seeds:
            self.on_share(f"{self.plan.name}: partition and components, seed {seed}", 0.0)
            self.settings[seed] = setting_of(self.material, self.plan, self.experiment, seed, where)
        heads, agents = self._heads(), self.experiment.agents
        steps = [(head, kind) for head in heads for kind in ("strong", "weak")]
        said: dict[tuple[int, str, int], tuple[Numbers, Numbers]] = {}
        for at, (head, kind) in enumerate(steps):
            report = _Share(self.on_share, f"{self.plan.name}: {kind} models", at, len(steps))
            for (seed, agent), pair in self._kind(kind, head, report).items():
                said[seed, agent, heads.index(head)] = pair
        for seed in seeds:
            sides = tuple(
                Side(name, *(part for at in range(len(heads)) for part in said[seed, name, at]))
                for name in agents
            )
            yield Unit(self.settings[seed], sides)

    def _heads(self) -> list[Head]:
        """Return what models put out: classes; or a mean, and quantiles for CQR."""
        from fedwqcp_lab.models.networks import Classes, Mean, Quantiles

        if self.material.dataset.task == "classification":
            return [Classes(self.material.dataset.n_classes or 2)]
        alpha = self.experiment.alpha
        return [Mean(), Quantiles((alpha / 2, 1 - alpha / 2))]

    def _kind(
        self, kind: str, head: Head, report: Callable[[float], None]
    ) -> dict[tuple[int, str], tuple[Numbers, Numbers]]:
        """Train all models of one kind."""
        from fedwqcp_lab.models.networks import LargeCNN, VeryWeakLinear
        from fedwqcp_lab.models.training import train

        images = self.material.inputs
        shape: Any = (*images.shape[1:3], images.shape[3] if images.ndim == 4 else 1)
        regression = self.material.dataset.task == "regression"
        architecture = (
            LargeCNN(shape, head, averaging=regression)
            if kind == "strong"
            else VeryWeakLinear(shape, head)
        )
        agents = [a for a in self.experiment.agents if a.startswith(kind[0].upper())]
        if not agents:
            return {}
        models = [(seed, agent) for seed in self.settings for agent in agents]
        name, use = self.material.dataset.name, type(head).__name__.lower()
        stack = train(
            architecture,
            images,
            self.material.targets,
            np.stack([self._rows(seed).train for seed, _ in models]),
            [stream(seed, name, "train", agent, use) for seed, agent in models],
            epochs=getattr(self.plan, f"{kind}_epochs")
            or getattr(self.experiment, f"{kind}_epochs"),
            batch=self.plan.batch,
            device=self.device,
            progress=report,
        )
        own = [self._own(seed, agent) for seed, agent in models]
        calibration = stack.predict(images, _padded(own))
        if self.experiment.held_out:
            test = stack.predict(
                images, np.stack([self._rows(seed).held_out for seed, _ in models])
            )
        else:
            test = stack.predict(self.material.test_inputs)
        return {
            model: (calibration[at, : len(own[at])], test[at]) for at, model in enumerate(models)
        }

    def _rows(self, seed: int) -> Split:
        """Return what the official training rows are used for."""
        return division(self.material, seed, self.experiment.held_out)

    def _own(self, seed: int, agent: str) -> npt.NDArray[np.int64]:
        """Return the calibration points, as official rows, that an agent's model speaks of."""
        setting = self.settings[seed]
        if self.experiment.pool:
            return setting.rows
        return setting.rows[setting.part(setting.agents.index(agent))]


@dataclass(frozen=True)
class _Share:
    """Turns the share of one step into the share of all."""

    on_share: OnShare
    what: str
    at: int
    of: int

    def __call__(self, share: float) -> None:
        self.on_share(self.what, (self.at + share) / self.of)


def device_name(device: Any) -> str:
    """Return the name of a device, as records show it.

    Parameters
    ----------
    device : torch.device
        The device.

    Returns
    -------
    str
        ``"cpu"``, or what a GPU calls itself.
    """
    from fedwqcp_lab.models._torch import torch

    return "cpu" if device.type == "cpu" else str(torch.cuda.get_device_name(device))


def _padded(rows: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return lists of rows as one array; what is missing at the end repeats row 0."""
    padded = np.zeros((len(rows), max(1, *(len(own) for own in rows))), dtype=np.int64)
    for line, own in zip(padded, rows, strict=True):
        line[: len(own)] = own
    return padded
