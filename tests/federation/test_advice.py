"""``method="auto"`` and advice from records: through the same messages as any round."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit, ndtr

import fedwqcp as fw
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.advice import (
    advise_on,
    check_record,
    next_step,
    promised_to_new_site,
    thresholds_in,
)
from fedwqcp.methods import Terms
from fedwqcp.methods.fcp import Counts
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.theory import diagnose_release
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Begin, LocalQuantile

COUNTS = {"a": [500, 40, 20], "b": [40, 500, 20], "c": [30, 30, 500]}


FEW = {"a": [70, 10, 10], "b": [10, 70, 10], "c": [10, 10, 70]}
"""Counts of agents with too few points for thresholds of their own."""


def skewed_agents(counts=COUNTS, seed=0):
    """Return agents whose hard class is common at one of them."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, row in counts.items():
        scores = np.concatenate(
            [rng.beta(1, b, size=n) for n, b in zip(row, (9, 2, 0.5), strict=True)]
        )
        found[name] = fw.Calibration(scores, np.repeat([0, 1, 2], row), n_classes=3)
    return found


def auto(cals, **options):
    """Calibrate as advised."""
    return fw.calibrate(cals, **{"method": "auto", "alpha": 0.1, "score": "lac", **options})


# ---- by label


def test_a_class_that_nobody_has_comes_first_in_what_to_do():
    cals = skewed_agents({"a": [60, 60, 0], "b": [60, 60, 0]})
    lead = "No agent has a point of label 2: collect some, or take the class out of the round."
    for method in ("fedwq-cp", "fedls-cp"):
        record = fw.calibrate(cals, method=method, by="label", alpha=0.1, score="lac")
        advice = next_step(record)
        assert advice.first == lead
        assert str(advice).startswith(f"{lead} {'Keep' if advice.keep else 'Use'} {advice.method}")
        assert auto(cals, by="label").advice.startswith(lead)
    silent = fw.calibrate(cals, method="fcp", by="label", alpha=0.1, score="lac")
    assert next_step(silent) == lead  # agents send counts, which no advice rests on
    two = {"a": fw.Calibration(np.ones((60, 2)), groups=["f"] * 60)}
    score = fw.CQR(symmetric=False)
    record = fw.calibrate(two, by="group", groups=["f", "m"], alpha=0.1, score=score)
    assert next_step(record) == (
        "No agent has a point of group m: collect some, or take the group out of the round. no "
        "advice: advice needs a score of one column"
    )


@pytest.mark.parametrize(
    ("rare", "says"),
    [
        ([2, 3], "Label 2: All 2 agents together have 5 points, too few for a finite threshold at "
                 "alpha=0.1. That label will be in every set: collect more points first. Use fcp"),
        ([10, 1], "Label 2: too few points at b, and all together are too few to pool: collect "
                  "more, or thresholds can stay +inf. Use fcp"),
    ],
)  # fmt: skip
def test_a_class_with_too_few_points_comes_first_where_another_decides(rare, says):
    cals = skewed_agents({"a": [60, 60, rare[0]], "b": [60, 60, rare[1]]})
    record = fw.calibrate(cals, by="label", alpha=0.1, score="lac")
    assert str(advise_on(record)).startswith(says)
    pooled = fw.calibrate(cals, method="fcp", by="label", alpha=0.1, score="lac")
    assert pooled.threshold("a", group=2) == inf  # as it says


@pytest.mark.parametrize(("n", "says"), [(3, "a alone has 3 points"), (1, "a alone has 1 point")])
@pytest.mark.filterwarnings("ignore::fedwqcp.InfiniteThresholdWarning")
def test_one_agent_with_too_few_points_is_named(n, says):
    text = str(advise_on(fw.calibrate({"a": np.arange(n) / 9}, alpha=0.1, score="lac")))
    assert f"{says}, too few for a finite threshold" in text
    assert "1 agents" not in text


def test_advice_by_label_does_not_say_that_sets_hold_every_label():
    counts = {"a": [900, 20], "b": [60, 20], "c": [4, 20]}
    cals = {
        name: fw.Calibration(np.arange(sum(n)) / sum(n), np.repeat([0, 1], n), n_classes=2)
        for name, n in counts.items()
    }
    text = str(advise_on(fw.calibrate(cals, by="label", alpha=0.1, score="lac")))
    assert "use guarded-median-cp" in text
    assert "That label will still be in every set of c, with fewer than the 9 points" in text
    assert "hold every label" not in text


