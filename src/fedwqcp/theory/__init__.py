"""The paper's decomposition and bounds on data, its limit as a simulation, and a diagnosis.

Nothing here is needed to run a method; it says what to expect of one.
"""

from fedwqcp.theory._evidence import Finding
from fedwqcp.theory.bounds import (
    ShiftBound,
    label_shift_bound,
    spread_bound,
    stability_bound,
    total_variation,
)
from fedwqcp.theory.decomposition import Decomposition, decompose, mixture_quantile
from fedwqcp.theory.diagnosis import Diagnosis, diagnose
from fedwqcp.theory.laws import ScoreLaw
from fedwqcp.theory.simulation import Simulation, many_agents_limit, simulate

__all__ = [
    "Decomposition",
    "Diagnosis",
    "Finding",
    "ScoreLaw",
    "ShiftBound",
    "Simulation",
    "decompose",
    "diagnose",
    "label_shift_bound",
    "many_agents_limit",
    "mixture_quantile",
    "simulate",
    "spread_bound",
    "stability_bound",
    "total_variation",
]
