"""What an experiment leaves behind: one line of JSON for each dataset, seed, method and agent."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isnan
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

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
        for name, kind in get_type_hints(Record).items():
            if not _fits(getattr(self, name), kind):
                raise InputError(f"{name}: must be {_words(kind)}, got {getattr(self, name)!r}")
        if not 0 <= self.covered <= self.tested or self.tested == 0:
            raise InputError(
                f"covered: must be from 0 to tested and tested at least 1, "
                f"got {self.covered} of {self.tested}"
            )

    @property
    def coverage(self) -> float:
        """Share of test points that were covered."""
        return self.covered / self.tested


@dataclass(frozen=True)
class Skipped:
    """A method that could not be used on some data.

    Parameters
    ----------
    dataset : str
        Name of the data.
    method : str
        Name of the method.
    reason : str
        Why not.
    """

    dataset: str
    method: str
    reason: str


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
    lines = [json.dumps(_plain(dataclasses.asdict(record))) + "\n" for record in records]
    write_atomic(path, "".join(lines).encode())


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
        _parse(line, f"{path}, line {number}") for number, line in enumerate(text.splitlines(), 1)
    )


def _parse(line: str, where: str) -> Record:
    """Read one line."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise RecordError(f"{where}: must be one JSON object") from None
    if not isinstance(values, dict):
        raise RecordError(f"{where}: must be one JSON object")
    if values.get("version") != VERSION:
        raise RecordError(
            f"{where}: this software reads version {VERSION}, the record has version "
            f"{values.get('version')!r}; run the experiment again"
        )
    known = {f.name for f in dataclasses.fields(Record)}
    if wrong := sorted(known.symmetric_difference(values)):
        raise RecordError(f"{where}: missing or unknown: {', '.join(wrong)}")
    try:
        return Record(**_lively(values))
    except InputError as error:
        raise RecordError(f"{where}: {error}") from error


def _plain(value: Any) -> Any:
    """Write +inf as JSON can hold it."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return "inf" if isinstance(value, float) and value == inf else value


def _lively(value: Any) -> Any:
    """Undo `_plain`."""
    if isinstance(value, dict):
        return {key: _lively(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_lively(item) for item in value)
    return inf if value == "inf" else value


def _fits(value: object, kind: Any) -> bool:
    """Tell whether a value is of a kind; truth values are no numbers, and NaN is none either."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_fits(item, parts[1]) for item in value.values())
    if parts:
        return any(_fits(value, part) for part in parts)
    if kind is float:
        return isinstance(value, float) and not isnan(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _words(kind: Any) -> str:
    """Name a kind in an error."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
