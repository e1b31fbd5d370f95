"""What an experiment leaves behind: results and partitions, one line of JSON for each agent.

Records are only ever appended to a `Journal`; a kill loses at most what was being written.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from fedwqcp.errors import InputError, RecordError
from fedwqcp.wire.messages import Number

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
        if not 0 <= self.hits <= self.n_test or self.n_test == 0:
            raise InputError(
                f"must be from 0 to n_test and n_test at least 1, got {self.hits} of {self.n_test}",
                field="hits",
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
class AgentPartition:
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

    @property
    def key(self) -> tuple[str, int, str]:
        """What no two partitions of a run have in common."""
        return self.dataset, self.seed, self.agent


def read_results(folder: Path) -> tuple[Result, ...]:
    """Read the results of a run."""
    results = Journal(folder / "records.jsonl", Result).read()
    if not results:
        raise InputError(
            f"{folder / 'records.jsonl'} holds no results; first: fedwqcp-lab run paper.toml "
            f"--out {folder}"
        )
    return results


class Keyed(Protocol):
    """A record: a frozen dataclass with a key that no other record of its file has."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What no other record of the file shares."""


R = TypeVar("R", bound=Keyed)
T = TypeVar("T")


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


class Journal(Generic[R]):
    """Records of one kind in one file of JSON lines.

    Parameters
    ----------
    path : Path
        The file; it need not exist. A finished one may lie there packed, as ``.xz`` beside it.
    kind : type
        Their dataclass.
    """

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._packed = path.with_name(f"{path.name}.xz")
        self._kind: type[R] = kind

    @property
    def exists(self) -> bool:
        """Whether there is a file, plain or packed."""
        return self.path.exists() or self._packed.exists()

    def read(self) -> tuple[R, ...]:
        """Return the records in their order."""
        if not self.exists:
            return ()
        text = self._text()
        try:
            lines = text[: _whole(text)].decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise RecordError(f"{self.path} cannot be read as records: {error}") from error
        records = tuple(
            from_line(line, self._kind, VERSION, f"{self.path}, line {number}")
            for number, line in enumerate(lines, 1)
        )
        if len({record.key for record in records}) < len(records):
            raise RecordError(f"{self.path}: the same row occurs twice; run the experiment again")
        return records

    def mend(self) -> bool:
        """Make ready for `append`: cut off a torn last line, which a kill can leave, and unpack."""
        if not self.exists:
            return False
        text = self._text()
        if not self.path.exists():  # an appended plain file would hide the packed one
            write_atomic(self.path, text)
        whole = _whole(text)
        if whole == self.path.stat().st_size:
            return False
        os.truncate(self.path, whole)
        return True

    def append(self, records: Sequence[R]) -> None:
        """Write records behind the others, and wait until the disk has them."""
        if not records:
            return
        try:
            with self.path.open("ab") as file:
                file.write("".join(to_line(record) for record in records).encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                f"cannot write {self.path}: {error.strerror}; make room, then run the same command "
                "with --resume"
            ) from None

    def _text(self) -> bytes:
        """Read the file, packed or not."""
        try:
            if self.path.exists():
                return self.path.read_bytes()
            return lzma.decompress(self._packed.read_bytes())
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise RecordError(f"{self.path} cannot be read as records: {error}") from error


def _whole(text: bytes) -> int:
    """Return the length of the text up to the end of its last whole line."""
    return text.rfind(b"\n") + 1


def to_line(record: Any) -> str:
    """Return a record as one line of JSON; infinities are written as text."""
    try:
        return json.dumps(_without_infinities(dataclasses.asdict(record)), allow_nan=False) + "\n"
    except ValueError:
        raise InputError(f"NaN must not stand in a record ({type(record).__name__})") from None


_INFINITE = re.compile(r'"(-?)inf"(?!\s*:)')
"""An infinity as `to_line` writes it; JSON reads a number beyond all floats as one."""


def from_line(line: str, kind: type[T], version: int, where: str) -> T:
    """Read what `to_line` wrote; a field that is younger than the line takes its default."""
    try:
        values = json.loads(_INFINITE.sub(r"\g<1>1e999", line), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise RecordError(f"{where}: must be one JSON object of finite numbers") from None
    if not isinstance(values, dict):
        raise RecordError(f"{where}: must be one JSON object")
    if values.get("version") != version:
        raise RecordError(
            f"{where}: this software reads version {version}, the record has version "
            f"{values.get('version')!r}; run the experiment again"
        )
    needed, known = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    if wrong := sorted((needed - values.keys()) | (values.keys() - known)):
        raise RecordError(f"{where}: missing or unknown: {', '.join(wrong)}")
    try:
        return msgspec.convert(values, kind)
    except (msgspec.ValidationError, InputError) as error:
        raise RecordError(f"{where}: {error}") from None


@cache
def _fields(kind: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the fields that a record must have, and of all."""
    own = dataclasses.fields(kind)
    needed = (f.name for f in own if f.default is dataclasses.MISSING)
    return frozenset(needed), frozenset(f.name for f in own)


def _without_infinities(value: Any) -> Any:
    """Write infinities as text, since JSON has none."""
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_without_infinities(item) for item in value]
    return str(value) if isinstance(value, float) and abs(value) == inf else value


def _refuse(constant: str) -> None:
    """Refuse NaN and bare infinities, which are no JSON."""
    raise ValueError(constant)
