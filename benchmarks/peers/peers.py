"""How each library calibrates and predicts, in the calls its own documentation shows.

Every case is a dictionary from a library to a function without arguments. A library that is not
installed, or has no such method, is left out.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

Case = dict[str, Callable[[], Any]]
ALPHA = 0.1


class AbsentPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for what TorchCP imports for losses and graphs, and the cases never use."""

    names = ("torchsort", "torch_geometric", "transformers", "torchvision")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        del path, target  # the name says it all
        if name.split(".", 1)[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda key: type(key, (), {})  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


class _Given:
    """A fitted model whose outputs are its inputs."""

    def __init__(self, n_classes: int = 0, column: int = 0) -> None:
        self.classes_, self.column, self.is_fitted_ = np.arange(n_classes), column, True

    def fit(self, X: Any, y: Any) -> _Given:
        del X, y  # nothing is learned
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1) if len(self.classes_) else X[:, self.column]


def _classifier(n_classes: int) -> Any:
    from sklearn.base import BaseEstimator, ClassifierMixin

    return type("Given", (_Given, ClassifierMixin, BaseEstimator), {})(n_classes)


def _regressor(column: int) -> Any:
    from sklearn.base import BaseEstimator, RegressorMixin

    return type("Given", (_Given, RegressorMixin, BaseEstimator), {})(0, column)


def aps(probs: Any, labels: Any, threshold: float) -> dict[str, Case]:
    """Deterministic APS: scores and threshold, sets, coverage and sizes."""
    cases: dict[str, Case] = {"calibrate": {}, "sets": {}, "measure": {}}
    for name, add in (("TorchCP", _torchcp), ("MAPIE", _mapie), ("puncc", _puncc)):
        try:
            calls = add(probs, labels, threshold)
        except ImportError as error:
            print(f"  left out: {error}", file=sys.stderr)
            continue
        for case, call in zip(cases, calls, strict=True):
            cases[case][name] = call
    return cases


def _torchcp(probs: Any, labels: Any, threshold: float) -> tuple[Any, Any, Any]:
    sys.meta_path.append(AbsentPackages())
    import torch
    from torchcp.classification.score import APS
    from torchcp.utils.common import calculate_conformal_value

    torch.set_num_threads(1)
    score = APS(score_type="identity", randomized=False)
    p, y, rows = torch.from_numpy(probs), torch.from_numpy(labels), torch.arange(len(labels))

    def sets() -> Any:
        return score(p) <= threshold

    def measure() -> Any:
        mask = sets()
        return mask[rows, y], mask.sum(dim=1)

    return lambda: calculate_conformal_value(score(p, y), ALPHA), sets, measure


def _mapie(probs: Any, labels: Any, threshold: float) -> tuple[Any, Any, Any]:
    del threshold  # MAPIE finds its own, which is the same
    from mapie.classification import SplitConformalClassifier

    def fresh() -> Any:
        model = SplitConformalClassifier(
            _classifier(probs.shape[1]), 1 - ALPHA, conformity_score="aps", prefit=True
        )
        return model.conformalize(probs, labels)

    ready: list[Any] = []

    def predict() -> Any:
        if not ready:
            ready.append(fresh())
        return ready[0].predict_set(probs)

    def measure() -> Any:
        mask = predict()[1][:, :, 0]
        return mask[np.arange(len(labels)), labels], mask.sum(axis=1)

    return fresh, predict, measure


def _puncc(probs: Any, labels: Any, threshold: float) -> tuple[Any, Any, Any]:
    from deel.puncc.api.nonconformity_scores import raps_score_builder
    from deel.puncc.api.prediction_sets import raps_set_builder

    score, build = raps_score_builder(0, 1, rand=False), raps_set_builder(0, 1, rand=False)
    level = min(1.0, np.ceil((len(labels) + 1) * (1 - ALPHA)) / len(labels))

    def measure() -> Any:
        (sets,) = build(probs, threshold)
        return [y in row for y, row in zip(labels, sets, strict=True)], list(map(len, sets))

    return (
        lambda: np.quantile(score(probs, labels), level, method="inverted_cdf"),
        lambda: build(probs, threshold),
        measure,
    )


def cqr(outputs: Any, y: Any, threshold: float) -> dict[str, Case]:
    """Conformalised quantile regression."""
    cal: Case = {}
    sets: Case = {}
    level = min(1.0, np.ceil((len(y) + 1) * (1 - ALPHA)) / len(y))
    try:
        from deel.puncc.api.nonconformity_scores import cqr_score
        from deel.puncc.api.prediction_sets import cqr_interval

        cal["puncc"] = lambda: np.quantile(cqr_score(outputs, y), level, method="inverted_cdf")
        sets["puncc"] = lambda: cqr_interval(outputs, threshold)
    except ImportError as error:
        print(f"  left out: {error}", file=sys.stderr)
    try:
        sys.meta_path.append(AbsentPackages())
        import torch
        from torchcp.regression.score import CQR
        from torchcp.utils.common import calculate_conformal_value

        score, o, t = CQR(), torch.from_numpy(outputs), torch.from_numpy(y)
        cal["TorchCP"] = lambda: calculate_conformal_value(score(o, t), ALPHA)
        sets["TorchCP"] = lambda: score.generate_intervals(o, torch.tensor([[threshold]]))
    except ImportError as error:
        print(f"  left out: {error}", file=sys.stderr)
    return {"calibrate": cal, "predict": sets}


def residual(outputs: Any, y: Any, threshold: float) -> dict[str, Case]:
    """Absolute residuals."""
    cal: Case = {}
    sets: Case = {}
    level = min(1.0, np.ceil((len(y) + 1) * (1 - ALPHA)) / len(y))
    try:
        from deel.puncc.api.nonconformity_scores import absolute_difference
        from deel.puncc.api.prediction_sets import constant_interval

        cal["puncc"] = lambda: np.quantile(
            absolute_difference(outputs, y), level, method="inverted_cdf"
        )
        sets["puncc"] = lambda: constant_interval(outputs, threshold)
    except ImportError as error:
        print(f"  left out: {error}", file=sys.stderr)
    try:
        from crepes import ConformalRegressor

        cal["crepes"] = lambda: ConformalRegressor().fit(y - outputs)
        fitted = ConformalRegressor().fit(y - outputs)
        sets["crepes"] = lambda: fitted.predict_int(outputs, confidence=1 - ALPHA)
    except ImportError as error:
        print(f"  left out: {error}", file=sys.stderr)
    try:
        from mapie.regression import SplitConformalRegressor

        X = outputs[:, None]

        def fresh() -> Any:
            return SplitConformalRegressor(_regressor(0), 1 - ALPHA, prefit=True).conformalize(X, y)

        ready: list[Any] = []

        def predict() -> Any:
            if not ready:
                ready.append(fresh())
            return ready[0].predict_interval(X)

        cal["MAPIE"], sets["MAPIE"] = fresh, predict
    except ImportError as error:
        print(f"  left out: {error}", file=sys.stderr)
    return {"calibrate": cal, "predict": sets}