# ---- one voice


def test_good_models_of_unequal_strength_are_not_averaged():
    rng = np.random.default_rng(0)
    means = [-5.5] * 3 + [-2.5] * 3  # 95 % of the scores below 0.02, and below 0.29
    for _ in range(20):
        cals = {f"a{k}": expit(rng.normal(mean, 1, size=1000)) for k, mean in enumerate(means)}
        release = auto(cals, alpha=0.05)
        assert release.round.method.name != "fedwq-cp"
        covered = [ndtr(logit(release.threshold(f"a{k}")) - mean) for k, mean in enumerate(means)]
        plain = fw.calibrate(cals, method=FedWQCP(tail=16), alpha=0.05, score="lac")
        assert ndtr(logit(plain.threshold("a5")) + 2.5) < 0.85  # what averaging would do
        assert diagnose_release(plain, 0, 0.05, (0.0, 1.0)).verdict == "unsafe"
        assert min(covered) > 0.92


def test_no_miss_is_announced_to_one_that_is_denied_to_the_other():
    rng = np.random.default_rng(0)
    unsafe = 0
    for _ in range(100):
        cals = {name: rng.uniform(size=40) for name in "abcde"}
        for method in ("fedwq-cp", FedWQCP(tail=16)):
            record = fw.calibrate(cals, method=method, alpha=0.05, score="aps")
            found, advice = diagnose_release(record, 0, 0.05, (0.0, 1.0)), advise_on(record)
            assert advice.verdict == found.verdict
            assert ("misses at most" in str(advice)) == ("misses at most" in str(found))
            assert "expected to miss" not in str(advice)
        unsafe += found.verdict == "unsafe"
    assert unsafe <= 6  # at most 2 % of rounds: 7 or more of 100 have probability 0.004


SAMPLES = st.tuples(st.integers(0, 300), st.sampled_from([0.5, 1.0, 1.05, 3.0]), st.booleans())


@settings(max_examples=80, deadline=None)
@given(
    st.lists(SAMPLES, min_size=1, max_size=5),
    st.sampled_from([0.05, 0.1, 0.3]),
    st.sampled_from(["propagate", "clip", "exclude"]),
    st.sampled_from([0, 3, 16]),
    st.integers(0, 2**32 - 1),
)
def test_both_tools_give_one_verdict_on_one_round(agents, alpha, overflow, tail, seed):
    rng = np.random.default_rng(seed)
    cals = {
        f"a{k}": np.round(rng.uniform(size=n) * scale, 1) if tied else rng.uniform(size=n) * scale
        for k, (n, scale, tied) in enumerate(agents)
    }
    method = FedWQCP(overflow=overflow, tail=tail)
    record = fw.calibrate(cals, method=method, alpha=alpha, allow_large_alpha=True)
    found, advice = diagnose_release(record, 0, alpha), advise_on(record)
    assert advice.verdict == found.verdict
    if advice.method == "fedwq-cp":  # averaged only where it is safe, or where nothing else can be
        assert found.verdict == "safe" or advice.code in ("no-data", "few")
    elif advice.method != "split-cp" or advice.code != "single":
        assert found.verdict != "safe"
    if overflow == "propagate" and tail == 16:
        release = auto(cals, alpha=alpha, score=None)
        assert release.round.method.name == advice.method
        assert release.advice == str(replace(advice, keep=False))


# ---- what auto does


def test_identical_agents_take_one_round_and_the_release_says_why():
    rng = np.random.default_rng(0)
    cals = {name: rng.uniform(size=3000) for name in "abc"}
    release = auto(cals, score="aps")
    plain = fw.calibrate(cals, alpha=0.1, score="aps")
    sent = fw.calibrate(cals, method=FedWQCP(tail=16), alpha=0.1, score="aps")
    assert release.round.method.name == "fedwq-cp"
    assert release.threshold("a") == plain.threshold("a")
    assert (release.rounds, release.bytes_up("a")) == (1, sent.bytes_up("a"))
    assert release.advice.startswith("use fedwq-cp for score aps. Averaging is safe")
    assert plain.advice == ""


