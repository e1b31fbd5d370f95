"""What the demo leaves behind, as lines of JSON: results, and what its report shows beside them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from fedwqcp._io import write_atomic
from fedwqcp.errors import InputError, RecordError
from fedwqcp.wire.messages import Number, Setting

R = TypeVar("R")

VERSION = 1
"""Version of the file format; a file of another version is refused."""

REPORT_VERSION = 1
"""Version of the report's file; a file of another version is refused."""

REPORT_FILE = "shown.jsonl"
"""Name of the file beside the records."""


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
        if not 0 <= self.covered <= self.tested or self.tested == 0:
            raise InputError(
                f"must be from 0 to tested and tested at least 1, "
                f"got {self.covered} of {self.tested}",
                field="covered",
            )

    @property
    def coverage(self) -> float:
        """Share of test points that were covered."""
        return self.covered / self.tested


@dataclass(frozen=True, kw_only=True)
class AgentProfile:
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
    version: int = REPORT_VERSION

    def __post_init__(self) -> None:
        if self.people and len(self.edges) != len(self.people) + 1:
            raise InputError("must be one more than there are bins", field="edges")


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
    version: int = REPORT_VERSION

    def __post_init__(self) -> None:
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
    version: int = REPORT_VERSION


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
    version: int = REPORT_VERSION


ReportRecord: TypeAlias = AgentProfile | Traffic | Example | Skipped
"""All that stands in the file."""

_KINDS: dict[str, type[ReportRecord]] = {
    "portrait": AgentProfile,
    "traffic": Traffic,
    "example": Example,
    "skipped": Skipped,
}


def save_records(path: Path, records: Iterable[Record]) -> None:
    """Write records as lines of JSON; the file appears whole or not at all."""
    write_atomic(path, "".join(to_line(record) for record in records).encode())


def load_records(path: Path) -> tuple[Record, ...]:
    """Read records."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read as records: {error}") from error
    return tuple(
        from_line(line, Record, VERSION, f"{path}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
    )


def save_report(path: Path, report: Iterable[ReportRecord]) -> None:
    """Write lines of JSON; the file appears whole or not at all."""
    write_atomic(path, "".join(to_line(one) for one in report).encode())


def load_report(path: Path) -> tuple[ReportRecord, ...]:
    """Read what was kept."""
    if not path.exists():
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error
    return tuple(
        _report_record(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)
    )


def to_line(record: Any) -> str:
    """Return a record as one line of JSON; infinities are written as text."""
    try:
        return json.dumps(_without_infinities(dataclasses.asdict(record)), allow_nan=False) + "\n"
    except ValueError:
        raise InputError(f"NaN must not stand in a record ({type(record).__name__})") from None


def from_line(line: str, kind: type[R], version: int, where: str) -> R:
    """Read what `to_line` wrote; a field that is younger than the line takes its default."""
    try:
        values = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise RecordError(f"{where}: must be one JSON object of finite numbers") from None
    if not isinstance(values, dict):
        raise RecordError(f"{where}: must be one JSON object")
    if values.get("version") != version:
        raise RecordError(
            f"{where}: this software reads version {version}, the record has version "
            f"{values.get('version')!r}; run the experiment again"
        )
    own = dataclasses.fields(kind)  # type: ignore[arg-type]  # all are dataclasses
    needed = {f.name for f in own if f.default is dataclasses.MISSING}
    if wrong := sorted((needed - values.keys()) | (values.keys() - {f.name for f in own})):
        raise RecordError(f"{where}: missing or unknown: {', '.join(wrong)}")
    try:
        return msgspec.convert(_with_infinities(values), kind)
    except (msgspec.ValidationError, InputError) as error:
        raise RecordError(f"{where}: {error}") from None


def _report_record(line: str, where: str) -> ReportRecord:
    """Read one line of whatever kind it says it is."""
    try:
        kind = _KINDS[json.loads(line)["kind"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RecordError(f"{where}: must be a portrait, traffic, an example or skipped") from None
    return from_line(line, kind, REPORT_VERSION, where)


def _without_infinities(value: Any) -> Any:
    """Write infinities as text, since JSON has none."""
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_without_infinities(item) for item in value]
    return str(value) if isinstance(value, float) and abs(value) == inf else value


def _with_infinities(value: Any) -> Any:
    """Undo `_without_infinities`."""
    if isinstance(value, dict):
        return {key: _with_infinities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_infinities(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value


def _refuse(constant: str) -> None:
    """Refuse NaN and bare infinities, which are no JSON."""
    raise ValueError(constant)
