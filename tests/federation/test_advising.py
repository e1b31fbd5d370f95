"""``method="auto"`` and advice from records: through the same messages as any round."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.advising import DEMAND, advise_on
from fedwqcp.methods.fcp import FCP
from fedwqcp.methods.fedls_cp import FedLSCP
from fedwqcp.theory import advise
from fedwqcp.wire.codec import encode

COUNTS = {"a": [500, 40, 20], "b": [40, 500, 20], "c": [30, 30, 500]}


def federation(law=COUNTS, seed=0):
    """Return agents whose hard class is common at one of them."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, row in law.items():
        scores = np.concatenate(
            [rng.beta(1, b, size=n) for n, b in zip(row, (9, 2, 0.5), strict=True)]
        )
        found[name] = fw.Calibration(scores, np.repeat([0, 1, 2], row), n_classes=3)
    return found


def auto(cals, **options):
    """Calibrate as advised."""
    return fw.calibrate(cals, **{"method": "auto", "alpha": 0.1, "score": "lac", **options})


def test_like_agents_take_one_round_and_the_release_says_why():
    rng = np.random.default_rng(0)
    cals = {name: rng.uniform(size=700) for name in "abc"}
    release = auto(cals, score="aps")
    plain = fw.calibrate(cals, alpha=0.1, score="aps")
    assert release.round.method.name == "fedwq-cp"
    assert release.threshold("a") == plain.threshold("a")
    assert (release.rounds, release.bytes_up("a")) == (1, plain.bytes_up("a"))
    assert release.advice.startswith("use fedwq-cp on aps. The mean of these thresholds")
    assert plain.advice == ""


def test_label_shift_takes_a_second_look_and_its_bytes_count():
    cals = federation()
    release = auto(cals)
    shifted = fw.calibrate(cals, method=FedLSCP(floor=True), alpha=0.1, score="lac")
    first = fw.calibrate(cals, method="fedwq-cp", alpha=0.1, score="lac")
    assert release.round.method.name == "fedls-cp"
    assert [release.threshold(name) for name in cals] == [shifted.threshold(n) for n in cals]
    assert release.rounds == 2
    assert release.bytes_up("b") == shifted.bytes_up("b") + first.bytes_up("b")
    assert "label laws differ" in release.advice


def test_without_labels_it_pools_and_says_whose_scores_they_are():
    release = auto({name: cal.scores for name, cal in federation().items()})
    assert release.round.method.name == "fcp"
    assert "use fcp, floor=True on aps" in release.advice
    assert "need not contain LAC's" in release.advice
    assert release.advice.endswith("These scores are still those of lac.")


def test_the_advice_stays_with_a_saved_release_and_goes_to_no_agent(tmp_path):
    release = auto(federation())
    fw.save(release, tmp_path / "release.json")
    assert fw.load(tmp_path / "release.json").advice == release.advice
    few = {"north": np.linspace(0, 1, 700), "tiny-clinic": np.linspace(0, 1, 12)}
    advised = auto(few, alpha=0.05)
    assert "tiny-clinic (n=12)" in advised.advice
    assert b"n=12" not in encode(advised.public())


def test_sketches_alone_are_look_enough():
    cals = federation()
    sketches = fw.calibrate(cals, method="fedls-cp", alpha=0.1, score="lac")
    both = advise_on(fw.calibrate(cals, alpha=0.1, score="lac"), sketches)
    alone = advise_on(sketches)
    assert alone.method == both.method == "fedls-cp"
    floored = fw.calibrate(cals, method=FedLSCP(floor=True), alpha=0.1, score="lac")
    assert advise_on(floored) == both  # it holds the very thresholds of the first look


# ---- never below FedWQ-CP's