def test_label_shift_takes_a_second_round_and_its_bytes_count():
    cals = skewed_agents(FEW)
    release = auto(cals)
    shifted = fw.calibrate(cals, method=FedLSCP(floor=True), alpha=0.1, score="lac")
    first = fw.calibrate(cals, method=FedWQCP(tail=16), alpha=0.1, score="lac")
    assert release.round.method.name == "fedls-cp"
    assert [release.threshold(name) for name in cals] == [shifted.threshold(n) for n in cals]
    assert release.rounds == 2
    assert release.bytes_up("b") == shifted.bytes_up("b") + first.bytes_up("b")
    assert "label distributions differ" in release.advice


def test_without_labels_agents_keep_their_own_thresholds():
    release = auto({name: cal.scores for name, cal in skewed_agents().items()})
    assert (release.round.method.name, release.rounds) == ("split-cp", 1)
    assert "Averaging is unsafe" in release.advice


def test_the_advice_stays_with_a_saved_release_and_goes_to_no_agent(tmp_path):
    release = auto(skewed_agents())
    fw.save(release, tmp_path / "release.json")
    assert fw.load(tmp_path / "release.json").advice == release.advice
    few = {"north": np.linspace(0, 1, 700), "tiny-clinic": np.linspace(0, 1, 12)}
    advised = auto(few, alpha=0.05)
    assert "tiny-clinic" in advised.advice
    assert b"tiny-clinic sent" not in encode(advised.public())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=4),
    st.sampled_from([(0.05,), (0.1, 0.3), (0.5, 0.02, 0.2)]),
    st.integers(0, 2**32 - 1),
)
def test_no_threshold_of_auto_is_below_the_agents_own(sizes, levels, seed):
    rng = np.random.default_rng(seed)
    cals = {f"a{k}": rng.beta(1, rng.uniform(1, 9), size=n) for k, n in enumerate(sizes)}
    release = auto(cals, alpha=levels)
    assume(release.round.method.name != "fedwq-cp")  # averaging is safe, or nothing can be done
    for alpha in levels:
        for name, scores in cals.items():
            own = fw.conformal_quantile(scores, alpha)
            assert release.threshold(name, alpha) >= (own if own < inf else -inf)


# ---- whom agents will predict


def test_the_target_decides_which_labels_count():
    """Exact coverage of the people that were meant: F_c(q) = 1 - (1 - q)^b."""
    cals, powers = skewed_agents(FEW), np.array([9, 2, 0.5])
    shares = {name: np.array(row) / sum(row) for name, row in FEW.items()}
    everybody = sum(shares.values()) / 3

    def covered(release, name, labels):
        return float(labels @ (1 - (1 - release.threshold(name)) ** powers))

    own, mixture = (auto(cals, target=target) for target in ("own", "mixture"))
    for release, target in ((own, "own"), (mixture, "mixture")):
        assert (release.round.method.name, release.round.target) == ("fedls-cp", target)
        assert release.threshold("a") == fw.calibrate(
            cals, method=FedLSCP(floor=True), target=target, alpha=0.1, score="lac"
        ).threshold("a")
        assert f"target {target!r}" in release.assumption
        assert f"The target is {target}: each agent predicts people" in release.advice
    # c has the hard class, so that people like its own need more than everybody does; at a less
    assert covered(own, "c", shares["c"]) > covered(mixture, "c", shares["c"]) + 0.1
    assert covered(mixture, "a", everybody) > covered(own, "a", everybody)


def test_for_everybody_labels_count_even_where_averaging_is_safe():
    rng = np.random.default_rng(0)
    labels = {"a": rng.uniform(size=3000) < 0.8, "b": rng.uniform(size=3000) < 0.2}
    cals = {n: fw.Calibration(rng.uniform(size=3000), y.astype(int)) for n, y in labels.items()}
    assert auto(cals).round.method.name == "fedwq-cp"
    release = auto(cals, target="mixture")
    assert release.round.method.name == "fedls-cp"
    assert "Averaging is safe for people like those an agent calibrated on" in release.advice
    unknown = auto({name: cal.scores for name, cal in cals.items()}, target="mixture")
    assert unknown.round.method.name == "fedwq-cp"
    assert "The target is mixture, and this method does not use it" in unknown.advice
    assert "A round of fedls-cp shows whether label distributions differ." in unknown.advice
    assert "does not use the round's target 'mixture'" in unknown.assumption


