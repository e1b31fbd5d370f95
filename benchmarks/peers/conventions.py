"""Which calibration score each library takes as its threshold: the table of ranks in the docs.

Scores are 1 to n, so that the threshold is its own rank. In the environment that ``run.py --setup
build/peers`` makes: ``build/peers/bin/python benchmarks/peers/conventions.py``.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import torch
from crepes import ConformalRegressor
from deel.puncc.api.calibration import BaseCalibrator
from mapie.utils import _compute_classification_quantile
from peers import AbsentPackages  # beside this file

import fedwqcp as fw

CASES = ((8, 0.1), (9, 0.1), (40, 0.1), (18, 0.05), (19, 0.05), (9, 0.7), (999, 0.059))


def mapie(scores, alpha):
    return _compute_classification_quantile(scores[:, None], np.array([alpha]))[0]


def crepes(scores, alpha):
    fitted = ConformalRegressor()
    fitted.fit(scores)
    return fitted.predict_int(y_hat=np.zeros(1), confidence=1 - alpha)[0, 1]


def puncc(scores, alpha):
    fitted = BaseCalibrator(nonconf_score_func=np.subtract, pred_set_func=None)
    fitted.fit(y_pred=scores, y_true=np.zeros(len(scores)))
    return fitted.compute_quantile(alpha=alpha)


def torchcp(scores, alpha):
    from torchcp.utils.common import calculate_conformal_value

    return calculate_conformal_value(torch.from_numpy(scores), alpha)


def rank(threshold, n, alpha):
    """Return the rank that a library takes, or what it does instead."""
    try:
        found = float(np.ravel(threshold(np.arange(1.0, n + 1), alpha))[0])
    except ValueError:
        return "`ValueError`"
    return "+inf" if np.isinf(found) else f"{found:g}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.meta_path.append(AbsentPackages())
    peers = (fw.conformal_quantile, mapie, crepes, puncc, torchcp)
    for n, alpha in CASES:
        print("|", " | ".join([f"{n}, {alpha:g}", *(rank(each, n, alpha) for each in peers)]), "|")
