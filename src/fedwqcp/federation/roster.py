"""The roster: who takes part, and what is asked of them, in a TOML file."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from fedwqcp.errors import InputError
from fedwqcp.federation.files import read

_KEYS = {"agents": list, "quorum": int, "max_n": int, "n_classes": int, "keys": dict}


@dataclass(frozen=True)
class Roster:
    """Who takes part.

    Parameters
    ----------
    agents : tuple of str
        Their names.
    quorum : int or None
        How many sound answers a release needs; all of them where it is not given.
    max_n : int or None
        Largest sample size an agent may claim.
    n_classes : int or None
        Number of classes of every agent's model.
    keys : dict or None
        Public keys of the agents, by name.
    """

    agents: tuple[str, ...]
    quorum: int | None = None
    max_n: int | None = None
    n_classes: int | None = None
    keys: dict[str, str] | None = None


def load_roster(path: Path) -> Roster:
    """Read a roster.

    Parameters
    ----------
    path : Path
        A TOML file with ``agents = ["st-mary", "lakeside"]`` and optional ``quorum``, ``max_n``,
        ``n_classes``, and a table ``[keys]`` of public keys by agent.

    Returns
    -------
    Roster
        Who takes part.

    Raises
    ------
    InputError
        If a key is unknown, or a value is of the wrong type.
    """
    try:
        table = tomllib.loads(read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must be a TOML file: {error}") from None
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"{path}: unknown key {key!r}{hint}; known: {', '.join(_KEYS)}")
        if type(value) is not _KEYS[key]:
            kind = {"agents": "a list of names", "keys": "a table of public keys by agent"}.get(
                key, "an integer"
            )
            raise InputError(f"{path}: {key} must be {kind}, got {type(value).__name__}")
    if not all(isinstance(key, str) for key in table.get("keys", {}).values()):
        raise InputError(f"{path}: keys must be text, as `fedwqcp keys new` prints them")
    if "agents" not in table:
        raise InputError(f'{path} must list the agents: agents = ["st-mary", "lakeside"]')
    return Roster(**{**table, "agents": tuple(table["agents"])})
