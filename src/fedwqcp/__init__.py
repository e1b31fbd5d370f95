"""Federated conformal prediction: agents agree on a threshold, their data stay where they are.

Each agent holds a frozen model and private calibration data. It computes nonconformity scores and
sends a few numbers; the server returns a threshold that turns every model's output into prediction
sets or intervals.
"""

from fedwqcp import methods, scores
from fedwqcp._versions import __version__ as __version__
from fedwqcp._versions import show_versions
from fedwqcp.api import calibrate, federated_quantile
from fedwqcp.errors import (
    CalibrationRowsWarning,
    ExpiredPredictorWarning,
    FewPointsWarning,
    InfiniteThresholdWarning,
    LabelMismatchWarning,
    UnseenLabelsWarning,
)
from fedwqcp.federation.plan import preset
from fedwqcp.federation.record import load, save
from fedwqcp.federation.release import Release
from fedwqcp.methods import Calibration
from fedwqcp.outputs import MaskOutputs, Outputs
from fedwqcp.quantile import conformal_quantile, conformal_rank, weighted_quantile
from fedwqcp.readers.batches import OutputBatches
from fedwqcp.scores import fit_temperature, softmax, uniforms
from fedwqcp.scores.absolute_residual import AbsoluteResidual
from fedwqcp.scores.aps import APS
from fedwqcp.scores.cqr import CQR
from fedwqcp.scores.lac import LAC
from fedwqcp.scores.mask import Mask
from fedwqcp.scores.multi_label import MultiLabel
from fedwqcp.scores.normalized_residual import NormalizedResidual
from fedwqcp.scores.ordinal_aps import OrdinalAPS
from fedwqcp.scores.raps import RAPS
from fedwqcp.scores.saps import SAPS
from fedwqcp.serve import Predictor
from fedwqcp.wire.release import Guarantee

__all__ = [
    "APS",
    "CQR",
    "LAC",
    "RAPS",
    "SAPS",
    "AbsoluteResidual",
    "Calibration",
    "CalibrationRowsWarning",
    "ExpiredPredictorWarning",
    "Guarantee",
    "FewPointsWarning",
    "InfiniteThresholdWarning",
    "Mask",
    "MaskOutputs",
    "MultiLabel",
    "NormalizedResidual",
    "LabelMismatchWarning",
    "OrdinalAPS",
    "OutputBatches",
    "Outputs",
    "Predictor",
    "Release",
    "UnseenLabelsWarning",
    "calibrate",
    "conformal_quantile",
    "conformal_rank",
    "federated_quantile",
    "fit_temperature",
    "load",
    "methods",
    "preset",
    "save",
    "scores",
    "show_versions",
    "softmax",
    "uniforms",
    "weighted_quantile",
]
