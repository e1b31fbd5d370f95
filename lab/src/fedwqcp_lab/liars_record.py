"""What liars did to one method on one unit, under one preset: a line of JSON."""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from fedwqcp.demo.records import from_line, to_line
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.files import write_atomic

VERSION = 1
"""Version of the format; a file of another version is refused."""

NOBODY = "nobody"
"""The lie where everyone is honest."""

Key: TypeAlias = tuple[str, int, str, str, str, int, bool]
"""Dataset, seed, preset, method, lie, number of liars, whether sizes were bounded."""


@dataclass(frozen=True, kw_only=True)
class Lied:
    """What one lie did, for every choice of the liars among the agents.

    Parameters
    ----------
    dataset, title, status : str
        Name of the data, as tables show it, and how the copy in use stands to the published one.
    task : {"classification", "regression"}
        What is predicted.
    seed : int
        Seed of split, partition and models.
    alpha : float
        Miscoverage level.
    preset, method : str
        Which settings, and which row.
    robust : bool
        Whether the method is meant to withstand liars.
    lie : str
        What they did; `NOBODY` for the honest round.
    liars : int
        How many lied.
    bounded : bool
        Whether the round's ``max_n`` was the largest honest size, not the default.
    coverage : tuple of float
        Coverage of the worst honest agent, for each choice.
    truthful : tuple of float
        What it would be if nobody lied: the worst of the same agents.
    size, truthful_size : tuple of float
        Mean size of the honest agents' sets, and without lies.
    threshold : tuple of float
        Mean threshold of the honest agents.
    refused : tuple of int
        How many liars the server refused.
    code : str
        Versions of the software.
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
    robust: bool
    lie: str
    liars: int
    bounded: bool
    coverage: tuple[float, ...]
    truthful: tuple[float, ...]
    size: tuple[float, ...]
    truthful_size: tuple[float, ...]
    threshold: tuple[float, ...]
    refused: tuple[int, ...]
    code: str
    version: int = VERSION

    def __post_init__(self) -> None:
        lists = (self.truthful, self.size, self.truthful_size, self.threshold, self.refused)
        if not self.coverage or any(len(each) != len(self.coverage) for each in lists):
            raise InputError("coverage: must be one for each choice of the liars, as all lists")

    @property
    def key(self) -> Key:
        """What no two records share."""
        return (
            self.dataset,
            self.seed,
            self.preset,
            self.method,
            self.lie,
            self.liars,
            self.bounded,
        )

    @property
    def changes(self) -> tuple[float, ...]:
        """How far the lie moved the worst honest agent's coverage."""
        return tuple(a - b for a, b in zip(self.coverage, self.truthful, strict=True))


def write(records: Sequence[Lied], path: Path) -> None:
    """Write records, sorted and packed.

    Parameters
    ----------
    records : sequence of Lied
        The records.
    path : Path
        A file whose name ends with ``.jsonl.xz``.
    """
    lines = "".join(to_line(record) for record in sorted(records, key=lambda each: each.key))
    write_atomic(path, lzma.compress(lines.encode()))


def read(path: Path) -> tuple[Lied, ...]:
    """Read records.

    Parameters
    ----------
    path : Path
        What `write` wrote.

    Returns
    -------
    tuple of Lied
        The records.

    Raises
    ------
    RecordError
        If the file cannot be read, or a line is damaged or of another version.
    """
    try:
        lines = lzma.decompress(path.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, lzma.LZMAError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read as records: {error}") from error
    return tuple(
        from_line(line, Lied, VERSION, f"{path}, line {number}")
        for number, line in enumerate(lines, 1)
    )
