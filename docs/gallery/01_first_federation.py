"""
A first federation
==================

Three agents hold handwritten digits and a model each. They agree on one threshold; each sends
one number and one count. Does every agent get the coverage that was asked for?
"""

# %%
# The data are the 1797 digits that come with scikit-learn. A third trains the models, a third
# calibrates, a third tests. Calibration data are divided unevenly, by a Dirichlet draw over labels.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import fedwqcp as fw
from fedwqcp.metrics import measure
from fedwqcp.report.figures import COLOURS, STYLE

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
train, held, test = map(np.sort, np.split(rng.permutation(len(y)), [599, 1198]))
models = {
    "logistic": LogisticRegression(max_iter=5000),
    "neighbours": KNeighborsClassifier(20),
    "bayes": GaussianNB(var_smoothing=0.1),
}


def divided(labels, agents):
    """Divide the rows of each class between agents by a Dirichlet draw."""
    parts = [[] for _ in range(agents)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(rng.dirichlet(np.ones(agents)))[:-1] * len(rows)
        for part, own in zip(parts, np.split(rows, np.rint(ends).astype(int)), strict=True):
            part.append(own)
    return [np.sort(np.concatenate(part)) for part in parts]


shares = divided(y[held], len(models))

# %%
# Each agent scores its own calibration points. The random part of the score is a keyed hash of the
# row's number, so a digit always gets the same set.

score = fw.APS()
u = fw.uniforms("gallery", np.arange(len(y)))
agents, probs = {}, {}
for (name, model), share in zip(models.items(), shares, strict=True):
    model.fit(X[train], y[train])
    rows = held[share]
    agents[name] = score.of(model.predict_proba(X[rows]), y[rows], u=u[rows])
    probs[name] = model.predict_proba(X[test])
    print(f"{name}: accuracy {model.score(X[test], y[test]):.3f}, {len(rows)} calibration points")

# %%
# One round for each method, and the coverage of every agent's sets on the shared test points. The
# lines are exact 95 % intervals of the coverage.

plt.rcParams.update(STYLE)
fig, panel = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for place, method in enumerate(("split-cp", "fedwq-cp", "fcp")):
    release = fw.calibrate(agents, method=method, alpha=0.1, score=score)
    for at, name in enumerate(agents):
        sets = score.invert(probs[name], release.threshold(name), u=u[test])
        found = measure(name, sets, y[test])
        x = at + 0.2 * (place - 1)
        colour = COLOURS[place]
        panel.plot([x, x], [found.low, found.high], color=colour)
        panel.plot([x], [found.coverage], "o", color=colour, label=method if at == 0 else None)
        panel.annotate(f"{found.size:.2f}", (x, found.high), (0, 3), textcoords="offset points",
                       ha="center", fontsize=7)  # fmt: skip
panel.axhline(0.9, color="0.35", linestyle="--", linewidth=1)
panel.set_xticks(range(len(agents)), agents)
panel.set_ylabel("coverage (mean labels in a set above)")
panel.legend(frameon=False)
plt.show()

# %%
# Split conformal prediction shares nothing, and all three intervals hold 0.9. The two federated
# methods give all agents one threshold. It covers the nearest neighbours too often and naive Bayes
# too rarely, because probabilities of unequal models mean unequal things: read the worst agent, not
# the mean. A later example, with agents that have few points, shows what a federation gains.
