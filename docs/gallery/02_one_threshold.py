"""
Why one threshold fails, and what randomised APS does
=====================================================

FedWQ-CP averages the agents' thresholds. That works only where all agents' scores have the same
scale. A strong and a weak model of the same digits show what happens where they do not.
"""

# %%
# The strong model sees all pixels and 600 digits, the weak one four pixels. Calibration and test
# points follow one distribution here, so only the models differ.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import fedwqcp as fw
from fedwqcp.report.figures import COLOURS, STYLE
from fedwqcp.theory import diagnose

X, y = load_digits(return_X_y=True)
rows = np.random.default_rng(1).permutation(len(y))
train, first, second, test = map(np.sort, np.split(rows, [599, 898, 1198]))
strong = LogisticRegression(C=0.01, max_iter=5000).fit(X[train], y[train])
weak = LogisticRegression(max_iter=5000).fit(X[train][:, 18:22], y[train])
outputs = {
    "strong": (strong.predict_proba(X[first]), y[first], strong.predict_proba(X[test]), first),
    "weak": (weak.predict_proba(X[second][:, 18:22]), y[second],
             weak.predict_proba(X[test][:, 18:22]), second),
}  # fmt: skip
u = fw.uniforms("gallery", np.arange(len(y)))

# %%
# Three scores, one method. The curves show which share of an agent's calibration scores is below
# a value; the dotted lines are the agents' own thresholds, the black line is their mean.

scores = {
    "LAC: 1 - p(y)": fw.LAC(),
    "APS, deterministic": fw.APS(randomized=False),
    "APS, randomised": fw.APS(),
}
plt.rcParams.update(STYLE)
fig, panels = plt.subplots(1, 3, figsize=(9.6, 3.2), sharey=True, layout="constrained")
for panel, (title, score) in zip(panels, scores.items(), strict=True):
    random = isinstance(score, fw.APS) and score.randomized
    own = {
        name: score.of(probs, labels, u=u[rows] if random else None)
        for name, (probs, labels, _, rows) in outputs.items()
    }
    release = fw.calibrate(own, method="fedwq-cp", alpha=0.1, score=score)
    local = fw.calibrate(own, method="split-cp", alpha=0.1, score=score)
    coverages = []
    for colour, (name, values) in zip(COLOURS, own.items(), strict=False):
        sets = score.invert(
            outputs[name][2], release.threshold(name), u=u[test] if random else None
        )
        coverages.append(f"{name} {sets.cover(y[test]).mean():.2f}")
        panel.ecdf(values, color=colour, label=name)
        panel.axvline(local.threshold(name), color=colour, linestyle=":")
    panel.axvline(release.threshold("strong"), color="black")
    panel.axhline(0.9, color="0.35", linestyle="--", linewidth=1)
    panel.set_title(f"{title}\ncoverage: {', '.join(coverages)}", loc="left", fontsize=9)
    panel.set_xlabel("score")
panels[0].set_ylabel("share of calibration points")
panels[1].legend(frameon=False)
plt.show()

# %%
# Under LAC one scale is short and the other long, and their mean fits neither. Deterministic APS
# piles a strong model's scores up near 1, where a small step of the threshold costs much coverage.
# Under a calibrated model randomised APS is uniform, whatever the model's strength: the curves come
# close, and so do the coverages. What is left is that neither model is quite calibrated.
# ``fedwqcp.theory.diagnose`` tells the difference from a few order statistics of each agent.

lac = fw.LAC()
asking = fw.methods.get("fedwq-cp", tail=16)  # the threshold, and up to sixteen order statistics
sent = {
    name: asking.summarize(fw.Calibration(lac.of(probs, labels)), 0.1)
    for name, (probs, labels, _, _) in outputs.items()
}
print(diagnose(sent, 0.1, lac.bounds(10)))
