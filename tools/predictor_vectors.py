"""Test vectors of the predictor: ``python tools/predictor_vectors.py vectors.json [SEED]``.

Each case has a predictor, rows, uniforms, and the sets or intervals that must come out.
Rows have ties, zeros and one sure label; thresholds lie on scores of these rows, or are +inf; ids
are of several scripts, and a row may be in several groups or none. Of a `mask` a row is the pixels
of an image, and its set those inside. A consumer in another language passes if it gives every set.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import fedwqcp as fw
from fedwqcp._validation import Floats
from fedwqcp.groups import OTHERS
from fedwqcp.registry import settings_of
from fedwqcp.scores import IntervalScore, LabelScore, Rule, name_of
from fedwqcp.scores._uniforms import uniforms
from fedwqcp.serve.predictor import Level, Predictor, Threshold
from fedwqcp.wire.messages import Choice
from fedwqcp.wire.release import NO_GUARANTEE

SIZES = {2: 60, 3: 60, 10: 60, 100: 40, 1000: 10}
"""Rows by number of classes."""
NAMES = ("patient", "påtient", "患者", "مريض", "🏥", "пациент")
GROUPS = ("f", "m", "β", OTHERS)

LABEL_SCORES: tuple[LabelScore | fw.MultiLabel, ...] = (
    fw.LAC(),
    fw.MultiLabel(),
    fw.APS(),
    fw.APS(randomized=False),
    fw.APS(precision="float32"),
    fw.RAPS(),
    fw.RAPS(penalty=0.25, k_reg=2, randomized=False),
    fw.SAPS(),
    fw.SAPS(penalty=0.3, randomized=False),
    fw.OrdinalAPS(),
    fw.OrdinalAPS(randomized=True),
)
INTERVAL_SCORES: tuple[IntervalScore, ...] = (
    fw.AbsoluteResidual(),
    fw.NormalizedResidual(),
    fw.NormalizedResidual(floor=0.1),
    fw.CQR(),
    fw.CQR(symmetric=False),
)


class Case(msgspec.Struct, omit_defaults=True):
    """Rows of one predictor at one level; ``sets`` or ``lower`` and ``upper`` must come out."""

    predictor: Predictor
    alpha: float
    outputs: Any
    ids: list[str] | None = None
    groups: list[list[str]] | None = None
    u: list[float] | None = None
    sets: list[list[int]] | None = None
    lower: list[float | str] | None = None
    upper: list[float | str] | None = None


def cases(seed: int = 0) -> Iterator[Case]:
    """Yield the cases; the same seed gives the same ones."""
    rng = np.random.default_rng(seed)
    rules, parts = cycle(("leq", "until", "leq_top1")), cycle((None, "label", "group", None))
    for score in LABEL_SCORES:
        for C in SIZES:
            rule = next(rules)
            if isinstance(score, fw.LAC):
                rule = rule.replace("until", "leq_top1")
            by = next(parts)
            if isinstance(score, fw.MultiLabel):
                rule, by = "leq", None
            yield from _of_labels(rng, score, C, rule=rule, by=by)  # type: ignore[arg-type]  # a rule
    for of_values in INTERVAL_SCORES:
        for part in (None, "group"):
            yield from _of_values(rng, of_values, part)
    yield from _of_maps(rng)


def vectors(seed: int = 0) -> bytes:
    """Return the cases as JSON."""
    return msgspec.json.encode({"version": 1, "cases": list(cases(seed))}) + b"\n"


def _of_labels(
    rng: np.random.Generator,
    score: LabelScore | fw.MultiLabel,
    C: int,
    *,
    rule: Rule,
    by: str | None,
) -> Iterator[Case]:
    n = SIZES[C]
    p = _probabilities(rng, n, C)
    ids = [f"{NAMES[row % len(NAMES)]}-{rng.integers(10**6)}-{row}" for row in range(n)]
    key = f"key {C} {by}"
    u = None
    if isinstance(score, fw.MultiLabel):
        p = rng.permuted(p.reshape(-1)).reshape(p.shape)
        values = score.of_every_label(p)
    else:
        u = uniforms(key, ids) if score.randomized else None
        values = score.of_every_label(p, u)
    width = C if by == "label" else 1
    levels = _levels(rng, values.reshape(-1), width, by)
    own = _predictor(score, levels, rule=rule, key=key, n_classes=C, by=by)
    groups = _groups(rng, n) if by == "group" else None
    for level in levels:
        found = own.predict_set(p, ids=ids, groups=groups, alpha=level.alpha)
        yield Case(
            predictor=own,
            alpha=level.alpha,
            outputs=p.tolist(),
            ids=ids,
            groups=groups,
            u=None if u is None else u.tolist(),
            sets=[list(found[row]) for row in range(n)],
        )


def _of_values(rng: np.random.Generator, score: IntervalScore, by: str | None) -> Iterator[Case]:
    n = 60
    out = rng.normal(size=(n, score.width)) * 10.0 ** rng.integers(-3, 7, (n, 1))
    out[:4] = 0.0
    if isinstance(score, fw.NormalizedResidual):
        out[:, 1] = np.abs(out[:, 1])
    out = out if score.width > 1 else out[:, 0]
    values = score.of(out, rng.normal(size=n) * 10.0 ** rng.integers(-3, 7, n))
    levels = _levels(rng, values.reshape(-1), score.columns, by)
    own = _predictor(score, levels, by=by)
    groups = _groups(rng, n) if by == "group" else None
    for level in levels:
        found = own.predict_interval(out, groups=groups, alpha=level.alpha)
        yield Case(
            predictor=own,
            alpha=level.alpha,
            outputs=out.tolist(),
            groups=groups,
            lower=_numbers(found.lower),
            upper=_numbers(found.upper),
        )


def _of_maps(rng: np.random.Generator) -> Iterator[Case]:
    maps = _probabilities(rng, 60, 64)
    levels = _levels(rng, np.ceil((1 - maps) * 1000).reshape(-1) / 1000, 1, None)
    own = _predictor(fw.Mask(), levels)
    for level in levels:
        found = [own.predict_mask(row[None], alpha=level.alpha)[0] for row in maps]
        sets = [np.flatnonzero(mask).tolist() for mask in found]
        yield Case(predictor=own, alpha=level.alpha, outputs=maps.tolist(), sets=sets)


def _groups(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Draw the groups of each row: of one, of several, of none."""
    return [[str(name) for name in rng.choice(GROUPS[:3], k, False)] for k in rng.integers(0, 4, n)]


