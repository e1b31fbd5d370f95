"""Coverage and size of one method at one agent, from a single run or over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fedwqcp_lab.compare import shown
from fedwqcp_lab.result import Result


@dataclass(frozen=True)
class Medians:
    """What a method gave an agent, as medians over seeds; a `Point`.

    Parameters
    ----------
    dataset, task, method, model : str
        As in a result; the dataset as it is shown.
    alpha, coverage, size : float
        Level, and medians.
    tested : int
        0: chance within one test set is not what these stray by.
    """

    dataset: str
    task: str
    alpha: float
    method: str
    model: str
    coverage: float
    size: float
    tested: int = 0


def medians(results: Sequence[Result]) -> tuple[Medians, ...]:
    """Return medians over seeds.

    Parameters
    ----------
    results : sequence of Result
        The results of one preset.

    Returns
    -------
    tuple of Medians
        One for each dataset, method and agent, sorted.
    """
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.dataset, result.method, result.agent), []).append(result)
    return tuple(_medians(rows[key]) for key in sorted(rows))


def _medians(results: Sequence[Result]) -> Medians:
    """Return an agent's medians over seeds."""
    first = results[0]
    return Medians(
        dataset=shown(first.title, first.status),
        task=first.task,
        alpha=first.alpha,
        method=first.method,
        model=first.model,
        coverage=median(result.coverage for result in results),
        size=median(result.size for result in results),
    )
