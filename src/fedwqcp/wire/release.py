"""What a round ends with, and what is proved of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np

from fedwqcp.arrays import Floats
from fedwqcp.errors import InputError
from fedwqcp.wire.guarantee import Guarantee
from fedwqcp.wire.payload import Number, Outcome, Summary, ToEach
from fedwqcp.wire.round import Round


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


@dataclass(frozen=True)
class Release:
    """What a round ends with.

    Parameters
    ----------
    round : Round
        The terms.
    guarantee : Guarantee
        What is proved of the thresholds.
    assumption : str
        Under which assumption, in words.
    rounds : int
        Round trips that were needed.
    agents : tuple of AgentRecord
        Every agent of the roster.
    outcomes : tuple of Outcome
        One for each task: alphas times columns of the score.
    local : dict
        Thresholds that agents found for themselves, by agent; known only where agents share a
        process with the caller.
    received : dict
        What each used agent sent in the first step; kept by the server, never sent to agents.
    """

    round: Round
    guarantee: Guarantee
    assumption: str
    rounds: int
    agents: tuple[AgentRecord, ...]
    outcomes: tuple[Outcome, ...]
    local: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    received: dict[str, tuple[Summary | None, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if tuple(agent.name for agent in self.agents) != self.round.agents:
            raise InputError("agents: must be the roster of the round, in its order")
        if not self.outcomes or len(self.outcomes) % len(self.round.alphas):
            raise InputError("outcomes: must be as many for each level of the round")
        if any(len(found) != len(self.outcomes) for found in self.local.values()):
            raise InputError("local: must hold one threshold for each outcome")

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
        return self._record(agent).bytes_up

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
        return self._record(agent).bytes_down

    def threshold(self, agent: str, alpha: float | None = None) -> float | Floats:
        """Return the threshold of one agent.

        Parameters
        ----------
        agent : str
            Name of the agent.
        alpha : float, optional
            Which level, where the round has several.

        Returns
        -------
        float or Floats
            A float; one per label, shape (C,); or one per column of the score, shape (2,).

        Raises
        ------
        InputError
            If the agent or level is not part of the round, or the agent's threshold needs its own
            data (`fedwqcp.federation.agent.thresholds`).
        """
        values = [self._value(agent, task) for task in self.tasks_of(alpha)]
        if len(values) > 1:
            return np.array(values, dtype=np.float64)
        return np.array(values[0]) if isinstance(values[0], tuple) else float(values[0])

    def tasks_of(self, alpha: float | None = None) -> range:
        """Return which outcomes belong to a level.

        Parameters
        ----------
        alpha : float, optional
            Which level, where the round has several.

        Returns
        -------
        range
            Positions in ``outcomes``.

        Raises
        ------
        InputError
            If the level is not part of the round, or is left out where there are several.
        """
        alphas = self.round.alphas
        if alpha is None and len(alphas) > 1:
            raise InputError(f"the round has several levels; pass alpha, one of {alphas}")
        if alpha is not None and alpha not in alphas:
            raise InputError(f"alpha must be a level of the round, one of {alphas}, got {alpha}")
        columns = len(self.outcomes) // len(alphas)
        at = 0 if alpha is None else alphas.index(alpha)
        return range(at * columns, (at + 1) * columns)

    def position(self, agent: str) -> int | None:
        """Return the place of an agent among those whose answers were used.

        Parameters
        ----------
        agent : str
            Name of the agent.

        Returns
        -------
        int or None
            None if its answer was not used.
        """
        return self._places.get(agent)

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where each used agent stands among them."""
        return {name: at for at, name in enumerate(self.used)}

    @cached_property
    def _records(self) -> dict[str, AgentRecord]:
        """The entries of the agents by name."""
        return {record.name: record for record in self.agents}

    def public(self) -> Release:
        """Return what is sent to agents: nothing that another agent answered.

        Returns
        -------
        Release
            The same without ``local`` and ``received``.
        """
        return replace(self, local={}, received={})

    def _value(self, agent: str, task: int) -> Number:
        """Return the threshold of one task."""
        record = self._record(agent)
        if agent in self.local:
            return self.local[agent][task]
        value = self.outcomes[task].threshold(self.position(agent))
        if value is None and isinstance(self.outcomes[task], ToEach):
            raise InputError(f"agent {agent!r} has no threshold: its answer was {record.status}")
        if value is None:
            raise InputError(
                f"{self.round.method.name} leaves the threshold to the agent's own calibration "
                "data: ask where these are (agent predict --calibration, or agent.thresholds)"
            )
        return value

    def _record(self, agent: str) -> AgentRecord:
        """Return the entry of one agent."""
        if agent not in self._records:
            raise InputError(f"unknown agent {agent!r}; known: {', '.join(self.round.agents)}")
        return self._records[agent]


__all__ = ["AgentRecord", "Guarantee", "Release"]
