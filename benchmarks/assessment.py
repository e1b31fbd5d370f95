"""How often the assessment of a round errs, and what `method="auto"` makes of it, by simulation.

Run: python benchmarks/assessment.py           (simulate; results/assessment/kinds.csv)
and: python benchmarks/assessment.py --labels  (both targets; results/assessment/labels.csv)
and: python benchmarks/assessment.py --draw    (the figure of docs/explanation/assessment.md)

Its ``tables()`` are those of that page.

A kind of federation is a distribution of scores, a level, M agents of n points, and who deviates.
Deviating agents have larger scores, by as much as makes averaging cost each of them a given
coverage once n is large. All agents of a kind are drawn anew in each of 1,000 federations; one
draw of uniforms serves all kinds of one n and M, as quantiles of their scores.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

import fedwqcp as fw
from fedwqcp.quantile import conformal_rank, tail_ranks
from fedwqcp.theory import judge
from fedwqcp.theory.method_choice import own_suffices
from fedwqcp_lab.comparison import markdown_table

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "assessment" / "kinds.csv"
FIGURE = ROOT / "docs" / "images" / "assessment-power.png"
RUNS, SEED = 1000, 7313
SIZES, AGENTS, ALPHAS = (20, 40, 80, 200, 500, 1000), (3, 6, 20, 100), (0.05, 0.1)
WHO = ("identical", "one", "half")
COSTS = (0.3, 0.55, 1.0, 2.5)
"""What averaging costs a deviating agent, as a multiple of alpha; up to 0.5 counts as safe."""
VERDICTS = ("safe", "unsafe", "cannot tell")
METHODS = ("split-cp", "fcp", "fedwq-cp", "auto")
LABELS = ROOT / "results" / "assessment" / "labels.csv"
LABEL_SIZES = (40, 200)
POWERS = np.array([9.0, 2.0, 0.5])
"""Scores of class c are Beta(1, POWERS[c]) at every agent."""
SHARES = np.where(np.arange(3) == np.arange(6)[:, None] % 3, 0.8, 0.1)
"""Label shares of six agents, shape (6, 3)."""
PEOPLE = {"own": SHARES, "mixture": np.broadcast_to(SHARES.mean(axis=0), SHARES.shape)}
"""Label shares of the people that each agent predicts, by target."""


@dataclass(frozen=True)
class Family:
    """Scores V = g(T, shift) of an agent, where T has one fixed distribution of its own.

    A shift moves T in a way that keeps the order of scores, so pooled ranks are found on T.
    """

    of_uniform: Callable[[Any], Any]
    to_uniform: Callable[[Any], Any]
    moved: Callable[[Any, Any], Any]
    moved_back: Callable[[Any, Any], Any]
    score: Callable[[Any], Any]
    from_score: Callable[[Any], Any]
    largest: float


FAMILIES = {
    "uniform": Family(
        lambda u: u, lambda t: np.clip(t, 0, 1), lambda t, s: t * (1 + s), lambda t, s: t / (1 + s),
        lambda t: t, lambda v: v, 1e3,
    ),
    "Beta(1, 6)": Family(  # -log(1 - V) is exponential with rate 6, and less for deviating agents
        lambda u: -np.log1p(-u) / 6, lambda t: -np.expm1(-6 * t),
        lambda t, s: t * (1 + s), lambda t, s: t / (1 + s),
        lambda t: -np.expm1(-t), lambda v: -np.log1p(-v), 1e3,
    ),
    "LAC": Family(  # 1 - p of the true class, with logit N(5.5, 1): 95 % of the scores below 0.02
        ndtri, ndtr, lambda t, s: t + s, lambda t, s: t - s,
        lambda t: expit(t - 5.5), lambda v: logit(v) + 5.5, 20.0,
    ),
}  # fmt: skip


def coverage(family: Family, threshold: Any, shift: Any) -> Any:
    """Return F_k(threshold) of agents with these shifts."""
    return family.to_uniform(family.moved_back(family.from_score(threshold), shift))


def deviating(who: str, M: int) -> int:
    """Return how many of M agents deviate."""
    return {"identical": 0, "one": 1, "half": (M + 1) // 2}[who]


def shifts(family: Family, who: str, cost: float, M: int, alpha: float) -> Any:
    """Return each agent's shift, such that averaging costs a deviating agent cost * alpha."""
    pattern = np.zeros(M)
    if who == "identical":
        return pattern
    pattern[-deviating(who, M) :] = 1.0

    def lost(shift: float) -> float:
        """Return what averaging costs beyond what is wanted."""
        own = family.score(family.moved(family.of_uniform(1 - alpha), pattern * shift))
        return float(1 - alpha - coverage(family, own.mean(), shift) - cost * alpha)

    return pattern * brentq(lost, 0.0, family.largest)


