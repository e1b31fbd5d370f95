"""What a site serves: thresholds that are found once, in a file of their own, without any row.

================  ==================================================================
file              what it holds
================  ==================================================================
``predictor.py``  `Predictor`: the file, its checks, and sets or intervals from it
``onnx.py``       the same as a graph for ONNX runtimes
================  ==================================================================

``predictor.js`` does it in JavaScript, and ``fedwqcp agent page`` puts it into ``page.html``.
"""

from fedwqcp.serve.predictor import Level, Predictor, model_digest, parse

__all__ = ["Level", "Predictor", "model_digest", "parse"]
