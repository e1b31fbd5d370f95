"""The terms of a round, which server and agents share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from fedwqcp.arrays import as_alpha
from fedwqcp.errors import InputError

VERSION = 1
"""Version of the wire format; a message of another version is refused."""

Setting: TypeAlias = bool | int | float | str | tuple[float, ...] | None
"""What a setting of a method or score may be."""

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
        The roster.
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
    version : int
        Version of the wire format.
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
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise InputError(f"version: this software reads {VERSION}, the round is {self.version}")
        if not self.alphas:
            raise InputError("alphas: a round needs at least one")
        for alpha in self.alphas:
            as_alpha(alpha)
        if len(set(self.alphas)) != len(self.alphas):
            raise InputError("alphas: each may occur once")
        check_names(self.agents)
        if not 1 <= self.quorum <= len(self.agents):
            raise InputError(
                f"quorum: must be from 1 to {len(self.agents)}, the number of agents, "
                f"got {self.quorum}"
            )
        if self.n_classes is not None and self.n_classes < 2:
            raise InputError(f"n_classes: must be at least 2, got {self.n_classes}")
        if self.max_n < 1:
            raise InputError(f"max_n: must be at least 1, got {self.max_n}")


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
        raise InputError("agents: a round needs at least one")
    for name in agents:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(
                "agents: a name has 1 to 64 letters, digits, '.', '_' or '-' and begins with a "
                f"letter or digit, got {name!r}"
            )
    if len(set(agents)) != len(agents):
        raise InputError("agents: each name may occur once")


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
