"""Whether averaging is safe, what to use instead, and the paper's decomposition and bounds on data.

Nothing here is needed to run a method; it says what to expect of one.
"""

from fedwqcp.theory.advice import Advice, advise
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
from fedwqcp.theory.diagnosis import Diagnosis, diagnose, diagnose_release, judge

__all__ = [
    "Advice",
    "Decomposition",
    "Diagnosis",
    "ShiftBound",
    "advise",
    "decompose",
    "diagnose",
    "diagnose_release",
    "judge",
    "label_shift_bound",
    "mixture_quantile",
    "spread_bound",
    "stability_bound",
    "total_variation",
]
