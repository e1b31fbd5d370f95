"""The paper's decomposition and bounds on data, its limit as a simulation, and a diagnosis.

Nothing here is needed to run a method; it says what to expect of one.
"""

from fedwqcp.theory.advice import Advice, advise
from fedwqcp.theory.bounds import (
    ShiftBound,
    label_shift_bound,
    spread_bound,
    stability_bound,
    total_variation,
)
from fedwqcp.theory.decomposition import Decomposition, decompose, mixture_quantile
from fedwqcp.theory.diagnosis import (
    Diagnosis,
    Finding,
    GroupDiagnosis,
    diagnose,
    diagnose_groups,
    diagnose_release,
    judge,
)
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
    "diagnose_release",
    "judge",
    "label_shift_bound",
    "many_agents_limit",
    "mixture_quantile",
    "simulate",
    "spread_bound",
    "stability_bound",
    "total_variation",
]