def test_a_distribution_in_numbers_needs_a_method_by_name():
    with pytest.raises(InputError, match="for a distribution in numbers name the method"):
        auto(skewed_agents(FEW), target=(0.2, 0.3, 0.5))
    named = fw.calibrate(
        skewed_agents(FEW), method="fedls-cp", target=(0.2, 0.3, 0.5), alpha=0.1, score="lac"
    )
    with pytest.raises(InputError, match="for a distribution in numbers name the method"):
        advise_on(named)


@pytest.mark.parametrize("score", [fw.LAC(), fw.RAPS(penalty=0.02, k_reg=3)])
def test_the_release_carries_the_score_that_was_used(score):
    release = auto(skewed_agents(FEW), score=score, target="mixture")
    plain = fw.calibrate(skewed_agents(FEW), alpha=0.1, score=score)
    assert release.round.score == plain.round.score
    assert f" for score {release.round.score.name}, for target mixture." in release.advice


# ---- groups


def two_groups():
    """Return agents that are alike in one group and not in the other."""
    rng = np.random.default_rng(0)
    found = {}
    for name, scale in (("a", 0.3), ("b", 1.0)):
        scores = np.concatenate([rng.uniform(size=2000), scale * rng.uniform(size=2000)])
        found[name] = fw.Calibration(
            scores, np.repeat([0, 1], 2000), n_classes=2, groups=np.repeat(["same", "apart"], 2000)
        )
    return found


@pytest.mark.parametrize(("by", "alike", "apart"), [("group", "same", "apart"), ("label", 0, 1)])
def test_auto_by_group_uses_what_the_most_demanding_group_needs(by, alike, apart):
    cals = two_groups()
    record = fw.calibrate(cals, method=FedWQCP(tail=16), by=by, alpha=0.1, score="lac")
    advice = advise_on(record)
    assert (advice.method, advice.code, advice.verdict) == ("split-cp", "unsafe", "unsafe")
    assert f"Decided by {by} {apart} ({alike}: averaging is safe): Averaging is unsafe" in str(
        advice
    )
    release = auto(cals, by=by)
    assert (release.round.method.name, release.round.by) == ("split-cp", by)
    for name, cal in cals.items():
        scores = cal.scores[cal.labels == 1]
        assert release.threshold(name, group=apart) == fw.conformal_quantile(scores, 0.1)
    one = {name: cal.take(cal.labels == 0) for name, cal in cals.items()}
    assert auto(one, by=by).round.method.name == "fedwq-cp"


def test_a_group_that_an_agent_lacks_is_judged_by_the_others():
    cals = two_groups()
    cals["a"] = cals["a"].take(cals["a"].labels == 0)
    release = auto(cals, by="group")
    assert release.round.method.name == "split-cp"  # b alone has points of the other group
    assert "b alone has calibration points" in release.advice


# ---- records


def test_sketches_alone_are_enough():
    cals = skewed_agents(FEW)
    sketches = fw.calibrate(cals, method="fedls-cp", alpha=0.1, score="lac")
    both = advise_on(fw.calibrate(cals, alpha=0.1, score="lac"), sketches)
    alone = advise_on(sketches)
    assert alone.method == both.method == "fedls-cp"
    floored = fw.calibrate(cals, method=FedLSCP(floor=True), alpha=0.1, score="lac")
    advice = advise_on(floored)
    assert advice.keep  # what is advised is in use
    assert str(advice).startswith("keep fedls-cp with floor=true")
    assert not alone.keep  # without a floor it is not


def test_what_is_in_use_is_not_advised_again():
    rng = np.random.default_rng(0)
    cals = {name: rng.uniform(size=3000) for name in "abc"}
    record = fw.calibrate(cals, method=FedWQCP(tail=16), alpha=0.1, score="aps")
    assert str(advise_on(record)).startswith("keep fedwq-cp for score aps. Averaging is safe")
    two = advise_on(fw.calibrate(cals, alpha=0.1, score="aps"))
    assert (two.method, two.keep, two.verdict) == ("fcp", False, "cannot tell")


def apart_at_one_level():
    """Return agents that agree on what their worst twentieth scores, and on little else."""
    low = np.concatenate([np.linspace(0.0, 0.05, 7200), np.linspace(0.8, 0.99, 2800)])
    high = np.concatenate([np.linspace(0.0, 0.85, 7200), np.linspace(0.86, 0.99, 2800)])
    return {"low": low, "high": high}


