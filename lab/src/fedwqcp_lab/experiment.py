"""What an experiment is, read from TOML: datasets, agents, presets and methods."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from fedwqcp import methods, scores
from fedwqcp.errors import InputError
from fedwqcp.files import known_hint
from fedwqcp.files import read_toml as read_table
from fedwqcp.quantile import Overflow, check_overflow, conformal_rank
from fedwqcp.registry import Setting
from fedwqcp.scores import Rule, Score

T = TypeVar("T")

SHIPPED = tuple(sorted(file.name for file in Path(__file__).parent.glob("*.toml")))
"""Experiments and studies that come with the software."""


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
        Whether every model predicts all calibration points and not only its own agent's, so that
        other federations can be drawn from the same models.
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
        conformal_rank(1, self.alpha)  # refuses what is no level
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
        """Return the same experiment on fewer datasets or other seeds."""
        known = {plan.name: plan for plan in self.datasets}
        chosen = tuple(known) if datasets is None else tuple(datasets)
        for name in chosen:
            if name not in known:
                raise InputError(
                    f"dataset {name!r} is not in the experiment{known_hint(name, known)}"
                )
        return replace(
            self,
            datasets=tuple(known[name] for name in chosen),
            seeds=self.seeds if seeds is None else tuple(seeds),
        )

    def config(self, dataset: str, preset: str, method: str) -> dict[str, object]:
        """Return every setting that the numbers of one row depend on."""
        own = asdict(self)
        for what in ("name", "seeds", "datasets", "presets", "methods"):
            del own[what]
        for what, name in (("datasets", dataset), ("presets", preset), ("methods", method)):
            own[what[:-1]] = asdict(next(p for p in getattr(self, what) if p.name == name))
        for key in ("by", "place", "components"):  # rows without them keep their fingerprint
            if not own["method"][key]:
                del own["method"][key]
        own["method"]["aim"] = own["method"].pop("target")  # as it is called in fingerprints
        return own


@dataclass(frozen=True, kw_only=True)
class DatasetPlan:
    """How one dataset is used.

    Parameters
    ----------
    name : str
        As records name it: its name in the catalogue, or any other if ``data`` says that.
    data : str, optional
        Its name in the catalogue, where the same data are used twice in different ways.
    strong_epochs, weak_epochs : int, optional
        Passes over the training data; by default the experiment's.
    batch : int, optional
        Batch size of the training.
    components : int, optional
        Principal components of the pixels that methods for covariate shift see, at most 32.
    ordinal : int or None, optional
        For a regression on ordinal labels: how many there are, counted from 0.
    """

    name: str
    data: str = ""
    strong_epochs: int | None = None
    weak_epochs: int | None = None
    batch: int = 64
    components: int = 32
    ordinal: int | None = None

    def __post_init__(self) -> None:
        if self.batch < 1 or not 1 <= self.components <= 32:
            raise InputError(
                f"dataset {self.name!r}: batch must be at least 1 and components from 1 to 32"
            )
        if min(self.strong_epochs or 1, self.weak_epochs or 1) < 1:
            raise InputError(f"dataset {self.name!r}: epochs must be at least 1")

    @property
    def source(self) -> str:
        """Its name in the catalogue."""
        return self.data or self.name


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
    spread : tuple of float, optional
        For normalised residuals: a and b, where a + b f is the spread of a prediction f, which is
        cut to the range of ordinal labels first.
    """

    name: str
    labels: dict[str, Setting] = field(default_factory=dict)
    intervals: dict[str, Setting] = field(default_factory=dict)
    rule: Rule = "leq"
    overflow: Overflow = "propagate"
    spread: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_overflow(self.overflow)
        normal = self.intervals.get("name") == "normalized-residual"
        if normal != (len(self.spread) == 2) or min((0.0, *self.spread)) < 0:
            raise InputError(
                f"preset {self.name!r}: spread must be two numbers of at least 0 for the score "
                f"normalized-residual, and left out for others, got {self.spread}"
            )
        for task in ("classification", "regression"):
            self.score(task)

    def score(self, task: str) -> Score | None:
        """Return the score for a task."""
        chosen = dict(self.labels if task == "classification" else self.intervals)
        name = chosen.pop("name", None)
        if name is None:
            return None
        return scores.get(str(name), **chosen)


