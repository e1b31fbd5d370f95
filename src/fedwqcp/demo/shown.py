"""What a report shows beside the records: scores as histograms, messages, and single examples."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from fedwqcp.demo.lines import check_types, from_line, to_line
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.files import write_atomic

VERSION = 1
"""Version of the file format; a file of another version is refused."""

FILE = "shown.jsonl"
"""Name of the file beside the records."""


@dataclass(frozen=True, kw_only=True)
class Portrait:
    """One agent's calibration data as counts, and where its coverage gap comes from.

    Parameters
    ----------
    dataset, agent : str
        Whose.
    counts : tuple of int
        Calibration points of each class; of a regression, all in one.
    edges : tuple of float
        Edges of the bins of the calibration scores.
    people : tuple of int
        Points in each bin.
    local : float
        The agent's own conformal threshold.
    released, mixture : float
        FedWQ-CP's threshold, and the quantile of all agents' scores together.
    level, coverage, coverage_mixture : float
        1 - alpha, and the shares of test scores at or below those two thresholds.
    kind : str
        Tells lines apart.
    version : int
        Version of the format.
    """

    dataset: str
    agent: str
    counts: tuple[int, ...]
    edges: tuple[float, ...]
    people: tuple[int, ...]
    local: float
    released: float
    mixture: float
    level: float
    coverage: float
    coverage_mixture: float
    kind: Literal["portrait"] = "portrait"
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)
        if self.people and len(self.edges) != len(self.people) + 1:
            raise InputError("edges: must be one more than there are bins")


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What one agent was sent and sent under one method, message by message.

    Parameters
    ----------
    dataset, method, agent : str
        Where.
    down, up : tuple of int
        Bytes of the question and of the answer of each step.
    used : bool
        Whether its answer counted; one with too few points is left out where the rule says so.
    kind : str
        Tells lines apart.
    version : int
        Version of the format.
    """

    dataset: str
    method: str
    agent: str
    down: tuple[int, ...]
    up: tuple[int, ...]
    used: bool = True
    kind: Literal["traffic"] = "traffic"
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)
        if len(self.down) != len(self.up):
            raise InputError("down and up: must be as many, one for each step")


@dataclass(frozen=True, kw_only=True)
class Example:
    """One test point as one agent sees it: kept of public data only.

    Parameters
    ----------
    dataset, agent : str
        Where, and whose model.
    row : int
        Place among the test points.
    truth : float
        The true label or value.
    said : float
        The model's most probable label, or its prediction.
    probability : float or None
        What the model gave the true label.
    pixels : tuple of int
        The image, 0 to 255, row by row of a square; empty where there is none.
    sets : dict of str to tuple of float
        By method: the labels, or the two ends of the interval.
    kind : str
        Tells lines apart.
    version : int
        Version of the format.
    """

    dataset: str
    agent: str
    row: int
    truth: float
    said: float
    probability: float | None
    pixels: tuple[int, ...]
    sets: dict[str, tuple[float, ...]]
    kind: Literal["example"] = "example"
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A method that could not be used on some data.

    Parameters
    ----------
    dataset, method : str
        Where.
    reason : str
        Why not.
    kind : str
        Tells lines apart.
    version : int
        Version of the format.
    """

    dataset: str
    method: str
    reason: str
    kind: Literal["skipped"] = "skipped"
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)


Shown: TypeAlias = Portrait | Traffic | Example | Skipped
"""All that stands in the file."""

_KINDS: dict[str, type[Shown]] = {
    "portrait": Portrait,
    "traffic": Traffic,
    "example": Example,
    "skipped": Skipped,
}


def save(path: Path, shown: Iterable[Shown]) -> None:
    """Write lines of JSON; the file appears whole or not at all.

    Parameters
    ----------
    path : Path
        Where to; a file that is there is replaced.
    shown : iterable of Portrait, Traffic, Example or Skipped
        What is kept.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written.
    """
    write_atomic(path, "".join(to_line(one) for one in shown).encode())


def load(path: Path) -> tuple[Shown, ...]:
    """Read what was kept.

    Parameters
    ----------
    path : Path
        A file that `save` wrote.

    Returns
    -------
    tuple of Portrait, Traffic, Example or Skipped
        In their order; none where there is no file.

    Raises
    ------
    RecordError
        If the file cannot be read, or a line is damaged or of another version.
    """
    if not path.exists():
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    return tuple(_read(line, f"{path}, line {number}") for number, line in enumerate(lines, 1))


def _read(line: str, where: str) -> Shown:
    """Read one line of whatever kind it says it is."""
    try:
        kind = _KINDS[json.loads(line)["kind"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RecordError(f"{where}: must be a portrait, traffic, an example or skipped") from None
    return from_line(line, kind, VERSION, where)
