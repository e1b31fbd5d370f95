"""What became of the agents of a round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from fedwqcp.errors import InputError
from fedwqcp.wire.limits import SIZE, TEXT


@dataclass(frozen=True)
class AgentRecord:
    """What became of one agent of the roster.

    Parameters
    ----------
    name : str
        The agent.
    status : {"used", "refused", "missing"}
        Whether the release rests on its answer.
    reason : str
        Why it was refused.
    bytes_up, bytes_down : int
        Encoded bytes it sent and received.
    """

    name: str
    status: Literal["used", "refused", "missing"]
    reason: str = ""
    bytes_up: int = 0
    bytes_down: int = 0

    def __post_init__(self) -> None:
        TEXT.count(self.reason, "reason")
        SIZE.whole(self.bytes_up, "bytes_up")
        SIZE.whole(self.bytes_down, "bytes_down")


class Roll:
    """What a release tells of its agents."""

    agents: tuple[AgentRecord, ...]

    @cached_property
    def used(self) -> tuple[str, ...]:
        """The agents that the thresholds rest on."""
        return tuple(a.name for a in self.agents if a.status == "used")

    @property
    def refused(self) -> dict[str, str]:
        """The agents whose answer was refused, with the reason."""
        return {a.name: a.reason for a in self.agents if a.status == "refused"}

    @property
    def missing(self) -> tuple[str, ...]:
        """The agents that did not answer."""
        return tuple(a.name for a in self.agents if a.status == "missing")

    def bytes_up(self, agent: str) -> int:
        """Return the encoded bytes that an agent sent.

        Parameters
        ----------
        agent : str
            Name of the agent.

        Returns
        -------
        int
            Bytes of all its answers.
        """
        return self.record(agent).bytes_up

    def bytes_down(self, agent: str) -> int:
        """Return the encoded bytes that an agent was sent, the release not counted.

        Parameters
        ----------
        agent : str
            Name of the agent.

        Returns
        -------
        int
            Bytes of all questions.
        """
        return self.record(agent).bytes_down

    def record(self, agent: str) -> AgentRecord:
        """Return what became of one agent.

        Parameters
        ----------
        agent : str
            Name of the agent.

        Returns
        -------
        AgentRecord
            Its entry.

        Raises
        ------
        InputError
            If there is no such agent.
        """
        if agent not in self._records:
            raise InputError(f"unknown agent {agent!r}; known: {', '.join(self._records)}")
        return self._records[agent]

    @cached_property
    def _records(self) -> dict[str, AgentRecord]:
        """The entries of the agents by name."""
        return {record.name: record for record in self.agents}
