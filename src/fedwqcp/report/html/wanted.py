"""What the owner of the data adds to a report, or asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedwqcp.errors import InputError


@dataclass(frozen=True)
class Wanted:
    """What the owner of the data adds or asks for.

    Parameters
    ----------
    examples : int, optional
        Show so many single points with their sets, the hardest first; by default none.
    agent : str, optional
        Whose own report of a round it is.
    outputs, labels : Path, optional
        That agent's model outputs on labelled test points; labels where the outputs carry none.
    calibration : Path, optional
        That agent's calibration outputs, with labels.

    Raises
    ------
    InputError
        If the number is negative, or data come without the agent they belong to.
    """

    examples: int = 0
    agent: str | None = None
    outputs: Path | None = None
    labels: Path | None = None
    calibration: Path | None = None

    def __post_init__(self) -> None:
        if self.examples < 0:
            raise InputError(f"examples must be at least 0, got {self.examples}")
        if self.agent is None and (self.outputs or self.calibration):
            raise InputError("say whose outputs these are with --agent")
