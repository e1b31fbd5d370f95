"""Advice on contrasting federations, its rules at their edges, and what it expects of averages."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods.fcp import FCP
from fedwqcp.theory import advise
from fedwqcp.theory._evidence import Evidence
from fedwqcp.theory._outlook import excess, label_shift
from fedwqcp.wire.payload import LocalQuantile

ALPHA = 0.05


def summary(scores, alpha=ALPHA):
    """Return what an agent sends to FedWQ-CP."""
    return LocalQuantile(float(fw.conformal_quantile(scores, alpha)), len(scores))


def look(*parts, **options):
    """Return the advice on agents with these scores."""
    sent = {
        f"a{i}": part if isinstance(part, LocalQuantile) else summary(part)
        for i, part in enumerate(parts)
    }
    counts = options.pop("counts", None)
    if counts is not None:
        options["counts"] = dict(zip(sent, counts, strict=True))
    return advise(sent, ALPHA, **{"score": "aps", "bounds": (0.0, 1.0), **options})


def uniform(*sizes, seed=0):
    """Return uniform scores, as randomised APS of calibrated models gives them."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(size=n) for n in sizes]


def confident_and_weak(seed=0, n=900):
    """Return LAC scores of two confident and two weak models."""
    rng = np.random.default_rng(seed)
    return [rng.beta(0.3, 6, size=n) for _ in range(2)] + [rng.beta(3, 1, size=n) for _ in range(2)]


def two_sentences(advice):
    """Whether the reason is told in two sentences."""
    return advice.why.count(". ") == 1 and advice.why.endswith(".")


# ---- five contrasting federations


def test_like_agents_average():
    advice = look(*uniform(900, 400, 1500, 700, 600))
    assert (advice.method, advice.score, advice.settings) == ("fedwq-cp", "aps", {})
    assert (advice.code, advice.price) == ("alike", "")
    assert two_sentences(advice)


def test_tiny_agents_among_large_ones_are_left_out_of_the_average():
    advice = look(*uniform(900, 12, 1500, 700, 5))
    assert (advice.method, advice.settings) == ("fedwq-cp", {"overflow": "exclude"})
    assert advice.agents == ("a1", "a4")
    assert "n=12" in advice.why
    assert two_sentences(advice)


def test_a_federation_of_tiny_agents_pools():
    advice = look(*uniform(15, 40, 14, 30, 16, 11))
    assert (advice.method, advice.code, advice.settings) == ("fcp", "spread", {"floor": True})
    assert 'with overflow="exclude": no agent is covered less than with that' in advice.why
    assert two_sentences(advice)


def test_confident_and_weak_models_keep_their_own_thresholds():
    alike = [[450, 450, 450], [460, 430, 460], [440, 455, 455], [445, 450, 455]]
    parts = confident_and_weak(n=1350)
    advice = look(*parts, score="lac", counts=alike)
    assert (advice.method, advice.score, advice.code) == ("split-cp", "lac", "models")
    assert "sets grow at some agents and shrink at the others" in advice.price
    assert "2 of 4 agents sent a higher one" in advice.price
    assert two_sentences(advice)
    blind = look(*parts, score="lac")  # the same without counts
    assert (blind.method, blind.score) == ("fcp", "aps")
    assert "covered less" not in blind.why
    assert two_sentences(blind)


