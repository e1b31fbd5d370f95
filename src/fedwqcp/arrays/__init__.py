"""Names for array types, and the checks that every array passes at the door.

Past these checks nothing is checked again. An error names a row by its number and never shows a
label, a score or a feature.
"""

from fedwqcp.arrays._classes import SUM_TOLERANCE, as_labels, as_probabilities
from fedwqcp.arrays._numbers import as_alpha, as_floats, as_scores, as_uniforms, real_array
from fedwqcp.arrays._types import Bools, Floats, Labels, Probabilities

__all__ = [
    "SUM_TOLERANCE",
    "Bools",
    "Floats",
    "Labels",
    "Probabilities",
    "as_alpha",
    "as_floats",
    "as_labels",
    "as_probabilities",
    "as_scores",
    "as_uniforms",
    "real_array",
]
