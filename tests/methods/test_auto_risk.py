"""The default for losses: its bound by enumeration, what it sends, and a Byzantine pool."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import inf

import numpy as np
import pytest
from msgspec.structs import force_setattr

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, new_round
from fedwqcp.federation.predict import thresholds
from fedwqcp.methods._auto_risk import CRC, AutoRisk, sent_levels
from fedwqcp.methods.auto import HIDDEN, Borrowed, enough_points
from fedwqcp.methods.fed_crc import FedCRC
from fedwqcp.methods.guarded_median_cp import Proposal

SCORE = fw.Mask()
PIXELS = (0.9996, 0.70005, 0.5, 0.2)  # four scores, two of them rounded up
PLACES = (-inf, -1e308, 0.0, 0.4, 0.77, 1e308, inf)
"""What a server can put into a release as borrowed."""


def tiny(pixels):
    """All images with so many true pixels of four probabilities, as calibration of one point."""
    images = [np.array([each]) for each in combinations_with_replacement(PIXELS, pixels)]
    return [(p, fw.MaskOutputs([p], [np.ones_like(p, bool)])) for p in images]


def calibration(outputs):
    """Several images as one agent's calibration."""
    weights = np.vstack([SCORE.weights(o.inside) for o in outputs])
    return fw.Calibration(np.broadcast_to(SCORE.grid, weights.shape), weights=weights)


def missed_by(images):
    """Return a function that counts the missed pixels of each image at t, by the masks."""

    @cache
    def missed(t):
        return [int((~SCORE.invert(p, t)).sum()) for p, _ in images]

    return missed


def hostile(alpha, n):
    """Give releases of a hostile server: for few images, of every kind it can send."""
    images = [each for _, each in tiny(1)] * 3
    honest = fw.calibrate({name: calibration(images) for name in "ab"}, alpha=alpha, score=SCORE)
    for kind, value in product(AutoRisk.outcomes if n < 3 else (Borrowed,), PLACES):
        outcome = Proposal(0.5) if kind is Proposal else Borrowed((0.5, 0.5), 0.5)
        forged = {"value": value} if kind is Proposal else {"values": (value,) * 2, "pooled": value}
        for name, part in forged.items():
            force_setattr(outcome, name, part)
        yield replace(honest, outcomes=(outcome,), local={})


