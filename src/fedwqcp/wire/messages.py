"""Everything that agents and server say to each other: rounds, questions, summaries, outcomes."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, dataclass_transform

import msgspec
import numpy as np
from msgspec import field
from msgspec.structs import force_setattr, replace

from fedwqcp._validation import (
    as_alpha,
    as_classes,
    check_printable,
    did_you_mean,
    is_range,
    named,
    shown,
)
from fedwqcp.errors import InputError
from fedwqcp.registry import Setting
from fedwqcp.wire.limits import (
    AGENTS,
    ALPHAS,
    CLASSES,
    GROUPS,
    LIST,
    SETTING,
    SIZE,
    TEXT,
    check_tasks,
)

MAX_N = 10_000_000
"""Largest sample size that an agent may claim, unless a round sets another."""
LONG_ROSTER = 256
"""A longer roster is not sent to its agents: bytes would grow with the square of their number."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of all records that travel: frozen, read strictly, fields at their default left out."""


class _RealType(type):
    """Floats are instances of `Real`, floats and tuples of `Number`, as msgspec asks of a hook."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, float | tuple if cls.__name__ == "Number" else float)


if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Real = float
    Number = float | tuple[float, ...]
else:
    from typing import TypeVar as _TypeVar

    def TypeVar(name, *, default, **options):
        del default  # which Python 3.11 does not know
        return _TypeVar(name, **options)

    class Real(metaclass=_RealType):
        """A number or +inf, which travels as ``"inf"``; any other ``float`` is finite."""

    class Number(metaclass=_RealType):
        """One threshold, or one for each label."""


def read_real(kind: Any, value: object) -> Number:
    """Return what was read for a `Real` or a `Number`: msgspec's hook for types of our own."""
    if type(value) is float:
        return value
    if kind is Number and isinstance(value, list):
        return tuple([_real(part) for part in value])
    return _real(value)


def _real(value: object) -> float:
    """Return what was read for a number, which JSON has only where it is finite."""
    try:
        if type(value) in (float, int):
            return float(value)  # type: ignore[arg-type]  # it is one
    except OverflowError:
        raise ValueError("Expected a number of fewer digits") from None
    if value == "inf":
        return inf
    raise ValueError('Expected a number or "inf"')


class RosterDigest(Message):
    """What stands for the names of a long roster.

    Parameters
    ----------
    count : int
        How many names.
    sha256 : str
        Digest of the names, each followed by a newline; where the round names keys, by a space, its
        key and a newline.
    signed : bool
        Whether the round names keys.
    """

    count: int
    sha256: str
    signed: bool = False

    @classmethod
    def of(cls, agents: tuple[str, ...], keys: Mapping[str, str] | None = None) -> RosterDigest:
        """Count and digest names, in order, with their public keys where there are any."""
        lines = [f"{name} {keys[name]}\n" if keys else f"{name}\n" for name in agents]
        return cls(len(agents), sha256("".join(lines).encode()).hexdigest(), bool(keys))


class Census(Message):
    """What stands for the entries of a long roster in the release that agents are sent.

    Parameters
    ----------
    used, refused, missing : int
        How many agents have each status.
    sha256 : str
        Digest of the release with all entries, which the server keeps for whoever asks.
    """

    used: int
    refused: int
    missing: int
    sha256: str


PROVENANCE = (
    *("created", "software", "model", "data_period", "valid_until"),
    "calibration_points",
)
"""What a round or a release may say of where it comes from: times in UTC, versions, names."""
MOST_TAIL = 16
"""Most order statistics that an agent sends beside its threshold."""


def _kind(name: str) -> str:
    """Return how a class is known on the wire: ``LocalQuantile`` is ``local-quantile``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


class Payload(Message, tag_field="kind", tag=_kind):
    """Base of all payloads; on the wire a payload is known by its ``kind``."""

    kind: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = _kind(cls.__name__)


class Summary(Payload):
    """What an agent answers. The only thing that can leave it."""

    exact_threshold: ClassVar[bool] = True
    """Whether the agent's own threshold, if it can be read from it, is exact."""

    def sizes(self) -> tuple[int, ...]:
        """Return the sample sizes it claims; each is checked against the round's ``max_n``."""
        return ()

    def scores(self) -> tuple[float, ...]:
        """Return the scores it claims; each must lie within the score's bounds, or be +inf."""
        return ()


