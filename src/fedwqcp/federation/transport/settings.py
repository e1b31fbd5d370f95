"""From an app's run configuration, flat keys and values, to a round and its timeouts."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import TypeVar

from fedwqcp import methods, scores
from fedwqcp.errors import InputError
from fedwqcp.federation.plan import (
    as_alphas,
    as_target,
    choose_method,
    choose_score,
    named_classes,
    new_id,
    set_rule,
)
from fedwqcp.federation.transport.session import Timeouts
from fedwqcp.registry import Setting
from fedwqcp.wire.messages import Round

N = TypeVar("N")

_KEYS = {
    "agents", "alpha", "method", "score", "rule", "by", "groups", "quorum", "max-n", "n-classes",
    "classes", "deadline", "grace", "records", "nodes", "secure", "score-low", "score-high",
    "keys", "allow-large-alpha", "allow-empty", "target",
}  # fmt: skip
_PREFIXES = ("method-setting.", "score-setting.")


def round_of(config: Mapping[str, object]) -> Round:
    """Return a new round with the terms that a run configuration states.

    Parameters
    ----------
    config : mapping
        ``agents`` ("st-mary,lakeside"), ``alpha`` (0.1, or "0.05,0.1"; above 0.5 only with
        ``allow-large-alpha``), ``method``, ``score``, ``rule``, ``allow-empty`` (false: no set is
        empty), ``by`` ("label" or "group"), ``groups`` ("female,male"), ``quorum`` and
        ``n-classes`` (0: not given), ``classes`` ("melanoma,nevus,other"), ``max-n``; ``target``
        ("own", "mixture" or "0.5,0.5"); ``keys`` ("st-mary=3f...,lakeside=a0..."), where answers
        must be signed; settings of method and score under ``method-setting.NAME`` and
        ``score-setting.NAME``.

    Returns
    -------
    Round
        With a fresh id and key.

    Raises
    ------
    InputError
        If a key of one of these groups is unknown, or a value is wrong.
    """
    for key in config:
        if key not in _KEYS and not key.startswith(_PREFIXES):
            raise InputError(
                f"unknown key {key!r} in the run configuration; known: "
                f"{', '.join(sorted(_KEYS))}, {', '.join(part + 'NAME' for part in _PREFIXES)}"
            )
    agents = _split(config.get("agents", ""))
    allow_empty = config.get("allow-empty", True)
    if not isinstance(allow_empty, bool):
        raise InputError(f"allow-empty must be true or false, got {allow_empty!r}")
    classes, n_classes = named_classes(
        _split(config.get("classes", "")), _whole("n-classes", config.get("n-classes", 0)) or None
    )
    method = methods.get(str(config.get("method", "fedwq-cp")), **_settings(config, _PREFIXES[0]))
    score = scores.get(str(config.get("score", "aps")), **_settings(config, _PREFIXES[1]))
    return Round(
        id=new_id(),
        method=choose_method(method),
        score=choose_score(score),
        alphas=as_alphas(
            [_number("alpha", part) for part in _split(config.get("alpha", 0.1))],
            allow_large=config.get("allow-large-alpha", False) is True,
        ),
        agents=agents,
        quorum=_whole("quorum", config.get("quorum", 0)) or len(agents),
        max_n=_whole("max-n", config.get("max-n", Round.max_n)),
        rule=set_rule(str(config.get("rule", "leq")), allow_empty),
        key=new_id(),
        n_classes=n_classes,
        classes=classes,
        by=str(config.get("by", "")) or None,
        groups=_split(config.get("groups", "")),
        keys=_keys(config.get("keys", "")),
        target=as_target(str(config.get("target", "own"))),
    )


def timeouts_of(config: Mapping[str, object]) -> Timeouts:
    """Return how long the steps of a round wait.

    Parameters
    ----------
    config : mapping
        ``deadline`` and ``grace``, in seconds.

    Returns
    -------
    Timeouts
        With the defaults for what is left out.
    """
    return Timeouts(
        deadline=_number("deadline", config.get("deadline", Timeouts.deadline)),
        grace=_number("grace", config.get("grace", Timeouts.grace)),
    )


def nodes_of(config: Mapping[str, object], node_of: Callable[[str], N]) -> dict[str, N] | None:
    """Return which node each agent must be (``nodes``: "st-mary=1234,lakeside=5678").

    `node_of` reads how the engine names a node. None where the configuration names none.
    """
    found: dict[str, N] = {}
    for entry in _split(config.get("nodes", "")):
        name, equals, node = entry.partition("=")
        try:
            found[name.strip()] = node_of(node.strip())
        except ValueError:
            equals = ""
        if not equals or not node.strip():
            raise InputError(f"nodes must be written NAME=ID, got {entry!r}")
    if len(set(found.values())) != len(found):
        raise InputError("nodes: one node stands for one agent")
    return found or None


def secure_of(config: Mapping[str, object]) -> bool | tuple[float, float]:
    """Return whether a round is to be secure (``secure``), and for which range.

    ``score-low`` and ``score-high`` state it where the score has none (both 0: its own).
    """
    secure = config.get("secure", False)
    if not isinstance(secure, bool):
        raise InputError(f"secure must be true or false, got {secure!r}")
    bounds = []
    for key in ("score-low", "score-high"):
        value = config.get(key, 0.0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"score-low and score-high must be numbers, got {value!r}")
        bounds.append(_number(key, value))
    return (bounds[0], bounds[1]) if secure and any(bounds) else secure


def _split(value: object) -> tuple[str, ...]:
    """Read a list with commas."""
    text = unicodedata.normalize("NFC", str(value))
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _keys(value: object) -> dict[str, str]:
    """Read public keys by agent."""
    pairs = [entry.partition("=") for entry in _split(value)]
    if len({name.strip() for name, _, _ in pairs}) != len(pairs):
        raise InputError("keys must be written NAME=KEY, each agent once")
    return {name.strip(): key.strip() for name, _, key in pairs}


def _number(name: str, value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise InputError(f"{name} must be a number, got {value!r}") from None


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    return value


def _settings(config: Mapping[str, object], prefix: str) -> dict[str, Setting]:
    """Collect the settings of a method or score; numbers with commas are a tuple."""
    found: dict[str, Setting] = {}
    for key, value in config.items():
        if not key.startswith(prefix):
            continue
        name = key.removeprefix(prefix).replace("-", "_")
        if isinstance(value, str) and "," in value:
            found[name] = tuple(_number(key, entry) for entry in _split(value))
        elif isinstance(value, bool | int | float | str):
            found[name] = value
        else:
            raise InputError(f"{key} must be a number or text, got {value!r}")
    return found