@pytest.mark.parametrize("levels", [(0.05, 0.3), (0.3, 0.05)])
def test_every_level_is_judged_and_the_most_demanding_decides(levels):
    cals = apart_at_one_level()
    record = fw.calibrate(
        cals, method=FedWQCP(tail=16), alpha=levels, allow_large_alpha=True, score="aps"
    )
    assert advise_on(record, alpha=0.05).code == "safe"
    alone = advise_on(record, alpha=0.3)
    assert (alone.code, alone.levels) == ("unsafe", {0.3: "unsafe"})
    both = advise_on(record)
    assert (both.code, both.alpha) == ("unsafe", 0.3)
    assert both.levels == {0.05: "safe", 0.3: "unsafe"}
    assert "decided at alpha=0.3 (0.05: averaging is safe)." in str(both)
    release = auto(cals, alpha=levels, score="aps")
    assert release.round.method.name == "split-cp"
    assert "decided at alpha=0.3 (0.05: averaging is safe)." in release.advice


def test_a_level_without_data_does_not_hide_another():
    rng = np.random.default_rng(0)
    cals = {n: rng.uniform(size=30) for n in "abc"}
    record = fw.calibrate(cals, alpha=(0.2, 0.01), score="aps")
    assert advise_on(record, alpha=0.01).code == "no-data"
    assert (advise_on(record).code, advise_on(record).method) == ("cannot-tell", "fcp")
    assert "decided at alpha=0.2 (0.01: too few points)" in str(advise_on(record))


def test_what_was_sent_is_not_asked_for_again():
    release = auto({name: np.linspace(0, 1, 3) for name in "ab"})
    assert (release.round.method.name, release.rounds) == ("fedwq-cp", 1)
    assert "too few for a finite threshold" in release.advice


def test_counts_of_other_agents_are_not_used_and_that_is_said():
    cals = skewed_agents(FEW)
    record = fw.calibrate(cals, alpha=0.1, score="lac")
    others = fw.calibrate({n: cals[n] for n in "ab"}, method="fedls-cp", alpha=0.1, score="lac")
    same = fw.calibrate(cals, method="fedls-cp", alpha=0.1, score="lac")
    advice = advise_on(record, others)
    assert advice.code == "cannot-tell"
    assert "Class counts were not used: they are of other agents" in str(advice)
    assert advise_on(record, others, same).code == "label-shift"


def test_a_tail_that_contradicts_its_threshold_is_refused():
    honest = FedWQCP(tail=16).summarize(fw.Calibration(np.linspace(0, 1, 99)), 0.1)
    wrong = replace(honest, threshold=0.1)
    with pytest.raises(InputError, match="in one order with the threshold"):
        FedWQCP(tail=16).check(Begin(), wrong, None, Terms(0.1))
    with pytest.raises(InputError, match="must hold up to 16 more"):
        FedWQCP(tail=16).check(Begin(), LocalQuantile(0.5, 99), None, Terms(0.1))
    with pytest.raises(InputError, match="must hold no more"):
        FedWQCP().check(Begin(), honest, None, Terms(0.1))


def test_records_must_go_together():
    cals = skewed_agents()
    records = [
        fw.calibrate(cals, alpha=alpha, allow_large_alpha=True, score=score)
        for alpha, score in ((0.1, "lac"), (0.05, "lac"), (0.1, "aps"))
    ]
    with pytest.raises(InputError, match="level of the round"):
        advise_on(*records[:2])
    with pytest.raises(InputError, match="same score"):
        advise_on(records[0], records[2])
    with pytest.raises(InputError, match="same score, rule, target"):
        advise_on(records[2], fw.calibrate(cals, alpha=0.1, score="aps", rule="leq_top1"))
    with pytest.raises(InputError, match="thresholds or class sketches"):
        advise_on(records[0], records[0].public())
    with pytest.raises(
        InputError, match=r"thresholds or class sketches.* of fcp they sent neither"
    ):
        advise_on(fw.calibrate(cals, method="fcp", alpha=0.1, score="lac"))
    with pytest.raises(InputError, match="same score, rule, target and groups"):
        advise_on(records[0], fw.calibrate(cals, alpha=0.1, score="lac", target="mixture"))
    with pytest.raises(InputError, match="same score, rule, target and groups"):
        advise_on(records[0], fw.calibrate(cals, alpha=0.1, score="lac", by="label"))
    with pytest.raises(InputError, match="name a method"):
        auto(cals, secure=True)


