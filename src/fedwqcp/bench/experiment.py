"""What an experiment is: data, agents, presets and methods, read from TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Literal

from fedwqcp import methods, scores
from fedwqcp.arrays import as_alpha
from fedwqcp.bench.lines import check_types
from fedwqcp.bench.toml import build, nearest
from fedwqcp.errors import InputError
from fedwqcp.quantile import Overflow, check_overflow
from fedwqcp.scores import Rule, Score
from fedwqcp.wire.round import Setting


@dataclass(frozen=True, kw_only=True)
class DatasetPlan:
    """How one dataset is used.

    Parameters
    ----------
    name : str
        Its name in the catalogue.
    batch : int, optional
        Batch size of the training.
    components : int, optional
        Principal components of the pixels that methods for covariate shift see, at most 32.
    ordinal : int or None, optional
        For a regression on ordinal labels: how many there are, counted from 0.
    """

    name: str
    batch: int = 64
    components: int = 32
    ordinal: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        if self.batch < 1 or not 1 <= self.components <= 32:
            raise InputError(
                f"dataset {self.name!r}: batch must be at least 1 and components from 1 to 32"
            )


@dataclass(frozen=True, kw_only=True)
class PresetPlan:
    """A score, a set rule and an overflow rule that belong together.

    Parameters
    ----------
    name : str
        As records name it.
    labels, intervals : dict, optional
        Score of a classification and of a regression: its ``name`` and settings. Without one, the
        preset leaves such data out.
    rule : {"leq", "leq_top1", "until"}, optional
        How a threshold becomes a set of labels.
    overflow : {"propagate", "clip", "exclude"}, optional
        What an agent with too few points does, for every method that has the choice.
    """

    name: str
    labels: dict[str, Setting] = field(default_factory=dict)
    intervals: dict[str, Setting] = field(default_factory=dict)
    rule: Rule = "leq"
    overflow: Overflow = "propagate"

    def __post_init__(self) -> None:
        check_types(self)
        check_overflow(self.overflow)
        for task in ("classification", "regression"):
            self.score(task)

    def score(self, task: str) -> Score | None:
        """Return the score for a task.

        Parameters
        ----------
        task : {"classification", "regression"}
            What is predicted.

        Returns
        -------
        Score or None
            None where the preset leaves such data out.
        """
        chosen = dict(self.labels if task == "classification" else self.intervals)
        name = chosen.pop("name", None)
        if name is None:
            return None
        return scores.get(str(name), **chosen)  # type: ignore[arg-type]  # checked there


@dataclass(frozen=True, kw_only=True)
class MethodPlan:
    """One row of the comparison.

    Parameters
    ----------
    name : str
        As records name the row; what stands before a bracket names the published row.
    method : str
        The method.
    aim : {"", "training", "own"}, optional
        For a method that corrects a shift: the law of the training data, or the agent's own.
    take : {"release", "maximum"}, optional
        What the row uses: the method's thresholds, or the largest that any agent sent.
    rule : str, optional
        A set rule of its own, whatever the preset says.
    settings : dict, optional
        Settings of the method; ``overflow`` comes from the preset.
    """

    name: str
    method: str
    aim: Literal["", "training", "own"] = ""
    take: Literal["release", "maximum"] = "release"
    rule: Rule | Literal[""] = ""
    settings: dict[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(self)
        methods.get(self.method, **self.settings)


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
    datasets: tuple[DatasetPlan, ...]
    presets: tuple[PresetPlan, ...]
    methods: tuple[MethodPlan, ...]

    def __post_init__(self) -> None:
        check_types(self)
        as_alpha(self.alpha)
        if min((0, *self.seeds)) < 0 or not self.seeds or len({*self.seeds}) < len(self.seeds):
            raise InputError("seeds must be different whole numbers of at least 0, at least one")
        if min(self.strong, self.weak) < 0 or not self.agents:
            raise InputError("strong and weak must be at least 0, and not both 0")
        if min(self.strong_epochs, self.weak_epochs, self.clusters) < 1:
            raise InputError("strong_epochs, weak_epochs and clusters must be at least 1")
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
        A TOML file.

    Returns
    -------
    Experiment
        What it says.

    Raises
    ------
    InputError
        If the file cannot be read, a key is unknown or missing, or a value is wrong.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as an experiment: {error}") from None
    return build(Experiment, table, path.name)


def shipped(name: str) -> Path:
    """Return an experiment that comes with the software.

    Parameters
    ----------
    name : {"paper", "embedded"}
        Which one.

    Returns
    -------
    Path
        Its file.
    """
    return Path(str(files("fedwqcp.bench") / f"{name}.toml"))