def _levels(
    rng: np.random.Generator, values: Floats, width: int, by: str | None
) -> tuple[Level, ...]:
    """Draw thresholds from scores of the rows; now and then one is +inf."""
    rows = len(GROUPS) if by == "group" else 1

    def _row() -> tuple[Threshold, ...]:
        q = rng.choice(values, width)
        q[rng.random(width) < 0.1] = np.inf
        return tuple(_numbers(q))  # type: ignore[arg-type]  # no threshold is -inf

    return tuple(Level(alpha, tuple(_row() for _ in range(rows))) for alpha in (0.1, 0.3))


def _probabilities(rng: np.random.Generator, n: int, C: int) -> Floats:
    """Draw rows: some of eighths, with ties and zeros, one sure, one even, some of float32."""
    p = rng.dirichlet(np.full(C, 0.3 if C > 3 else 1.0), n)
    for row in range(0, n, 4):
        p[row] = np.bincount(rng.integers(0, C, 8), minlength=C) / 8
    p[1], p[2] = np.eye(C)[rng.integers(C)], 1 / C
    some = p[3::4].astype(np.float32)
    p[3::4] = some
    return p


def _numbers(values: Floats) -> list[float | str]:
    """Return numbers as JSON holds them."""
    return [float(x) if np.isfinite(x) else ("inf" if x > 0 else "-inf") for x in values]


def _predictor(score: Any, levels: tuple[Level, ...], **options: Any) -> Predictor:
    settings = {name: getattr(score, name) for name in settings_of(score)}
    if options.get("by") == "group":
        options["groups"] = GROUPS
    return Predictor(
        agent="köln",
        score=Choice(name_of(score), settings),
        method=Choice("split-cp", {}),
        levels=levels,
        guarantee=NO_GUARANTEE,
        promise="",
        assumption="",
        round="vectors",
        **options,
    )


if __name__ == "__main__":
    out, *seed = sys.argv[1:]
    Path(out).write_bytes(vectors(*map(int, seed)))
