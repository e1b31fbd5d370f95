"""Names for array types."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
"""Real numbers in double precision."""

Probabilities: TypeAlias = npt.NDArray[np.floating[Any]]
"""Class probabilities, float32 or float64, shape (n, C)."""

Labels: TypeAlias = npt.NDArray[np.int64]
"""Class labels from 0 to C - 1, shape (n,)."""

Bools: TypeAlias = npt.NDArray[np.bool_]
"""Truth values."""

Texts: TypeAlias = npt.NDArray[np.str_]
"""Text, such as the names of groups."""
