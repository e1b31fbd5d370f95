"""One agent's fitted scikit-learn model, with prediction sets.

>>> from sklearn.datasets import load_iris
>>> from sklearn.linear_model import LogisticRegression
>>> import fedwqcp as fw
>>> X, y = load_iris(return_X_y=True)
>>> model = LogisticRegression(max_iter=500).fit(X[::2], y[::2])
>>> agent = ConformalClassifier(model, score=fw.LAC())
>>> release = fw.calibrate({"here": agent.calibration(X[1::4], y[1::4])}, alpha=0.1)
>>> sets = agent.use(release.threshold("here")).predict_set(X[3::4])
>>> len(sets)
37
"""

from fedwqcp.sklearn._classifier import ConformalClassifier
from fedwqcp.sklearn._regressor import ConformalRegressor

__all__ = ["ConformalClassifier", "ConformalRegressor"]