@dataclass(frozen=True, kw_only=True)
class MethodPlan:
    """One row of the comparison.

    Parameters
    ----------
    name : str
        As records name the row; what stands before a bracket names the published row.
    method : str
        The method.
    target : {"", "training", "own", "balanced"}, optional
        For a method that corrects a shift: the distribution of the training data, the agent's own,
        or labels as they are where all groups are equally frequent; by default that of all agents'
        calibration points.
    take : {"release", "maximum", "local maxima"}, optional
        What the row uses: the method's thresholds; the largest that any agent sent; or the
        ``place``-th smallest of the agents' largest scores, no larger than the score can be.
    place : int, optional
        For ``"local maxima"``: which one, counted from 1; beyond the agents the largest.
    rule : str, optional
        A set rule of its own, whatever the preset says.
    by : {"", "label"}, optional
        With ``"label"`` each class has a threshold of its own; for classifications alone.
    components : int, optional
        How many of the principal components a method for covariate shift sees; 0 for all.
    settings : dict, optional
        Settings of the method; ``overflow`` comes from the preset.
    """

    name: str
    method: str
    target: Literal["", "training", "own", "balanced"] = ""
    take: Literal["release", "maximum", "local maxima"] = "release"
    place: int = 0
    rule: Rule | Literal[""] = ""
    by: Literal["", "label"] = ""
    components: int = 0
    settings: dict[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        methods.get(self.method, **self.settings)
        if (self.take == "local maxima") != (self.place > 0) or min(
            self.place, self.components
        ) < 0:
            raise InputError(
                f"method {self.name!r}: place must be at least 1 with take = 'local maxima' and "
                "left out otherwise, and components at least 0"
            )
        if self.by and (self.target in ("training", "balanced") or self.take != "release"):
            raise InputError(
                f"method {self.name!r}: by = 'label' leaves no label distribution as a target "
                "and no largest threshold: leave target = 'training' and take = 'maximum' out"
            )


def load(path: Path) -> Experiment:
    """Read an experiment; ``paper.toml`` and ``beyond.toml`` come with the software."""
    return build(Experiment, read_toml(path), path.name)


def paper() -> Experiment:
    """Return the paper's comparison, which comes with the software."""
    return load(Path("paper.toml"))


def embedded() -> Experiment:
    """Return the paper's comparison on data that need no download, with models of scikit-learn."""
    return replace(
        paper(),
        name="embedded",
        seeds=(0, 1),
        strong_epochs=40,
        datasets=(DatasetPlan(name="digits", components=8), DatasetPlan(name="friedman")),
    )


def digest(config: object) -> str:
    """Return a short fingerprint of settings."""
    return blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=6).hexdigest()


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a shipped one where there is no file of that name."""
    shipped = str(path) in SHIPPED and not path.exists()
    return read_table(Path(__file__).parent / path if shipped else path)


def build(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return a dataclass made of a table; an unknown key is refused with the nearest known one."""
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    for key in table:
        if key not in fields:
            raise InputError(f"{where}: unknown key {key!r}{known_hint(key, fields)}")
    for name, own in fields.items():
        if name not in table and own.default is own.default_factory:
            raise InputError(f"{where}: {name} is missing")
    values = {key: _value(hints[key], value, f"{where}: {key}") for key, value in table.items()}
    try:
        return kind(**values)
    except InputError as error:
        raise error.within(where) from None


def build_each(kind: type[T], value: Any, where: str) -> tuple[T, ...]:
    """Return one object for each table of an array; errors name the table by its ``name``."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(f"{where}: must be an array of tables")
    return tuple(
        build(kind, item, f"{where} {item.get('name', at)!r}") for at, item in enumerate(value)
    )


def parse_seeds(text: str) -> tuple[int, ...]:
    """Read seeds such as ``0-9`` or ``0,2,5-7``.

    Examples
    --------
    >>> parse_seeds("0,2,5-7")
    (0, 2, 5, 6, 7)
    """
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not (low.isdecimal() and (high.isdecimal() if dash else True)):
            raise InputError(f"seeds are written like 0-9 or 0,2,5-7, got {text!r}")
        if int(high or low) < int(low):
            raise InputError(f"seeds: a range must rise, got {part.strip()!r} in {text!r}")
        found += range(int(low), int(high or low) + 1)
    return tuple(found)


def _value(kind: Any, value: Any, where: str) -> Any:
    """Turn a value of TOML into what a field takes."""
    parts = get_args(kind)
    if get_origin(kind) is tuple and dataclasses.is_dataclass(parts[0]):
        return build_each(parts[0], value, where)  # type: ignore[arg-type]  # a type
    if kind == tuple[int, ...] and isinstance(value, str):
        return parse_seeds(value)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from None
