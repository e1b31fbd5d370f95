"""The floor of `auto`, checked exactly at one agent under releases of a hostile server.

The bound is about fixed values in random order. So every pattern of ties of n + 1 values is tried,
each value in turn is the test point, and the share of covered ones is counted: no chance is left.
A threshold knows the calibration values only as a sample, so patterns are taken in sorted order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, permutations, product
from math import ceil, inf
from typing import Any

import numpy as np
import pytest
from msgspec.structs import force_setattr

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.predict import thresholds
from fedwqcp.methods.auto import Auto, Borrowed
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.messages import Outcome

ALPHAS = (0.05, 0.1, 0.2, 0.34, 0.5)
HOSTILE = (-inf, -1e308, 0.0, 1e308, inf)
"""What a server can put into a release as borrowed."""
SIZES = [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 7, 8))]

Threshold = Callable[[Sequence[float]], float]
Patterns = Callable[[int], Iterator[list[float]]]


def counts(m: int) -> Iterator[list[float]]:
    """Give m values in order, from 0, with every pattern of ties."""
    for steps in product((0, 1), repeat=m - 1):
        yield [float(v) for v in accumulate(steps, initial=0)]


def patterns(m: int) -> Iterator[list[float]]:
    """Give m values in order with every pattern of ties, about 0, and with the largest +inf."""
    for values in counts(m):
        yield [v - 2 for v in values]
        yield [inf if v == values[-1] else v for v in values]


def covered(values: Sequence[float], threshold: Threshold) -> Fraction:
    """Return how often the test value is at most the threshold of the others."""
    hits = 0
    for value, times in Counter(values).items():
        rest = list(values)
        rest.remove(value)
        hits += times * (value <= threshold(rest))
    return Fraction(hits, len(values))


def rank(n: int, alpha: float) -> int:
    return ceil((n + 1) * (1 - Fraction(str(alpha))))


def proved(n: int, alpha: float) -> Fraction:
    return min(1 - Fraction(str(alpha)), Fraction(n, n + 1))


def check(n: int, alpha: float, threshold: Threshold, every: Patterns = patterns) -> None:
    """Check the bound, and that nothing above the largest score comes out where r <= n."""

    def watched(rest: Sequence[float]) -> float:
        q = threshold(rest)
        assert q <= max(rest, default=inf) or rank(n, alpha) > n
        return q

    for values in every(n + 1):
        assert covered(values, watched) >= proved(n, alpha)


def floor(rest: Sequence[float], alpha: float, lower: int = 0) -> float:
    """Return f_k of the specification, or a wrong one so many places lower."""
    place = min(rank(len(rest), alpha), len(rest)) - 1 - lower
    return sorted(rest)[place] if place >= 0 else -inf


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("n", range(1, 7))
def test_the_enumeration_tells_a_floor_from_wrong_ones(n, alpha):
    check(n, alpha, lambda rest: floor(rest, alpha))
    with pytest.raises(AssertionError):
        check(n, alpha, lambda rest: floor(rest, alpha, lower=1))
    if rank(n, alpha) <= n:
        with pytest.raises(AssertionError):
            check(n, alpha, lambda rest: inf)


def forged(kind: type[Outcome], value: float) -> Outcome:
    """Return an outcome with a value that its own checks may refuse."""
    names = kind.__struct_fields__
    sound: dict[str, Any] = {"values": (0.5, 0.5), "value": 0.5, "pooled": 0.5}
    outcome = kind(**{name: sound[name] for name in names if name in sound})
    for name in (name for name in names if name in sound):
        force_setattr(outcome, name, (value, value) if name == "values" else value)
    return outcome


def data(by: str | None, rest: Sequence[float]) -> fw.Calibration:
    """Return an agent's points, where it has parts with some of another part beside them."""
    if by in (None, "classes"):
        labels = None if by is None else np.arange(len(rest)) % 2
        return fw.Calibration(rest, labels, n_classes=2 if by else None)
    scores, part = [*rest, 0.5, 3.5, -7.0], np.repeat([0, 1], [len(rest), 3])
    if by == "label":
        return fw.Calibration(scores, part, n_classes=2)
    return fw.Calibration(scores, groups=np.array(["f", "m"])[part])


def at_agent(release: fw.Release, by: str | None, rest: Sequence[float], alpha: float) -> float:
    """Return the threshold of agent a, or of its first part."""
    q = thresholds(release, "a", alpha, data(by, rest), group="f" if by == "group" else None)
    return float(q[0] if by == "label" else q)


