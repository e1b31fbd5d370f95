"""Advice: what each rule chooses, that it follows the verdict, and what following it does."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods.fcp import FCP
from fedwqcp.quantile import conformal_rank
from fedwqcp.theory import advise, diagnose
from fedwqcp.theory.method_choice import label_shift, own_suffices
from fedwqcp.wire.messages import LocalQuantile

ALPHA = 0.1
GUARDED = {"sketch": "order", "floor": True, "own": True}


def sent(*parts, tail=16, alpha=ALPHA):
    """Return what agents with these scores send; a summary stands for itself."""
    method = fw.methods.get("fedwq-cp", tail=tail)
    return {
        f"a{k}": part
        if isinstance(part, LocalQuantile)
        else method.summarize(fw.Calibration(part), alpha)
        for k, part in enumerate(parts)
    }


def advice_on(*parts, tail=16, alpha=ALPHA, counts=None, **options):
    """Return the advice on agents with these scores, which agrees with the diagnosis."""
    summaries = sent(*parts, tail=tail, alpha=alpha)
    rows = None if counts is None else dict(zip(summaries, counts, strict=True))
    options = {"score": "aps", "bounds": (0.0, 1.0), **options}
    found = advise(summaries, alpha, counts=rows, **options)
    assert found.verdict == diagnose(summaries, alpha, options["bounds"]).verdict
    return found


def uniform(*sizes, seed=0):
    """Return uniform scores, as randomised APS of calibrated models gives them."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(size=n) for n in sizes]


def strong_and_weak(n=1000, seed=0):
    """Return LAC scores of two confident and two weak models."""
    rng = np.random.default_rng(seed)
    return [rng.beta(0.3, 6, size=n) for _ in range(2)] + [rng.beta(3, 1, size=n) for _ in range(2)]


# ---- the rules


def test_identical_agents_with_many_points_average():
    found = advice_on(*uniform(3000, 2500, 3500))
    assert (found.method, found.settings, found.code) == ("fedwq-cp", {}, "safe")
    assert (found.verdict, found.price) == ("safe", "")
    assert "misses at most 13.0%" in found.why


def test_identical_agents_with_few_points_keep_the_larger_threshold():
    found = advice_on(*uniform(60, 60, 60))
    assert (found.method, found.settings, found.code) == ("fcp", GUARDED, "cannot-tell")
    assert "do not show whether" in found.why
    assert "misses at most 39.4% of its points where alpha=0.1 is asked (95 % upper" in found.why
    assert "larger sets" in found.price
    assert "tail=16" not in str(found)  # they were sent


def test_two_numbers_an_agent_are_not_enough_and_it_says_how_to_find_out():
    found = advice_on(*uniform(3000, 2500, 3500), tail=0)
    assert (found.verdict, found.method, found.settings) == ("cannot tell", "fcp", GUARDED)
    assert "miss is not known: these numbers give no bound on it" in found.why
    assert "100" not in found.why
    assert "open a round of fedwq-cp with tail=16" in str(found)


def test_scores_tied_at_the_top_of_the_range_get_a_note():
    tied = {"a": LocalQuantile(1.0, 300), "b": LocalQuantile(0.4, 400)}
    found = advise(tied, ALPHA, bounds=(0.0, 1.0))
    assert any("Scores of a are tied at the largest there is" in note for note in found.notes)
    assert not any("tied" in note for note in advise(tied, ALPHA).notes)  # of no known range


def test_models_of_unequal_strength_keep_their_own_thresholds():
    found = advice_on(*strong_and_weak(), score="lac")
    assert (found.method, found.score, found.code) == ("split-cp", "lac", "unsafe")
    assert set(found.agents) == {"a2", "a3"}
    assert "2 of 4 agents sent a higher threshold" in found.price
    assert "where models are calibrated" in found.notes[0]


def test_own_thresholds_need_many_points():
    # the coverage of n points has standard deviation alpha/4 at about n = 16 * 9 = 144
    assert not own_suffices(130, 0.1)
    assert own_suffices(150, 0.1)
    assert own_suffices(320, 0.05)
    assert not own_suffices(290, 0.05)
    few = advice_on(*strong_and_weak(n=120))
    assert (few.code, few.verdict, few.method, few.settings) == ("unsafe", "unsafe", "fcp", GUARDED)


