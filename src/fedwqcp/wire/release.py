"""What a round ends with: thresholds, their guarantee, and what became of every agent."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import inf
from typing import Generic, Literal, Self, TypeAlias, get_args

import numpy as np
from msgspec.structs import replace

from fedwqcp._validation import Floats, fits, named, plain, shown
from fedwqcp.errors import InputError
from fedwqcp.wire.limits import SIZE, TEXT
from fedwqcp.wire.messages import (
    Census,
    Message,
    Number,
    O,
    PerAgentThresholds,
    Round,
    S,
    check_provenance,
    unknown_agent,
)
from fedwqcp.words.rounds import guarantee

GuaranteeKind: TypeAlias = Literal[
    "none",
    "agent-floor",
    "marginal-agent",
    "marginal-mixture",
    "marginal-iid",
    "training-conditional",
    "target-shift",
    "multi-distribution",
    "new-agent-marginal",
    "new-agent-confident",
    "risk-floor",
    "risk-agent",
    "risk-mixture",
    "risk-iid",
]
"""For whom a threshold covers."""

Strength: TypeAlias = Literal["none", "approximate", "asymptotic", "finite-sample"]
"""How firmly it is proved."""


class Guarantee(Message):
    """What is proved of a released threshold, under the assumption that its release states.

    Parameters
    ----------
    kind : str
        For whom, one of `GuaranteeKind`.
    strength : str
        How firmly, one of `Strength`.

    Raises
    ------
    InputError
        If one of them is unknown, or one alone is ``"none"``.

    Examples
    --------
    >>> print(Guarantee("marginal-agent", "finite-sample"))
    marginal-agent, finite-sample
    >>> Guarantee("new-agent-marginal", "finite-sample").in_words
    'at a new agent like these, at least 1 - alpha of future cases will be covered'
    >>> print(NO_GUARANTEE)
    none
    """

    kind: GuaranteeKind
    strength: Strength

    def __post_init__(self) -> None:
        for name, kinds in (("kind", GuaranteeKind), ("strength", Strength)):
            value, known = getattr(self, name), get_args(kinds)
            if not isinstance(value, str) or value not in known:
                choices = f"{name} must be one of {', '.join(known)}"
                raise InputError(f"{choices}, got {shown(value)}", field="guarantee")
        if (self.kind == "none") != (self.strength == "none"):
            raise InputError("must be 'none' in kind and strength or neither", "guarantee")

    @property
    def in_words(self) -> str:
        """The guarantee as people read it; its kind and strength are for programs."""
        return guarantee(self.kind, self.strength)

    def __bool__(self) -> bool:
        return self.kind != "none"

    def __str__(self) -> str:
        return f"{self.kind}, {self.strength}" if self else "none"

    def __repr__(self) -> str:
        return f"Guarantee({self.kind!r}, {self.strength!r})"


NO_GUARANTEE = Guarantee("none", "none")
"""Nothing is proved."""


class AgentRecord(Message):
    """What became of one agent of the roster.

    Parameters
    ----------
    name : str
        The agent.
    status : {"used", "not asked", "refused", "missing"}
        Whether the release rests on its answer; "not asked" where nobody sends any.
    reason : str
        Why it was refused.
    bytes_up, bytes_down : int
        Encoded bytes it sent and received.
    """

    name: str
    status: Literal["used", "not asked", "refused", "missing"]
    reason: str = ""
    bytes_up: int = 0
    bytes_down: int = 0

    def __post_init__(self) -> None:
        TEXT.count(self.reason, "reason")
        SIZE.whole(self.bytes_up, "bytes_up")
        SIZE.whole(self.bytes_down, "bytes_down")


class ReleaseRecord(Message, Generic[O, S], dict=True):
    """What a round ends with, as it is stored and sent.

    `fedwqcp.federation.release.Release` says what its fields hold.
    """

    round: Round
    guarantee: Guarantee
    assumption: str
    rounds: int
    agents: tuple[AgentRecord, ...]
    outcomes: tuple[O, ...]
    local: dict[str, tuple[Number, ...]] = {}
    received: dict[str, tuple[S | None, ...]] = {}
    absent: dict[str, tuple[str, ...]] = {}
    census: Census | None = None
    signatures: dict[str, tuple[str, ...]] = {}
    provenance: dict[str, str] = {}

    def __post_init__(self) -> None:
        SIZE.whole(self.rounds, "rounds")
        check_provenance(self.provenance)
        if tuple([agent.name for agent in self.agents]) != self.round.agents:
            raise InputError("must be the roster of the round, in its order", field="agents")
        groups = len(self.round.group_names) or 1
        if not self.outcomes or len(self.outcomes) % (groups * len(self.round.alphas)):
            raise InputError("must be as many for each level and group", field="outcomes")
        if not set(map(len, self.local.values())) <= {len(self.outcomes)}:
            raise InputError("must hold one threshold for each outcome", field="local")

    @cached_property
    def used(self) -> tuple[str, ...]:
        """The agents that the thresholds rest on."""
        return tuple([a.name for a in self.agents if a.status in ("used", "not asked")])

    @property
    def refused(self) -> dict[str, str]:
        """The agents whose answer was refused, with the reason."""
        return {a.name: a.reason for a in self.agents if a.status == "refused"}

    @property
    def missing(self) -> tuple[str, ...]:
        """The agents that did not answer."""
        return tuple(a.name for a in self.agents if a.status == "missing")

    def status(self, agent: str) -> str:
        """Return what became of one agent, in words.

        Parameters
        ----------
        agent : str
            Name of the agent.

        Returns
        -------
        str
            ``used``, ``refused``, ``no answer``, or ``not asked`` where each agent predicts from
            its own data alone.
        """
        status = self.record(agent).status
        return "no answer" if status == "missing" else status

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
        if not isinstance(agent, str) or agent not in self._records:
            raise InputError(unknown_agent(agent, self._records))
        return self._records[agent]

    @cached_property
    def _records(self) -> dict[str, AgentRecord]:
        """The entries of the agents by name."""
        return {record.name: record for record in self.agents}

    def threshold(
        self,
        agent: str | None,
        alpha: float | None = None,
        group: str | int | None = None,
    ) -> float | Floats:
        """Return the threshold of one agent.

        Parameters
        ----------
        agent : str or None
            Name of the agent; None for a site that took no part, where all agents share one
            threshold. Only a guarantee for new agents then applies to it.
        alpha : float, optional
            Which level, where the round has several.
        group : str or int, optional
            In a round by group, the name of one.

        Returns
        -------
        float or Floats
            A float; one per label, shape (C,); or one per column of the score, shape (2,).

        Raises
        ------
        InputError
            If the agent, level or group is not part of the round, or the agent's threshold needs
            its own data (`fedwqcp.federation.predict.thresholds`).
        """

        def _of_group(index: int) -> Floats:
            """Return the threshold of one group."""
            values = [self._value(agent, task) for task in self.tasks_of(alpha, index)]
            return np.array(values if len(values) > 1 else values[0], dtype=np.float64)

        threshold = threshold_by(self.round, _of_group, group)
        return threshold if threshold.ndim else float(threshold)

    def by_group(self, agent: str | None, alpha: float | None = None) -> dict[str, float | Floats]:
        """Return the threshold of every group, by name.

        Parameters
        ----------
        agent : str or None
            Name of the agent, as `threshold` takes it.
        alpha : float, optional
            Which level, where the round has several.

        Returns
        -------
        dict
            Where a threshold is +inf, sets of the group exclude nothing; empty without groups.
        """
        return {name: self.threshold(agent, alpha, name) for name in self.round.group_names}

    def tasks_of(self, alpha: float | None = None, group: int = 0) -> range:
        """Return which outcomes belong to a level and to the group at a place.

        Positions in ``outcomes``, one for each column of the score. The level may be left out where
        the round has one.
        """
        alphas, alpha = self.round.alphas, plain(alpha)
        if alpha is None and len(alphas) == 1:
            level = 0
        elif (type(alpha) is float or fits(alpha, float)) and alpha in alphas:
            level = alphas.index(alpha)
        else:
            levels = ", ".join(f"{level:g}" for level in alphas)
            if alpha is None:
                raise InputError(
                    f"the round has several levels, {levels}",
                    cure=("pass alpha, one of them", "pass --alpha, one of them"),
                )
            raise InputError(
                f"alpha must be a level of the round, one of {levels}, got {shown(alpha)}"
            )
        groups = len(self.round.group_names) or 1
        columns = len(self.outcomes) // (groups * len(alphas))
        first = (level * groups + group) * columns
        return range(first, first + columns)

    def position(self, agent: str | None, task: int = 0) -> int | None:
        """Return the place of an agent among those whose answers a task was solved with.

        None if its answer was not used. Which task matters where agents have no point of a group.
        """
        return None if agent is None else self._places_in(task).get(agent)

    def count_in(self, task: int) -> int:
        """Return with how many agents' answers a task was solved."""
        return len(self._places_in(task))

    def took_no_part(self, agent: str | None, task: int) -> bool:
        """Tell whether a used agent took no part in a task, having no point of its group.

        Then a threshold of its own would be +inf.
        """
        return agent in self._places[None] and agent not in self._places_in(task)

    @cached_property
    def _places(self) -> dict[str | None, dict[str, int]]:
        """Where each used agent stands among them; and by group, among those with points of it."""
        positions: dict[str | None, dict[str, int]] = {
            None: {name: position for position, name in enumerate(self.used)}
        }
        for group, names in self.absent.items():
            absent = set(names)
            there = (name for name in self.used if name not in absent)
            positions[group] = {name: position for position, name in enumerate(there)}
        return positions

    def _places_in(self, task: int) -> dict[str, int]:
        """Return where agents stand among those whose answers a task was solved with."""
        names = self.round.group_names
        if not self.absent or not names:
            return self._places[None]
        columns = len(self.outcomes) // (len(names) * len(self.round.alphas))
        return self._places.get(names[task // columns % len(names)], self._places[None])

    def public(self) -> Self:
        """Return what is sent to agents: nothing that another agent answered.

        The same without ``local``, ``received`` and ``signatures``; and where all
        agents get the same, without ``absent``.
        """
        same = all(outcome.same_for_all for outcome in self.outcomes)
        absent = {} if same else self.absent
        return replace(self, local={}, received={}, absent=absent, signatures={})

    def _value(self, agent: str | None, task: int) -> Number:
        """Return the threshold of one task, or say why there is none."""
        value = self.known(agent, task)
        if value is None and agent is None:
            raise InputError(
                f"{self.round.method.name} gives each agent its own threshold, and a site that "
                "took no part has none: use 'new-agent-cp', or calibrate with rows of its own"
            )
        if value is None and isinstance(self.outcomes[task], PerAgentThresholds):
            status = "left out" if self.census else self.record(str(agent)).status
            why = "it did not answer" if status == "missing" else f"its answer was {status}"
            raise InputError(
                f"agent {agent!r} has no threshold: {why}; it gets one in the next round that it "
                "answers, or by itself with split-cp and its calibration data"
            )
        if value is None:
            raise InputError(
                f"{self.round.method.name} leaves the threshold to the agent's own calibration "
                "data, which no file of a release holds",
                cure=(
                    "pass calibration=Outputs(probs, labels, ids) to predict_set",
                    "pass the file that was calibrated with, --calibration FILE",
                ),
            )
        return value

    def known(self, agent: str | None, task: int) -> Number | None:
        """Return the threshold of one task, None where there is none without an agent's data."""
        if agent is None:
            return self.outcomes[task].threshold(None)
        if not self.census:
            self.record(agent)  # or refuse one that is unknown
        if agent in self.local:
            return self.local[agent][task]
        value = self.outcomes[task].threshold(self.position(agent, task))
        return inf if value is None and self.took_no_part(agent, task) else value


def threshold_by(
    round: Round, of_group: Callable[[int], Floats], group: str | int | None = None
) -> Floats:
    """Return the threshold of one group, or where thresholds are by label, of every label.

    ``of_group`` gives the threshold of the group at a place: shape () shared, (C,) per label or
    (columns,) per column of the score. A round by label needs no group: its candidate labels are
    the groups, and shape (C,) comes back.
    """
    names = round.group_names
    if not names:
        if group is not None:
            raise InputError("the round has one threshold for all groups: leave group out")
        return of_group(0)
    if round.by == "label":
        labels = range(len(names)) if group is None else [place_of(group, names)]
        values = [_of_label(of_group(label), label) for label in labels]
        return np.array(values if group is None else values[0])
    if group is None:
        raise InputError(
            f"the round has a threshold for each group: pass group, one of {named(names, 12)}"
        )
    return of_group(place_of(group, names))


def place_of(group: object, names: tuple[str, ...]) -> int:
    """Return where one group stands."""
    text = str(group) if isinstance(group, str | int | np.integer) else None
    if text not in names:
        raise InputError(f"group must be one of {named(names, 12)}, got {shown(group)}")
    return names.index(text)


def _of_label(threshold: Floats, label: int) -> Floats:
    """Return what a group of one label says of that label."""
    if not threshold.ndim:
        return threshold
    return np.asarray(threshold[label if len(threshold) > 1 else 0])