class Question(Payload):
    """What the server asks of every agent."""


class Outcome(Payload):
    """What a method ends with: the thresholds, or what an agent needs to find its own."""

    same_for_all: ClassVar[bool] = False
    """Whether it tells every agent the same, so that no agent needs its place among them."""

    def threshold(self, position: int | None) -> Number | None:
        """Return the threshold of the agent at a place among those whose answers were used.

        The place is None if its own was not. None where the agent has no threshold, or computes it
        from its own data.
        """
        del position  # only some outcomes tell agents apart
        return None

    @property
    def agents(self) -> int | None:
        """How many agents it has something of their own for; None where it tells all the same."""
        return None


Q = TypeVar("Q", bound=Question, default=Question, covariant=True)
S = TypeVar("S", bound=Summary, default=Summary, covariant=True)
O = TypeVar("O", bound=Outcome, default=Outcome, covariant=True)  # noqa: E741


class Begin(Question):
    """The first question of every exchange: what the round's terms alone let an agent answer."""


class LocalQuantile(Summary):
    """One agent's conformal threshold and sample size: all that FedWQ-CP sends.

    Parameters
    ----------
    threshold : float
        q_k; +inf where the rank passes the sample.
    n : int
        n_k, at least 0.
    """

    threshold: Real
    n: int

    def __post_init__(self) -> None:
        check_size(self.n, "n")
        check_scores((self.threshold,), "threshold")
        if self.n == 0 and self.threshold != inf:
            raise InputError("must be +inf where n is 0", field="threshold")

    def sizes(self) -> tuple[int, ...]:
        return (self.n,)

    def scores(self) -> tuple[float, ...]:
        return (self.threshold,)


class QuantileAndTail(LocalQuantile):
    """One agent's threshold and size with a few more order statistics of its scores.

    Parameters
    ----------
    ranks : tuple of int
        Their ranks, counted from 1, strictly increasing, at most 16.
    values : tuple of float
        The order statistics.
    """

    ranks: tuple[int, ...] = ()
    values: tuple[Real, ...] = ()

    def __post_init__(self) -> None:
        LocalQuantile.__post_init__(self)
        if len(self.ranks) != len(self.values) or len(self.ranks) > MOST_TAIL:
            raise InputError(f"must be as many as values, {MOST_TAIL} at most", field="ranks")
        check_sizes(self.ranks, "ranks")
        check_scores(self.values, "values")
        if any(after <= before for before, after in pairwise((0, *self.ranks, self.n + 1))):
            raise InputError("must be strictly increasing, from 1 to n", field="ranks")
        if any(after < before for before, after in pairwise(self.values)):
            raise InputError("must never decrease", field="values")

    def check(self, rank: int) -> None:
        """Refuse order statistics that contradict the threshold, which is the one of this rank."""
        for r, value in zip(self.ranks, self.values, strict=True):
            if (r <= rank and value > self.threshold) or (r >= rank and value < self.threshold):
                raise InputError("must be in order with the threshold", field="values")

    def scores(self) -> tuple[float, ...]:
        return (self.threshold, *self.values)


class SharedThreshold(Outcome):
    """One threshold for every agent.

    Parameters
    ----------
    value : float or tuple of float
        The threshold, or one for each label.
    """

    value: Number

    same_for_all = True

    def __post_init__(self) -> None:
        _check_number(self.value)

    def threshold(self, position: int | None) -> Number:
        del position  # it is the same for all
        return self.value


class PerAgentThresholds(Outcome):
    """One threshold for each agent, in the order of their answers.

    Parameters
    ----------
    values : tuple
        The thresholds.
    unknown, borrowed, effective : tuple of float
        What their estimates rest on, where a method says so, as `FedLSCP` does: the share of the
        target that nobody knows, the share that is other agents', and how many points of the target
        the estimate is worth.
    """

    values: tuple[Number, ...]
    unknown: tuple[float, ...] = ()
    borrowed: tuple[float, ...] = ()
    effective: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for value in self.values:
            _check_number(value)
        check_figures(self, "unknown", "borrowed", "effective")

    def threshold(self, position: int | None) -> Number | None:
        if position is None or position >= len(self.values):
            return None
        return self.values[position]

    @property
    def agents(self) -> int | None:
        return len(self.values)


