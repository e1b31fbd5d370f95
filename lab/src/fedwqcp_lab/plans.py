"""The parts of an experiment: a dataset, a preset, a method."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fedwqcp import methods, scores
from fedwqcp.demo.lines import check_types
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
        check_types(self)
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
        check_types(self)
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
    by : {"", "label"}, optional
        With ``"label"`` each class has a threshold of its own; for classifications alone.
    samples : bool, optional
        Whether scores of single people may leave an agent; the round is refused where they must.
    settings : dict, optional
        Settings of the method; ``overflow`` comes from the preset.
    """

    name: str
    method: str
    aim: Literal["", "training", "own"] = ""
    take: Literal["release", "maximum"] = "release"
    rule: Rule | Literal[""] = ""
    by: Literal["", "label"] = ""
    samples: bool = False
    settings: dict[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_types(self)
        methods.get(self.method, **self.settings)
        if self.by and (self.aim == "training" or self.take == "maximum"):
            raise InputError(
                f"method {self.name!r}: by = 'label' leaves no law of labels to aim at, and has no "
                "largest threshold: leave aim = 'training' and take = 'maximum' out"
            )
