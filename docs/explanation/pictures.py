"""Draw the pictures of ``methods.md``, what every method makes of the same agents, and one more.

Run it anew when a method is added or changed: ``python docs/explanation/pictures.py``.
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.special import betainc

import fedwqcp as fw
from fedwqcp.methods.private_fedwq_cp import count_bins, edges_of, mechanism
from fedwqcp.report.figures import COLOURS, STYLE, save

ALPHA = 0.1
EASY, HARD = (1.0, 6.0), (4.0, 3.0)  # distributions of the scores of two classes: Beta(a, b)
SHARES = {"A": (300, 0.1), "B": (150, 0.4), "C": (60, 0.8)}  # points, and share of the hard class
BYZANTINE = "Byzantine"
UNDER_ATTACK = ("guarded-median-cp",)
COLOUR = dict(zip((*SHARES, BYZANTINE), (*COLOURS[:3], "0.6"), strict=True))
TARGETS = {"dp-fedcp": (0.5, 0.5), "fedls-cp": "own"}  # targets of methods that correct a shift


def agents(attacked: bool) -> dict[str, fw.Calibration]:
    """Return calibration data of three agents, and of one that claims zeros."""
    found = {}
    for place, (name, (n, hard)) in enumerate(SHARES.items()):
        rng = np.random.default_rng(place)
        labels = np.sort(np.arange(n) < hard * n).astype(np.int64)
        scores = np.where(labels == 1, rng.beta(*HARD, size=n), rng.beta(*EASY, size=n))
        features = rng.normal(2.0 * labels)[:, None]
        found[name] = fw.Calibration(scores, labels=labels, features=features, n_classes=2)
    if attacked:
        zeros = np.zeros(200)
        found[BYZANTINE] = fw.Calibration(zeros, labels=zeros.astype(np.int64), n_classes=2)
    return found


def coverage(name: str, threshold: float | np.ndarray) -> float:
    """Return an agent's exact coverage; a threshold may differ between the two classes."""
    easy, hard = np.clip(np.broadcast_to(threshold, 2), 0, 1)
    share = SHARES[name][1]
    return float((1 - share) * betainc(*EASY, easy) + share * betainc(*HARD, hard))


def draw(name: str, folder: Path) -> Path:
    """Draw one method."""
    attacked = name in UNDER_ATTACK
    cals = agents(attacked)
    with rc_context({**STYLE, "font.size": 8.0, "svg.fonttype": "none"}):
        figure = Figure(figsize=(5.4, 1.9), layout="constrained")
        panel = figure.subplots()
        for agent, cal in cals.items():
            panel.ecdf(
                cal.scores, color=COLOUR[agent], linewidth=1.1, label=f"{agent}, n = {cal.n}"
            )
            panel.plot([fw.conformal_quantile(cal.scores, ALPHA)], [1 - ALPHA], "|",
                       color=COLOUR[agent], markersize=11)  # fmt: skip
        panel.axhline(1 - ALPHA, color="0.35", linestyle="--", linewidth=0.8)
        if name == "private-fedwq-cp":
            _private(panel, cals)
        else:
            _thresholds(panel, name, cals)
        panel.set(xlim=(-0.02, 1.02), ylim=(0, 1.02), xlabel="score", ylabel="share of points")
        figure.legend(loc="outside right upper", frameon=False)
        return save(figure, folder / f"{name}.svg")


def _thresholds(panel, name, cals) -> None:
    """Draw where the method puts the threshold, and name every agent's coverage."""
    target = TARGETS.get(name, "own")
    release = fw.calibrate(cals, method=name, target=target, alpha=ALPHA, score="lac")
    own = {agent: np.atleast_1d(release.threshold(agent)) for agent in SHARES}
    shared = len({tuple(q) for q in own.values()}) == 1
    for agent, values in own.items():
        for place, value in enumerate(values if not shared or agent == "A" else ()):
            colour = "black" if shared else COLOUR[agent]
            panel.axvline(value, color=colour, linewidth=1.3, linestyle=("-", ":")[place])
            if place == 1:
                panel.text(value + 0.02, 0.05, "one for each class", fontsize=7)
    coverages = ", ".join(f"{agent} {coverage(agent, q):.2f}" for agent, q in own.items())
    panel.set_title(f"{name}: coverage {coverages}", loc="left", fontsize=8)


def _private(panel, cals) -> None:
    """Draw the distribution from which every agent draws its threshold."""
    edges = edges_of(100, None)
    for agent, cal in cals.items():
        noisy = mechanism(cal.n, ALPHA, epsilon=5.0, bins=100, gamma=0.1, failure=0.01)
        if noisy is None:
            continue
        weights = noisy.weights(count_bins(cal.scores, edges))
        most = max(weights)
        shares = [weight / most for weight in weights]  # whole numbers of many digits
        inside = [isfinite(edge) for edge in edges]
        height = np.where(inside, shares, 0) * 0.8
        panel.fill_between(edges, height, color=COLOUR[agent], alpha=0.35, linewidth=0, step="mid")
    panel.set_title("private-fedwq-cp: each agent draws its threshold, epsilon = 5", loc="left",
                    fontsize=8)  # fmt: skip


def draw_two_numbers(folder: Path) -> Path:
    """Draw two federations that send the same numbers, and are covered differently."""
    n, easy, hard = 99, 0.1, 0.9
    federations = {
        "all of B's scores are 0.9": np.full(n, hard),
        "most of B's scores are 0.1": np.repeat([easy, hard], (89, 10)),
    }
    with rc_context({**STYLE, "font.size": 8.0, "svg.fonttype": "none"}):
        figure = Figure(figsize=(5.4, 1.9), layout="constrained")
        for panel, (title, scores) in zip(figure.subplots(1, 2), federations.items(), strict=True):
            cals = {"A": np.full(n, easy), "B": scores}
            release = fw.calibrate(cals, method="fedwq-cp", alpha=ALPHA)
            sent = {name: release.received[name][0] for name in cals}
            for name, own in cals.items():
                panel.ecdf(own, color=COLOUR[name], linewidth=1.2)
                panel.plot(sent[name].threshold, 1 - ALPHA, "|", color=COLOUR[name], markersize=9)
            panel.axvline(release.threshold("A"), color="0.2", linewidth=1.2)
            covered = [float(np.mean(own <= release.threshold("A"))) for own in cals.values()]
            panel.set(title=title, xlabel="score", xlim=(0, 1), ylim=(0, 1.05))
            says = ", ".join(f"{name} {c:.2f}" for name, c in zip(cals, covered, strict=True))
            panel.text(0.52, 0.08, f"covered: {says}", fontsize=7)
        return save(figure, folder / "two-numbers.svg")


if __name__ == "__main__":
    out = Path(__file__).resolve().parent / "pictures"
    out.mkdir(exist_ok=True)
    for each in fw.methods.built_in():
        print(draw(each, out))
    print(draw_two_numbers(out))