def test_own_thresholds_need_many_points():
    # the coverage of n points has standard deviation alpha/8 at n = 64 * 19 = 1216
    def found(n):
        halves = [[n // 2, n - n // 2]] * 2
        return look(LocalQuantile(0.2, n), LocalQuantile(0.9, n), counts=halves)

    assert (found(1250).code, found(1250).method) == ("models", "split-cp")
    few = found(1150)
    assert (few.code, few.method, few.settings) == ("spread", "fcp", {"floor": True})
    assert "no agent is covered less" in few.why


def test_label_shift_is_corrected_where_counts_are_sent():
    rng = np.random.default_rng(1)
    counts = [[800, 50, 50], [50, 800, 50], [50, 50, 800]]
    easy = [
        np.concatenate([rng.beta(1, b, size=n) for n, b in zip(row, (9, 2, 0.5), strict=True)])
        for row in counts
    ]
    advice = look(*easy, counts=counts)
    assert (advice.method, advice.code) == ("fedls-cp", "label-shift")
    assert advice.settings == {"floor": True}
    assert "total variation 0.56" in advice.why
    assert "never below FedWQ-CP's of the same scores: no agent is covered less" in advice.why
    assert "2 of 3 agents sent a higher one, by up to 0.1886" in advice.price
    assert two_sentences(advice)


@pytest.mark.parametrize("claim", [0.0, 0.4, 1.0, inf])
def test_one_liar_among_agents_that_agree_is_named(claim):
    honest = uniform(900, 400, 1500, 700, 600)
    advice = look(*honest, LocalQuantile(claim, 800))
    assert (advice.method, advice.code, advice.agents) == ("weighted-median-cp", "outlier", ("a5",))
    assert "ask" in advice.why
    assert "sets" in advice.price
    assert f"Price: {advice.price}." in str(advice)


# ---- what it does to sizes


def test_prices_by_hand():
    five = [LocalQuantile(q, 800) for q in (0.90, 0.91, 0.92, 0.93, 0.94)]
    low = look(*five, LocalQuantile(0.1, 800))  # the mean of all six is 4.7 / 6
    assert low.price == (
        "the common threshold rises from FedWQ-CP's 0.7833 to one from 0.9 to 0.94, and sets grow "
        "with it"
    )
    endless = look(*five, LocalQuantile(inf, 800))
    assert "falls from FedWQ-CP's +inf to one from 0.9 to 0.94, and sets shrink" in endless.price
    tiny = look(*five, LocalQuantile(0.1, 800), LocalQuantile(inf, 3))
    assert "falls from FedWQ-CP's +inf to one from 0.9 to 0.94" in tiny.price
    assert "unless agents with too few points hold half of the weight" in tiny.price
    pooled = look(LocalQuantile(0.2, 300), LocalQuantile(0.8, 100))
    assert pooled.price == (
        "larger sets: the common threshold rises from FedWQ-CP's 0.35 to 0.8 at most, the largest "
        "that was sent"
    )
    assert "where LAC stays, larger sets: the common threshold rises from FedWQ-CP's 0.35" in (
        look(LocalQuantile(0.2, 300), LocalQuantile(0.8, 100), score="lac").price
    )
    some = look(LocalQuantile(0.2, 300), LocalQuantile(0.8, 100), LocalQuantile(inf, 15))
    assert "at least 0.35, the mean of those that are finite" in some.price
    assert "cannot be told" in look(*[LocalQuantile(inf, 100)] * 3).price


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=20, max_size=60), min_size=2, max_size=5),
    st.sampled_from([0.05, 0.1, 0.3]),
)
def test_a_pooled_threshold_lies_where_its_price_says(parts, alpha):
    cals = {f"a{i}": part for i, part in enumerate(parts)}
    own = [float(fw.conformal_quantile(part, alpha)) for part in parts]
    pooled = fw.calibrate(cals, method=FCP(floor=True), alpha=alpha).threshold("a0")
    mean = fw.calibrate(cals, alpha=alpha).threshold("a0")
    assert mean <= pooled <= max(own)


@given(
    st.lists(st.tuples(st.floats(0.5, 0.9), st.integers(1, 999)), min_size=4, max_size=9),
    st.tuples(st.one_of(st.just(inf), st.floats(0, 1)), st.integers(1, 10**6)),
)
def test_a_weighted_median_lies_where_its_price_says(others, far):
    sent = [LocalQuantile(q, n) for q, n in [*others, far]]
    found = fw.methods.get("weighted-median-cp").aggregate(sent, ALPHA).value
    assert min(q for q, _ in others) <= found <= max(q for q, _ in others)


# ---- following it


@pytest.mark.parametrize("claim", [0.0, 0.4])
def test_following_it_with_a_liar_covers_the_honest(claim):
    rng = np.random.default_rng(3)
    honest = uniform(900, 400, 1500, 700, 600, seed=3)
    sent = {f"a{i}": summary(part) for i, part in enumerate(honest)} | {
        "liar": LocalQuantile(claim, 2000)
    }
    advice = advise(sent, ALPHA, score="aps", bounds=(0.0, 1.0))
    test = rng.uniform(size=20_000)
    robust, plain = (
        np.mean(test <= fw.methods.get(name).aggregate(list(sent.values()), ALPHA).value)
        for name in (advice.method, "fedwq-cp")
    )
    assert plain < 0.85
    assert robust > 0.93


# ---- edges


def test_one_agent_needs_no_round():
    assert look(uniform(500)[0]).method == "split-cp"
    assert look(uniform(500)[0], []).code == "single"
    assert look(uniform(12)[0], []).code == "no-data"  # nor would its own threshold be finite


def test_too_few_points_altogether():
    advice = look(*uniform(5, 6))
    assert (advice.code, advice.settings) == ("no-data", {"overflow": "propagate"})
    assert look([], []).code == "no-data"
    some = look(*uniform(25, 5, 6, 7, 8))  # one agent has enough, but all together cannot pool
    assert (some.code, some.settings) == ("tiny", {"overflow": "exclude"})
    assert "too few to pool" in some.why


def test_agents_without_points_are_left_aside():
    assert look(*uniform(900, 700), []).code == "alike"
    advice = look(*confident_and_weak(), [], score="lac")
    assert (advice.method, advice.settings) == ("fcp", {"floor": True, "count_empty": False})


def test_a_clipped_threshold_is_taken_for_what_it_is():
    large = uniform(900, 1500, 700)
    advice = look(*large, LocalQuantile(0.3, 6))
    assert advice.code == "tiny"


