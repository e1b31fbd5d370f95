"""
One Byzantine agent
===================

What an agent sends cannot be checked against its data. Here one of six claims a threshold of 0, and
more and more points.
"""

# %%
# Six agents share a model and the distribution of their digits. The Byzantine agent runs the
# library on made-up scores, so its message is well formed.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import fedwqcp as fw
from fedwqcp.report.figures import COLOURS, MARKERS, STYLE

X, y = load_digits(return_X_y=True)
rows = np.random.default_rng(5).permutation(len(y))
train, held, test = map(np.sort, np.split(rows, [257, 1027]))
probs = LogisticRegression(C=0.0005, max_iter=5000).fit(X[train], y[train]).predict_proba(X)
score = fw.APS()
u = fw.uniforms("gallery", np.arange(len(y)))
honest = dict(zip("abcde", score.of(probs[held], y[held], u=u[held])[:700].reshape(5, 140),
                  strict=True))  # fmt: skip

# %%
# The mean weighs an answer by the size that its agent claims. An order statistic of the thresholds
# stays between the honest ones.

claims = (140, 300, 1000, 3000, 10_000)
plt.rcParams.update(STYLE)
fig, panel = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
names = (
    "fedwq-cp",
    "fcp",
    "fedcp-qq",
    "guarded-median-cp",
)
for place, name in enumerate(names):
    coverage = []
    for n in claims:
        agents = {**honest, "byzantine": np.zeros(n)}
        release = fw.calibrate(agents, method=name, alpha=0.1, score=score)
        sets = score.invert(probs[test], release.threshold("a"), u=u[test])
        coverage.append(sets.cover(y[test]).mean())
    panel.plot(claims, coverage, color=COLOURS[place], marker=MARKERS[place], label=name)
panel.axhline(0.9, color="0.35", linestyle="--", linewidth=1)
panel.set_xscale("log")
panel.set_xlabel("points that the Byzantine agent claims (it has 140)")
panel.set_ylabel("coverage of an honest agent")
panel.legend(frameon=False)
plt.show()

# %%
# ``max_n`` in the roster caps what anybody may claim, for every method. The page on Byzantine
# agents measures more attacks, on more data.
