"""What an experiment is: data, agents, presets and methods, read from TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path

from fedwqcp.arrays import as_alpha
from fedwqcp.demo.lines import check_types
from fedwqcp.errors import InputError
from fedwqcp_lab.plans import DatasetPlan, MethodPlan, PresetPlan
from fedwqcp_lab.toml import build, nearest

SHIPPED = ("paper.toml", "beyond.toml")
"""Experiments that come with the software."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A comparison of methods over datasets, seeds and presets.

    Parameters
    ----------
    name : str
        Its name.
    alpha : float
        Miscoverage level.
    beta : float
        Dirichlet concentration of the agents' calibration data.
    seeds : tuple of int
        One run each.
    strong, weak : int
        Numbers of agents with strong and with weak models.
    strong_epochs, weak_epochs : int
        Passes over the training data.
    clusters : int
        K-means clusters that take the place of classes in a regression.
    held_out : float
        Share of the training rows that is kept out of training and takes the place of the test
        data, so that settings can be tuned without a look at those.
    pool : bool
        Whether every model speaks of all calibration points and not only of its own agent's, so
        that other federations can be drawn from the same models.
    datasets, presets, methods : tuple
        What is compared on what.
    """

    name: str
    alpha: float
    beta: float
    seeds: tuple[int, ...]
    strong: int = 3
    weak: int = 3
    strong_epochs: int = 5
    weak_epochs: int = 1
    clusters: int = 5
    held_out: float = 0.0
    pool: bool = False
    datasets: tuple[DatasetPlan, ...]
    presets: tuple[PresetPlan, ...]
    methods: tuple[MethodPlan, ...]

    def __post_init__(self) -> None:
        check_types(self)
        as_alpha(self.alpha)
        if self.beta <= 0:
            raise InputError(f"beta must be positive, got {self.beta}")
        if min((0, *self.seeds)) < 0 or not self.seeds or len({*self.seeds}) < len(self.seeds):
            raise InputError("seeds must be different whole numbers of at least 0, at least one")
        if min(self.strong, self.weak) < 0 or not self.agents:
            raise InputError("strong and weak must be at least 0, and not both 0")
        if min(self.strong_epochs, self.weak_epochs, self.clusters) < 1:
            raise InputError("strong_epochs, weak_epochs and clusters must be at least 1")
        if not 0 <= self.held_out < 1:
            raise InputError(f"held_out must be from 0 to below 1, got {self.held_out}")
        for what in ("datasets", "presets", "methods"):
            names = [part.name for part in getattr(self, what)]
            if not names or len({*names}) < len(names):
                raise InputError(f"{what} must have different names, at least one; got {names}")

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents: S0, S1, ... strong, then W... weak, counted on."""
        kinds = "S" * self.strong + "W" * self.weak
        return tuple(f"{kind}{at}" for at, kind in enumerate(kinds))

    def only(
        self, datasets: Iterable[str] | None = None, seeds: Iterable[int] | None = None
    ) -> Experiment:
        """Return the same experiment on fewer datasets or other seeds.

        Parameters
        ----------
        datasets : iterable of str, optional
            Names of those to keep.
        seeds : iterable of int, optional
            The seeds to use.

        Returns
        -------
        Experiment
            The smaller one.

        Raises
        ------
        InputError
            If a dataset is not part of the experiment.
        """
        known = {plan.name: plan for plan in self.datasets}
        chosen = tuple(known) if datasets is None else tuple(datasets)
        for name in chosen:
            if name not in known:
                raise InputError(f"dataset {name!r} is not in the experiment{nearest(name, known)}")
        return replace(
            self,
            datasets=tuple(known[name] for name in chosen),
            seeds=self.seeds if seeds is None else tuple(seeds),
        )

    def config(self, dataset: str, preset: str, method: str) -> dict[str, object]:
        """Return every setting that the numbers of one row depend on.

        Parameters
        ----------
        dataset, preset, method : str
            Which row.

        Returns
        -------
        dict
            The settings; seeds, and what else the experiment compares, are not among them.
        """
        own = asdict(self)
        for what in ("name", "seeds", "datasets", "presets", "methods"):
            del own[what]
        for what, name in (("datasets", dataset), ("presets", preset), ("methods", method)):
            own[what[:-1]] = asdict(next(p for p in getattr(self, what) if p.name == name))
        if not own["method"]["by"]:  # rows without groups keep the fingerprint that they had
            del own["method"]["by"]
        return own


def digest(config: object) -> str:
    """Return a short fingerprint of settings.

    Parameters
    ----------
    config : object
        What JSON can hold.

    Returns
    -------
    str
        Twelve hexadecimal digits.
    """
    return blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=6).hexdigest()


def load(path: Path) -> Experiment:
    """Read an experiment.

    Parameters
    ----------
    path : Path
        A TOML file; ``paper.toml`` and ``beyond.toml``, where there is no such file, are those that
        come with the software.

    Returns
    -------
    Experiment
        What it says.

    Raises
    ------
    InputError
        If the file cannot be read, a key is unknown or missing, or a value is wrong.
    """
    own = files("fedwqcp_lab") / str(path)
    source = own if str(path) in SHIPPED and not path.exists() else path
    try:
        table = tomllib.loads(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as an experiment: {error}") from None
    return build(Experiment, table, path.name)


def paper() -> Experiment:
    """Return the paper's comparison, which comes with the software.

    Returns
    -------
    Experiment
        Seven datasets, ten seeds, six agents.
    """
    return load(Path("paper.toml"))


def embedded() -> Experiment:
    """Return the paper's comparison on data that need no download, with models of scikit-learn.

    Returns
    -------
    Experiment
        Two seeds of a small classification and a synthetic regression.
    """
    return replace(
        paper(),
        name="embedded",
        seeds=(0, 1),
        strong_epochs=40,
        datasets=(DatasetPlan(name="digits", components=8), DatasetPlan(name="friedman")),
    )
