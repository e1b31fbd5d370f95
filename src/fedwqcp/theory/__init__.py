"""Whether averaging is safe, what to use instead, and the paper's decomposition and bounds on data.

Nothing here is needed to run a method; it says what to expect of one.
"""

from fedwqcp.theory.bounds import (
    Decomposition,
    ShiftBound,
    decompose,
    label_shift_bound,
    mixture_quantile,
    spread_bound,
    stability_bound,
    total_variation,
)
from fedwqcp.theory.diagnosis import (
    Diagnosis,
    Finding,
    GroupDiagnosis,
    diagnose,
    diagnose_groups,
    diagnose_release,
    judge,
)
from fedwqcp.theory.method_choice import Advice, advise

__all__ = [
    "Advice",
    "Decomposition",
    "Diagnosis",
    "Finding",
    "GroupDiagnosis",
    "ShiftBound",
    "advise",
    "decompose",
    "diagnose",
    "diagnose_groups",
    "diagnose_release",
    "judge",
    "label_shift_bound",
    "mixture_quantile",
    "spread_bound",
    "stability_bound",
    "total_variation",
]