class Local(Outcome):
    """Nothing is sent: each agent uses its own threshold."""

    same_for_all = True


check_size = SIZE.whole
"""Refuse what is not a sample size: ``check_size(n, "n")``."""


def check_sizes(sizes: tuple[int, ...], what: str) -> None:
    """Refuse a list of what are not all sample sizes."""
    if set(map(type, sizes)) == {int} and SIZE.least <= min(sizes) <= max(sizes) <= SIZE.most:
        return
    for n in sizes:
        check_size(n, what)


def check_figures(outcome: Any, *names: str) -> None:
    """Refuse figures of an outcome that are no shares or sizes, or are not one for each value."""
    for name in names:
        figures, most = getattr(outcome, name), SIZE.most if name == "effective" else 1 + 1e-9
        outside = [figure for figure in figures if not 0 <= figure <= most]
        if outside or len(figures) not in (0, len(outcome.values)):
            raise InputError("must be a share or size for each threshold, or left out", field=name)


def check_increasing(values: tuple[float, ...], what: str) -> None:
    """Refuse numbers that do not increase from each to the next."""
    if any(after <= before for before, after in pairwise(values)):
        raise InputError("must be strictly increasing", field=what)


def check_scores(scores: Iterable[object], what: str) -> None:
    """Refuse what are not all numbers or +inf; ``what`` names them in the error."""
    for score in scores:
        if type(score) is float and score > -inf:
            continue
        if isinstance(score, bool) or not isinstance(score, int | float):
            raise InputError(f"must be a number, got {type(score).__name__}", field=what)
        if not score > -inf:  # also true of NaN
            raise InputError(f"must be a number or +inf, got {score}", field=what)


def _check_number(value: Number) -> None:
    """Refuse what is not a threshold."""
    check_scores(value if isinstance(value, tuple) else (value,), "threshold")


VERSION = 3
"""Version of the wire format; a message of another version is refused."""

Target: TypeAlias = str | tuple[float, ...]
"""Whom each agent will predict: ``"own"``, ``"mixture"``, or a distribution in numbers."""

TARGETS = {
    "own": "each agent predicts people like those it calibrated on",
    "mixture": "each agent predicts people of all agents",
}
"""What the named targets mean."""

_KEY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[^\W_][\w.-]*")
_DEVICES = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\..*)?", re.IGNORECASE)
"""Names that Windows keeps for devices."""
_PUNYCODE = "xn--"
NAME_BYTES = 64
"""Most bytes of an agent's name in UTF-8."""


class Choice(Message, omit_defaults=False):  # consumers outside read the settings
    """A method or score by name, with its settings.

    Parameters
    ----------
    name : str
        The registered name.
    settings : dict
        Its settings; those left out have their default.
    """

    name: str
    settings: dict[str, Setting] = {}

    def __post_init__(self) -> None:
        TEXT.count(self.name, "name")
        TEXT.count(self.settings, "settings")
        TEXT.count(max(self.settings, key=len, default=""), "settings")
        for key, value in self.settings.items():
            if isinstance(value, str):
                TEXT.count(value, "settings")
            elif isinstance(value, tuple):
                LIST.count(value, "settings")
            elif type(value) is int:
                SETTING.whole(value, "settings")
            elif not isinstance(value, bool | float | None):
                raise InputError(f"{key!r} cannot be {type(value).__name__}", field="settings")


