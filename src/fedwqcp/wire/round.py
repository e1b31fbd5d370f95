"""The terms of a round, which server and agents share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TypeAlias

from fedwqcp.arrays import as_alpha
from fedwqcp.errors import InputError
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
from fedwqcp.wire.payload import OPTIONAL
from fedwqcp.wire.roster import LONG, Roster

VERSION = 2
"""Version of the wire format; a message of another version is refused."""

Setting: TypeAlias = bool | int | float | str | tuple[float, ...] | None
"""What a setting of a method or score may be."""

_KEY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Choice:
    """A method or score by name, with its settings.

    Parameters
    ----------
    name : str
        The registered name.
    settings : dict
        Its settings; those left out have their default.
    """

    name: str
    settings: dict[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        TEXT.count(self.name, "name")
        TEXT.count(self.settings, "settings")
        for key, value in self.settings.items():
            TEXT.count(key, "settings")
            if isinstance(value, str):
                TEXT.count(value, "settings")
            elif isinstance(value, tuple):
                LIST.count(value, "settings")
            elif type(value) is int:
                SETTING.whole(value, "settings")


@dataclass(frozen=True)
class Round:
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
    roster : Roster or None
        What agents are sent instead of a long roster, and of its keys.
    secure : tuple of float or None
        For a round on masked sums, the range of the thresholds; None for a plain one.
    version : int
        Version of the wire format.
    keys : dict
        Public key of each agent (Ed25519, 64 hexadecimal digits): every answer must then be signed.
        Empty, and left out, where answers are not signed.
    """

    id: str
    method: Choice
    score: Choice
    alphas: tuple[float, ...]
    agents: tuple[str, ...]
    quorum: int
    max_n: int = 10_000_000
    rule: str = "leq"
    key: str = ""
    n_classes: int | None = None
    by: str | None = None
    groups: tuple[str, ...] = ()
    roster: Roster | None = None
    secure: tuple[float, ...] | None = None
    version: int = VERSION
    keys: dict[str, str] = field(default_factory=dict, metadata=OPTIONAL)

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
            raise InputError(
                f"must be from 1 to {count}, the number of agents, got {self.quorum}",
                field="quorum",
            )
        if self.max_n < 1:
            raise InputError(f"must be at least 1, got {self.max_n}", field="max_n")
        if self.secure is not None and not (
            len(self.secure) == 2 and -inf < self.secure[0] < self.secure[1] < inf
        ):
            raise InputError("must be two finite numbers, the lower one first", field="secure")
        _check_groups(self)
        _check_keys(self)

    def brief(self) -> Round:
        """Return the terms as they are sent to agents.

        Returns
        -------
        Round
            The same; of more than 256 names only their number and digest.
        """
        if len(self.agents) <= LONG:
            return self
        return replace(self, agents=(), keys={}, roster=Roster.of(self.agents, self.keys))

    def expects(self, agent: str) -> bool:
        """Tell whether an agent may take part, as far as the terms tell.

        Parameters
        ----------
        agent : str
            Its name.

        Returns
        -------
        bool
            True too where the names are left out: then the server alone refuses strangers.
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

    @property
    def group_names(self) -> tuple[str, ...]:
        """The groups that have a threshold of their own: classes by number, or names; or none."""
        return tuple(map(str, range(self.n_classes or 0))) if self.by == "label" else self.groups


def other_version(version: object) -> str:
    """Say why a message of another version is refused, and what to do."""
    return (
        f"must be {VERSION}, which this software reads, got {version!r}: run the round again with "
        "the same version of fedwqcp at the server and at every agent"
    )


def check_names(agents: tuple[str, ...]) -> None:
    """Refuse a roster with a bad or repeated name.

    Parameters
    ----------
    agents : tuple of str
        Names of the agents.

    Raises
    ------
    InputError
        If there is none, one is repeated, or one has characters that no file name should have.
    """
    if not agents:
        raise InputError("a round needs at least one", field="agents")
    for name in agents:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                "a name has 1 to 64 letters, digits, '.', '_' or '-' and begins with a "
                f"letter or digit, got {name!r}",
                field="agents",
            )
    if len(set(agents)) != len(agents):
        raise InputError("each name may occur once", field="agents")


def choice_of(name: str, settings: Mapping[str, object]) -> Choice:
    """Return a choice whose settings can travel.

    Parameters
    ----------
    name : str
        The registered name.
    settings : mapping
        Its settings.

    Returns
    -------
    Choice
        The same.

    Raises
    ------
    InputError
        If a setting is neither a number, text, None nor a tuple of numbers.
    """
    plain: dict[str, Setting] = {}
    for key, value in settings.items():
        if not isinstance(value, bool | int | float | str | tuple | None):
            raise InputError(f"setting {key!r} of {name!r} cannot travel: {type(value).__name__}")
        plain[key] = value
    return Choice(name, plain)


def _check_limits(round: Round) -> None:
    """Refuse numbers and lists beyond `limits`, before anything of their size is made."""
    ALPHAS.count(round.alphas, "alphas")
    if round.n_classes is not None:
        CLASSES.whole(round.n_classes, "n_classes")
    SIZE.whole(round.max_n, "max_n")
    AGENTS.whole(round.roster.count if round.roster else len(round.agents) or 1, "agents")
    if round.groups:
        GROUPS.count(round.groups, "groups")
    groups = round.n_classes or 1 if round.by == "label" else len(round.groups) or 1
    check_tasks(len(round.alphas) * groups)
    for name in ("id", "key", "rule"):
        TEXT.count(getattr(round, name), name)


def _check_groups(round: Round) -> None:
    """Refuse groups that nobody could tell apart."""
    if round.by not in (None, "label", "group"):
        raise InputError(f"must be 'label' or 'group', or left out, got {round.by!r}", field="by")
    if round.by == "label" and round.n_classes is None:
        raise InputError("must be given where thresholds are by label", field="n_classes")
    if (round.by == "group") != bool(round.groups):
        raise InputError(
            "must be named where thresholds are by group, and only there", field="groups"
        )
    for name in round.groups:
        if not name.isprintable() or name != name.strip() or not 1 <= len(name) <= 64:
            raise InputError(
                "a name has 1 to 64 printable characters, none of them a space at an end, "
                f"got {name!r}",
                field="groups",
            )
    if len(set(round.groups)) != len(round.groups):
        raise InputError("each name may occur once", field="groups")


def _check_keys(round: Round) -> None:
    """Refuse keys that leave an agent out, or let two agents sign for each other."""
    if not round.keys:
        return
    if set(round.keys) != set(round.agents):
        raise InputError(
            "must name one public key for each agent, and for nobody else", field="keys"
        )
    for name, key in round.keys.items():
        if not _KEY.fullmatch(key):
            raise InputError(
                f"a public key has 64 hexadecimal digits, got {len(key)} characters for "
                f"{name!r}; `fedwqcp keys new` makes one",
                field="keys",
            )
    if len(set(round.keys.values())) != len(round.keys):
        raise InputError("each agent must have a key of its own", field="keys")
