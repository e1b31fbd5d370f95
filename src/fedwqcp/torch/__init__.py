"""Scores, sets and thresholds on PyTorch tensors, where they live; results are those of numpy.

>>> import torch
>>> import fedwqcp as fw
>>> from fedwqcp.torch import TensorLabelScore, conformal_quantile
>>> aps = TensorLabelScore(fw.APS(randomized=False))
>>> probs = torch.tensor([[0.5, 0.25, 0.25], [0.75, 0.125, 0.125]])
>>> aps.of(probs, torch.tensor([1, 0])).tolist()
[0.75, 0.75]
>>> aps.invert(probs, 0.75).tolist()
[[True, True, False], [True, False, False]]
>>> conformal_quantile(torch.tensor([0.3, 0.1, 0.2, 0.4], dtype=torch.float64), alpha=0.2)
0.4

Tensors of the CPU share their memory with the numpy kernels. On a CUDA device one pass over the
probabilities checks and scores them, or finds the sets, without a sort (by Triton, which torch
brings along); where that does not fit, plain torch operations do the same in blocks.
"""

from fedwqcp.torch.intervals import TensorIntervals, TensorIntervalScore
from fedwqcp.torch.labels import Measured, TensorLabelScore
from fedwqcp.torch.quantile import conformal_quantile, uniforms

__all__ = [
    "Measured",
    "TensorIntervalScore",
    "TensorIntervals",
    "TensorLabelScore",
    "conformal_quantile",
    "uniforms",
]