class Round(Message, dict=True):
    """The terms of one round, the same for server and agents.

    Parameters
    ----------
    id : str
        Random; no two rounds share one.
    method, score : Choice
        What is computed.
    alphas : tuple of float
        Miscoverage levels, each with a threshold of its own.
    agents : tuple of str
        The roster; empty where ``roster`` stands for it.
    quorum : int
        How many sound answers a release needs.
    max_n : int
        Largest sample size an agent may claim.
    rule : str
        How a threshold becomes a set of labels.
    key : str
        Key of the uniforms of a randomised score.
    n_classes : int or None
        Number of classes, where there are any.
    by : str or None
        ``"label"`` for a threshold of its own for each class, ``"group"`` for each group of
        people; None for one threshold.
    groups : tuple of str
        Names of the groups, for ``"group"``.
    target : str or tuple of float
        Whom each agent will predict: people like its ``"own"``, those of all agents
        (``"mixture"``), or a distribution in numbers, as the method reads it.
    roster : RosterDigest or None
        What agents are sent instead of a long roster, and of its keys.
    secure : tuple of float or None
        For a round on masked sums, the range of the thresholds; None for a plain one.
    version : int
        Version of the wire format.
    keys : dict
        Public key of each agent (Ed25519, 64 hexadecimal digits): every answer must then be signed.
        Empty, and left out, where answers are not signed.
    classes : tuple of str
        Names of the classes, in the order of every model's columns; ``n_classes`` is then their
        number. Empty, and left out, where classes have numbers alone.
    provenance : dict
        Text by name, of `PROVENANCE`; left out where empty.
    max_groups : int
        Of how many of them a point may be: above 1 where groups overlap.
    """

    id: str
    method: Choice
    score: Choice
    alphas: tuple[float, ...]
    agents: tuple[str, ...]
    quorum: int
    max_n: int = MAX_N
    rule: str = "leq"
    key: str = ""
    n_classes: int | None = None
    by: str | None = None
    groups: tuple[str, ...] = ()
    target: Target = "own"
    roster: RosterDigest | None = None
    secure: tuple[float, ...] | None = None
    version: int = field(default_factory=lambda: VERSION)  # which is always written
    keys: dict[str, str] = {}
    classes: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    max_groups: int = 1

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise InputError(other_version(self.version), field="version")
        if not self.alphas:
            raise InputError("a round needs at least one", field="alphas")
        _check_limits(self)
        for alpha in self.alphas:
            as_alpha(alpha)
        if len(set(self.alphas)) != len(self.alphas):
            raise InputError("each may occur once", field="alphas")
        if self.roster is None:
            check_names(self.agents)
        elif self.agents:
            raise InputError("stands for the names, which are there too", field="roster")
        count = self.roster.count if self.roster else len(self.agents)
        if not 1 <= self.quorum <= count:
            agents = f"{count}, the number of agents"
            raise InputError(f"must be from 1 to {agents}, got {shown(self.quorum)}", "quorum")
        if self.max_n < 1:
            raise InputError(f"must be at least 1, got {shown(self.max_n)}", field="max_n")
        if self.secure is not None and not is_range(self.secure):
            raise InputError("must be two finite numbers, the lower one first", field="secure")
        _check_classes(self)
        _check_groups(self)
        _check_keys(self)
        _check_target(self)
        check_provenance(self.provenance)

    def brief(self) -> Round:
        """Return the terms as agents are sent them: more than 256 names as number and digest."""
        if len(self.agents) <= LONG_ROSTER:
            return self
        return replace(self, agents=(), keys={}, roster=RosterDigest.of(self.agents, self.keys))

    def expects(self, agent: str) -> bool:
        """Tell whether an agent may take part, as far as the terms tell.

        True too where the names are left out: then the server alone refuses other agents.
        """
        return self.roster is not None or agent in self._names

    @property
    def signed(self) -> bool:
        """Whether every answer must be signed."""
        return bool(self.keys) or (self.roster is not None and self.roster.signed)

    @cached_property
    def _names(self) -> frozenset[str]:
        """The roster, for quick look-up."""
        return frozenset(self.agents)

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """The groups that have a threshold of their own: classes, or groups of people; or none."""
        return self.class_names if self.by == "label" else self.groups

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes by name, or else by number; none where their number is not known."""
        return self.classes or tuple(map(str, range(self.n_classes or 0)))


def other_version(version: object) -> str:
    """Say why a message of another version is refused, and what to do."""
    return (
        f"must be {VERSION}, which this software reads, got {version!r}: run the round again with "
        "the same version of fedwqcp at the server and at every agent"
    )


def unknown_agent(name: object, agents: Collection[str]) -> str:
    """Say that an agent is none of a round's, and which there are."""
    near = did_you_mean(name, agents) if isinstance(name, str) else ""
    return f"agent {shown(name)} is not in the round; its agents: {named(agents, 12)}{near}"