def test_label_shift_is_corrected_where_counts_are_sent():
    rng = np.random.default_rng(1)
    counts = [[800, 50, 50], [50, 800, 50], [50, 50, 800]]
    parts = [
        np.concatenate([rng.beta(1, b, size=n) for n, b in zip(row, (9, 2, 0.5), strict=True)])
        for row in counts
    ]
    found = advice_on(*parts, counts=counts, target="mixture")
    assert (found.method, found.code, found.settings, found.target) == (
        "fedls-cp",
        "label-shift",
        {"floor": True},
        "mixture",
    )
    assert "total variation 0.56" in found.why
    assert "people of all agents" in found.why
    assert str(found).startswith("use fedls-cp with floor=true for score aps, for target mixture. ")
    many = advice_on(*parts * 7, counts=counts * 7, target="mixture")
    assert many.method != "fedls-cp"  # of 21 agents it would serve the worst one less than fcp
    for counted in (counts, [[300, 300, 300]] * 3):
        assert advice_on(*parts, counts=counted).method == "split-cp"  # enough points of their own
    few = [part[::10] for part in parts]
    own = advice_on(*few, counts=[[80, 5, 5], [5, 80, 5], [5, 5, 80]])
    assert (own.method, own.code, own.target) == ("fedls-cp", "label-shift", "own")
    assert "people like those it calibrated on" in own.why
    far = [[2500, 500], [500, 2500]]
    assert advice_on(*uniform(3000, 3000), counts=far).method == "fedwq-cp"
    both = advice_on(*uniform(3000, 3000), counts=far, target="mixture")
    assert (both.method, both.verdict) == ("fedls-cp", "safe")
    with pytest.raises(InputError, match="target must be 'own' or 'mixture', got 'all'"):
        advice_on(*uniform(30, 30), target="all")


@pytest.mark.parametrize("claim", [0.0, 0.4, 1.0, inf])
@pytest.mark.parametrize("tail", [0, 16])
def test_an_agent_that_dominates_is_named_and_decides_for_nobody_else(claim, tail):
    honest = uniform(900, 400, 1500, 700, 600)
    byzantine = LocalQuantile(claim, 10**6)
    found = advice_on(*honest, byzantine, tail=tail)
    assert found.verdict in ("unsafe", "cannot tell")
    assert (found.method, found.code, found.agents) == ("guarded-median-cp", "suspect", ("a5",))
    cals = {f"a{k}": scores for k, scores in enumerate(honest)}
    cals["a5"] = np.full(9000, claim)
    release = fw.calibrate(
        cals, method=fw.methods.get(found.method, **found.settings), alpha=ALPHA, score="aps"
    )
    for k, scores in enumerate(honest):
        own = fw.conformal_quantile(scores, ALPHA)
        most = fw.conformal_quantile(scores, ALPHA / 2)
        assert own <= release.threshold(f"a{k}") <= most


def test_agents_too_small_for_a_threshold_are_named_beside_one_that_dominates():
    found = advice_on(*uniform(200, 120, 12), alpha=0.05)
    assert (found.code, found.agents) == ("suspect", ("a0",))
    assert str(found).startswith("use guarded-median-cp with slack=0.5 for score aps. a0 alone")
    assert "ask a0 to check its model outputs and labels" in found.why
    assert "Sets of a2 will still hold every label, with fewer than the 19 points" in found.why
    new = advice_on(*uniform(200, 120, 12), alpha=0.05, new_site=True)
    assert new.price.endswith("of the agents that sent a finite one")


def test_a_byzantine_agent_of_common_size_lowers_nobody():
    honest = uniform(900, 400, 1500, 700, 600)
    for claim in (0.0, 0.4, 1.0):
        found = advice_on(*honest, np.full(800, claim))
        cals = {f"a{k}": part for k, part in enumerate([*honest, np.full(800, claim)])}
        release = fw.calibrate(
            cals, method=fw.methods.get(found.method, **found.settings), alpha=ALPHA
        )
        for k, scores in enumerate(honest):
            assert release.threshold(f"a{k}") >= fw.conformal_quantile(scores, ALPHA)


def test_one_agent_needs_no_round():
    assert advice_on(uniform(500)[0]).method == "split-cp"
    assert advice_on(uniform(500)[0], []).code == "single"
    assert advice_on(uniform(5)[0], []).code == "no-data"  # nor would its own threshold be finite


def test_too_few_points_altogether():
    found = advice_on(*uniform(4, 4))
    assert (found.code, found.method, found.settings) == ("no-data", "fedwq-cp", {})
    assert "collect more points" in found.why
    assert advice_on([], []).code == "no-data"
    some = advice_on(*uniform(25, 5, 6, 7, 8), alpha=0.05)  # one has enough, all cannot pool
    assert (some.code, some.settings) == ("few", {"overflow": "exclude"})


def test_agents_with_too_few_points_share_the_pooled_threshold():
    found = advice_on(*uniform(900, 5, 700, 800))
    assert (found.verdict, found.method, found.settings) == ("unsafe", "fcp", GUARDED)
    assert "a1 sent +inf" in found.why
    cals = dict(zip("abcd", uniform(900, 5, 700, 800), strict=True))
    release = fw.calibrate(cals, method=FCP(**GUARDED), alpha=ALPHA)
    assert release.threshold("b") < inf


def test_agents_without_points_are_left_aside():
    assert advice_on(*uniform(3000, 2500), []).code == "safe"
    found = advice_on(*strong_and_weak(n=60), [])
    assert (found.method, found.settings) == ("fcp", {**GUARDED, "count_empty": False})