@pytest.mark.guarantee("auto", "the expected loss is at most")
@pytest.mark.parametrize(
    ("pixels", "most"), [(1, 5), (2, 3), (3, 2), pytest.param(2, 5, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.5])
def test_the_bound_by_enumeration(pixels, most, alpha):
    """Whatever is borrowed, over every set of n + 1 images, each of them in turn the test image."""
    images, level = tiny(pixels), Fraction(str(alpha))
    method, missed = AutoRisk(1.5, "borrow"), missed_by(images)
    for n in range(1, most + 1):
        bound = level if Fraction(1, n + 1) <= level else (n * level + 1) / (n + 1)
        assert method.traits.proved(n, alpha) == pytest.approx(float(1 - bound))
        cals = {
            kept: calibration([images[i][1] for i in kept])
            for kept in combinations_with_replacement(range(len(images)), n)
        }
        for release in hostile(alpha, n):
            loss = {
                kept: missed(thresholds(release, "a", alpha, cal)) for kept, cal in cals.items()
            }
            for every in combinations_with_replacement(range(len(images)), n + 1):
                total = sum(
                    loss[every[:place] + every[place + 1 :]][every[place]] for place in range(n + 1)
                )
                assert total <= (n + 1) * bound * pixels


@pytest.mark.parametrize("correction", ["mixture", "pooled"])
@pytest.mark.parametrize("alpha", [0.5, 0.7])
def test_the_bound_of_fed_crc_by_enumeration(correction, alpha):
    """Two agents of one image each; the test image comes from either, in proportion to n + 1."""
    images, method = tiny(2), FedCRC(correction)
    level, missed = 2 * Fraction(str(alpha)), missed_by(images)
    sent = [method.summarize(calibration([each[1]]), alpha) for each in images]
    at = {
        pair: missed(method.aggregate([sent[i] for i in pair], alpha).value)
        for pair in product(range(len(images)), repeat=2)
    }
    if correction == "pooled":  # three images of one distribution
        for every in combinations_with_replacement(range(len(images)), 3):
            turns = [(every[i - 2], every[i - 1], every[i]) for i in range(3)]
            assert sum(at[a, b][c] for a, b, c in turns) <= 3 * level
        return
    for a, b in product(combinations_with_replacement(range(len(images)), 2), repeat=2):
        total = sum(
            at[a[i], b[j]][a[1 - i]] + at[a[i], b[j]][b[1 - j]]
            for i, j in product((0, 1), repeat=2)
        )
        assert total <= 8 * level


def site(rng, n, blur, shape=(12, 12)):
    """Squares, and the probabilities of a model that is worse with more blur."""
    for _ in range(n):
        mask = np.zeros(shape, bool)
        row, column = rng.integers(0, 7, 2)
        mask[row : row + 5, column : column + 5] = True
        yield 1 / (1 + np.exp(-(4 * mask - 2 + rng.normal(scale=blur, size=shape)))), mask


SIZES = {"large": 150, "middle": 40, "small": 5, "none": 0}


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(3)
    return {name: fw.MaskOutputs(site(rng, n, 2.0)) for name, n in SIZES.items()}


@pytest.mark.filterwarnings("ignore::fedwqcp.FewPointsWarning")
def test_each_site_gets_what_its_number_of_images_allows(sites):
    release = fw.calibrate(sites, alpha=0.1)
    assert SIZES["middle"] < enough_points(0.1, 1.5) <= SIZES["large"]
    pooled = release.outcomes[0].value
    t = {name: release.threshold(name) for name in sites}
    alone = {  # a mixture of one site: conformal risk control there
        name: fw.calibrate({name: sites[name]}, alpha=0.1, method="fed-crc").threshold(name)
        for name in ("large", "middle")
    }
    assert t["large"] == alone["large"]
    assert t["middle"] == max(alone["middle"], pooled)
    assert t["small"] >= pooled
    assert t["none"] == pooled
    assert [release.proved(name) for name in sites] == pytest.approx([0.9, 0.9, 0.75, 0.0])
    assert release.guarantee == fw.Guarantee("risk-floor", "finite-sample")
    again = fw.calibrate(sites, alpha=0.1, method=fw.methods.get("auto", small="inf"))
    assert again.threshold("small") == inf
    assert again.proved("small") == 0.9


def test_a_byzantine_pool_stays_within_the_own_data(sites):
    cal = calibration([sites["middle"]])
    method, curve = AutoRisk(1.5, "borrow"), CRC.curve(cal)
    own = float(method.localize(Proposal(inf), cal, 0, 0.1))
    assert float(method.localize(Proposal(-7.0), cal, 0, 0.1)) == own
    most = float(method.localize(Proposal(1e308), cal, 0, 0.1))
    assert curve[round(most * 1000)] == 0 < curve[round(most * 1000) - 1]


def test_what_leaves_is_a_rounded_curve_within_every_sites_limit(sites):
    for n in range(1, 400):
        levels = sent_levels(n)
        assert len(levels) == (n // 7 if n >= HIDDEN else 0)
        assert all(1 <= level < n for level in levels)
    round = new_round(("a", "b"), "auto", "mask", (0.1, 0.2))
    for outputs in sites.values():
        cal = calibration([outputs])
        side = Agent("a", round, cal)  # with the usual limit
        assert side.answer()
        sent = AutoRisk(1.5, "borrow").summarize(cal, 0.1)
        exact = CRC.curve(cal)
        assert (np.array(sent.losses) >= exact - 1e-9).all()
        assert len(Counter(sent.losses)) <= len(sent_levels(cal.n)) + 1


def test_losses_are_for_the_target_own_and_scores_that_have_some():
    with pytest.raises(InputError):
        Plan.of(new_round(("a",), "auto", "mask", (0.1,), target="mixture"))
    assert not isinstance(Plan.of(new_round(("a",), "auto", "lac", (0.1,))).method, AutoRisk)
    assert isinstance(Plan.of(new_round(("a",), "auto", "multi-label", (0.1,))).method, AutoRisk)


def test_empty_masks_are_left_out_unless_they_count():
    rng = np.random.default_rng(1)
    pairs = [*site(rng, 30, 1.0), *((p, np.zeros_like(y)) for p, y in site(rng, 270, 1.0))]
    outputs = fw.MaskOutputs(pairs)
    skip = fw.calibrate({"a": outputs}, alpha=0.1, method="fed-crc")
    count = fw.calibrate({"a": outputs}, alpha=0.1, method="fed-crc", score=fw.Mask("count"))
    assert count.threshold("a") < skip.threshold("a")
    found = skip.measure("a", fw.MaskOutputs(pairs))
    assert (found.n, found.empty) == (30, 270)
    assert count.measure("a", fw.MaskOutputs(pairs)).n == 300
    assert found.risk <= 0.1 < count.measure("a", fw.MaskOutputs(pairs[:30])).risk
