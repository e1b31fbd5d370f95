"""What is proved of a released threshold: for whom, and how firmly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fedwqcp.errors import InputError

GuaranteeKind: TypeAlias = Literal[
    "none",
    "marginal-agent",
    "marginal-mixture",
    "marginal-iid",
    "training-conditional",
    "target-shift",
    "multi-distribution",
    "new-agent-marginal",
    "new-agent-confident",
    "risk-agent",
    "risk-mixture",
    "risk-iid",
]
"""For whom a threshold covers."""

Strength: TypeAlias = Literal["none", "approximate", "asymptotic", "finite-sample"]
"""How firmly it is proved."""

KINDS: dict[GuaranteeKind, str] = {
    "none": "nothing is proved",
    "marginal-agent": "coverage at an agent whose test points are exchangeable with its "
    "calibration points",
    "marginal-mixture": "coverage of a test point that comes from the mixture of the agents",
    "marginal-iid": "coverage if scores are independent and identically distributed at and across "
    "agents",
    "training-conditional": "coverage given the calibration data, with a stated probability, if "
    "scores are independent and identically distributed at and across agents",
    "target-shift": "coverage at a target distribution, under an assumption on the shift",
    "multi-distribution": "coverage at every agent that counts, and under every mixture of them",
    "new-agent-marginal": "coverage of a point of a new agent that is exchangeable with those that "
    "took part",
    "new-agent-confident": "a threshold that a new agent, exchangeable with those that took part, "
    "would with a stated probability not exceed by its own data",
    "risk-agent": "expected loss at an agent whose test points are exchangeable with its "
    "calibration points",
    "risk-mixture": "expected loss of a test point that comes from the mixture of the agents",
    "risk-iid": "expected loss if points are independent and identically distributed at and "
    "across agents",
}
"""What each kind means."""

STRENGTHS: dict[Strength, str] = {
    "none": "nothing is proved",
    "approximate": "the level is aimed at, and may be missed by an amount that is not proved",
    "asymptotic": "the level is reached in the limit of large samples",
    "finite-sample": "the level holds for every sample size",
}
"""What each strength means."""


@dataclass(frozen=True, repr=False)
class Guarantee:
    """What is proved of a released threshold, under the assumption that its release states.

    Parameters
    ----------
    kind : str
        For whom, one of `KINDS`.
    strength : str
        How firmly, one of `STRENGTHS`.

    Raises
    ------
    InputError
        If one of them is unknown, or one alone is ``"none"``.

    Examples
    --------
    >>> print(Guarantee("marginal-agent", "finite-sample"))
    marginal-agent, finite-sample
    >>> print(Guarantee("marginal-agent", "finite-sample").after_a_choice())
    marginal-agent, approximate
    >>> print(NO_GUARANTEE)
    none
    """

    kind: GuaranteeKind
    strength: Strength

    def __post_init__(self) -> None:
        for name, known in (("kind", KINDS), ("strength", STRENGTHS)):
            if getattr(self, name) not in known:
                raise InputError(
                    f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}",
                    field="guarantee",
                )
        if (self.kind == "none") != (self.strength == "none"):
            raise InputError(
                "kind and strength must both be 'none' or neither, got "
                f"{self.kind!r} and {self.strength!r}",
                field="guarantee",
            )

    def after_a_choice(self) -> Guarantee:
        """Return what is left of it where the method was chosen by looking at the same data.

        Returns
        -------
        Guarantee
            Approximate at most: no proof accounts for the choice.
        """
        return Guarantee(self.kind, "approximate") if self else self

    def __bool__(self) -> bool:
        return self.kind != "none"

    def __str__(self) -> str:
        return f"{self.kind}, {self.strength}" if self else "none"

    def __repr__(self) -> str:
        return f"Guarantee({self.kind!r}, {self.strength!r})"


NO_GUARANTEE = Guarantee("none", "none")
"""Nothing is proved."""
