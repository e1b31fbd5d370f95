"""What one method gave a whole federation of some shape: a line of the stress study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean
from typing import TypeAlias

from fedwqcp.demo.lines import check_types
from fedwqcp_lab.result import VERSION, Result

Key: TypeAlias = tuple[str, int, str, float, str, str]
"""Dataset, seed, factor, value, preset and method."""


@dataclass(frozen=True, kw_only=True)
class Stressed:
    """Coverage and size over the agents of one federation.

    Parameters
    ----------
    dataset, title, status : str
        Name of the data, as tables show it, and how the copy in use stands to the published one.
    seed : int
        Seed of models and partition.
    factor : str
        What was varied.
    value : float
        To which value.
    alpha : float
        Miscoverage level.
    preset, method : str
        Which settings, and which row.
    agents, fewest : int
        Agents, and the calibration points of the one with fewest.
    gap : float
        Mean over agents of the distance of coverage from 1 - alpha.
    short : float
        Mean over agents of what coverage lacks to 1 - alpha.
    worst : float
        Coverage of the worst agent.
    size : float
        Mean number of labels.
    bytes_up : float
        Mean bytes that an agent sent.
    code, device : str
        Versions of the software, and where the models were trained.
    calibration_s : float
        Seconds of scoring and the round.
    version : int
        Version of the format.
    """

    dataset: str
    title: str
    status: str
    seed: int
    factor: str
    value: float
    alpha: float
    preset: str
    method: str
    agents: int
    fewest: int
    gap: float
    short: float
    worst: float
    size: float
    bytes_up: float
    code: str
    device: str
    calibration_s: float = field(compare=False)
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)

    @property
    def key(self) -> Key:
        """What no two lines share."""
        return self.dataset, self.seed, self.factor, self.value, self.preset, self.method


def stressed(results: Sequence[Result], factor: str, value: float) -> tuple[Stressed, ...]:
    """Sum up what the agents of one federation got.

    Parameters
    ----------
    results : sequence of Result
        All rows of one federation, each row's agents together.
    factor : str
        What was varied.
    value : float
        To which value.

    Returns
    -------
    tuple of Stressed
        One for each preset and method.
    """
    rows = groupby(results, key=lambda result: (result.preset, result.method))
    return tuple(_summed(tuple(row), factor, value) for _, row in rows)


def _summed(row: Sequence[Result], factor: str, value: float) -> Stressed:
    """Sum up one row."""
    first, level = row[0], 1 - row[0].alpha
    return Stressed(
        dataset=first.dataset,
        title=first.title,
        status=first.status,
        seed=first.seed,
        factor=factor,
        value=value,
        alpha=first.alpha,
        preset=first.preset,
        method=first.method,
        agents=len(row),
        fewest=min(result.n_cal for result in row),
        gap=fmean(abs(result.coverage - level) for result in row),
        short=fmean(max(0.0, level - result.coverage) for result in row),
        worst=min(result.coverage for result in row),
        size=fmean(result.size for result in row),
        bytes_up=fmean(result.bytes_up for result in row),
        code=first.code,
        device=first.device,
        calibration_s=first.calibration_s,
    )
