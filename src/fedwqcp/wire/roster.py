"""What agents are sent of a long roster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

LONG = 256
"""A longer roster is not sent to its agents: bytes would grow with the square of their number."""


@dataclass(frozen=True)
class Roster:
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
    def of(cls, agents: tuple[str, ...], keys: Mapping[str, str] | None = None) -> Roster:
        """Count and digest names.

        Parameters
        ----------
        agents : tuple of str
            The names, in order.
        keys : mapping of str to str, optional
            Their public keys.

        Returns
        -------
        Roster
            What stands for them.
        """
        lines = [f"{name} {keys[name]}\n" if keys else f"{name}\n" for name in agents]
        return cls(len(agents), sha256("".join(lines).encode()).hexdigest(), bool(keys))


@dataclass(frozen=True)
class Census:
    """What stands for the entries of a long roster in the release that agents are sent.

    Parameters
    ----------
    used, refused, missing : int
        How many agents had each fate.
    sha256 : str
        Digest of the release with all entries, which the server keeps for whoever asks.
    """

    used: int
    refused: int
    missing: int
    sha256: str
