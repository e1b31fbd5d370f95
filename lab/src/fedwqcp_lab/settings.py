"""What the agents of a unit share: who has which points, and the laws of the training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedwqcp.demo import partition
from fedwqcp.demo.partition import Indices
from fedwqcp.demo.streams import stream
from fedwqcp.methods.cphet import law_of
from fedwqcp_lab import components
from fedwqcp_lab.datasets.catalog import Dataset
from fedwqcp_lab.datasets.loading import Split, split
from fedwqcp_lab.experiment import Experiment
from fedwqcp_lab.plans import DatasetPlan
from fedwqcp_lab.unit import Numbers, Setting

LAW_ROWS = 10_000
"""Most training rows that the law of the components is estimated from."""


@dataclass(frozen=True, eq=False)
class Material:
    """A dataset in memory.

    Parameters
    ----------
    dataset : Dataset
        Its entry in the catalogue.
    status, note : str
        How this copy stands to the published data.
    inputs, test_inputs : ndarray
        Images or other numbers, one row each.
    targets, test_targets : ndarray
        Classes or real values.
    """

    dataset: Dataset
    status: str
    note: str
    inputs: Numbers
    targets: Numbers
    test_inputs: Numbers
    test_targets: Numbers


def division(material: Material, seed: int, held_out: float = 0.0) -> Split:
    """Return which rows train, which calibrate and which are held out.

    Parameters
    ----------
    material : Material
        The data.
    seed : int
        Seed of the run.
    held_out : float, optional
        Share of the training rows that does not train.

    Returns
    -------
    Split
        Rows of the official training data.
    """
    return split(len(material.inputs), material.dataset.name, seed, held_out=held_out)


def setting_of(
    material: Material, plan: DatasetPlan, experiment: Experiment, seed: int, device: str
) -> Setting:
    """Divide the calibration points between the agents, and write down the training data's laws.

    Parameters
    ----------
    material : Material
        The data.
    plan : DatasetPlan
        How they are used.
    experiment : Experiment
        Agents and skew.
    seed : int
        Seed of the run.
    device : str
        Where the models are trained.

    Returns
    -------
    Setting
        Everything but the models' outputs.
    """
    name, classes = material.dataset.name, material.dataset.n_classes
    rows = division(material, seed, experiment.held_out)
    rng = stream(seed, name, "components")
    shared = components.fit(material.inputs, rows.train, plan.components, rng)
    some = np.sort(rng.permutation(rows.train)[:LAW_ROWS])
    train, kept = material.targets[rows.train], material.targets[some]
    labelled = material.dataset.task == "classification" and classes is not None
    tested = material.targets[rows.held_out] if experiment.held_out else material.test_targets
    law = np.bincount(train.astype(np.int64), minlength=classes or 0) / max(1, len(train))
    density = law_of(shared.of(material.inputs, some), kept.astype(np.int64) if labelled else None)
    return Setting(
        dataset=plan.name,
        title=f"{material.dataset.title} ({plan.name})" if plan.data else material.dataset.title,
        status=material.status,
        note=material.note,
        task=material.dataset.task,
        n_classes=classes if labelled else plan.ordinal,
        seed=seed,
        device=device,
        agents=experiment.agents,
        owners=_owners(material, rows.calibration, experiment, seed),
        rows=rows.calibration,
        labels=_truth(material.targets[rows.calibration], labelled=labelled),
        test_labels=_truth(tested, labelled=labelled),
        features=shared.of(material.inputs, rows.calibration),
        label_law=law if labelled else np.zeros(0),
        feature_law=np.array(density),
    )


def _owners(material: Material, rows: Indices, experiment: Experiment, seed: int) -> Indices:
    """Return the place of the agent that each calibration point belongs to."""
    rng = stream(seed, material.dataset.name, "partition")
    agents, beta = len(experiment.agents), experiment.beta
    if material.dataset.task == "classification":
        parts = partition.by_label(material.targets[rows], agents, rng, beta=beta)
    else:
        scale = 255.0 if material.inputs.dtype == np.uint8 else 1.0
        flat = material.inputs[rows].reshape(len(rows), -1) / scale
        parts = partition.by_cluster(flat, agents, rng, beta=beta, n_clusters=experiment.clusters)
    owners = np.empty(len(rows), dtype=np.int64)
    for place, part in enumerate(parts):
        owners[part] = place
    return owners


def _truth(targets: Numbers, *, labelled: bool) -> Numbers:
    """Return classes as whole numbers, and everything else as floats."""
    return targets.astype(np.int64 if labelled else np.float64)
