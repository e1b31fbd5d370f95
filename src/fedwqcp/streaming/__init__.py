"""Calibration and prediction over batches, with memory that does not grow with the data.

>>> import numpy as np
>>> from fedwqcp.streaming import conformal_quantiles
>>> halves = [np.array([0.3, 0.1]), np.array([0.2, 0.4])]
>>> conformal_quantiles(halves, [0.2, 0.5])
(0.4, 0.3)
"""

from fedwqcp.streaming.batches import (
    Arrays,
    Batch,
    Evaluation,
    NpyFiles,
    ParquetFile,
    evaluate,
    predict,
    scores_of,
)
from fedwqcp.streaming.quantiles import Tail, conformal_quantiles, order_statistics

__all__ = [
    "Arrays",
    "Batch",
    "Evaluation",
    "NpyFiles",
    "ParquetFile",
    "Tail",
    "conformal_quantiles",
    "evaluate",
    "order_statistics",
    "predict",
    "scores_of",
]
