"""Advice on contrasting federations, its rules at their edges, and what it expects of averages."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
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


def confident_and_weak(seed=0):
    """Return LAC scores of two confident and two weak models."""
    rng = np.random.default_rng(seed)
    return [rng.beta(0.3, 6, size=900) for _ in range(2)] + [
        rng.beta(3, 1, size=900) for _ in range(2)
    ]


def two_sentences(advice):
    """Whether the reason is told in two sentences."""
    return advice.why.count(". ") == 1 and advice.why.endswith(".")


# ---- five contrasting federations


def test_like_agents_average():
    advice = look(*uniform(900, 400, 1500, 700, 600))
    assert (advice.method, advice.score, advice.settings) == ("fedwq-cp", "aps", {})
    assert advice.code == "alike"
    assert "price" not in advice.why
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
    assert "no agent is covered less" in advice.why
    assert two_sentences(advice)


def test_confident_and_weak_models_keep_their_own_thresholds():
    alike = [[300, 300, 300], [310, 280, 310], [290, 305, 305], [295, 300, 305]]
    advice = look(*confident_and_weak(), score="lac", counts=alike)
    assert (advice.method, advice.score, advice.code) == ("split-cp", "lac", "models")
    assert "price" in advice.why
    assert two_sentences(advice)
    blind = look(*confident_and_weak(), score="lac")  # the same without counts
    assert (blind.method, blind.score) == ("fcp", "aps")
    assert two_sentences(blind)


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
    assert "price" in advice.why
    assert two_sentences(advice)


@pytest.mark.parametrize("claim", [0.0, 0.4, 1.0, inf])
def test_one_liar_among_agents_that_agree_is_named(claim):
    honest = uniform(900, 400, 1500, 700, 600)
    advice = look(*honest, LocalQuantile(claim, 800))
    assert (advice.method, advice.code, advice.agents) == ("weighted-median-cp", "outlier", ("a5",))
    assert "ask" in advice.why
    assert "price" in advice.why


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