def check_names(agents: tuple[str, ...]) -> None:
    """Refuse a roster with no name, one twice, or one that is no safe name of a file."""
    if not agents:
        raise InputError("a round needs at least one", field="agents")
    for name in agents:
        if not isinstance(name, str) or not _is_name(name):
            raise InputError(
                f"a name has letters of any script, digits, '.', '_' or '-', at most {NAME_BYTES} "
                "bytes in UTF-8 (form NFC), begins with a letter or digit, does not end with '.', "
                f"and is no device of Windows, got {shown(name)}",
                field="agents",
            )
    if len(set(agents)) != len(agents):
        again = Counter(agents).most_common(1)[0][0]
        raise InputError(f"each may occur once, {shown(again)} occurs twice", field="agents")
    if len({name.casefold() for name in agents}) != len(agents):
        raise InputError("two differ in capitals alone, as files may not", field="agents")


def _is_name(name: str) -> bool:
    """Tell whether a text is an agent's name, which is part of file names."""
    if name.isascii():
        sound = len(name) <= NAME_BYTES and _NAME.fullmatch(name) is not None
    else:
        # \w leaves combining marks out, which letters of many scripts are written with
        letters = "".join("a" if unicodedata.category(c)[0] == "M" else c for c in name[1:])
        sound = (
            len(name.encode("utf-8", "replace")) <= NAME_BYTES
            and _NAME.fullmatch(name[:1] + letters) is not None
            and unicodedata.is_normalized("NFC", name)
        )
    return (
        sound
        and name[-1] != "."
        and not name.lower().startswith(_PUNYCODE)
        and not _DEVICES.fullmatch(name)
    )


def ascii_name(name: str) -> str:
    """Return an agent's name for engines and certificates that take ASCII alone.

    The name itself where it is ASCII; else ``xn--`` and its Punycode (RFC 3492), which no other
    agent can have: a name never begins with ``xn--``.

    Examples
    --------
    >>> ascii_name("st-mary"), ascii_name("köln")
    ('st-mary', 'xn--kln-sna')
    """
    if name.isascii():
        return name
    return _PUNYCODE + name.encode("punycode").decode("ascii")


def agent_name(ascii: str) -> str:
    """Return the agent of a name that `ascii_name` gave; any other text as it is.

    Examples
    --------
    >>> agent_name("st-mary"), agent_name("xn--kln-sna")
    ('st-mary', 'köln')
    """
    if not ascii.startswith(_PUNYCODE):
        return ascii
    try:
        return ascii.removeprefix(_PUNYCODE).encode("ascii").decode("punycode")
    except UnicodeError:
        return ascii


def _check_limits(round: Round) -> None:
    """Refuse numbers and lists beyond `limits`, before anything of their size is made."""
    ALPHAS.count(round.alphas, "alphas")
    if round.n_classes is not None:
        CLASSES.whole(round.n_classes, "n_classes")
    SIZE.whole(round.max_n, "max_n")
    AGENTS.whole(round.roster.count if round.roster else len(round.agents) or 1, "agents")
    if round.groups:
        GROUPS.count(round.groups, "groups")
    if round.classes:
        CLASSES.count(round.classes, "classes")
    groups = round.n_classes or 1 if round.by == "label" else len(round.groups) or 1
    check_tasks(len(round.alphas) * groups)
    for name in ("id", "key", "rule"):
        TEXT.count(getattr(round, name), name)


def _check_classes(round: Round) -> None:
    """Refuse names of classes that are no names, or are not as many as the classes."""
    if not round.classes:
        return
    if as_classes(round.classes) != round.classes:
        raise InputError("must be in Unicode's form NFC", field="classes")
    if round.n_classes != len(round.classes):
        classes = f"{len(round.classes)}, as many as are named"
        raise InputError(f"must be {classes}, got {round.n_classes}", field="n_classes")


def _check_groups(round: Round) -> None:
    """Refuse groups without distinct names, or names without groups."""
    if round.by not in (None, "label", "group"):
        raise InputError(f"must be 'label', 'group' or none, got {shown(round.by)}", field="by")
    if round.by == "label" and round.n_classes is None:
        raise InputError(
            "must be given where thresholds are by label",
            field="n_classes",
            cure=(
                "pass n_classes=3 for three classes",
                "write n_classes = 3 for three classes in the roster, or name the classes there",
            ),
        )
    if (round.by == "group") != bool(round.groups):
        named = (
            "pass groups= with the data",
            "name them in the roster: groups = ['female', 'male']",
        )
        left_out = ("leave groups out, or pass by='group'",) * 2
        raise InputError(
            "must be named where thresholds are by group, and only there",
            field="groups",
            cure=left_out if round.groups else named,
        )
    for name in round.groups:
        check_printable(name, "groups")
    if len(set(round.groups)) != len(round.groups):
        raise InputError("each name may occur once", field="groups")
    most = len(round.groups) or 1
    if not 1 <= round.max_groups <= most:
        raise InputError(f"must be from 1 to {most}, the number of groups", field="max_groups")


