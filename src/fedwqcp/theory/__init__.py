"""Whether averaging is safe, and what to use instead.

Nothing here is needed to run a method; it says what to expect of one.
"""

from fedwqcp.theory.advice import Advice, advise
from fedwqcp.theory.diagnosis import Diagnosis, diagnose, diagnose_release, judge

__all__ = ["Advice", "Diagnosis", "advise", "diagnose", "diagnose_release", "judge"]
