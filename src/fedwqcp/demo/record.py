"""What an experiment leaves behind: one line of JSON for each dataset, seed, method and agent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fedwqcp.demo.lines import check_types, from_line, to_line
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.files import write_atomic
from fedwqcp.wire.payload import Number
from fedwqcp.wire.round import Setting

VERSION = 1
"""Version of the file format; a file of another version is refused."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """What one method gave one agent.

    Parameters
    ----------
    experiment : str
        Which comparison it belongs to, such as ``"methods"`` or ``"overflow"``.
    dataset : str
        Name of the data.
    task : {"classification", "regression"}
        What is to be predicted.
    seed : int
        Seed of the run.
    alpha : float
        Miscoverage level.
    method : str
        Name of the method.
    agent : str
        Name of the agent.
    model : {"strong", "weak"}
        What kind of model the agent has.
    n : int
        Its calibration points.
    threshold : float or tuple of float
        Its threshold, or one for each label.
    tested, covered : int
        Test points, and those whose set held the truth.
    size : float
        Mean number of labels, or mean length of the intervals.
    rounds : int
        Round trips of the method.
    bytes_up, bytes_down : int
        Encoded bytes that the agent sent and was sent.
    samples : bool
        Whether scores of single people left the agent.
    guarantee, assumption : str
        What is proved, and under what.
    config : dict
        All settings of data, score and method.
    code : str
        Versions of the software.
    seconds : float
        Time the method took; it does not count when records are compared.
    version : int
        Version of the file format.
    """

    experiment: str
    dataset: str
    task: Literal["classification", "regression"]
    seed: int
    alpha: float
    method: str
    agent: str
    model: Literal["strong", "weak"]
    n: int
    threshold: Number
    tested: int
    covered: int
    size: float
    rounds: int
    bytes_up: int
    bytes_down: int
    samples: bool
    guarantee: str
    assumption: str
    config: dict[str, Setting]
    code: str
    seconds: float = field(compare=False)
    version: int = VERSION

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 <= self.covered <= self.tested or self.tested == 0:
            raise InputError(
                f"covered: must be from 0 to tested and tested at least 1, "
                f"got {self.covered} of {self.tested}"
            )

    @property
    def coverage(self) -> float:
        """Share of test points that were covered."""
        return self.covered / self.tested


def save(path: Path, records: Iterable[Record]) -> None:
    """Write records as lines of JSON; the file appears whole or not at all.

    Parameters
    ----------
    path : Path
        Where to; a file that is there is replaced.
    records : iterable of Record
        The records.

    Raises
    ------
    InputError
        If the folder does not exist or cannot be written.
    """
    write_atomic(path, "".join(to_line(record) for record in records).encode())


def load(path: Path) -> tuple[Record, ...]:
    """Read records.

    Parameters
    ----------
    path : Path
        A file that `save` wrote.

    Returns
    -------
    tuple of Record
        The records, in their order.

    Raises
    ------
    RecordError
        If the file cannot be read, or a line is damaged or of another version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read as records: {error}") from error
    return tuple(
        from_line(line, Record, VERSION, f"{path}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
    )