def test_scores_that_are_all_infinite_are_told():
    advice = look(*[LocalQuantile(inf, 100)] * 3)
    assert "covered less" not in advice.why
    assert (advice.method, advice.code) == ("fcp", "spread")
    assert "No agent sent a finite threshold" in advice.why


def test_a_score_without_scale_pools():
    below = [LocalQuantile(-0.5, 900), LocalQuantile(0.4, 900)]
    advice = look(*below, score="cqr", bounds=(-inf, inf))
    assert (advice.method, advice.score) == ("fcp", "cqr")
    assert "no scale" in advice.why
    assert look(*below * 3, score="cqr", bounds=(-inf, inf)).code == "spread"


def test_unbounded_scores_are_judged_by_their_ratio():
    near = [LocalQuantile(2.0, 900), LocalQuantile(2.2, 900)]
    far = [LocalQuantile(2.0, 900), LocalQuantile(9.0, 900)]
    assert look(*near, bounds=(0.0, inf)).code == "alike"
    assert look(*far, bounds=(0.0, inf)).code == "spread"
    scaled = [LocalQuantile(s.threshold * 1000, s.n) for s in far]
    assert look(*scaled, bounds=(0.0, inf)).why == look(*far, bounds=(0.0, inf)).why


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="at least one agent"):
        advise({}, ALPHA)
    with pytest.raises(InputError, match="same agents"):
        advise({"a": LocalQuantile(0.5, 100)}, ALPHA, counts={"b": [1]})
    with pytest.raises(InputError, match="alpha"):
        advise({"a": LocalQuantile(0.5, 100)}, 2)


# ---- what is expected of an average


def test_expected_misses_by_hand():
    sent = {"a": LocalQuantile(0.9, 100), "b": LocalQuantile(0.98, 300)}
    factor, chance = excess(Evidence(sent, 0.05, (0.0, 1.0)), sent)
    # the mean is 0.96: a misses 0.04/0.1 of alpha, b 0.04/0.02
    assert factor == pytest.approx((100 * 0.4 + 300 * 2.0) / 400)
    assert chance == pytest.approx(2 * 0.95 / (0.05 * 400))


@given(st.lists(st.tuples(st.floats(0.0, 0.999), st.integers(1, 1000)), min_size=1, max_size=8))
def test_with_a_bound_averages_are_never_expected_to_miss_less(agents):
    sent = {str(i): LocalQuantile(q, n) for i, (q, n) in enumerate(agents)}
    factor, _ = excess(Evidence(sent, 0.05, (0.0, 1.0)), sent)
    N = sum(n for _, n in agents)
    capped = any((1 - q) * 20 < 1 - sum(q * n for q, n in agents) / N for q, _ in agents)
    assert capped or factor >= 1 - 1e-9  # misses beyond all points are cut at 1


def test_label_shift_is_told_from_chance():
    rng = np.random.default_rng(0)
    law = [0.5, 0.3, 0.15, 0.05]
    shifts = [label_shift(rng.multinomial(500, law, size=6).tolist()) for _ in range(200)]
    assert sum(shift is not None for shift in shifts) <= 2
    assert label_shift([[90, 10], [10, 90]]) == pytest.approx(0.4)
    assert label_shift([[90, 0], [80, 0]]) is None
    assert label_shift([[5, 5], [0, 0]]) is None


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(100,) * 6, (80, 2000, 300, 300), (500,) * 20])
def test_like_agents_are_seldom_called_unlike(sizes):
    codes = [look(*uniform(*sizes, seed=seed)).code for seed in range(300)]
    assert codes.count("alike") >= 270


def worst_coverages(n, alpha, spread, rng):
    """Return the least coverage of agents' own thresholds and of their mean, if own are advised."""
    laws = np.exp(rng.uniform(-spread, spread, size=(6, 2)))
    sent = {f"a{i}": summary(rng.beta(*law, size=n), alpha) for i, law in enumerate(laws)}
    counts = {name: [n // 2, n - n // 2] for name in sent}
    advice = advise(sent, alpha, counts=counts, score="lac", bounds=(0.0, 1.0))
    if advice.code != "models":
        return None
    own = np.array([s.threshold for s in sent.values()])
    return tuple(betainc(*laws.T, at).min() for at in (own, own.mean()))


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "n"), [(0.05, 1250), (0.1, 600), (0.2, 270)])
def test_own_thresholds_are_seldom_worse_at_the_worst_agent(alpha, n):
    rng = np.random.default_rng(0)
    found = [
        worst_coverages(n, alpha, spread, rng) for spread in (0.3, 0.7, 1.5) for _ in range(99)
    ]
    pairs = np.array([pair for pair in found if pair is not None])
    assert len(pairs) > 200
    assert (pairs[:, 0] < pairs[:, 1]).mean() <= 0.01
    assert (pairs[:, 0] - pairs[:, 1]).min() > -0.02
