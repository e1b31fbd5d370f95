"""Which method suits a situation: one short table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from fedwqcp.errors import InputError
from fedwqcp.methods.new_agent_cp import NewAgentCP
from fedwqcp.registry import Setting, typed
from fedwqcp.words.rounds import advice

Situation: TypeAlias = Literal[
    "own", "mixture", "new-site", "few-sites", "private", "masked", "safe", "risk"
]

_METHODS: dict[Situation, str] = {
    "own": "auto",
    "mixture": "fcp",
    "new-site": "new-agent-cp",
    "few-sites": "max-cp",
    "private": "private-fedwq-cp",
    "masked": "fedwq-cp",
    "safe": "fedwq-cp",
    "risk": "fed-crc",
}


@dataclass(frozen=True)
class Advice:
    """Which method to use; it prints as this and one sentence why.

    Parameters
    ----------
    method : str
        Name of the method.
    code : str
        The situation that decided.
    settings : dict
        Settings of the method, where they are not the default.
    numbers : dict
        What decided, by name.
    """

    method: str
    code: Situation
    settings: dict[str, Setting] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        named = ", ".join(f"{name}={typed(value)}" for name, value in self.settings.items())
        return advice(self.method, named, self.code)


def advise(situation: Situation = "own", *, agents: int = 0, alpha: float = 0.1) -> Advice:
    """Return the method for a situation.

    Parameters
    ----------
    situation : str, optional
        ``"own"``: each agent predicts people like its own; ``"mixture"``: people of all agents;
        ``"new-site"``: a site joins later, without labels; ``"private"``, ``"masked"``, ``"risk"``:
        what a round must be; ``"safe"``: averaging was found safe.
    agents : int, optional
        For a new site, how many agents there are.
    alpha : float, optional
        For a new site, the miscoverage level.

    Returns
    -------
    Advice
        The method, and why.

    Raises
    ------
    InputError
        If there is no such situation.

    Examples
    --------
    >>> print(advise("new-site", agents=4, alpha=0.1).method)
    max-cp
    """
    if situation not in get_args(Situation):
        raise InputError(f"must be one of {', '.join(get_args(Situation))}", field="situation")
    numbers: dict[str, float] = {}
    if situation == "new-site":
        needed = NewAgentCP().least_agents(alpha, agents)
        numbers = {"agents": agents, "needed": needed or 0}
        situation = "new-site" if needed is not None and agents >= needed else "few-sites"
    settings: dict[str, Setting] = {"sketch": "order"} if situation == "mixture" else {}
    return Advice(_METHODS[situation], situation, settings, numbers)
