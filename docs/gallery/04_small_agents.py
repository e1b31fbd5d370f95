"""
An agent with too few points
============================

At alpha = 0.05 a conformal threshold needs 19 points. You choose what happens where an agent has
fewer.
"""

# %%
# Three agents hold 120 digits each, three others between 2 and 60. All share one model, so
# only the number of points matters.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import fedwqcp as fw
from fedwqcp.report.figures import COLOURS, MARKERS, STYLE

X, y = load_digits(return_X_y=True)
rows = np.random.default_rng(3).permutation(len(y))
train, held, test = map(np.sort, np.split(rows, [257, 1027]))
probs = LogisticRegression(C=0.0005, max_iter=5000).fit(X[train], y[train]).predict_proba(X)
score = fw.APS()
u = fw.uniforms("gallery", np.arange(len(y)))
own = score.of(probs[held], y[held], u=u[held])
rich, poor = own[:360].reshape(3, 120), own[360:540].reshape(3, 60)

# %%
# ``propagate`` passes +inf on: every set then holds every label. ``clip``
# puts the agent's largest score in its place, ``exclude`` leaves the agent out. FCP pools all
# points, and has no such trouble as long as they are enough together.

methods = {
    "fedwq-cp, propagate": fw.methods.get("fedwq-cp", overflow="propagate"),
    "fedwq-cp, clip": fw.methods.get("fedwq-cp", overflow="clip"),
    "fedwq-cp, exclude": fw.methods.get("fedwq-cp", overflow="exclude"),
    "fcp": fw.methods.get("fcp"),
}
sizes = (2, 5, 10, 15, 18, 19, 25, 40, 60)
plt.rcParams.update(STYLE)
fig, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for place, (name, method) in enumerate(methods.items()):
    coverage, labels = [], []
    for n in sizes:
        agents = {f"agent-{k}": scores for k, scores in enumerate((*rich, *poor[:, :n]))}
        release = fw.calibrate(agents, method=method, alpha=0.05, score=score)
        sets = score.invert(probs[test], release.threshold("agent-0"), u=u[test])
        coverage.append(sets.cover(y[test]).mean())
        labels.append(sets.sizes().mean())
    look = {"color": COLOURS[place], "marker": MARKERS[place], "label": name}
    panels[0].plot(sizes, coverage, **look)
    panels[1].plot(sizes, labels, **look)
panels[0].axhline(0.95, color="0.35", linestyle="--", linewidth=1)
panels[0].set_ylabel("coverage")
panels[1].set_ylabel("mean labels in a set")
for panel in panels:
    panel.set_xlabel("points of each of the three small agents")
    panel.axvline(19, color="0.7", linewidth=0.8)
panels[1].legend(frameon=False)
plt.show()

# %%
# A clipped threshold is too low and pulls the mean down, here by some 0.005 of coverage;
# ``exclude`` ignores three agents. Neither has a guarantee. FCP has one, for a test
# point from the mixture of all agents.