def test_a_method_chosen_by_the_data_promises_less(tmp_path):
    rng = np.random.default_rng(0)
    agents = {f"a{k}": (k + 1) / 4 * rng.uniform(size=2000) for k in range(4)}
    release = fw.calibrate(agents, method="auto", alpha=0.1)
    own = fw.methods.get(release.round.method.name, **release.round.method.settings).guarantee
    assert own.strength == "finite-sample"
    assert release.guarantee == fw.Guarantee(own.kind, "approximate")
    assert "chosen by the thresholds of these same data" in release.assumption
    fw.save(release, tmp_path / "r.json")
    assert fw.load(tmp_path / "r.json").guarantee == release.guarantee
    fw.save(replace(release, guarantee=fw.Guarantee("target-shift", "approximate")), tmp_path / "f")
    with pytest.raises(RecordError, match="it was changed"):
        fw.load(tmp_path / "f")


# ---- records that nothing can be advised on


def scores(names="abc"):
    """Return some agents."""
    rng = np.random.default_rng(0)
    return {name: rng.uniform(size=200) for name in names}


def record(method="fedwq-cp", **options):
    """Return the record of a round."""
    return fw.calibrate(scores(), **{"method": method, "alpha": 0.1, "score": "aps", **options})


def test_thresholds_are_those_that_were_sent():
    found = record(alpha=(0.1, 0.3))
    check_record(found)
    own = {name: float(fw.conformal_quantile(each, 0.3)) for name, each in scores().items()}
    assert thresholds_in(found, 0.3) == {name: LocalQuantile(q, 200) for name, q in own.items()}


@pytest.mark.parametrize("combine", ["fedwq-cp"])
def test_a_private_round_stays_private(combine):
    found = record(fw.methods.get("private-fedwq-cp", epsilon=5.0, combine=combine))
    with pytest.raises(InputError, match=r"not private\. Stay with it.* combine="):
        check_record(found)


@pytest.mark.parametrize("method", ["fedwq-cp", "fcp"])
def test_a_masked_round_stays_masked(method):
    for found in (masked := record(method, secure=True), masked.public()):
        with pytest.raises(InputError, match=r"only totals.*Stay with this method"):
            check_record(found)


def test_what_has_no_threshold_of_all_points_is_refused():
    says = r"thresholds or class sketches.* round of split-cp they sent neither.* fedwq-cp"
    with pytest.raises(InputError, match=says):
        check_record(record("split-cp"))
    with pytest.raises(InputError, match=r"this is the release that agents get.* the server's rec"):
        check_record(record().public())
    pairs = {"a": np.zeros((50, 2)), "b": np.ones((50, 2))}
    with pytest.raises(InputError, match="one column"):
        check_record(fw.calibrate(pairs, alpha=0.1, score=fw.CQR(symmetric=False)))


@pytest.mark.parametrize("method", ["fedwq-cp", "fedls-cp"])
def test_advice_reads_the_records_of_the_methods_that_it_names(method):
    found = fw.calibrate(skewed_agents(), method=method, alpha=0.1, score="lac")
    check_record(found)
    assert thresholds_in(found, 0.1)


def test_an_agent_without_points_is_no_damage():
    found = fw.calibrate({**scores(), "none": []}, alpha=0.1, score="aps")
    check_record(found)
    assert thresholds_in(found, 0.1)["none"] == LocalQuantile(inf, 0)


@pytest.mark.parametrize(
    ("received", "says"),
    [
        ({"a": ()}, "agent 'a': answers: must hold one summary for each question"),
        ({"a": (None,)}, "agent 'a': answers: must hold one summary for each question"),
        ({"a": (LocalQuantile(0.5, 9),) * 2}, "agent 'a': answers: must hold one summary"),
        ({"a": (LocalQuantile(7.0, 9),)}, "agent 'a': threshold: must lie between 0 and 1"),
        ({"a": (LocalQuantile(-0.1, 9),)}, "agent 'a': threshold: must lie between 0 and 1"),
        ({"a": (LocalQuantile(0.5, 201),)}, "agent 'a': n: must be an integer from 0 to 200"),
        ({"a": (Counts(9),)}, "all agents must have answered alike"),
        ({"stranger": (LocalQuantile(0.5, 9),)}, "and of no others; see stranger"),
    ],
)
def test_a_damaged_record_is_refused(received, says):
    found = record()
    damaged = replace(found, received={**found.received, **received})
    with pytest.raises(RecordError, match="is damaged") as error:
        check_record(damaged)
    assert says in str(error.value)


