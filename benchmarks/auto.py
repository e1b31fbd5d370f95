"""What `auto` covers at its worst agent, and what its sets cost, beside other methods.

Run: python benchmarks/auto.py              (kinds of federation; results/auto/kinds.csv)
     python benchmarks/auto.py --table      (shows all kinds; the page shows some)
     python benchmarks/auto.py --enough     (from how many points on an agent needs no others)
     python benchmarks/auto.py --hospitals  (each of four hospitals with eight patients)
and: python tools/fill_pages.py            (tables of docs/explanation: auto.md, four-hospitals.md)

What has a record is not measured again; ``--out`` and ``--seed`` give another file and draw.

A kind is a federation of types of agent. Scores are drawn from known distributions, so that the
coverage and the size of sets at a threshold are computed, not counted on test points. Standard
errors are between runs: all agents of a kind are drawn anew in each.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr, ndtri, softmax

import fedwqcp as fw
from fedwqcp._validation import Floats
from fedwqcp.demo.hospitals import hospitals
from fedwqcp.scores.aps import APS
from fedwqcp_lab.comparison import markdown_table

RESULTS = Path(__file__).resolve().parents[1] / "results" / "auto"
ALPHA, SEED, SPLITS, FEW = 0.1, 20_361_911, 200, 8
METHODS: Mapping[str, Mapping[str, Any]] = {
    "auto": {},
    "split-cp": {},
    "fcp": {},
    "fedls-cp": {},
    "fedwq-cp": {},
}
"""Names and settings."""
ENOUGH: Mapping[str, Mapping[str, Any]] = {
    "auto, 1.5 alpha": {"enough": 1.5},
    "auto, 2 alpha": {"enough": 2.0},
}


SHOWN = (
    "6 alike, n = 50", "100 alike, n = 5", "hard agent n = 8, three of 500",
    "easy agent n = 8, three hard of 500", "100 unequal, n = 5 to 1,000",
    "label shift, 10 classes, 4 agents, n = 60", "covariate shift, n = 300, 100, 30, 8",
    "Byzantine 0, three of 8", "Byzantine 1e308, three of 60",
)  # fmt: skip
"""The kinds that the page shows."""


class Scores(Protocol):
    """A distribution of scores, and what sets at a threshold cover and hold."""

    def draw(self, rng: np.random.Generator, n: int) -> fw.Calibration: ...
    def coverage(self, t: float) -> float: ...
    def size(self, t: float) -> float: ...


@dataclass(frozen=True)
class Residuals:
    """Absolute residuals of normal noise: intervals of length 2 t."""

    scale: float = 1.0

    def draw(self, rng: np.random.Generator, n: int) -> fw.Calibration:
        return fw.Calibration(np.abs(rng.normal(scale=self.scale, size=n)))

    def coverage(self, t: float) -> float:
        return float(2 * ndtr(max(t, 0.0) / self.scale) - 1)

    def size(self, t: float) -> float:
        return 2 * max(t, 0.0)


@dataclass(frozen=True, eq=False)
class Quantiles:
    """CQR on y | x ~ N(0, spread(x)) by a model whose quantiles are off by a factor and a shift."""

    spread: Floats
    factor: float
    shift: float = 0.0

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The model's lower and upper quantile for each x."""
        half = self.factor * float(ndtri(1 - ALPHA / 2)) * np.sqrt(self.spread)
        return self.shift - half, self.shift + half

    def draw(self, rng: np.random.Generator, n: int) -> fw.Calibration:
        at = rng.integers(len(self.spread), size=n)
        y = rng.normal(scale=self.spread[at])
        low, high = self.ends
        return fw.Calibration(np.maximum(low[at] - y, y - high[at]))

    def coverage(self, t: float) -> float:
        low, high = self.ends
        inside = ndtr((high + t) / self.spread) - ndtr((low - t) / self.spread)
        return float(np.mean(np.maximum(inside, 0)))

    def size(self, t: float) -> float:
        low, high = self.ends
        return float(np.mean(np.maximum(high - low + 2 * t, 0)))


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels of finitely many inputs: P(x, y), and the score of each pair. Shapes: (X, C)."""

    joint: Floats
    scores: Floats

    def draw(self, rng: np.random.Generator, n: int) -> fw.Calibration:
        C = self.joint.shape[1]
        at = np.searchsorted(np.cumsum(self.joint), rng.random(n) * self.joint.sum())
        at = np.minimum(at, self.joint.size - 1)
        return fw.Calibration(self.scores.ravel()[at], at % C, n_classes=C)

    def coverage(self, t: float) -> float:
        return float(self.joint[self.scores <= t].sum() / self.joint.sum())

    def size(self, t: float) -> float:
        held = (self.scores <= t).sum(axis=1)
        return float(held @ self.joint.sum(axis=1) / self.joint.sum())


@dataclass(frozen=True, eq=False)
class Byzantine:
    """An agent that sends what it likes: so many scores of one value."""

    value: float
    classes: int = 0

    def draw(self, _: np.random.Generator, n: int) -> fw.Calibration:
        labels = np.arange(n) % self.classes if self.classes else None
        return fw.Calibration(np.full(n, self.value), labels, n_classes=self.classes or None)

    coverage = size = Residuals.size  # of no interest


@dataclass(frozen=True)
class Type:
    """So many agents of n points each."""

    agents: int
    n: int
    scores: Scores

    def proved(self, alpha: float) -> float:
        """Return what `auto` must cover."""
        return min(1 - alpha, self.n / (self.n + 1))

    def ideal(self, alpha: float) -> float:
        """Return the mean size at the least threshold that covers 1 - alpha."""
        low, high = -10.0, 50.0
        for _ in range(60):
            middle = (low + high) / 2
            enough = self.scores.coverage(middle) >= 1 - alpha - 1e-12
            low, high = (low, middle) if enough else (middle, high)
        return self.scores.size(high)


def inputs(C: int, seed: int, cells: int = 400, sharp: float = 2.5) -> tuple[Floats, Floats]:
    """Return P(y | x) of some inputs, and the logits it comes from. Shapes: (X, C)."""
    logits = np.random.default_rng(seed).normal(scale=sharp, size=(cells, C))
    return np.asarray(softmax(logits, axis=1)), logits


def lac(logits: Floats, noise: float = 0.0, heat: float = 1.0, digits: int = 12) -> Floats:
    """Return LAC scores of a model with noisy logits, too hot or too cold, rounded."""
    wrong = logits + np.random.default_rng(9).normal(scale=noise, size=logits.shape)
    return np.asarray(np.round(1 - softmax(wrong / heat, axis=1), digits))


def label_shift(C: int, agents: int, n: int, skew: float, seed: int = 3) -> list[Type]:
    """Return agents with class shares of their own and the same P(x | y)."""
    given, logits = inputs(C, seed)
    shares = np.random.default_rng(seed).dirichlet(np.full(C, skew), size=agents)
    scores = lac(logits, 0.7)
    return [Type(1, n, Labels(given / given.sum(axis=0) * own, scores)) for own in shares]


def covariate_shift(sizes: Sequence[int], C: int = 4) -> list[Type]:
    """Return agents with inputs of their own, from sure to doubtful ones, and the same P(y | x)."""
    given, logits = inputs(C, 5)
    doubt = np.argsort(np.argsort(-given.max(axis=1))) / len(given)
    where = np.linspace(0.1, 0.9, len(sizes))
    return [
        Type(1, n, Labels(given * np.exp(-30 * (doubt - at)[:, None] ** 2), lac(logits, 0.7)))
        for n, at in zip(sizes, where, strict=True)
    ]


def models(sizes: Sequence[int], C: int = 5) -> list[Type]:
    """Return agents with models of unequal accuracy on the same inputs."""
    given, logits = inputs(C, 7)
    noise = np.linspace(0, 6, len(sizes))
    return [
        Type(1, n, Labels(given, lac(logits, a, 1 + a / 4)))
        for n, a in zip(sizes, noise, strict=True)
    ]


def coarse(agents: int, n: int) -> list[Type]:
    """Return agents whose scores are rounded to one digit, with many ties."""
    given, logits = inputs(6, 11)
    return [Type(agents, n, Labels(given, lac(logits, 1.0, digits=1)))]


def quantiles(sizes: Sequence[int]) -> list[Type]:
    """Return agents whose quantile models are too wide, too narrow and shifted."""
    spread = np.linspace(0.2, 3, 60)
    kinds = ((1.6, 0.0), (1.0, 0.0), (0.6, 0.0), (0.8, 1.0))
    return [Type(1, n, Quantiles(spread, *k)) for n, k in zip(sizes, kinds, strict=True)]


def unequal(agents: int, sizes: tuple[int, int], spread: float) -> list[Type]:
    """Return agents with residuals of log-normal scales and log-uniform sizes."""
    rng = np.random.default_rng(13)
    scales = np.exp(rng.normal(scale=spread, size=agents))
    ns = np.exp(rng.uniform(log(sizes[0]), log(sizes[1]), size=agents)).round().astype(int)
    return [Type(1, n, Residuals(s)) for n, s in zip(ns.tolist(), scales.tolist(), strict=True)]


def byzantine(honest: list[Type], value: float, classes: int = 0) -> list[Type]:
    """Add one agent with a hundred thousand points of one value."""
    return [*honest, Type(1, 100_000, Byzantine(value, classes))]


def kinds() -> dict[str, list[Type]]:
    """Return the kinds of federation by name."""
    same, hard = Residuals(), Residuals(10.0)
    given, logits = inputs(4, 17)
    four = Labels(given, lac(logits, 0.7))
    return {
        "4 alike, n = 5": [Type(4, 5, same)],
        "4 alike, n = 8": [Type(4, 8, same)],
        "2 alike, n = 9": [Type(2, 9, same)],
        "10 alike, n = 20": [Type(10, 20, same)],
        "6 alike, n = 50": [Type(6, 50, same)],
        "6 alike, n = 109": [Type(6, 109, same)],
        "100 alike, n = 5": [Type(100, 5, same)],
        "100 alike, n = 30": [Type(100, 30, same)],
        "4 alike, n = 10,000": [Type(4, 10_000, same)],
        "alike, n = 6, 60, 600": [Type(1, n, same) for n in (6, 60, 600)],
        "hard agent n = 8, three of 500": [Type(1, 8, hard), Type(3, 500, same)],
        "hard agent n = 60, three of 500": [Type(1, 60, hard), Type(3, 500, same)],
        "hard agent n = 10,000, three of 10,000": [Type(1, 10_000, hard), Type(3, 10_000, same)],
        "easy agent n = 8, three hard of 500": [Type(1, 8, same), Type(3, 500, hard)],
        "easy agent n = 49, three hard of 500": [Type(1, 49, same), Type(3, 500, hard)],
        "20 unequal, n = 40": unequal(20, (40, 40), 1.0),
        "100 unequal, n = 5 to 1,000": unequal(100, (5, 1000), 1.0),
        "label shift, 3 classes, 6 agents, n = 8": label_shift(3, 6, 8, 0.5),
        "label shift, 3 classes, 6 agents, n = 40": label_shift(3, 6, 40, 0.5),
        "label shift, 10 classes, 4 agents, n = 60": label_shift(10, 4, 60, 0.3),
        "label shift, 10 classes, 20 agents, n = 200": label_shift(10, 20, 200, 0.3),
        "label shift, 10 classes, 4 agents, n = 2,000": label_shift(10, 4, 2000, 0.3),
        "covariate shift, n = 8, 30, 100, 300": covariate_shift((8, 30, 100, 300)),
        "covariate shift, n = 300, 100, 30, 8": covariate_shift((300, 100, 30, 8)),
        "unequal models, n = 8": models((8, 8, 8, 8)),
        "unequal models, n = 60": models((60, 60, 60, 60)),
        "unequal models, n = 1,000": models((1000, 1000, 1000, 1000)),
        "LAC of one digit, 5 agents, n = 8": coarse(5, 8),
        "LAC of one digit, 5 agents, n = 30": coarse(5, 30),
        "CQR, n = 8, 8, 8, 8": quantiles((8, 8, 8, 8)),
        "CQR, n = 30, 60, 60, 400": quantiles((30, 60, 60, 400)),
        "Byzantine 0, three of 8": byzantine([Type(3, 8, same)], 0.0),
        "Byzantine 0, three of 60": byzantine([Type(3, 60, same)], 0.0),
        "Byzantine -1e308, three of 60": byzantine([Type(3, 60, same)], -1e308),
        "Byzantine 1e308, three of 8": byzantine([Type(3, 8, same)], 1e308),
        "Byzantine 1e308, three of 60": byzantine([Type(3, 60, same)], 1e308),
        "Byzantine inf, three of 60": byzantine([Type(3, 60, same)], inf),
        "Byzantine 0, 4 classes, three of 60": byzantine([Type(3, 60, four)], 0.0, 4),
        "Byzantine 1, 4 classes, three of 60": byzantine([Type(3, 60, four)], 1.0, 4),
    }  # fmt: skip


def measure(
    types: Sequence[Type],
    methods: Mapping[str, Mapping[str, Any]],
    alpha: float,
    runs: int,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return a record for each type of honest agent and each method of one kind."""
    names = [f"{i}-{k}" for i, t in enumerate(types) for k in range(t.agents)]
    of = [i for i, t in enumerate(types) for _ in range(t.agents)]
    labelled = all(isinstance(t.scores, Labels | Byzantine) for t in types)
    used = {m: s for m, s in methods.items() if labelled or m != "fedls-cp"}
    found = {m: np.empty((runs, len(names), 3)) for m in used}
    for run in range(runs):
        cals = {
            name: types[i].scores.draw(rng, types[i].n) for name, i in zip(names, of, strict=True)
        }
        for method, settings in used.items():
            release = _release(cals, alpha, **{"method": method, **settings})
            for at, (name, i) in enumerate(zip(names, of, strict=True)):
                q = float(release.threshold(name))
                scores = types[i].scores
                size = scores.size(q) if isfinite(q) else np.nan
                found[method][run, at] = scores.coverage(q), size, q == inf
    return [
        _record(i, t, method, alpha, table[:, np.array(of) == i])
        for i, t in enumerate(types)
        if not isinstance(t.scores, Byzantine)
        for method, table in found.items()
    ]


