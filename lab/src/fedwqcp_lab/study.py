"""What a stress study is: one thing about a federation is varied at a time, read from TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fedwqcp.demo.lines import check_types
from fedwqcp.errors import InputError
from fedwqcp_lab.experiment import Experiment
from fedwqcp_lab.pool import Shape
from fedwqcp_lab.toml import build

Point: TypeAlias = tuple[str, float]
"""A factor and its value."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """What is varied.

    Parameters
    ----------
    name : {"alpha", "agents", "strong", "label", "quantity", "tiny"}
        A field of `Shape`; "label" and "quantity" are the concentrations of the two skews.
    values : tuple of float
        Its values.
    """

    name: Literal["alpha", "agents", "strong", "label", "quantity", "tiny"]
    values: tuple[int | float, ...]

    def __post_init__(self) -> None:
        check_types(self)
        if not self.values or len({*self.values}) < len(self.values):
            raise InputError(f"values must be different, at least one; got {self.values}")
        for value in self.values:
            shape_of((self.name, float(value)), Shape())


@dataclass(frozen=True, kw_only=True)
class Stress:
    """A stress study.

    Parameters
    ----------
    experiment : Experiment
        Datasets, seeds, presets and methods; its models are a pool.
    factors : tuple of Factor
        What is varied, each from the experiment's own alpha, beta and agents.
    """

    experiment: Experiment
    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        names = [factor.name for factor in self.factors]
        if not names or len({*names}) < len(names):
            raise InputError(f"factors must have different names, at least one; got {names}")

    @property
    def start(self) -> Shape:
        """The federation that is varied."""
        own = self.experiment
        agents = own.strong + own.weak
        return Shape(alpha=own.alpha, agents=agents, strong=own.strong / agents, beta=own.beta)

    @property
    def points(self) -> tuple[Point, ...]:
        """All factors with all their values."""
        return tuple((f.name, float(value)) for f in self.factors for value in f.values)


def shape_of(point: Point, start: Shape) -> Shape:
    """Return the federation of a point.

    Parameters
    ----------
    point : tuple
        Factor and value.
    start : Shape
        What is varied.

    Returns
    -------
    Shape
        The same with one thing changed.

    Raises
    ------
    InputError
        If the value does not fit.
    """
    name, value = point
    changed: dict[str, Any] = {name: value}
    if name in ("label", "quantity"):
        changed = {"skew": name, "beta": value}
    elif name in ("agents", "tiny"):
        if value != int(value):
            raise InputError(f"{name}: must be a whole number, got {value}")
        changed = {name: int(value)}
    return replace(start, **changed)


def load(path: Path | None = None) -> Stress:
    """Read a stress study.

    Parameters
    ----------
    path : Path, optional
        A TOML file: an experiment, and tables ``[[factors]]``. By default the study that comes with
        the software.

    Returns
    -------
    Stress
        What it says.

    Raises
    ------
    InputError
        If the file cannot be read, a key is unknown or missing, or a value is wrong.
    """
    path = path or Path(str(files("fedwqcp_lab") / "stress.toml"))
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as a stress study: {error}") from None
    factors = table.pop("factors", [])
    experiment = build(Experiment, {**table, "pool": True}, path.name)
    return build(Stress, {"experiment": experiment, "factors": factors}, path.name)
