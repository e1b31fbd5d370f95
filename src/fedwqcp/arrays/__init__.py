"""Names for array types, and the checks that every array passes at the door.

Past these checks nothing is checked again. An error names a row by its number and never shows a
label, a score or a feature.
"""

from fedwqcp.arrays._classes import as_indicators, as_labels, as_probabilities
from fedwqcp.arrays._groups import as_groups, group_places
from fedwqcp.arrays._numbers import (
    SUM_TOLERANCE,
    as_alpha,
    as_floats,
    as_scores,
    as_uniforms,
    as_usual_alpha,
    real_array,
    several_columns,
)
from fedwqcp.arrays._types import Bools, Floats, Labels, Probabilities, Texts

__all__ = [
    "SUM_TOLERANCE",
    "Bools",
    "Floats",
    "Labels",
    "Probabilities",
    "Texts",
    "as_alpha",
    "as_floats",
    "as_groups",
    "as_indicators",
    "as_labels",
    "as_probabilities",
    "as_scores",
    "as_uniforms",
    "as_usual_alpha",
    "group_places",
    "real_array",
    "several_columns",
]