def _record(i: int, t: Type, method: str, alpha: float, table: Floats) -> dict[str, Any]:
    """Return means over runs and agents of one type; table (runs, agents, 3)."""
    covered, sizes = table[:, :, 0], table[:, :, 1]
    by_run = covered.mean(axis=1)
    return {
        "type": i, "agents": t.agents, "n": t.n, "method": method, "runs": len(table),
        "proved": t.proved(alpha), "coverage": float(by_run.mean()),
        "error": float(by_run.std(ddof=1) / len(table) ** 0.5),
        "poor": float((covered < 1 - 1.5 * alpha).mean()),
        "size": float(np.nanmean(sizes)) if np.isfinite(sizes).any() else inf,
        "ideal": t.ideal(alpha), "infinite": float(table[:, :, 2].mean()),
    }  # fmt: skip


def run(
    path: Path,
    every: Mapping[str, list[Type]],
    methods: Mapping[str, Mapping[str, Any]],
    alpha: float,
    *,
    seed: int,
    runs: int,
) -> None:
    """Measure every kind that has no record yet."""
    done = {row["kind"] for row in read(path)} if path.exists() else set()
    for at, (kind, types) in enumerate(every.items()):
        if kind in done:
            continue
        began = time.perf_counter()
        times = max(100, runs // sum(t.agents for t in types))
        records = measure(types, methods, alpha, times, np.random.default_rng([seed, at]))
        append(path, [{"kind": kind, **record} for record in records])
        spent = time.perf_counter() - began
        print(f"{at + 1} of {len(every)}, {kind}: {times} runs, {spent:.1f} s", flush=True)


def append(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """Add records to a file, which begins with their names."""
    fresh = not path.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerows(
            {k: f"{v:.6g}" if isinstance(v, float) else v for k, v in r.items()} for r in records
        )


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file or of its packed copy, numbers as floats."""
    packed = path.with_suffix(".csv.xz")
    with lzma.open(packed, "rt") if packed.exists() else path.open(newline="") as file:
        return [{k: _number(v) for k, v in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def below(records: Sequence[Mapping[str, Any]]) -> int:
    """Return how many types are covered less than ``proved``, at 1 % over all of them together."""
    bound = NormalDist().inv_cdf(0.01 / len(records))
    return sum(r["coverage"] - r["proved"] < bound * r["error"] for r in records)


def kinds_table(records: Sequence[dict[str, Any]]) -> str:
    """Show the worst agent's coverage and the mean size under every method."""
    lines = [["kind", *(f"`{m}`" for m in METHODS), "proved", "size, few points", "infinite"]]
    for kind in dict.fromkeys(r["kind"] for r in records):
        by = {m: _of(records, kind=kind, method=m) for m in METHODS}
        split, pairs = by["split-cp"], zip(by["auto"], by["split-cp"], strict=True)
        lines.append([
            kind, *(_worst_and_size(by[m], split) for m in METHODS),
            f"{min(by['auto'], key=lambda r: r['coverage'])['proved']:.3f}",
            _mean(a["size"] / a["ideal"] for a, s in pairs if s["infinite"]),
            f"{_infinite(split):.0%}, {_infinite(by['auto']):.0%}",
        ])  # fmt: skip
    return markdown_table(lines)


def _worst_and_size(own: Sequence[dict[str, Any]], split: Sequence[dict[str, Any]]) -> str:
    """Show the least coverage, and the mean size over `split-cp`'s where that is finite."""
    if not own:
        return ""
    finite = [(a, s) for a, s in zip(own, split, strict=True) if not s["infinite"]]
    size = _mean(inf if a["infinite"] else a["size"] / s["size"] for a, s in finite)
    return f"{min(r['coverage'] for r in own):.3f}" + f", {size}" * bool(size)


def _mean(ratios: Iterable[float]) -> str:
    """Return the mean of some ratios as text; nothing of none."""
    found = list(ratios)
    return (f"{fmean(found):.2f}" if fmean(found) < 100 else "inf") if found else ""


def _infinite(records: Sequence[dict[str, Any]]) -> float:
    """Return the share of agents whose threshold is +inf."""
    agents = sum(r["agents"] for r in records)
    return float(sum(r["infinite"] * r["agents"] for r in records) / agents)


def tests_table(records: Sequence[dict[str, Any]]) -> str:
    """Show the family-wise test, and how often a method blows up what split-cp keeps finite."""
    head = ["method", "types of agent", "below the level proved of `auto`", "by at most"]
    lines = [[*head, "+inf where `split-cp` is finite"]]
    finite = {
        (r["kind"], r["type"]) for r in records if r["method"] == "split-cp" and not r["infinite"]
    }
    for method in METHODS:
        own = [r for r in records if r["method"] == method]
        blown = sum(r["infinite"] > 0 for r in own if (r["kind"], r["type"]) in finite)
        most = max(r["proved"] - r["coverage"] for r in own)
        lines.append([f"`{method}`", str(len(own)), str(below(own)), f"{most:.3f}", str(blown)])
    return markdown_table(lines)


def run_hospitals(path: Path, splits: int) -> None:
    """Leave no hospital with eight patients, then each in turn; the first compares ``enough``."""
    done = {row["seed"] for row in read(path)} if path.exists() else set()
    for seed in range(splits):
        if seed in done:
            continue
        sites = {one.name: one for one in hospitals(seed)}
        records = []
        for turn in ("", *sites):
            used = {name: {**s, "method": name} for name, s in METHODS.items()}
            if not turn:
                used |= {rule: {**s, "method": "auto"} for rule, s in ENOUGH.items()}
            outputs = {name: one.calibration for name, one in sites.items()}
            if turn:
                outputs[turn] = sites[turn].with_few(FEW).calibration
            for name, given in used.items():
                release = _release(outputs, ALPHA, key=f"{seed}", **given)
                for agent in [turn] if turn else sites:
                    found = release.measure(agent, sites[agent].test)
                    records.append({
                        "seed": seed, "few": turn, "method": name, "agent": agent,
                        "n": len(outputs[agent].values), "coverage": found.coverage,
                        "size": found.size,
                        "infinite": int(np.isinf(release.threshold(agent)).any()),
                    })  # fmt: skip
        append(path, records)
        if seed % 20 == 19:
            print(f"hospitals: {seed + 1} of {splits} splits", flush=True)


def _release(
    agents: Mapping[str, Any], alpha: float, method: str, key: str = "", **settings: Any
) -> fw.Release:
    """Run a round; a fixed key of a randomised score makes it repeatable."""
    chosen = fw.methods.get(method, **settings)
    return fw.calibrate(agents, method=chosen, alpha=alpha, key=key)


def eight_table(records: Sequence[dict[str, Any]]) -> str:
    """Show each hospital in its turn with eight patients: coverage, and answers in a set."""
    turns = [name for name in dict.fromkeys(r["few"] for r in records) if name]
    lines = [["method", *turns, "answers in a set", "all answers for everyone"]]
    for method in METHODS:
        own = {t: [r for r in records if (r["few"], r["method"]) == (t, method)] for t in turns}
        every = [r for found in own.values() for r in found]
        lines.append([
            f"`{method}`", *(_mean_and_error([r["coverage"] for r in own[t]]) for t in turns),
            f"{fmean(r['size'] for r in every):.2f}", f"{fmean(r['infinite'] for r in every):.0%}",
        ])  # fmt: skip
    return markdown_table(lines)


def _mean_and_error(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f} ± {float(np.std(values, ddof=1)) / len(values) ** 0.5:.3f}"


def digits(agents: int, sizes: tuple[int, int], seed: int) -> list[Type]:
    """Return agents with shares of scikit-learn's digits of their own, half with weak models.

    The digits that trained no model, each with four uniforms of randomised APS, are the population.
    """
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng([seed, agents])
    x, y = load_digits(return_X_y=True)
    rows = rng.permutation(len(x))
    train, held = rows[:600], rows[600:]
    score = APS()
    tables = []
    for size in (600, 60):  # strong, weak
        model = LogisticRegression(max_iter=300).fit(x[train[:size]] / 16, y[train[:size]])
        probs = model.predict_proba(x[held] / 16)
        every = [
            score.of_every_label(probs, u=np.full(len(held), u))
            for u in (0.125, 0.375, 0.625, 0.875)
        ]
        tables.append(np.concatenate(every))
    true = np.tile(y[held], 4)[:, None] == np.arange(10)
    ns = np.exp(rng.uniform(log(sizes[0]), log(sizes[1]), size=agents)).round().astype(int).tolist()
    shares = rng.dirichlet(np.full(10, 0.3), size=agents)
    return [
        Type(1, n, Labels(true / true.sum(axis=0) * own, tables[k % 2]))
        for k, (n, own) in enumerate(zip(ns, shares, strict=True))
    ]


def mixes() -> dict[str, list[Type]]:
    """Return the setting of the study of own distributions, with digits for its images."""
    given = {6: (500, 1500), 20: (50, 800), 100: (12, 300)}
    return {f"{M} agents, n = {a} to {b:,}": digits(M, (a, b), 1) for M, (a, b) in given.items()}


def enough_table(records: Sequence[dict[str, Any]], patients: Sequence[dict[str, Any]]) -> str:
    """Show ``enough`` at 1.5 and 2 alpha: the worst agent, bad calibrations, size."""
    lines = [["setting", "method", "worst agent", "miss above 1.5 alpha", "size"]]
    for kind in dict.fromkeys(r["kind"] for r in records):
        if kind.startswith("6 agents"):  # all alike: each has more than enough points
            continue
        rows = {m: _of(records, kind=kind, method=m) for m in ("split-cp", *ENOUGH)}
        for method, own in rows.items():
            pairs = [
                (a, s) for a, s in zip(own, rows["split-cp"], strict=True) if not s["infinite"]
            ]
            lines.append([
                f"digits, {kind}", f"`{method}`", f"{min(r['coverage'] for r in own):.3f}",
                f"{fmean(r['poor'] for r in own):.1%}",
                f"{fmean(a['size'] / s['size'] for a, s in pairs):.2f}",
            ])  # fmt: skip
    split = _of(patients, few="", method="split-cp")
    for method in ("split-cp", *ENOUGH):
        own = _of(patients, few="", method=method)
        names = dict.fromkeys(r["agent"] for r in own)
        worst = min(fmean(r["coverage"] for r in _of(own, agent=name)) for name in names)
        low = fmean(r["coverage"] < 1 - 1.5 * ALPHA for r in own)
        size = fmean(r["size"] for r in own) / fmean(r["size"] for r in split)
        lines.append(
            ["four hospitals", f"`{method}`", f"{worst:.3f}", f"{low:.1%} (counted)", f"{size:.2f}"]
        )
    return markdown_table(lines)


def _of(records: Sequence[dict[str, Any]], **values: object) -> list[dict[str, Any]]:
    """Return the records with these values."""
    return [r for r in records if all(r[name] == value for name, value in values.items())]


def tables() -> Iterator[tuple[str, str]]:
    """Yield each part of the pages with its name."""
    records, enough, patients = (
        read(RESULTS / f"{name}.csv") for name in ("kinds", "enough", "hospitals")
    )
    yield "tests", tests_table(records)
    yield "kinds", kinds_table([r for r in records if r["kind"] in SHOWN])
    yield "enough", enough_table(enough, patients)
    yield "eight patients", eight_table(patients)


def main() -> None:
    """Measure one of the three, or show the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hospitals", action="store_true")
    parser.add_argument("--enough", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--runs", type=int, default=1600, help="agents drawn for each kind")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    files = {name: given.out / f"{name}.csv" for name in ("kinds", "enough", "hospitals")}
    if given.table:
        print(kinds_table(read(files["kinds"])))
    elif given.hospitals:
        run_hospitals(files["hospitals"], given.splits)
    elif given.enough:
        methods = {"split-cp": {}, **{k: {**s, "method": "auto"} for k, s in ENOUGH.items()}}
        run(files["enough"], mixes(), methods, 0.05, seed=given.seed, runs=given.runs)
    else:
        run(files["kinds"], kinds(), METHODS, ALPHA, seed=given.seed, runs=given.runs)


if __name__ == "__main__":
    main()
