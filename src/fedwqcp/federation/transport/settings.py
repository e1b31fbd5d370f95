"""From an app's run configuration, flat keys and values, to a round and its timeouts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from fedwqcp import methods, scores
from fedwqcp._io import to_struct
from fedwqcp.errors import InputError
from fedwqcp.federation.plan import as_alphas, as_target, new_round
from fedwqcp.federation.secure import MIN_MASKED_AGENTS
from fedwqcp.registry import Setting
from fedwqcp.wire.messages import MAX_N, Round

N = TypeVar("N")

_Numbers: TypeAlias = str | int | float
"""One, or several with commas."""
_Settings: TypeAlias = Annotated[
    dict[str, bool | int | float | str], Meta(description="numbers, text, true or false by name")
]
_GROUPS = ("method-setting", "score-setting")


_MOST_SECONDS = 1e9
"""Most seconds of a timeout: about thirty years."""


@dataclass(frozen=True)
class Timeouts:
    """How long a step of a round waits.

    Parameters
    ----------
    deadline : float
        Seconds after which a step ends in any case.
    grace : float
        Seconds to wait for the others once the quorum has answered.
    poll : float
        Seconds between two polls of the engine.
    """

    deadline: float = 90.0
    grace: float = 10.0
    poll: float = 0.25

    @classmethod
    def of(cls, sites: int) -> Timeouts:
        """Return those of a roster; few cores may serve many sites, so these get a second each."""
        return cls(deadline=max(cls.deadline, float(sites)))

    def __post_init__(self) -> None:
        for name in ("deadline", "grace", "poll"):
            value = getattr(self, name)
            if not 0 <= value <= _MOST_SECONDS or (name != "grace" and value == 0):
                raise InputError(
                    f"{name} must be a number of seconds of at most {_MOST_SECONDS:g}, got {value}"
                )


class RunConfig(msgspec.Struct, frozen=True, rename="kebab"):
    """What a run configuration may state; `round_of` says what it means."""

    agents: str = ""
    alpha: _Numbers = 0.1
    method: str = "auto"
    score: str = "aps"
    rule: str = "leq"
    by: str = ""
    groups: str = ""
    max_groups: int = 1
    target: _Numbers = "own"
    quorum: int = 0
    max_n: int = MAX_N
    n_classes: int = 0
    classes: str = ""
    keys: str = ""
    nodes: str = ""
    records: str = "records"
    hand_over: str = ""
    deadline: float = 0.0
    grace: float = Timeouts.grace
    secure: bool = False
    score_low: float = 0.0
    score_high: float = 0.0
    allow_large_alpha: bool = False
    allow_empty: bool = True
    method_setting: _Settings = msgspec.field(default_factory=dict)
    score_setting: _Settings = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, config: Mapping[str, object]) -> RunConfig:
        """Read a configuration; settings are ``method-setting.NAME``, or a table of them."""
        table: dict[str, Any] = {key: config[key] for key in config if "." not in key}
        for key in config.keys() - table.keys():
            group, _, name = key.partition(".")
            if group in _GROUPS and isinstance(held := table.get(group, {}), Mapping):
                table[group] = {**held, name: config[key]}
            else:
                table[key] = config[key]
        return to_struct(table, cls, "the run configuration")


def round_of(config: Mapping[str, object]) -> Round:
    """Return a new round with the terms that a run configuration states.

    Parameters
    ----------
    config : mapping
        ``agents`` ("st-mary,lakeside"), ``alpha`` (0.1, or "0.05,0.1"; above 0.5 only with
        ``allow-large-alpha``), ``method``, ``score``, ``rule``, ``allow-empty`` (false: no set is
        empty), ``by`` ("label" or "group"), ``groups`` ("female,male"), ``max-groups`` (2 where a
        row may be in two), ``quorum`` and
        ``n-classes`` (0: not given), ``classes`` ("melanoma,nevus,other"), ``max-n``; ``target``
        ("own", "mixture" or "0.5,0.5"); ``keys`` ("st-mary=3f...,lakeside=a0..."), where answers
        must be signed; settings of method and score under ``method-setting.NAME`` and
        ``score-setting.NAME``.

    Returns
    -------
    Round
        With a fresh id.

    Raises
    ------
    InputError
        If a key of one of these groups is unknown, or a value is wrong.
    """
    given = RunConfig.of(config)
    agents = _split(given.agents)
    masked = min(len(agents), max(len(agents) - 1, MIN_MASKED_AGENTS))
    return new_round(
        agents,
        methods.get(given.method, **_settings(given.method_setting)),
        scores.get(given.score, **_settings(given.score_setting)),
        as_alphas(
            [_number("alpha", part) for part in _split(given.alpha)],
            allow_large=given.allow_large_alpha,
        ),
        rule=given.rule,
        allow_empty=given.allow_empty,
        quorum=given.quorum or (masked if given.secure else None),
        max_n=given.max_n,
        n_classes=given.n_classes or None,
        classes=_split(given.classes),
        by=given.by or None,
        groups=_split(given.groups),
        max_groups=given.max_groups,
        keys=_pairs("keys", given.keys),
        target=as_target(str(given.target)),
    )


def timeouts_of(config: Mapping[str, object]) -> Timeouts:
    """Return how long the steps of a round wait.

    Parameters
    ----------
    config : mapping
        ``deadline`` and ``grace``, in seconds; a deadline of 0 is that of `Timeouts.of`.

    Returns
    -------
    Timeouts
        With the defaults for what is left out.
    """
    given = RunConfig.of(config)
    usual = Timeouts.of(len(_split(given.agents))).deadline
    return Timeouts(given.deadline or usual, given.grace)


def nodes_of(config: Mapping[str, object], node_of: Callable[[str], N]) -> dict[str, N] | None:
    """Return which node each agent must be (``nodes``: "st-mary=1234,lakeside=5678").

    `node_of` reads how the engine names a node. None where the configuration names none.
    """
    pairs = _pairs("nodes", RunConfig.of(config).nodes)
    try:
        nodes = {name: node_of(node) for name, node in pairs.items()}
    except ValueError:
        raise InputError(f"nodes must be written NAME=ID, got {pairs!r}") from None
    if len(set(nodes.values())) != len(nodes):
        raise InputError("nodes: each agent and each node may occur once")
    return nodes or None


def secure_of(config: Mapping[str, object]) -> bool | tuple[float, float]:
    """Return whether a round is to be secure (``secure``), and for which range.

    ``score-low`` and ``score-high`` state it where the score has none (both 0: its own).
    """
    given = RunConfig.of(config)
    stated = given.score_low, given.score_high
    return stated if given.secure and any(stated) else given.secure


def _split(value: str | float) -> tuple[str, ...]:
    """Read a list with commas."""
    text = unicodedata.normalize("NFC", str(value))
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _pairs(what: str, value: str) -> dict[str, str]:
    """Read a list of NAME=VALUE with commas."""
    entries = [entry.partition("=") for entry in _split(value)]
    pairs = {name.strip(): held.strip() for name, _, held in entries}
    if not all(pairs.values()):
        raise InputError(f"{what} must be written NAME=ID, got {value!r}")
    if len(pairs) != len(entries):
        raise InputError(f"{what}: each agent and each node may occur once")
    return pairs


def _number(name: str, value: str | float) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise InputError(f"{name} must be a number, got {value!r}") from None


def _settings(given: Mapping[str, bool | int | float | str]) -> dict[str, Setting]:
    """Return the settings of a method or score; numbers with commas are a tuple."""
    return {
        name.replace("-", "_"): tuple(_number(name, part) for part in _split(value))
        if isinstance(value, str) and "," in value
        else value
        for name, value in given.items()
    }
