"""What an experiment leaves behind: results and partitions, one line of JSON for each agent.

Records are only ever appended to a `Journal`; a kill loses at most what was being written.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from fedwqcp.errors import InputError, RecordError
from fedwqcp.files import LOG_BYTES, append_line, from_json, make_folder, read, write_atomic

VERSION = 1
"""Version of both formats; a file of another version is refused."""

ResultKey: TypeAlias = tuple[str, int, str, str, str]
"""Dataset, seed, preset, method and agent."""


@dataclass(frozen=True, kw_only=True)
class DatasetRecord:
    """The data of a record: name, title, and how the copy in use stands to the published one."""

    dataset: str
    title: str
    status: str

    @property
    def display_title(self) -> str:
        """The dataset as tables show it; anything but the published data is marked."""
        unmarked = self.status == "published" or self.status in self.title
        return self.title if unmarked else f"{self.title} [{self.status}]"


@dataclass(frozen=True, kw_only=True)
class MethodRecord(DatasetRecord):
    """The head of what is recorded of one method on one dataset.

    Parameters
    ----------
    task : {"classification", "regression"}
        What is predicted.
    seed : int
        Seed of split, partition and models.
    alpha : float
        Miscoverage level.
    preset, method : str
        Which settings, and which row of the comparison.
    """

    task: Literal["classification", "regression"]
    seed: int
    alpha: float
    preset: str
    method: str


@dataclass(frozen=True, kw_only=True)
class Result(MethodRecord):
    """What one method gave one agent.

    Parameters
    ----------
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
        Whether whole samples were allowed to leave the agent; no method sends them any more.
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

    agent: str
    model: Literal["strong", "weak"]
    n_cal: int
    local: float
    threshold: float | tuple[float, ...]
    n_test: int
    hits: int
    size: float
    clipped: float | None
    labels: float | None
    worst_class: float | None = None
    rounds: int
    bytes_up: int
    bytes_down: int
    samples: bool = False
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
    def key(self) -> ResultKey:
        """What no two results of a run share."""
        return self.dataset, self.seed, self.preset, self.method, self.agent


@dataclass(frozen=True, kw_only=True)
class AgentPartition(DatasetRecord):
    """How many calibration points of each class one agent got. Its line ends a unit of work.

    Parameters
    ----------
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


def make_out(folder: Path) -> None:
    """Make the folder that a command writes into."""
    try:
        make_folder(folder)
    except InputError:
        raise InputError(f"--out must be a folder that can be written, got {folder}") from None


class Keyed(Protocol):
    """A record: a frozen dataclass with a key that no other record of its file has."""

    @property
    def version(self) -> int:
        """Version of its format; the default of the class is the one that is read."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What no other record of the file shares."""


R = TypeVar("R", bound=Keyed)


class Journal(Generic[R]):
    """Records of one dataclass in one file of JSON lines.

    The file need not exist. A finished one may be packed, as ``.xz`` beside it.
    """

    def __init__(self, path: Path, kind: type[R]) -> None:
        self.path = path
        self._packed = path.with_name(f"{path.name}.xz")
        self._kind: type[R] = kind
        self._keys: set[tuple[Any, ...]] | None = None  # of the file, once `append_new` read it

    @property
    def exists(self) -> bool:
        """Whether there is a file, plain or packed."""
        return self.path.exists() or self._packed.exists()

    def read(self) -> tuple[R, ...]:
        """Return the records in their order."""
        if not self.exists:
            return ()
        text = self._text()
        records = tuple(
            _from_line(line, self._kind, f"{self.path}, line {number}")
            for number, line in enumerate(text[: _whole(text)].splitlines(), 1)
        )
        if len({record.key for record in records}) < len(records):
            raise RecordError(f"{self.path}: the same row occurs twice; run the experiment again")
        return records

    def repair(self) -> bool:
        """Make ready for `append`: cut off the torn line that a kill leaves, and decompress."""
        if not self.exists:
            return False
        text = self._text()
        whole = _whole(text)
        if whole < len(text) or not self.path.exists():  # a new plain file would hide the packed
            write_atomic(self.path, text[:whole])
        return whole < len(text)

    def append(self, records: Sequence[R]) -> None:
        """Write records behind the others, and wait until the disk has them."""
        if not records:
            return
        lines = b"\n".join(_to_line(record) for record in records)
        try:
            append_line(self.path, lines)
        except InputError as error:
            raise error.within("make room, then run the same command with --resume") from None
        if self._keys is not None:
            self._keys.update(record.key for record in records)

    def append_new(self, records: Sequence[R]) -> None:
        """Append the records whose keys are not in the file yet."""
        if self._keys is None:
            self._keys = {record.key for record in self.read()}
        self.append([record for record in records if record.key not in self._keys])

    def write_compressed(self, records: Sequence[R]) -> Path:
        """Write all records of a finished study, sorted by their keys, as ``.xz``."""
        lines = (_to_line(record) + b"\n" for record in sorted(records, key=lambda own: own.key))
        write_atomic(self._packed, lzma.compress(b"".join(lines)))
        return self._packed

    def _text(self) -> bytes:
        """Read the file, packed or not."""
        try:
            if self.path.exists():
                return read(self.path, LOG_BYTES)
            return lzma.decompress(read(self._packed))
        except (EOFError, lzma.LZMAError) as error:
            raise RecordError(f"{self.path} cannot be read as records: {error}") from error


def _whole(text: bytes) -> int:
    """Return the length of the text up to the end of its last whole line."""
    return text.rfind(b"\n") + 1


def _to_line(record: Any) -> bytes:
    """Return a record as one line of JSON; infinities are written as text."""
    try:
        return json.dumps(_infinities_as_text(dataclasses.asdict(record)), allow_nan=False).encode()
    except ValueError:
        raise InputError(f"NaN must not stand in a record ({type(record).__name__})") from None


def _from_line(line: bytes, kind: type[R], where: str) -> R:
    """Read what `_to_line` wrote; a field that is younger than the line takes its default."""
    values = from_json(line, dict[str, Any])
    if values is None:
        raise RecordError(f"{where}: must be one JSON object of finite numbers")
    if values.get("version") != kind.version:
        raise RecordError(
            f"{where}: this software reads version {kind.version}, the record has version "
            f"{values.get('version')!r}; run the experiment again"
        )
    needed, known = _fields(kind)
    if wrong := sorted((needed - values.keys()) | (values.keys() - known)):
        raise RecordError(f"{where}: missing or unknown: {', '.join(wrong)}")
    try:
        return msgspec.convert(_text_as_infinities(values) if b'inf"' in line else values, kind)
    except (msgspec.ValidationError, InputError) as error:
        raise RecordError(f"{where}: {error}") from None


@cache
def _fields(kind: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the fields that a record must have, and of all."""
    own = dataclasses.fields(kind)
    needed = (f.name for f in own if f.default is dataclasses.MISSING)
    return frozenset(needed), frozenset(f.name for f in own)


def _infinities_as_text(value: Any) -> Any:
    """Write infinities as text, since JSON has none."""
    if isinstance(value, dict):
        return {key: _infinities_as_text(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_infinities_as_text(item) for item in value]
    return str(value) if isinstance(value, float) and abs(value) == inf else value


def _text_as_infinities(value: Any) -> Any:
    """Undo `_infinities_as_text`."""
    if isinstance(value, dict):
        return {key: _text_as_infinities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_text_as_infinities(item) for item in value]
    return float(value) if value in ("inf", "-inf") else value