def _check_keys(round: Round) -> None:
    """Refuse keys that leave an agent out, or let two agents sign for each other."""
    if not round.keys:
        return
    if set(round.keys) != set(round.agents):
        raise InputError("must be one for each agent, and nobody else", field="keys")
    for name, key in round.keys.items():
        if not _KEY.fullmatch(key):
            wrong = f"must have 64 hexadecimal digits, got {len(key)}"
        elif _has_small_order(key):
            wrong = "is of small order: anyone can sign for it"
        else:
            continue
        raise InputError(f"that of {name!r} {wrong}; `fedwqcp keys new` makes one", field="keys")
    if len(set(round.keys.values())) != len(round.keys):
        raise InputError("each agent must have a key of its own", field="keys")


def check_provenance(provenance: Mapping[str, str]) -> None:
    """Refuse names that nobody reads, and texts that cannot be printed."""
    for name, value in provenance.items():
        if name not in PROVENANCE:
            raise InputError(f"must be of {', '.join(PROVENANCE)}", field="provenance")
        check_printable(value, "provenance")


_PRIME = 2**255 - 19
_ORDER_8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
"""The second coordinate of four of the eight points of small order of Ed25519's curve."""


def _has_small_order(key: str) -> bool:
    """Tell whether a public key is a point of small order, for which anyone can sign some texts."""
    y = int.from_bytes(bytes.fromhex(key), "little") % 2**255 % _PRIME
    return y in (0, 1, _PRIME - 1, _ORDER_8, _PRIME - _ORDER_8)


def _check_target(round: Round) -> None:
    """Refuse a target that no method could read."""
    target: object = round.target
    if isinstance(target, tuple | list) and target:
        LIST.count(target, "target")
        real = (isinstance(x, int | float | np.number) and x is not True for x in target)
        if all(real) and all(isfinite(x) for x in target):
            # as numbers are read back, so that the digest of the terms stays the same
            force_setattr(round, "target", tuple(map(float, target)))
            return
    if not isinstance(target, str) or target not in TARGETS:
        words = ", ".join(f"{word!r} ({meaning})" for word, meaning in TARGETS.items())
        raise InputError(f"must be {words} or finite numbers, got {shown(target)}", field="target")


class SharedThresholdWithin(SharedThreshold):
    """One threshold for every agent, found from masked sums.

    Parameters
    ----------
    value : float or tuple of float
        The threshold: never below the one that the same method finds without masks.
    margin : float
        How far it can lie above that one.
    """

    margin: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_scores((self.margin,), "margin")
        if not 0 <= self.margin < inf:
            raise InputError(f"must be a number of at least 0, got {self.margin}", field="margin")


class Ask(Message, Generic[Q]):
    """A question of the server, one for each task of the round (None: that task has ended).

    Parameters
    ----------
    round : str
        Id of the round.
    step : int
        0 for the first question.
    questions : tuple
        One for each task.
    """

    round: str
    step: int
    questions: tuple[Q | None, ...]


class Answer(Message, Generic[S]):
    """What one agent answers in one step.

    Parameters
    ----------
    round, terms : str
        Id of the round, and the digest of the terms as the agent read them.
    step : int
        Which question is answered.
    agent : str
        Who answers.
    method, score : str
        What was computed.
    alphas : tuple of float
        At which levels.
    answers : tuple
        One summary for each task.
    version : int
        Version of the wire format.
    signature : str
        Signature of the site over all the rest, where the round names keys; else left out.
    """

    round: str
    terms: str
    step: int
    agent: str
    method: str
    score: str
    alphas: tuple[float, ...]
    answers: tuple[S | None, ...]
    version: int = field(default_factory=lambda: VERSION)  # which is always written
    signature: str = ""