def largest(u: Any, moved: Any, alpha: float) -> list[tuple[bool, Any]]:
    """Return, of agents that deviate and of the others, the numbers that FCP's rank can rest on.

    FCP's threshold is the K-th largest of all scores, so the K largest of either sort are enough;
    no shift changes their order.
    """
    runs, M, n = u.shape
    K = M * n - conformal_rank(M * n, alpha, extra=M) + 1
    found = []
    for sort in (False, True):
        part = u[:, moved == sort].reshape(runs, -1)
        kept = min(K, part.shape[1])
        if kept:
            found.append((sort, np.partition(part, part.shape[1] - kept, axis=1)[:, -kept:]))
    return found


def simulate(
    u: Any, family: Family, pattern: Any, alpha: float, tops: list[tuple[bool, Any]] | None = None
) -> dict[str, Any]:
    """Return the verdict on each federation and each agent's coverage under every method.

    Parameters
    ----------
    u : ndarray, shape (runs, M, n)
        Sorted uniform numbers of each agent.
    family : Family
        The distribution of scores.
    pattern : ndarray, shape (M,)
        Shift of each agent.
    alpha : float
        Miscoverage level.
    tops : list, optional
        As `largest` gives them, where they are at hand.

    Returns
    -------
    dict
        ``verdict`` (runs,), ``thresholds`` by method (runs, M) and ``coverage`` by method.
    """
    runs, M, n = u.shape
    sizes, rank, tail = np.full(M, n), conformal_rank(n, alpha), tail_ranks(n, alpha)

    def scores(ranks: Any) -> Any:
        """Return the order statistics of these ranks of every agent."""
        return family.score(family.moved(family.of_uniform(u[:, :, ranks - 1]), pattern[:, None]))

    known = np.array(sorted({rank, *tail}))
    at = scores(known)
    own = at[:, :, np.flatnonzero(known == rank)[0]]
    mean = own.mean(axis=1)
    reached = (at <= mean[:, None, None]).sum(axis=2)  # how many of the known lie at or below it
    ends = np.array([0, *known, n + 1])
    verdict = judge(ends[reached], ends[reached + 1] - 1, sizes, alpha)
    R = conformal_rank(M * n, alpha, extra=M)
    shift = pattern.max()
    moved = np.concatenate(
        [
            family.moved(family.of_uniform(part), shift * sort)
            for sort, part in tops or largest(u, pattern > 0, alpha)
        ],
        axis=1,
    )
    place = moved.shape[1] - (M * n - R + 1)
    pooled = family.score(np.partition(moved, place, axis=1)[:, place])
    thresholds = {
        "split-cp": own,
        "fcp": np.broadcast_to(pooled[:, None], own.shape),
        "fedwq-cp": np.broadcast_to(mean[:, None], own.shape),
    }
    m = min(64, n // 5)  # FCP's points by sketch="order"
    ranks = -(-np.arange(1, m + 1) * n // m)
    points = scores(ranks)
    floor = points[:, :, np.searchsorted(ranks, rank)].mean(axis=1)
    weights = np.broadcast_to(np.diff(ranks, prepend=0), points.shape).reshape(runs, M * m)
    order = np.argsort(points.reshape(runs, M * m), axis=1)
    counted = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    first = np.take_along_axis(order, (counted < R).sum(axis=1, keepdims=True), axis=1)
    coarse = np.take_along_axis(points.reshape(runs, M * m), first, axis=1)[:, 0]
    guarded = np.maximum(own, np.maximum(floor, coarse)[:, None])
    unsafe = own if own_suffices(n, alpha) else guarded
    thresholds["auto"] = np.select(
        [verdict[:, None] == "safe", verdict[:, None] == "unsafe"],
        [thresholds["fedwq-cp"], unsafe],
        guarded,
    )
    covered = {name: coverage(family, q, pattern) for name, q in thresholds.items()}
    return {"verdict": verdict, "thresholds": thresholds, "coverage": covered}


def draws(n: int, M: int, runs: int, seed: int) -> Iterator[Any]:
    """Give sorted uniform numbers of so many federations, in batches of about a million."""
    rng = np.random.default_rng([seed, n, M])
    left, batch = runs, max(1, 1_000_000 // (n * M))
    while left:
        part = rng.uniform(size=(min(batch, left), M, n))
        part.sort(axis=2)
        left -= len(part)
        yield part


def kinds() -> Iterator[tuple[str, float, str, float]]:
    """Give distribution, level, who deviates and what it costs."""
    for name in FAMILIES:
        for alpha in ALPHAS:
            yield name, alpha, "identical", 0.0
            for who in WHO[1:]:
                for cost in COSTS:
                    yield name, alpha, who, cost


def measure(n: int, M: int, runs: int = RUNS, seed: int = SEED) -> list[dict[str, Any]]:
    """Return one record for each kind with M agents of n points."""
    every = list(kinds())
    patterns = [shifts(FAMILIES[f], who, cost, M, a) for f, a, who, cost in every]
    found: list[list[dict[str, Any]]] = [[] for _ in every]
    for u in draws(n, M, runs, seed):
        tops = {
            (who, alpha): largest(u, np.arange(M) >= M - deviating(who, M), alpha)
            for who in WHO
            for alpha in ALPHAS
        }
        for place, (name, alpha, who, _) in enumerate(every):
            part = simulate(u, FAMILIES[name], patterns[place], alpha, tops[who, alpha])
            found[place].append(part)
    rows = []
    for (name, alpha, who, cost), parts in zip(every, found, strict=True):
        verdict = np.concatenate([part["verdict"] for part in parts])
        worst = {
            m: np.concatenate([part["coverage"][m].min(axis=1) for part in parts]) for m in METHODS
        }
        mean = {m: np.mean([part["coverage"][m].mean() for part in parts]) for m in METHODS}
        lost = worst["fedwq-cp"] < 1 - 1.5 * alpha
        rows.append({
            "scores": name, "alpha": alpha, "deviating": who, "cost": cost, "M": M, "n": n,
            "runs": len(verdict),
            **{v: round(float((verdict == v).mean()), 4) for v in VERDICTS},
            "lost": round(float(lost.mean()), 4),
            "safe and lost": round(float((lost & (verdict == "safe")).mean()), 4),
            **{f"worst {m}": round(float(worst[m].mean()), 4) for m in METHODS},
            **{f"mean {m}": round(float(mean[m]), 4) for m in METHODS},
        })  # fmt: skip
    return rows


def measure_labels(
    n: int, alpha: float, runs: int = RUNS, seed: int = SEED
) -> list[dict[str, Any]]:
    """Return one record for each target: coverage of the people that each agent predicts.

    Label shares differ between agents, scores given the label do not, so coverage is exact. The
    methods are run through the library's own rounds.
    """
    rng = np.random.default_rng([seed, n, round(1000 * alpha)])
    used = {**{m: {"method": m} for m in METHODS[:3]},
            **{f"auto, {t}": {"method": "auto", "target": t} for t in PEOPLE}}  # fmt: skip
    found: dict[tuple[str, str], list[Any]] = {(t, m): [] for t in PEOPLE for m in used}
    for _ in range(runs):
        cals = {}
        for k, shares in enumerate(SHARES):
            labels = rng.choice(3, size=n, p=shares)
            scores = -np.expm1(np.log(rng.uniform(size=n)) / POWERS[labels])
            cals[f"a{k}"] = fw.Calibration(scores, labels, n_classes=3)
        for name, terms in used.items():
            release = fw.calibrate(cals, alpha=alpha, score="lac", **terms)  # type: ignore[arg-type]  # as named
            q = np.array([min(1.0, float(release.threshold(agent))) for agent in cals])
            for people, shares in PEOPLE.items():
                found[people, name].append((shares * (1 - (1 - q[:, None]) ** POWERS)).sum(axis=1))
    return [
        {
            "people": people, "alpha": alpha, "n": n, "M": len(SHARES), "runs": runs,
            **{f"worst {m}": _rounded(np.min(found[people, m], axis=1)) for m in used},
            **{f"mean {m}": _rounded(found[people, m]) for m in used},
        }
        for people in PEOPLE
    ]  # fmt: skip


def _rounded(values: Any) -> float:
    """Return the mean as it is recorded."""
    return round(float(np.mean(values)), 4)


def read_labels() -> list[dict[str, Any]]:
    """Return the records with labels."""
    with LABELS.open() as file:
        return [
            {key: value if key == "people" else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def label_shortfall(row: dict[str, Any]) -> float:
    """Return how far auto's worst agent, with the right target, lies below the best fixed one."""
    best = max(float(row[f"worst {m}"]) for m in METHODS[:3])
    return best - float(row[f"worst auto, {row['people']}"])


def label_table(rows: list[dict[str, Any]]) -> str:
    """Show the worst agent for each target, with the right choice and with the wrong one."""
    names = [*METHODS[:3], *(f"auto, {t}" for t in PEOPLE)]
    lines = [["people", "n", "alpha", *(f"worst agent: {m}" for m in names), "below the best"]]
    for row in rows:
        lines.append([
            row["people"], f"{row['n']:g}", f"{row['alpha']:g}",
            *(f"{row[f'worst {m}']:.3f}" for m in names), f"{label_shortfall(row):.3f}",
        ])  # fmt: skip
    return markdown_table(lines)


def read() -> list[dict[str, Any]]:
    """Return the records."""
    words = ("scores", "deviating")
    with RECORDS.open() as file:
        return [
            {key: value if key in words else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def shortfall(row: dict[str, Any]) -> float:
    """Return how far auto's worst agent lies below that of the best fixed method."""
    return max(float(row[f"worst {m}"]) for m in METHODS[:3]) - float(row["worst auto"])


def tables() -> list[tuple[str, str]]:
    """Return the tables of the page, from the records alone."""
    rows = read()
    return [
        ("identical", _identical(rows)),
        ("missed", _missed(rows)),
        ("power", _power(rows)),
        ("auto", _auto(rows)),
        ("labels", label_table(read_labels())),
    ]


def _identical(rows: list[dict[str, Any]]) -> str:
    """Show how often identical agents were called unsafe, at most over scores and numbers."""
    lines = [
        ["n", "alpha", "kinds", "federations", "unsafe: most of a kind", "safe: least", "most"]
    ]
    for n in SIZES:
        for alpha in ALPHAS:
            own = [r for r in rows if (r["n"], r["alpha"], r["deviating"]) == (n, alpha, WHO[0])]
            safe = [r["safe"] for r in own]
            lines.append([
                str(n), f"{alpha:g}", str(len(own)), f"{int(sum(r['runs'] for r in own)):,}",
                f"{max(r['unsafe'] for r in own):.1%}", f"{min(safe):.1%}", f"{max(safe):.1%}",
            ])  # fmt: skip
    return markdown_table(lines)


def _missed(rows: list[dict[str, Any]]) -> str:
    """Show how often federations that lose more than alpha/2 were called safe."""
    lines = [["n", "alpha", "deviating kinds", "called safe: most of a kind", "at cost 0.55 alpha",
              "at cost alpha", "any kind: safe, and this draw lost more"]]  # fmt: skip
    for n in SIZES:
        for alpha in ALPHAS:
            every = [r for r in rows if (r["n"], r["alpha"]) == (n, alpha)]
            own = [r for r in every if r["cost"] > 0.5]
            by = {c: max(r["safe"] for r in own if r["cost"] == c) for c in COSTS[1:]}
            lines.append([
                str(n), f"{alpha:g}", str(len(own)), f"{max(by.values()):.1%}", f"{by[0.55]:.1%}",
                f"{by[1.0]:.1%}", f"{max(r['safe and lost'] for r in every):.1%}",
            ])  # fmt: skip
    return markdown_table(lines)


def _power(rows: list[dict[str, Any]]) -> str:
    """Show how often a clear loss is called unsafe."""
    head = ["alpha", "deviating", "cost", "M"]
    lines = [head + [f"n = {n}" for n in SIZES]]
    for alpha in ALPHAS:
        for who in WHO[1:]:
            for cost in COSTS:
                for M in AGENTS:
                    shares = [_unsafe(rows, alpha, who, cost, M, n) for n in SIZES]
                    line = [f"{alpha:g}", who, f"{cost:g} alpha", str(M)]
                    lines.append(line + [f"{share:.0%}" for share in shares])
    return markdown_table(lines)


def _unsafe(rows: list[dict[str, Any]], *key: object) -> float:
    """Return the share called unsafe, over the distributions of scores."""
    own = [r for r in rows if (r["alpha"], r["deviating"], r["cost"], r["M"], r["n"]) == key]
    return float(np.mean([r["unsafe"] for r in own]))


def _auto(rows: list[dict[str, Any]]) -> str:
    """Show the worst agent under auto beside that of the fixed methods."""
    lines = [["deviating", "cost", "alpha", "kinds", *(f"worst agent: {m}" for m in METHODS),
              "below the best: most of a kind", "mean coverage under auto"]]  # fmt: skip
    for who in WHO:
        for cost in COSTS if who != WHO[0] else (0.0,):
            for alpha in ALPHAS:
                key = (who, cost, alpha)
                own = [r for r in rows if (r["deviating"], r["cost"], r["alpha"]) == key]
                lines.append([
                    who, f"{cost:g} alpha", f"{alpha:g}", str(len(own)),
                    *(f"{np.mean([r[f'worst {m}'] for r in own]):.3f}" for m in METHODS),
                    f"{max(shortfall(r) for r in own):.3f}",
                    f"{np.mean([r['mean auto'] for r in own]):.3f}",
                ])  # fmt: skip
    return markdown_table(lines)


def draw(rows: list[dict[str, Any]]) -> None:
    """Draw the power of "unsafe" against n."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    for panel, alpha in zip(panels, ALPHAS, strict=True):
        for cost, style in zip(COSTS[2:], ("--", "-"), strict=True):
            for colour, M in enumerate(AGENTS):
                shares = [_unsafe(rows, alpha, "one", cost, M, n) for n in SIZES]
                label = f"M = {M}, cost {cost:g} alpha"
                panel.plot(SIZES, shares, style, color=f"C{colour}", marker="o", ms=3, label=label)
        panel.set_xscale("log")
        panel.set_xticks(SIZES, [str(n) for n in SIZES])
        panel.minorticks_off()
        panel.set_xlabel("points of each agent, n")
        panel.set_title(f"alpha = {alpha:g}, one deviating agent", loc="left", fontsize=10)
    panels[0].set_ylabel("called unsafe")
    lines, labels = panels[1].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside right center", frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=110)


def main() -> None:
    """Simulate, or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true")
    parser.add_argument("--labels", action="store_true")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    if given.draw:
        draw(read())
        return
    found: list[dict[str, Any]] = []
    for n in () if given.labels else SIZES:
        for M in AGENTS:
            began = time.perf_counter()
            found += measure(n, M, given.runs, given.seed)
            print(f"n={n} M={M}: {time.perf_counter() - began:.1f} s", flush=True)
    for n in LABEL_SIZES if given.labels else ():
        for alpha in ALPHAS:
            found += measure_labels(n, alpha, given.runs, given.seed)
    path = LABELS if given.labels else RECORDS
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
