"""What a benchmark leaves behind: results and partitions, one line for each agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from fedwqcp.demo.lines import check_types
from fedwqcp.errors import InputError
from fedwqcp.wire.payload import Number

VERSION = 1
"""Version of both formats; a file of another version is refused."""

Key: TypeAlias = tuple[str, int, str, str, str]
"""Dataset, seed, preset, method and agent."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one method gave one agent, on one dataset, under one seed and preset.

    Parameters
    ----------
    dataset, title : str
        Name of the data, and as tables show it.
    status : str
        How the copy in use stands to the published data.
    task : {"classification", "regression"}
        What is predicted.
    seed : int
        Seed of split, partition and models.
    alpha : float
        Miscoverage level.
    preset, method : str
        Which settings, and which row of the comparison.
    agent : str
        Name of the agent.
    model : {"strong", "weak"}
        What kind of model it has.
    n_cal : int
        Its calibration points.
    local : float
        Its own conformal threshold under the preset's overflow rule.
    threshold : float or tuple of float
        The threshold in use, or one for each label.
    n_test, hits : int
        Test points, and those whose set held the truth.
    size : float
        Mean number of labels, or mean length of the intervals.
    clipped, labels : float or None
        For ordinal labels: mean length within their range, and mean number of labels inside.
    worst_class : float or None
        For class labels: the smallest coverage of a class; None also where it was not recorded.
    rounds : int
        Round trips.
    bytes_up, bytes_down : int
        Encoded bytes that the agent sent and was sent.
    samples : bool
        Whether scores of single people left the agent.
    guarantee : str
        What is proved.
    config : str
        Fingerprint of all settings.
    code, device : str
        Versions of the software, and where the models were trained.
    calibration_s : float
        Seconds of all agents and the server: scores of the calibration points, and the round.
    sets_s : float
        The same, and every agent's sets on the test data from saved model outputs. Neither time
        counts when results are compared.
    version : int
        Version of the format.
    """

    dataset: str
    title: str
    status: str
    task: Literal["classification", "regression"]
    seed: int
    alpha: float
    preset: str
    method: str
    agent: str
    model: Literal["strong", "weak"]
    n_cal: int
    local: float
    threshold: Number
    n_test: int
    hits: int
    size: float
    clipped: float | None
    labels: float | None
    worst_class: float | None = None
    rounds: int
    bytes_up: int
    bytes_down: int
    samples: bool
    guarantee: str
    config: str
    code: str
    device: str
    calibration_s: float = field(compare=False)
    sets_s: float = field(compare=False)
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 <= self.hits <= self.n_test or self.n_test == 0:
            raise InputError(
                f"hits: must be from 0 to n_test and n_test at least 1, "
                f"got {self.hits} of {self.n_test}"
            )

    @property
    def coverage(self) -> float:
        """Share of test points that were covered."""
        return self.hits / self.n_test

    @property
    def key(self) -> Key:
        """What no two results of a run share."""
        return self.dataset, self.seed, self.preset, self.method, self.agent


@dataclass(frozen=True, kw_only=True)
class Share:
    """How many calibration points of each class one agent got. Its line ends a unit of work.

    Parameters
    ----------
    dataset, title, status : str
        As in `Result`.
    task : {"classification", "regression"}
        What is predicted.
    seed : int
        Seed of the partition.
    agent : str
        Name of the agent.
    counts : tuple of int
        Points of each class; of each ordinal label; or in all.
    quantiles : bool
        Whether models with quantile heads were trained too.
    version : int
        Version of the format.
    """

    dataset: str
    title: str
    status: str
    task: Literal["classification", "regression"]
    seed: int
    agent: str
    counts: tuple[int, ...]
    quantiles: bool
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def key(self) -> tuple[str, int, str]:
        """What no two shares of a run have in common."""
        return self.dataset, self.seed, self.agent
