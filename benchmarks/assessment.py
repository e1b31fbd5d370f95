"""How often the verdict on averaging is wrong, by simulation.

Run: python benchmarks/assessment.py           (simulate; results/assessment/kinds.csv)

Its ``tables()`` are those of that page.

A kind of federation is a distribution of scores, a level, M agents of n points, and who deviates.
Deviating agents have larger scores, by as much as makes averaging cost each of them a given
coverage once n is large. All agents of a kind are drawn anew in each of 1,000 federations; one
draw of uniforms serves all kinds of one n and M, as quantiles of their scores.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

from fedwqcp.quantile import conformal_rank, tail_ranks
from fedwqcp.theory import judge
from fedwqcp_lab.comparison import markdown_table

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "assessment" / "kinds.csv"
RUNS, SEED = 1000, 7313
SIZES, AGENTS, ALPHAS = (20, 40, 80, 200, 500, 1000), (3, 6, 20, 100), (0.05, 0.1)
WHO = ("identical", "one", "half")
COSTS = (0.3, 0.55, 1.0, 2.5)
"""What averaging costs a deviating agent, as a multiple of alpha; up to 0.5 counts as safe."""
VERDICTS = {"safe": "safe", "unsafe": "unsafe", "cannot tell": "unknown"}


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


def simulate(u: Any, family: Family, pattern: Any, alpha: float) -> tuple[Any, Any]:
    """Return the verdict on each federation, and its worst agent's coverage under the average.

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

    Returns
    -------
    ndarray, shape (runs,)
        Verdicts.
    ndarray, shape (runs,)
        Coverages.
    """
    _, M, n = u.shape
    rank = conformal_rank(n, alpha)
    known = np.array(sorted({rank, *tail_ranks(n, alpha)}))
    at = family.score(family.moved(family.of_uniform(u[:, :, known - 1]), pattern[:, None]))
    mean = at[:, :, np.flatnonzero(known == rank)[0]].mean(axis=1)
    reached = (at <= mean[:, None, None]).sum(axis=2)  # how many of the known lie at or below it
    ends = np.array([0, *known, n + 1])
    verdict = judge(ends[reached], ends[reached + 1] - 1, np.full(M, n), alpha)
    return verdict, coverage(family, mean[:, None], pattern).min(axis=1)


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
    found: list[list[Any]] = [[] for _ in every]
    for u in draws(n, M, runs, seed):
        for place, (name, alpha, _, _) in enumerate(every):
            found[place].append(simulate(u, FAMILIES[name], patterns[place], alpha))
    rows = []
    for (name, alpha, who, cost), parts in zip(every, found, strict=True):
        verdict, worst = (np.concatenate(part) for part in zip(*parts, strict=True))
        lost = worst < 1 - 1.5 * alpha
        rows.append({
            "scores": name, "alpha": alpha, "deviating": who, "cost": cost, "M": M, "n": n,
            "runs": len(verdict),
            **{name: round(float((verdict == v).mean()), 4) for name, v in VERDICTS.items()},
            "lost": round(float(lost.mean()), 4),
            "safe and lost": round(float((lost & (verdict == "safe")).mean()), 4),
        })  # fmt: skip
    return rows


def read() -> list[dict[str, Any]]:
    """Return the records."""
    words = ("scores", "deviating")
    with RECORDS.open() as file:
        return [
            {key: value if key in words else float(value) for key, value in row.items()}
            for row in csv.DictReader(file)
        ]


def tables() -> list[tuple[str, str]]:
    """Return the tables of the page, from the records alone."""
    rows = read()
    return [("errors", markdown_table(_errors(rows))), ("power", markdown_table(_power(rows)))]


def _errors(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Show how often each verdict was wrong: the largest share over all kinds of a row."""
    yield ["n", "kinds", "identical agents: unsafe", "loss above alpha/2: safe", "identical: safe"]
    for n in SIZES:
        every = [r for r in rows if r["n"] == n]
        same = [r for r in every if r["deviating"] == "identical"]
        missed = max(r["safe"] for r in every if r["cost"] > 0.5)
        safe = f"{min(r['safe'] for r in same):.0%} to {max(r['safe'] for r in same):.0%}"
        yield [
            *(str(n), str(len(every))),
            *(f"{max(r['unsafe'] for r in same):.1%}", f"{missed:.1%}", safe),
        ]


def _power(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Show how often the loss of one deviating agent of six is called unsafe."""
    yield ["loss", *(f"n = {n}" for n in SIZES)]
    for cost in COSTS:
        shares = [_unsafe(rows, max(ALPHAS), "one", cost, 6, n) for n in SIZES]
        yield [f"{cost:g} alpha", *(f"{share:.0%}" for share in shares)]


def _unsafe(rows: list[dict[str, Any]], *key: object) -> float:
    """Return the share called unsafe, over the distributions of scores."""
    own = [r for r in rows if (r["alpha"], r["deviating"], r["cost"], r["M"], r["n"]) == key]
    return float(np.mean([r["unsafe"] for r in own]))


def main() -> None:
    """Simulate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    found = [row for n in SIZES for M in AGENTS for row in measure(n, M, given.runs, given.seed)]
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    with RECORDS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