def test_an_answer_that_is_gone_is_missed():
    found = record()
    left = {name: sent for name, sent in found.received.items() if name != "b"}
    with pytest.raises(RecordError, match="see b"):
        check_record(replace(found, received=left))


# ---- a site that joins later


def sites(n, size=60, **options):
    rng = np.random.default_rng(n)
    cals = {f"s{k}": rng.uniform(size=size) for k in range(n)}
    return fw.calibrate(cals, **{"alpha": 0.1, "score": "lac", **options})


def test_for_a_new_site_a_silent_agent_counts_too():
    record = sites(9)
    assert advise_on(record, new_site=True).code == "new-site"
    gone = replace(
        record,
        agents=(*record.agents[:-1], replace(record.agents[-1], status="missing", reason="")),
        received={name: sent for name, sent in record.received.items() if name != "s8"},
    )
    found = advise_on(gone, new_site=True)
    assert (found.code, found.method) == ("few-sites", "new-agent-cp")
    assert found.settings == {"form": "confident", "delta": 0.2}  # the 8th of 9 and a new one


def test_of_several_levels_a_finite_threshold_decides_for_a_new_site():
    found = advise_on(sites(9, alpha=(0.05, 0.2)), new_site=True)
    assert found.levels == {0.05: "few-sites", 0.2: "new-site"}
    assert found.method == "max-cp"
    again = sites(9, alpha=(0.05, 0.2), method="max-cp")
    assert advise_on(again, new_site=True).keep


@pytest.mark.parametrize(
    ("method", "n", "says"),
    [
        ("fedwq-cp", 4, ("Nothing is promised", "this round has 4.", "Advice: use max-cp")),
        ("split-cp", 4, ("has no threshold", "at least 9 agents")),  # nothing to advise on
        ("new-agent-cp", 9, ("covered with probability at least 0.9, if agents,",)),
        ("new-agent-cp", 4, ("covered with", "Here the threshold is +inf")),
        (
            fw.methods.get("new-agent-cp", form="confident", delta=0.2),
            4,
            ("With probability at least 0.8 over sites, a new site's own threshold",),
        ),
    ],
)
def test_what_a_round_promises_to_a_new_site(method, n, says):
    said = promised_to_new_site(sites(n, method=method), 0.1)
    assert len(said) == len(says)
    assert all(words in sentence for words, sentence in zip(says, said, strict=True))


def test_a_sketch_that_is_too_coarse_makes_its_agent_no_suspect():
    rng = np.random.default_rng(0)
    counts = {"general": (250, 250), "lakeside": (60, 60), "late": (75, 5)}  # 5 reveal no scores
    cals = {
        name: fw.Calibration(rng.uniform(size=sum(n)), np.repeat([0, 1], n), n_classes=2)
        for name, n in counts.items()
    }
    record = fw.calibrate(cals, method="fedls-cp", alpha=0.05, score="lac")
    read = thresholds_in(record, 0.05)
    assert read["late"].threshold == inf  # its 80 points are enough for a finite one
    found = advise_on(record)
    assert (found.code, found.agents) == ("suspect", ("general",))
    assert "late" not in str(found)
    alike = {name: cals[name] for name in ("lakeside", "late")} | {"other": cals["lakeside"]}
    record = fw.calibrate(alike, method="fedls-cp", alpha=0.05, score="lac")
    assert thresholds_in(record, 0.05)["late"].threshold == inf
    found = advise_on(record)
    assert found.code != "suspect"
    assert "sent +inf" not in found.why


def test_after_auto_a_report_advises_what_advise_says():
    """The method that auto chose is in use: the advice is to keep it, not to use it."""
    rng = np.random.default_rng(1)
    sites = {name: rng.uniform(size=300) for name in "abc"}
    release = fw.calibrate(sites, alpha=0.1, method="auto")
    assert release.advice.startswith("use fedwq-cp")
    assert next_step(release) == advise_on(release)
    assert str(next_step(release)).startswith("keep fedwq-cp")