def test_scores_that_are_all_infinite():
    found = advice_on(*[LocalQuantile(inf, 100)] * 3)
    assert found.method == "fcp"
    assert "No agent sent a finite threshold" in found.why
    assert "is unknown" in found.price


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="at least one agent"):
        advise({}, ALPHA)
    with pytest.raises(InputError, match="same agents"):
        advise({"a": LocalQuantile(0.5, 100)}, ALPHA, counts={"b": [1]})
    with pytest.raises(InputError, match="alpha"):
        advise({"a": LocalQuantile(0.5, 100)}, 2)


# ---- what it promises


@given(
    st.lists(st.lists(st.floats(0, 1), min_size=20, max_size=60), min_size=2, max_size=5),
    st.sampled_from([0.05, 0.1, 0.3]),
)
@settings(max_examples=40)  # four rounds each
def test_a_guarded_threshold_lies_where_its_price_says(parts, alpha):
    cals = {f"a{i}": part for i, part in enumerate(parts)}
    release = fw.calibrate(cals, method=FCP(**GUARDED), alpha=alpha)
    pooled = fw.calibrate(cals, method="fcp", alpha=alpha).threshold("a0")
    mean = fw.calibrate(cals, method="fedwq-cp", alpha=alpha).threshold("a0")
    own = {name: float(fw.conformal_quantile(part, alpha)) for name, part in cals.items()}
    exact = fw.calibrate(cals, method=FCP(floor=True, own=True), alpha=alpha)
    for name in cals:
        expected = max(pooled, mean, own[name])
        assert exact.threshold(name) == expected
        assert expected <= max(own.values())
        assert release.threshold(name) >= expected  # coarser: one round


def test_label_shift_is_told_from_chance():
    rng = np.random.default_rng(0)
    distribution = [0.5, 0.3, 0.15, 0.05]
    shifts = [label_shift(rng.multinomial(500, distribution, size=6).tolist()) for _ in range(200)]
    assert sum(shift is not None for shift in shifts) <= 2
    assert label_shift([[90, 10], [10, 90]]) == pytest.approx(0.4)
    assert label_shift([[90, 0], [80, 0]]) is None
    assert label_shift([[5, 5], [0, 0]]) is None


# ---- a site that joins later


def joining(finite, few, alpha=ALPHA, seed=0):
    """Agents with thresholds of their own, and some with two points; and the advice."""
    rng = np.random.default_rng(seed)
    cals = {f"a{k}": rng.uniform(size=60) for k in range(finite)}
    cals |= {f"b{k}": rng.uniform(size=2) for k in range(few)}
    summaries = sent(*cals.values(), alpha=alpha)
    return cals, advise(summaries, alpha, score="aps", bounds=(0.0, 1.0), new_site=True)


@given(
    st.integers(1, 24), st.integers(0, 6), st.sampled_from([0.05, 0.1, 0.2, 0.3]), st.integers(0, 9)
)
def test_what_is_advised_for_a_new_site_is_finite_unless_it_says_that_nothing_can_be(
    finite, few, alpha, seed
):
    cals, found = joining(finite, few, alpha, seed)
    method = fw.methods.get(found.method, **found.settings)
    q = fw.calibrate(cals, method=method, alpha=alpha).threshold("a0")
    assert found.new_site
    assert (q == inf) == (found.code == "no-data")
    if found.code == "few-sites":
        # the largest finite threshold: the rank of it among M + 1 is what is stated
        M, own = finite + few, [np.sort(s)[conformal_rank(60, alpha) - 1] for s in cals.values()
                                if len(s) == 60]  # fmt: skip
        assert q == max(own)
        assert f"with probability at least {Fraction(finite, M + 1)}" in str(found)
        assert 1 / alpha - 1 > M or few


@pytest.mark.parametrize(
    ("agents", "alpha", "code", "method", "says"),
    [
        (4, 0.1, "few-sites", "max-cp", "needs 9 (these are enough from alpha=0.2 on)"),
        (4, 0.2, "new-site", "new-agent-cp", "4 agents are enough"),
        (9, 0.1, "new-site", "new-agent-cp", "with probability at least 0.9"),
        (18, 0.05, "few-sites", "max-cp", "with probability at least 18/19"),
        (19, 0.05, "new-site", "new-agent-cp", "19 agents are enough"),
    ],
)
def test_how_many_agents_a_promise_to_a_new_site_takes(agents, alpha, code, method, says):
    _, found = joining(agents, 0, alpha)
    assert (found.code, found.method, found.settings) == (code, method, {})
    assert says in str(found)
    assert "for a site that joins later" in str(found)


def test_an_agent_that_sent_nothing_is_not_said_to_have_sent_infinity():
    parts = (*uniform(200, 120, 150), LocalQuantile(inf, 0))
    found = advice_on(*parts, alpha=0.05, new_site=True)
    assert "a3 sent no threshold, which counts as the largest" in found.why
    assert "sent +inf" not in found.why
    found = advice_on(*parts, *uniform(12), alpha=0.05, new_site=True)
    assert "a4 sent +inf and a3 sent no threshold, which counts" in found.why
    none = advice_on(*uniform(200), LocalQuantile(inf, 0), alpha=0.05, new_site=True)
    assert none.code == "no-data"
    assert "too few points" not in none.why
