"""
Cover every class
=================

One threshold covers nine digits of ten on average, but one class may be covered far less. With
``by="label"`` each class has a threshold of its own.
"""

# %%
# Four agents share a model that is bad at some digits: naive Bayes on single pixels.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import fedwqcp as fw
from fedwqcp.metrics import by_class
from fedwqcp.report.figures import COLOURS, STYLE

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(2)
train, held, test = map(np.sort, np.split(rng.permutation(len(y)), [257, 1027]))
probs = GaussianNB(var_smoothing=0.05).fit(X[train], y[train]).predict_proba(X)
score = fw.LAC()


def divided(labels, agents):
    """Divide the rows of each class between agents by a Dirichlet draw."""
    parts = [[] for _ in range(agents)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(rng.dirichlet(np.ones(agents)))[:-1] * len(rows)
        for part, own in zip(parts, np.split(rows, np.rint(ends).astype(int)), strict=True):
            part.append(own)
    return [np.sort(np.concatenate(part)) for part in parts]


agents = {
    f"agent-{k}": fw.Calibration(
        score.of(probs[held[share]], y[held[share]]), labels=y[held[share]], n_classes=10
    )
    for k, share in enumerate(divided(y[held], 4))
}

# %%
# FCP finds the quantile of all agents' scores together from counts alone; by label it does so ten
# times, each time with the agents that have points of the class.

releases = {
    "one threshold": fw.calibrate(agents, method="fcp", alpha=0.1, score=score),
    "by label": fw.calibrate(agents, method="fcp", alpha=0.1, score=score, by="label"),
}
plt.rcParams.update(STYLE)
fig, panel = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for place, (name, release) in enumerate(releases.items()):
    sets = score.invert(probs[test], release.threshold("agent-0"))
    rates = by_class(sets, y[test])
    x = np.arange(10) + 0.24 * (place - 0.5)
    panel.vlines(x, [r.low for r in rates], [r.high for r in rates], color=COLOURS[place])
    panel.plot(x, [r.coverage for r in rates], "os"[place], color=COLOURS[place],
               label=f"{name}: {sets.sizes().mean():.2f} labels")  # fmt: skip
panel.axhline(0.9, color="0.35", linestyle="--", linewidth=1)
panel.set_xticks(range(10))
panel.set_xlabel("digit")
panel.set_ylabel("coverage, exact 95 % interval")
panel.legend(frameon=False, loc="lower center")
plt.show()

# %%
# The price is set size, and points: a finite threshold needs nine of each class at alpha = 0.1.
