"""Federations of any shape, drawn from one pool of trained models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedwqcp.arrays import Labels, as_alpha
from fedwqcp.demo import partition
from fedwqcp.demo.lines import check_types
from fedwqcp.demo.streams import stream
from fedwqcp.errors import InputError
from fedwqcp_lab.unit import Side, Unit

FEW = 10
"""Points that a tiny agent keeps."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A federation.

    Parameters
    ----------
    alpha : float
        Miscoverage level.
    agents : int
        How many agents.
    strong : float
        Share of them with strong models, from 0 to 1.
    skew : {"label", "quantity"}
        Whether agents differ in what they hold, or in how much.
    beta : float
        Dirichlet concentration of the skew.
    tiny : int
        Agents, the last ones, that keep no more than `FEW` points.
    """

    alpha: float = 0.05
    agents: int = 6
    strong: float = 0.5
    skew: Literal["label", "quantity"] = "label"
    beta: float = 0.3
    tiny: int = 0

    def __post_init__(self) -> None:
        check_types(self)
        as_alpha(self.alpha)
        if self.agents < 1 or not 0 <= self.tiny <= self.agents or not 0 <= self.strong <= 1:
            raise InputError(
                "a federation must have at least one agent, a share of strong ones from 0 to 1 and "
                f"no more tiny ones than agents, got {self.agents}, {self.strong} and {self.tiny}"
            )


def federate(pool: Unit, shape: Shape) -> Unit:
    """Divide the calibration points of a pool anew, and give every agent a model of its kind.

    Parameters
    ----------
    pool : Unit
        Models that spoke of all calibration points of a classification.
    shape : Shape
        The federation.

    Returns
    -------
    Unit
        Agents take the models of their kind in turn. Points beyond `FEW` of a tiny agent belong to
        nobody.

    Raises
    ------
    InputError
        If the pool has no model of a kind that is needed, or is a regression.
    """
    setting = pool.setting
    if setting.task != "classification":
        raise InputError("a federation is drawn from models that classify")
    strong = round(shape.strong * shape.agents)
    kinds = ["strong"] * strong + ["weak"] * (shape.agents - strong)
    models = {kind: [side for side in pool.sides if side.model == kind] for kind in {*kinds}}
    if not all(models.values()):
        raise InputError("the pool must hold models of every kind that the federation has")
    names = tuple(f"{kind[0].upper()}{at}" for at, kind in enumerate(kinds))
    owners = _owners(pool, shape)
    sides = []
    for at, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        model = models[kind][at % len(models[kind])]
        sides.append(Side(name, model.calibration[owners == at], model.test))
    return Unit(replace(setting, agents=names, owners=owners), tuple(sides))


def _owners(pool: Unit, shape: Shape) -> Labels:
    """Return the agent of each calibration point, -1 for nobody."""
    labels = pool.setting.labels
    rng = stream(pool.setting.seed, pool.setting.dataset, "federation", shape.skew)
    if shape.skew == "label":
        parts = partition.by_label(labels, shape.agents, rng, beta=shape.beta)
    else:
        parts = partition.by_quantity(len(labels), shape.agents, rng, beta=shape.beta)
    owners = np.full(len(labels), -1, dtype=np.int64)
    for at, part in enumerate(parts):
        tiny = at >= shape.agents - shape.tiny
        owners[rng.permutation(part)[:FEW] if tiny else part] = at
    return owners