def mean_of(cals, alpha):
    """Run FedWQ-CP without those that have too few points."""
    method = fw.methods.get("fedwq-cp", overflow="exclude")
    return fw.calibrate(cals, method=method, alpha=alpha, score="lac")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=4),
    st.sampled_from([(0.05,), (0.1, 0.3), (0.5, 0.02, 0.2)]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_no_advised_threshold_is_below_that_of_the_first_look(law, levels, labels, seed):
    cals = federation({f"a{k}": row for k, row in enumerate(law)}, seed)
    given_cals = cals if labels else {name: cal.scores for name, cal in cals.items()}
    release = auto(given_cals, alpha=levels)
    if release.round.method.name in ("weighted-median-cp", "split-cp"):
        return  # not by construction, as the page says
    mean = mean_of(cals, levels)
    for alpha in levels:
        if all(fw.conformal_quantile(cal.scores, alpha) == inf for cal in cals.values()):
            continue  # nobody has a threshold that could be a floor
        for name in cals:
            assert release.threshold(name, alpha) >= mean.threshold(name, alpha)


def test_a_threshold_that_the_correction_would_lower_stays_where_it_was():
    a = fw.Calibration([0.1] * 80 + [0.9] * 20, [0] * 80 + [1] * 20)
    b = fw.Calibration([0.1] * 390 + [0.9] * 10, [0] * 390 + [1] * 10)
    cals = {"a": a, "b": b}
    # thresholds 0.9 (rank 91 of 100) and 0.1 (rank 361 of 400): their mean is 0.26, while 30 of
    # 500 scores lie above 0.1, so that pooled and corrected thresholds are 0.1
    mean = mean_of(cals, 0.1).threshold("a")
    assert mean == pytest.approx(0.26)
    for method in (FCP(), FedLSCP()):
        bare = fw.calibrate(cals, method=method, alpha=0.1, score="lac")
        assert bare.threshold("a") == 0.1
    release = auto(cals)
    assert release.round.method.name == "fedls-cp"
    assert [release.threshold(name) for name in "ab"] == [mean, mean]
    assert "never below FedWQ-CP's" in release.advice
    blind = auto({name: cal.scores for name, cal in cals.items()})
    assert (blind.round.method.name, blind.threshold("a")) == ("fcp", mean)


def test_each_of_several_levels_has_its_own_floor():
    cals = federation({"a": [300, 20, 5], "b": [20, 30, 90], "c": [200, 10, 0]}, seed=3)
    release = auto(cals, alpha=(0.05, 0.2, 0.4))
    bare = fw.calibrate(cals, method="fedls-cp", alpha=(0.05, 0.2, 0.4), score="lac")
    mean = mean_of(cals, (0.05, 0.2, 0.4))
    assert release.round.method.settings["floor"] is True
    raised = 0
    for alpha in (0.05, 0.2, 0.4):
        for name in cals:
            expected = max(bare.threshold(name, alpha), mean.threshold(name, alpha))
            assert release.threshold(name, alpha) == expected
            raised += expected > bare.threshold(name, alpha)
    assert raised


# ---- several levels


def alike_in_the_tail():
    """Return agents that agree on what their worst twentieth scores, and on little else."""
    low = np.concatenate([np.linspace(0.0, 0.05, 720), np.linspace(0.8, 0.99, 280)])
    high = np.concatenate([np.linspace(0.0, 0.85, 720), np.linspace(0.86, 0.99, 280)])
    return {"low": low, "high": high}


@pytest.mark.parametrize("levels", [(0.05, 0.3), (0.3, 0.05)])
def test_every_level_is_judged_and_the_most_demanding_decides(levels):
    cals = alike_in_the_tail()
    look = fw.calibrate(cals, alpha=levels, score="aps")
    assert advise_on(look, alpha=0.05).code == "alike"
    alone = advise_on(look, alpha=0.3)
    assert (alone.code, alone.levels) == ("spread", {0.3: "spread"})
    both = advise_on(look)
    assert (both.code, both.alpha) == ("spread", 0.3)
    assert both.levels == {0.05: "alike", 0.3: "spread"}
    assert "decided at alpha=0.3 (0.05: alike)." in str(both)
    assert "Price at alpha=0.3: larger sets" in str(both)
    release = auto(cals, alpha=levels, score="aps")
    assert release.round.method.name == "fcp"
    assert "decided at alpha=0.3 (0.05: alike)." in release.advice


def test_a_level_without_data_is_told_and_does_not_hide_another():
    rng = np.random.default_rng(0)
    look = fw.calibrate({n: rng.uniform(size=30) for n in "abc"}, alpha=(0.2, 0.01), score="aps")
    assert advise_on(look).code == "no-data"
    assert "decided at alpha=0.01 (0.2: alike)" in str(advise_on(look))
    assert advise_on(look, alpha=0.2).code == "alike"
    few = {name: scores[::20] for name, scores in alike_in_the_tail().items()}
    apart = advise_on(fw.calibrate(few, alpha=(0.3, 0.001), score="aps"))
    assert (apart.code, apart.levels) == ("spread", {0.3: "spread", 0.001: "no-data"})


def test_every_rule_has_its_place_among_levels():
    rules = re.findall(r"^ +- \*\*([a-z-]+)\*\*:", advise.__doc__, flags=re.MULTILINE)
    assert sorted(rules) == sorted(DEMAND)


def test_what_was_looked_at_is_not_asked_for_again():
    release = auto({name: np.linspace(0, 1, 3) for name in "ab"})
    assert (release.round.method.name, release.rounds) == ("fedwq-cp", 1)
    assert "too few for a finite threshold" in release.advice


def test_counts_of_other_agents_are_not_used_and_that_is_said():
    cals = federation()
    look = fw.calibrate(cals, alpha=0.1, score="lac")
    others = fw.calibrate({n: cals[n] for n in "ab"}, method="fedls-cp", alpha=0.1, score="lac")
    same = fw.calibrate(cals, method="fedls-cp", alpha=0.1, score="lac")
    advice = advise_on(look, others)
    assert advice.code == "spread"
    assert "Class counts were not used: they are of other agents" in str(advice)
    assert advise_on(look, others, same).code == "label-shift"
    assert advise_on(look).notes == advise_on(look, same).notes == ()


def test_looks_must_go_together():
    cals = federation()
    looks = [
        fw.calibrate(cals, alpha=alpha, score=score)
        for alpha, score in ((0.1, "lac"), (0.05, "lac"), (0.1, "aps"))
    ]
    with pytest.raises(InputError, match="level of the round"):
        advise_on(*looks[:2])
    with pytest.raises(InputError, match="same score"):
        advise_on(looks[0], looks[2])
    with pytest.raises(InputError, match="same score and rule"):
        advise_on(looks[2], fw.calibrate(cals, alpha=0.1, score="aps", rule="leq_top1"))
    with pytest.raises(InputError, match="thresholds or class sketches"):
        advise_on(looks[0], looks[0].public())
    with pytest.raises(InputError, match="thresholds or class sketches"):
        advise_on(fw.calibrate(cals, method="fcp", alpha=0.1, score="lac"))
    with pytest.raises(InputError, match="name a method"):
        auto(cals, by="label")
    with pytest.raises(InputError, match="name a method"):
        auto(cals, secure=True)


@pytest.mark.guarantee("docs/how-to/advise.md", "it is approximate at most.")
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
