"""Releases of every kind that a predictor is made of, each with the data of its agents."""

from __future__ import annotations

import numpy as np

import fedwqcp as fw
from fedwqcp import methods

AGENTS = ("st-mary", "lakeside", "köln")
CLASSES = ("melanoma", "nävus", "other")


def classifier(rng, n, C=3, groups=False):
    """Class probabilities with ties and zeros, labels drawn from them, and ids of any script."""
    probs = rng.dirichlet(np.ones(C), n)
    probs[::5] = np.round(probs[::5] * 8) / 8
    probs[::5, 0] += 1 - probs[::5].sum(axis=1)
    probs = np.abs(probs) / np.abs(probs).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1).clip(0, C - 1)
    ids = [f"{rng.integers(10**9)}-påtient-病-{i}" for i in range(n)]
    parts = {"groups": rng.choice(["f", "m"], n)} if groups else {}
    if groups == "several":
        parts["groups"] = [{"old", sex} if sex == "f" else {sex} - {"m"} for sex in parts["groups"]]
    return fw.Outputs(probs, labels, ids, **parts)


def regressor(rng, n):
    """Lower and upper quantiles, which cross now and then, and values."""
    middle = rng.normal(size=n)
    ends = np.column_stack([middle - rng.random(n), middle + rng.random(n) - 0.1])
    return fw.Outputs(ends, middle + 0.4 * rng.normal(size=n))


def several(rng, n):
    """Probabilities of labels that occur together, and which are there."""
    probs = rng.random((n, 4))
    return fw.Outputs(probs, rng.random((n, 4)) < probs)


LABELLED = {"classes": CLASSES}
KINDS = {
    "auto": (classifier, LABELLED),
    "three-levels": (classifier, {"alpha": (0.1, 0.2, 0.3), **LABELLED}),
    "by-label": (classifier, {"by": "label", **LABELLED}),
    "by-group": (classifier, {"by": "group", "data": {"groups": True}}),
    "overlapping": (classifier, {"by": "group", "data": {"groups": "several"}}),
    "split-cp": (classifier, {"method": "split-cp", "score": "raps"}),
    "fedwq-cp": (classifier, {"method": "fedwq-cp", "score": "lac", **LABELLED}),
    "fedls-cp": (classifier, {"method": "fedls-cp", "score": "saps"}),
    "guarded-median-cp": (classifier, {"method": "guarded-median-cp", "rule": "until"}),
    "fcp": (classifier, {"method": methods.get("fcp", sketch="order"), "score": "ordinal-aps"}),
    "fed-crc": (several, {"method": "fed-crc", "score": "multi-label"}),
    "cqr": (regressor, {"method": "split-cp", "score": "cqr"}),
    "cqr-two-columns": (regressor, {"method": "split-cp", "score": fw.CQR(symmetric=False)}),
}


def released(name, seed=3):
    """Return a release, the calibration data by agent, and new rows."""
    make, options = KINDS[name]
    rng, options = np.random.default_rng(seed), {"alpha": 0.2, **options}
    data = options.pop("data", {})
    cal = {agent: make(rng, 60, **data) for agent in AGENTS}
    return fw.calibrate(cal, **options), cal, make(rng, 50, **data)


def predicted(predictor, new, **options):
    """Predict rows with a predictor, whatever its score."""
    if isinstance(predictor.score_object, fw.scores.IntervalScore):
        return predictor.predict_interval(new.values, groups=new.groups, **options)
    return predictor.predict_set(new.values, ids=new.ids, groups=new.groups, **options)


def arrays(found):
    """Return sets or intervals as arrays."""
    return (found.mask,) if isinstance(found, fw.sets.LabelSets) else (found.lower, found.upper)
