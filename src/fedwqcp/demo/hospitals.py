"""Four real hospitals with a model of its own kind each."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedwqcp._io import make_folder, write_atomic
from fedwqcp._validation import Floats, Labels
from fedwqcp.errors import InputError, MissingExtraError
from fedwqcp.outputs import Outputs

CLASSES = ("no disease", "disease")
"""What the hospitals' models tell apart: no narrowed coronary artery, or at least one."""

SITES = {
    "cleveland": ("Cleveland", "random forest"),
    "hungarian": ("Budapest", "logistic regression"),
    "switzerland": ("Zurich-Basel", "naive Bayes"),
    "va": ("Long-Beach", "gradient boosting"),
}
"""Name and kind of model of each hospital, by its name in the file."""


@dataclass(frozen=True, eq=False)
class Hospital:
    """One hospital after training: a frozen model's outputs on patients it has not seen.

    ``share`` is that of its patients with disease.
    """

    name: str
    model: str
    patients: int
    share: float
    calibration: Outputs
    test: Outputs

    def with_few(self, n: int) -> Hospital:
        """Keep the first n calibration patients."""
        kept = np.arange(len(self.calibration.values)) < n
        return replace(self, calibration=self.calibration.take(kept))


def hospitals(seed: int = 0) -> tuple[Hospital, ...]:
    """Split each hospital's patients at random (half, quarter, quarter), and train its model."""
    return tuple(hospital(name, model, seed) for name, model in SITES.values())


def hospital(name: str, model: str, seed: int = 0) -> Hospital:
    """Split one hospital's patients, and train a model of a kind; kinds are those of `SITES`."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    site, x, y = read_heart()
    (key,) = (key for key, (known, _) in SITES.items() if known == name)
    rows = np.random.default_rng([seed, *name.encode()]).permutation(np.flatnonzero(site == key))
    train, held, test = np.split(rows, [len(rows) // 2, len(rows) * 3 // 4])
    trained = _untrained(model, seed).fit(x[train], y[train])

    def part(of: npt.NDArray[np.int64]) -> Outputs:
        return Outputs(trained.predict_proba(x[of]), y[of], ids=[f"{name}-{row}" for row in of])

    return Hospital(
        name=name,
        model=model,
        patients=len(rows),
        share=float(np.mean(y[rows])),
        calibration=part(held),
        test=part(test),
    )


@cache
def read_heart() -> tuple[npt.NDArray[np.str_], Floats, Labels]:
    """Return hospital, thirteen columns (NaN where missing) and label of 920 patients."""
    text = (files("fedwqcp.demo") / "heart.csv").read_text(encoding="utf-8")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    x = np.array([[float(cell) if cell else np.nan for cell in row[1:14]] for row in rows])
    x[:, 3:5][x[:, 3:5] == 0] = np.nan  # nobody has a blood pressure or a cholesterol of 0
    sick = np.array([row[14] != "0" for row in rows])
    return np.array([row[0] for row in rows]), x, sick.astype(np.int64)


def write_sites(folder: Path) -> tuple[str, ...]:
    """Write each hospital's outputs as ``cal.npz`` and ``test.npz`` in a folder of its own."""
    written = hospitals()
    for one in written:
        make_folder(folder / one.name)
        for file, part in (("cal", one.calibration), ("test", one.test)):
            assert part.labels is not None
            assert part.ids is not None
            data = io.BytesIO()
            np.savez(data, probs=part.values, labels=part.labels, ids=part.ids)
            write_atomic(folder / one.name / f"{file}.npz", data.getvalue(), shared=True)
    return tuple(one.name for one in written)


def _untrained(kind: str, seed: int) -> Any:
    """Return an untrained model; missing values become the column's median."""
    try:
        from sklearn import ensemble, linear_model, naive_bayes
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as error:
        raise MissingExtraError("training the demo's models", "demo") from error
    trees = {"min_samples_leaf": 3, "random_state": seed}
    boosted = {"n_estimators": 50, "max_depth": 2, "random_state": seed}
    models: dict[str, Any] = {
        "random forest": ensemble.RandomForestClassifier(**trees),
        "logistic regression": linear_model.LogisticRegression(),
        # smoothed: of 61 patients that train it, some four have no disease
        "naive Bayes": naive_bayes.GaussianNB(var_smoothing=0.01),
        "gradient boosting": ensemble.GradientBoostingClassifier(**boosted),
    }
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    return make_pipeline(filled, StandardScaler(), models[kind])
