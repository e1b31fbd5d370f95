"""From an app's run configuration to the terms and the pace of a round."""

from __future__ import annotations

from collections.abc import Mapping

from fedwqcp import methods, scores
from fedwqcp.errors import InputError
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.transport.flower.drive import Pace
from fedwqcp.wire.round import Round, Setting

_KEYS = {
    "agents", "alpha", "method", "score", "rule", "by", "groups", "quorum", "max-n", "n-classes",
    "deadline", "grace", "records", "nodes", "secure", "score-low", "score-high", "keys",
}  # fmt: skip
_PARTS = ("method-setting.", "score-setting.")


def round_of(config: Mapping[str, object]) -> Round:
    """Return a new round with the terms that a run configuration states.

    Parameters
    ----------
    config : mapping
        ``agents`` ("st-mary,lakeside"), ``alpha`` (0.1, or "0.05,0.1"), ``method``, ``score``,
        ``rule``, ``by`` ("label" or "group"), ``groups`` ("female,male"), ``quorum`` and
        ``n-classes`` (0: not given), ``max-n``; ``keys`` ("st-mary=3f...,lakeside=a0..."), where
        answers must be signed; settings of method and
        score under ``method-setting.NAME`` and ``score-setting.NAME``.

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
        if key not in _KEYS and not key.startswith(_PARTS):
            raise InputError(
                f"unknown key {key!r} in the run configuration; known: "
                f"{', '.join(sorted(_KEYS))}, {', '.join(part + 'NAME' for part in _PARTS)}"
            )
    agents = _listed(config.get("agents", ""))
    method = methods.get(str(config.get("method", "fedwq-cp")), **_settings(config, _PARTS[0]))
    score = scores.get(str(config.get("score", "aps")), **_settings(config, _PARTS[1]))  # type: ignore[arg-type]  # checked there
    return Round(
        id=new_id(),
        method=choose_method(method),
        score=choose_score(score),
        alphas=tuple(_number("alpha", part) for part in _listed(config.get("alpha", 0.1))),
        agents=agents,
        quorum=_whole("quorum", config.get("quorum", 0)) or len(agents),
        max_n=_whole("max-n", config.get("max-n", Round.max_n)),
        rule=str(config.get("rule", "leq")),
        key=new_id(),
        n_classes=_whole("n-classes", config.get("n-classes", 0)) or None,
        by=str(config.get("by", "")) or None,
        groups=_listed(config.get("groups", "")),
        keys=_keys(config.get("keys", "")),
    )


def pace_of(config: Mapping[str, object]) -> Pace:
    """Return how long the steps of a round wait.

    Parameters
    ----------
    config : mapping
        ``deadline`` and ``grace``, in seconds.

    Returns
    -------
    Pace
        The pace.
    """
    return Pace(
        deadline=_number("deadline", config.get("deadline", Pace.deadline)),
        grace=_number("grace", config.get("grace", Pace.grace)),
    )


def nodes_of(config: Mapping[str, object]) -> dict[str, int] | None:
    """Return which node each agent must be, where the configuration says so.

    Parameters
    ----------
    config : mapping
        ``nodes`` ("st-mary=1234,lakeside=5678"); empty leaves it to what nodes say of themselves.

    Returns
    -------
    dict or None
        By agent.

    Raises
    ------
    InputError
        If an entry is not NAME=ID, or one node stands for two agents.
    """
    found: dict[str, int] = {}
    for entry in _listed(config.get("nodes", "")):
        name, equals, node = entry.partition("=")
        if not equals or not node.strip().isdigit():
            raise InputError(f"nodes must be written NAME=ID, got {entry!r}")
        found[name.strip()] = int(node)
    if len(set(found.values())) != len(found):
        raise InputError("nodes: one node stands for one agent")
    return found or None


def secure_of(config: Mapping[str, object]) -> bool | tuple[float, float]:
    """Return whether a run configuration asks for a secure round, and for which range.

    Parameters
    ----------
    config : mapping
        ``secure`` (true or false); ``score-low`` and ``score-high``, where the score has no range
        of its own (both 0: its own).

    Returns
    -------
    bool or tuple of float
        False for a plain round.

    Raises
    ------
    InputError
        If a value is wrong.
    """
    secure = config.get("secure", False)
    if not isinstance(secure, bool):
        raise InputError(f"secure must be true or false, got {secure!r}")
    low, high = (config.get(key, 0.0) for key in ("score-low", "score-high"))
    for value in (low, high):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"score-low and score-high must be numbers, got {value!r}")
    return (float(low), float(high)) if secure and (low or high) else secure  # type: ignore[arg-type]  # numbers


def _listed(value: object) -> tuple[str, ...]:
    """Read a list with commas."""
    return tuple(part.strip() for part in str(value).split(",") if part.strip())


def _keys(value: object) -> dict[str, str]:
    """Read public keys by agent."""
    pairs = [entry.partition("=") for entry in _listed(value)]
    if len({name.strip() for name, _, _ in pairs}) != len(pairs):
        raise InputError("keys must be written NAME=KEY, each agent once")
    return {name.strip(): key.strip() for name, _, key in pairs}


def _number(name: str, value: object) -> float:
    """Read a number."""
    try:
        return float(str(value))
    except ValueError:
        raise InputError(f"{name} must be a number, got {value!r}") from None


def _whole(name: str, value: object) -> int:
    """Read a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a whole number, got {value!r}")
    return value


def _settings(config: Mapping[str, object], part: str) -> dict[str, Setting]:
    """Collect the settings of a method or score; numbers with commas are a tuple."""
    found: dict[str, Setting] = {}
    for key, value in config.items():
        if not key.startswith(part):
            continue
        name = key.removeprefix(part).replace("-", "_")
        if isinstance(value, str) and "," in value:
            found[name] = tuple(_number(key, entry) for entry in _listed(value))
        elif isinstance(value, bool | int | float | str):
            found[name] = value
        else:
            raise InputError(f"{key} must be a number or text, got {value!r}")
    return found
