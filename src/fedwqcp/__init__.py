"""Federated conformal prediction: agents agree on a threshold, their data stay where they are.

Each agent holds a frozen model and private calibration data. It computes nonconformity scores and
sends a few numbers; the server returns a threshold that turns every model's output into prediction
sets or intervals.
"""

from fedwqcp import methods, scores
from fedwqcp.federation.transport.local import calibrate
from fedwqcp.methods import Calibration
from fedwqcp.quantile import conformal_quantile, conformal_rank, weighted_quantile
from fedwqcp.scores import uniforms
from fedwqcp.scores.aps import APS
from fedwqcp.scores.lac import LAC

__version__ = "0.1.0"

__all__ = [
    "APS",
    "LAC",
    "Calibration",
    "calibrate",
    "conformal_quantile",
    "conformal_rank",
    "methods",
    "scores",
    "uniforms",
    "weighted_quantile",
]
