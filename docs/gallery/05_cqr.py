"""
Intervals that know where they are unsure
=========================================

Absolute residuals give every input an interval of one length. Conformalised quantile regression
lets the model say where it is unsure, and the federation corrects it.
"""

# %%
# Friedman's regression, with noise that grows with the first input.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor

import fedwqcp as fw
from fedwqcp.metrics import by_group
from fedwqcp.report.figures import COLOURS, STYLE

rng = np.random.default_rng(4)
X, mean = make_friedman1(9000, random_state=4)
y = mean + 4 * X[:, 0] * rng.standard_normal(len(mean))
train, held, test = map(np.sort, np.split(rng.permutation(len(y)), [4500, 6750]))
kinds = KMeans(10, n_init=1, random_state=int(rng.integers(2**31))).fit_predict(X[held])


def divided(labels, agents):
    """Divide the rows of each class between agents by a Dirichlet draw."""
    parts = [[] for _ in range(agents)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(rng.dirichlet(np.ones(agents)))[:-1] * len(rows)
        for part, own in zip(parts, np.split(rows, np.rint(ends).astype(int)), strict=True):
            part.append(own)
    return [np.sort(np.concatenate(part)) for part in parts]


shares = divided(kinds, 4)


def fitted(quantile=None):
    """Return predictions of a model for the mean or for a quantile."""
    loss = "squared_error" if quantile is None else "quantile"
    model = HistGradientBoostingRegressor(
        loss=loss, quantile=quantile, max_iter=60, max_leaf_nodes=8, random_state=0
    )
    return model.fit(X[train], y[train]).predict(X)


outputs = {
    "absolute residual": (fw.AbsoluteResidual(), fitted()),
    "CQR": (fw.CQR(), np.sort(np.column_stack([fitted(0.05), fitted(0.95)]), axis=1)),
}

# %%
# One round of FCP for each score; coverage and length in ten bands of the first input.

bands = np.minimum((X[test][:, 0] * 10).astype(int), 9)
plt.rcParams.update(STYLE)
fig, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for place, (name, (score, said)) in enumerate(outputs.items()):
    agents = {
        f"agent-{k}": score.of(said[held[share]], y[held[share]]) for k, share in enumerate(shares)
    }
    release = fw.calibrate(agents, method="fcp", alpha=0.1, score=score)
    sets = score.invert(said[test], release.threshold("agent-0"))
    found = by_group(sets, y[test], bands)
    x = (np.array([int(rate.group) for rate in found]) + 0.5) / 10
    panels[0].plot(x, [rate.coverage for rate in found], "os"[place] + "-", color=COLOURS[place],
                   label=f"{name}, {sets.cover(y[test]).mean():.3f} in all")  # fmt: skip
    panels[1].plot(x, [rate.size for rate in found], "os"[place] + "-", color=COLOURS[place])
panels[0].axhline(0.9, color="0.35", linestyle="--", linewidth=1)
panels[0].set_ylabel("coverage")
panels[1].set_ylabel("mean length")
for panel in panels:
    panel.set_xlabel("first input")
panels[0].legend(frameon=False)
plt.show()

# %%
# Both cover nine of ten. Residuals do it with intervals that are too long where the noise is small,
# and too short where it is large.