def hostile(by: str | None, n: int) -> Iterator[fw.Release]:
    """Give releases of a hostile server to agent a: for few points, of every kind it can send."""
    sites = {name: data(by, np.random.default_rng(0).normal(size=12)) for name in "ab"}
    parts = by if by in ("label", "group") else None
    honest = fw.calibrate(sites, method="auto", alpha=ALPHAS, by=parts)
    a, b = honest.agents
    without = replace(honest, agents=(replace(a, status="missing"), b), local={})
    for kind in Auto.outcomes if n < 3 else (Borrowed,):
        for value in HOSTILE:
            outcomes = tuple(forged(kind, value) for _ in honest.outcomes)
            yield replace(honest, outcomes=outcomes, local={})
            if n < 3:
                yield replace(without, outcomes=outcomes)


@pytest.mark.guarantee("auto", "coverage of at least min(1 - alpha, n/(n + 1)) at each agent")
@pytest.mark.guarantee("auto", "Within each label or group the same holds")
@pytest.mark.guarantee("auto", "A Byzantine agent cannot raise the threshold")
@pytest.mark.parametrize("by", [None, "classes", "label", "group"])
@pytest.mark.parametrize("n", SIZES)
def test_no_release_lowers_the_floor_or_blows_up_a_finite_threshold(n, by):
    for release, alpha in product(hostile(by, n), ALPHAS):

        @cache
        def threshold(*rest: float, release=release, alpha=alpha) -> float:
            return at_agent(release, by, rest, alpha)

        check(n, alpha, lambda rest, threshold=threshold: threshold(*rest))


def test_a_hostile_release_gives_nothing_without_the_agents_own_data():
    for release in hostile(None, 0):
        with pytest.raises(InputError):
            thresholds(release, "a", 0.1)


@pytest.mark.guarantee("auto", "Of a score of two columns it is min(1 - alpha, (n - 1)/(n + 1))")
@pytest.mark.parametrize("alpha", [0.1, 0.5])
@pytest.mark.parametrize("n", range(1, 6))
def test_misses_of_two_columns_add_up(n, alpha):
    """The floor of each column misses with probability 1 / (n + 1) at most, on another point."""
    sites = {"a": fw.Calibration(np.zeros((n, 2))), "b": fw.Calibration(np.zeros((12, 2)))}
    honest = fw.calibrate(sites, method="auto", alpha=alpha, score=Custom(columns=2))
    outcomes = (forged(Borrowed, -1e308),) * 2
    release = replace(honest, outcomes=outcomes, local={})
    low, shares = np.arange(n + 1.0), set[Fraction]()
    for high in permutations(range(n + 1)):
        points, hits = np.column_stack([low, high]), 0
        for at in range(n + 1):
            rest = fw.Calibration(np.delete(points, at, axis=0))
            hits += bool((points[at] <= thresholds(release, "a", alpha, rest)).all())
        shares.add(Fraction(hits, n + 1))
    assert min(shares) >= min(1 - Fraction(str(alpha)), Fraction(n - 1, n + 1))
    if rank(n, alpha / 2) > n:  # and no level above that is proved
        assert min(shares) == Fraction(n - 1, n + 1)


@pytest.mark.parametrize(
    "n", [*range(1, 6), *(pytest.param(n, marks=pytest.mark.slow) for n in (6, 7, 8))]
)
@pytest.mark.parametrize("value", ["-inf", -1e308, 0.0, 1e308, "inf", None])
def test_no_release_file_of_a_hostile_server_lowers_the_floor(value, n, tmp_path):
    """As an agent meets it: from a file and its own outputs to the interval of a new case."""

    def points(values: Sequence[float]) -> fw.Outputs:
        return fw.Outputs(np.zeros(len(values)), values)

    sites = {name: points([float(k) for k in range(12)]) for name in "ab"}
    honest = fw.calibrate(sites, alpha=0.2, score="absolute-residual")
    fw.save(honest.public(), file := tmp_path / "release.json")
    told = json.loads(file.read_text())
    (sent,) = told["outcomes"]
    told["outcomes"] = [
        sent | {name: value for name in sent if name != "kind" and value is not None}
    ]
    told["agents"][0] |= {"status": "missing"} if value is None else {}
    file.write_text(json.dumps(told))
    if value == "-inf":  # no score is, so that no threshold can be
        with pytest.raises(RecordError):
            fw.load(file)
        return
    release = fw.load(file)

    @cache
    def end(*rest: float) -> float:
        own = release.predictor("a", points(rest))
        return float(own.predict_interval([0.0]).upper[0])

    check(n, 0.2, lambda rest: end(*rest), counts)
