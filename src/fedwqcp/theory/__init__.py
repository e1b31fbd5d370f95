"""The paper's decomposition and bounds on data, its limit as a simulation, and a diagnosis.

Nothing here is needed to run a method; it says what to expect of one.
"""

from fedwqcp.theory._advice_rules import Advice
from fedwqcp.theory._evidence import Finding
from fedwqcp.theory.advice import advise
from fedwqcp.theory.bounds import (
    ShiftBound,
    label_shift_bound,
    spread_bound,
    stability_bound,
    total_variation,
)
from fedwqcp.theory.decomposition import Decomposition, decompose, mixture_quantile
from fedwqcp.theory.diagnosis import Diagnosis, diagnose
from fedwqcp.theory.groups import GroupDiagnosis, diagnose_groups
from fedwqcp.theory.laws import ScoreLaw
from fedwqcp.theory.simulation import Simulation, many_agents_limit, simulate

__all__ = [
    "Advice",
    "Decomposition",
    "Diagnosis",
    "Finding",
    "GroupDiagnosis",
    "ScoreLaw",
    "ShiftBound",
    "Simulation",
    "advise",
    "decompose",
    "diagnose",
    "diagnose_groups",
    "label_shift_bound",
    "many_agents_limit",
    "mixture_quantile",
    "simulate",
    "spread_bound",
    "stability_bound",
    "total_variation",
]
