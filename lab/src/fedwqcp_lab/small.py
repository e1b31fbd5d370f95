"""Small data that need no file, and small models of scikit-learn for them."""

from __future__ import annotations

import numpy as np

from fedwqcp.demo import embedded
from fedwqcp.demo.agents import Recipe, outputs_of
from fedwqcp.demo.streams import stream
from fedwqcp_lab.datasets import catalog
from fedwqcp_lab.experiment import Experiment
from fedwqcp_lab.plans import DatasetPlan
from fedwqcp_lab.settings import Material, division, setting_of
from fedwqcp_lab.unit import Side, Unit

FRIEDMAN_ROWS = 3000
"""Rows of the synthetic regression; one in five is for testing."""

RATES = {"S": 0.003, "W": 0.1}
"""Learning rates of strong and weak models."""


def material_of(name: str) -> Material:
    """Return an embedded dataset.

    Parameters
    ----------
    name : {"digits", "friedman"}
        Which.

    Returns
    -------
    Material
        Inputs between 0 and 1; every fifth row is for testing.
    """
    entry = catalog.find(name)
    if name == "digits":
        data = embedded.digits()
    else:
        data = embedded.friedman(FRIEDMAN_ROWS, stream(0, "friedman"))
    test = np.arange(len(data)) % 5 == 4
    return Material(
        entry,
        entry.published.status,
        entry.published.note,
        data.inputs[~test],
        data.targets[~test],
        data.inputs[test],
        data.targets[test],
    )


def unit_of(material: Material, plan: DatasetPlan, experiment: Experiment, seed: int) -> Unit:
    """Train one small model for each agent: a network, or a linear model that saw the data once.

    Parameters
    ----------
    material : Material
        The data.
    plan : DatasetPlan
        How they are used.
    experiment : Experiment
        Agents and epochs.
    seed : int
        Seed of the run.

    Returns
    -------
    Unit
        What the models say.
    """
    setting = setting_of(material, plan, experiment, seed, "cpu")
    rows = division(material, seed, experiment.held_out)
    inputs = np.concatenate([material.inputs, material.test_inputs])
    targets = np.concatenate([material.targets, material.test_targets])
    data = embedded.Dataset(
        plan.source, inputs, targets, setting.n_classes if setting.label_law.size else None
    )
    tested = rows.held_out if experiment.held_out else np.arange(len(material.inputs), len(inputs))
    sides = []
    for place, name in enumerate(experiment.agents):
        strong = name.startswith("S")
        recipe = Recipe(name, (32 + 16 * place,) if strong else (), RATES[name[0]])
        epochs = plan.strong_epochs or experiment.strong_epochs
        said = outputs_of(recipe, data, rows.train, seed, epochs)
        if setting.label_law.size:
            said = np.log(np.maximum(said, np.finfo(np.float32).tiny))  # logits of the same softmax
        own = setting.rows if experiment.pool else setting.rows[setting.part(place)]
        sides.append(Side(name, said[own], said[tested]))
    return Unit(setting, tuple(sides))
