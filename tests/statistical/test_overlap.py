"""Overlapping groups: what is proved within every one of them, at once."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import inf
from statistics import NormalDist

import numpy as np
import pytest
from msgspec.structs import force_setattr, replace

import fedwqcp as fw
from fedwqcp.federation.predict import thresholds
from fedwqcp.groups import group_places, largest
from fedwqcp.methods.auto import Borrowed

KINDS = (frozenset("A"), frozenset("B"), frozenset("AB"))
"""What a point may be in."""
ALPHAS = (0.1, 0.4)

Point = tuple[float, frozenset[str]]
Threshold = Callable[[tuple[Point, ...], frozenset[str]], float]


def proved(n: int, alpha: float) -> Fraction:
    return min(1 - Fraction(str(alpha)), Fraction(n, n + 1))


def check(size: int, alpha: float, threshold: Threshold) -> None:
    """Check each group of every federation of so many points, one of them the test point.

    Given who is in the group, each of its points is the test point with the same probability.
    """
    for kinds in product(KINDS, repeat=size):
        for scores in product(range(1, size + 1), repeat=size):
            points = list(zip(map(float, scores), kinds, strict=True))
            hits, sizes = Counter[str](), Counter[str]()
            for at, (score, kind) in enumerate(points):
                rest = tuple(sorted([*points[:at], *points[at + 1 :]], key=str))
                hit = score <= threshold(rest, kind)
                sizes.update(kind)
                hits.update(kind if hit else ())
            for group, members in sizes.items():
                assert Fraction(hits[group], members) >= proved(members - 1, alpha)


def calibration(points: Sequence[Point]) -> fw.Calibration:
    return fw.Calibration([score for score, _ in points], groups=[set(kind) for _, kind in points])


def hostile() -> Iterator[fw.Release]:
    """Give releases of a round by group in which the server or other agents say what they like."""
    rng = np.random.default_rng(0)
    sites = {
        name: calibration([(rng.uniform(), KINDS[at % 3]) for at in range(40)]) for name in "ab"
    }
    honest = fw.calibrate(sites, alpha=ALPHAS, by="group", method="auto")
    for value in (-1e308, 2.5, inf):
        outcomes = []
        for _ in honest.outcomes:
            outcome = Borrowed((0.5, 0.5), 0.5)
            force_setattr(outcome, "values", (value, value))
            force_setattr(outcome, "pooled", value)
            outcomes.append(outcome)
        yield replace(honest, outcomes=tuple(outcomes), local={})


@pytest.mark.guarantee("auto", "Within each label or group the same holds")
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_group_is_covered_as_its_own_points_prove(size: int, alpha: float) -> None:
    for release in hostile():

        @cache
        def threshold(rest: tuple[Point, ...], kind: frozenset[str], release=release) -> float:
            cal = calibration(rest) if rest else fw.Calibration([], groups=[])
            table = np.array([[thresholds(release, "a", alpha, cal, group=name)] for name in "AB"])
            return float(largest(table, group_places([set(kind)], "AB"))[0, 0])

        check(size, alpha, threshold)


def test_the_enumeration_tells_the_largest_threshold_from_the_smallest() -> None:
    def of_group(rest: tuple[Point, ...], group: str) -> float:
        return max((score for score, kind in rest if group in kind), default=-inf)

    check(3, 0.1, lambda rest, kind: max(of_group(rest, group) for group in kind))
    with pytest.raises(AssertionError):
        check(3, 0.1, lambda rest, kind: min(of_group(rest, group) for group in kind))


NAMES = ("female", "old", "scanner-b")
CELLS = (*NAMES, "others")
FEDERATIONS, TESTS = 1_000, 200


def drawn(rng: np.random.Generator, n: int, shares: np.ndarray, scale: np.ndarray):
    """Return scores and groups of n points: whom they are in decides how large scores are."""
    member = rng.random((n, len(NAMES))) < shares
    sets = [{name for name, own in zip(NAMES, row, strict=True) if own} for row in member]
    return rng.exponential(np.exp(member @ scale)), sets


@pytest.mark.slow
@pytest.mark.parametrize("alpha", ALPHAS)
def test_no_group_of_a_thousand_federations_is_covered_less_than_proved(alpha: float) -> None:
    """Family-wise at 1 % over all sites and groups; errors are between federations."""
    rng = np.random.default_rng(20_261_119)
    names = ("a", "b", "c")
    excess: dict[tuple[str, str], list[float]] = {}
    warnings.simplefilter("ignore", UserWarning)
    for _ in range(FEDERATIONS):
        laws = {k: (rng.uniform(0.05, 0.8, 3), rng.normal(size=3)) for k in names}
        sizes = {k: int(np.exp(rng.uniform(np.log(4), np.log(200)))) for k in names}
        sites = {}
        for name in names:
            scores, sets = drawn(rng, sizes[name], *laws[name])
            sites[name] = fw.Calibration(scores, groups=sets)
        release = fw.calibrate(sites, alpha=alpha, by="group", method="auto")
        for name in names:
            test, sets = drawn(rng, TESTS, *laws[name])
            known = [row for row in sets if (row or {"others"}) <= set(release.round.groups)]
            own = np.array([(row or {"others"}) <= set(release.round.groups) for row in sets])
            of_group = {
                group: release.threshold(name, group=group) for group in release.round.groups
            }
            rows = [max(of_group[group] for group in row or {"others"}) for row in known]
            hit = test[own] <= np.ravel(rows)
            calibrated = Counter(
                group for row in sites[name].groups.tolist() for group in row if group
            )
            for group in CELLS:
                inside = [group in (row or {"others"}) for row in known]
                n = calibrated[group]
                if n and any(inside):
                    covered = float(np.mean(np.asarray(hit)[inside]))
                    least = float(proved(n, alpha))
                    excess.setdefault((name, group), []).append(covered - least)
    bound = NormalDist().inv_cdf(0.01 / (len(excess) * len(ALPHAS)))
    assert len(excess) == len(names) * len(CELLS)
    for values in excess.values():
        assert len(values) > FEDERATIONS / 2
        error = float(np.std(values, ddof=1)) / len(values) ** 0.5
        assert float(np.mean(values)) >= bound * error
