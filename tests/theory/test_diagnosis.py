"""The assessment of a round: its verdict, its errors, and what it says of each agent."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.federation.disclosure import DisclosureLimit
from fedwqcp.methods.fedwq_cp import FedWQCP
from fedwqcp.methods.private_fedwq_cp import REPLACED, PrivateQuantile
from fedwqcp.quantile import (
    Overflow,
    conformal_quantile,
    conformal_rank,
    insufficient_count,
    least_coverage,
    sufficient_count,
    tail_ranks,
)
from fedwqcp.theory import (
    Diagnosis,
    Finding,
    advise,
    diagnose,
    diagnose_groups,
    diagnose_release,
    judge,
)
from fedwqcp.theory.diagnosis import excluded, worst_of
from fedwqcp.wire.messages import LocalQuantile, QuantileAndTail

Q = LocalQuantile


def codes(found: Diagnosis) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in found.findings]


def only(found: Diagnosis, code: str) -> Finding:
    (finding,) = (f for f in found.findings if f.code == code)
    return finding


def sent(agents, alpha, tail=16):
    """Return what agents with these scores send to FedWQ-CP."""
    method = fw.methods.get("fedwq-cp", **({"tail": tail} if tail else {}))
    return {
        f"a{k}": method.summarize(fw.Calibration(scores), alpha) for k, scores in enumerate(agents)
    }


# ---- what was wrong before


@pytest.mark.slow
@pytest.mark.parametrize("tail", [0, 16])
@pytest.mark.parametrize(("n", "M"), [(80, 6), (100, 100)])
def test_identical_agents_are_hardly_ever_called_unsafe(n: int, M: int, tail: int) -> None:
    rng = np.random.default_rng(n)
    unsafe = 0
    for _ in range(100):
        found = diagnose(sent(rng.beta(1, 6, size=(M, n)), 0.05, tail), 0.05, (0.0, 1.0))
        unsafe += str(found).startswith("averaging is UNSAFE")
    # at most 2 % of rounds: 7 or more of 100 have probability 0.004
    assert unsafe <= 6


@pytest.mark.parametrize("tail", [0, 16])
def test_no_line_refutes_itself(tail: int) -> None:
    rng = np.random.default_rng(1)
    fine = 0
    for n in (40, 400, 3000):
        for M in (2, 5, 9):
            for a in (1.0, 0.9, 0.3):
                agents = [rng.beta(1, 6 if k % 2 else 6 * a, size=n) for k in range(M)]
                text = str(diagnose(sent(agents, 0.1, tail), 0.1, (0.0, 1.0)))
                assert "noise" not in text
                for line in re.findall(r"\[ok\] .*", text):
                    (missed,) = re.findall(r"misses at most ([\d.]+)%", line)
                    assert float(missed) <= 15.0
                    fine += 1
    assert fine >= (tail > 0)


def test_the_designed_in_failure() -> None:
    strong, weak = 0.09, 0.9  # of scores from U(0, 0.1) and U(0, 1)
    threshold = (900 * strong + 100 * weak) / 1000
    assert threshold == pytest.approx(0.171)  # all of the strong agent's points, 0.171 of the weak
    two = diagnose({"strong": Q(strong, 900), "weak": Q(weak, 100)}, 0.1)
    assert two.verdict == "cannot tell"  # the weak agent's scores below 0.9 are not known
    assert two.coverage["weak"] == (0.0, pytest.approx(0.96, abs=0.02))
    assert "what weak misses is not known" in only(two, "coverage").says
    assert "100" not in only(two, "coverage").says  # a bound that says nothing only alarms
    rng = np.random.default_rng(0)
    more = diagnose(sent([rng.uniform(0, 0.1, 900), rng.uniform(0, 1, 100)], 0.1), 0.1)
    assert more.verdict == "unsafe"
    assert only(more, "coverage").agents == ("a1",)


# ---- the tests behind the verdict


@given(st.integers(1, 400), st.sampled_from([0.02, 0.05, 0.1, 0.4, 0.8]), st.integers(1, 300))
def test_critical_counts_are_those_of_the_binomial(n: int, alpha: float, M: int) -> None:
    bar = least_coverage(alpha)
    assert 0 < bar < 1 - alpha
    c = sufficient_count(n, bar)
    assert binom.sf(c - 1, n, bar) <= 0.05 * (1 + 1e-9)
    assert c == 0 or binom.sf(c - 2, n, bar) > 0.05 * (1 - 1e-9)
    few = insufficient_count(n, bar, 0.02 / M)
    assert few == -1 or binom.cdf(few, n, bar) <= 0.02 / M * (1 + 1e-9)
    assert binom.cdf(few + 1, n, bar) > 0.02 / M * (1 - 1e-9)


@given(st.integers(0, 3000), st.sampled_from([0.01, 0.05, 0.1, 0.3, 0.7]), st.integers(1, 16))
def test_ranks_of_the_tail(n: int, alpha: float, most: int) -> None:
    ranks = tail_ranks(n, alpha, most)
    assert len(ranks) <= min(most, n // 10)
    assert 1 + len(ranks) <= DisclosureLimit().scores_of(n)  # the threshold is one more
    assert list(ranks) == sorted(set(ranks))
    assert all(1 <= rank <= n for rank in ranks)
    assert conformal_rank(n, alpha) not in ranks  # which is the threshold itself


@pytest.mark.parametrize(
    ("alpha", "most", "says"),
    [(0.1, 0.15, "1.5 alpha"), (0.3, 0.45, "1.5 alpha"), (0.7, 0.85, "0.85")],
)
def test_safe_says_what_is_shown_of_every_agent(alpha: float, most: float, says: str) -> None:
    rng = np.random.default_rng(2)
    found = diagnose(sent([rng.uniform(size=3000) for _ in range(4)], alpha), alpha)
    assert found.verdict == "safe"
    missed = [1 - least for least, _ in found.coverage.values()]
    assert max(missed) <= most + 1e-12
    (said,) = (finding.says for finding in found.findings if finding.code == "coverage")
    assert f"every agent's miscoverage is shown to be at most {says}: a" in said
    assert f"misses at most {max(missed):.1%} of its points" in said
    assert said.endswith("(95 % upper confidence bound, not an estimate)")


def test_a_tail_decides_as_the_whole_sample_would() -> None:
    rng = np.random.default_rng(0)
    verdicts = set()
    for _ in range(60):
        scale = rng.choice([1.0, 1.02, 1.1, 1.5])
        agents = [rng.uniform(size=1000) * (scale if k else 1) for k in range(4)]
        found = diagnose(sent(agents, 0.1), 0.1)
        counts = [int((scores <= found.threshold).sum()) for scores in agents]
        assert found.verdict == str(judge(counts, counts, [1000] * 4, 0.1))
        verdicts.add(found.verdict)
    assert verdicts == {"safe", "unsafe", "cannot tell"}


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.sampled_from([0.05, 0.1, 0.3]),
    st.integers(0, 2**32 - 1),
)
def test_bounds_hold_the_counts_of_the_sample(sizes: list[int], alpha: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    agents = [np.round(rng.uniform(size=n), 1) for n in sizes]  # many ties
    found = diagnose(sent(agents, alpha, 0), alpha)
    sharper = diagnose(sent(agents, alpha), alpha)
    assert set(found.coverage) == set(sharper.coverage)
    for k, scores in enumerate(agents):
        share = (scores <= found.threshold).mean()
        for low, high in (found.coverage[f"a{k}"], sharper.coverage[f"a{k}"]):
            assert low <= share <= high or found.threshold == inf
        assert sharper.coverage[f"a{k}"][0] >= found.coverage[f"a{k}"][0]
        assert sharper.coverage[f"a{k}"][1] <= found.coverage[f"a{k}"][1]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(25, 9999)), min_size=2, max_size=9))
def test_two_numbers_an_agent_show_little_unless_all_thresholds_are_equal(agents) -> None:
    found = diagnose({f"a{k}": Q(q, n) for k, (q, n) in enumerate(agents)}, 0.05)
    if len({q for q, _ in agents}) > 1:
        assert found.verdict == "cannot tell"
        assert max(1 - least for least, _ in found.coverage.values()) == 1
        return
    enough = all(conformal_rank(n, 0.05) >= sufficient_count(n, 0.925) for _, n in agents)
    assert found.verdict == ("safe" if enough else "cannot tell")


@pytest.mark.parametrize(("n", "alpha"), [(9, 0.1), (20, 0.05), (19, 0.2)])
def test_equal_thresholds_of_tied_scores_are_not_called_safe_by_chance(
    n: int, alpha: float
) -> None:
    # all but one agent have scores up to 1 alone, that one has too many of 2: q_k is 1 at all of
    # them with the probability of a binomial tail, up to 0.2, and 1 covers too little there
    bar, r = least_coverage(alpha), conformal_rank(n, alpha)
    assert binom.sf(r - 1, n, bar - 0.01) > 0.05, "so the case is one"
    tail = tail_ranks(n, alpha, 16)
    agents = {f"a{k}": QuantileAndTail(1.0, n, tail, (1.0,) * len(tail)) for k in range(3)}
    assert diagnose(agents, alpha).verdict == "cannot tell"
    assert advise(agents, alpha).code == "cannot-tell"
    assert diagnose(agents, alpha, (0.0, 1.0)).verdict == "safe", "no score is larger than 1"


def test_more_agents_need_more_evidence() -> None:
    counts = np.full(100, 1000)
    counts[0] = insufficient_count(1000, 0.925, 0.02 / 3)
    assert judge(counts[:3], counts[:3], [1000] * 3, 0.05) == "unsafe"
    assert judge(counts, counts, [1000] * 100, 0.05) == "cannot tell"


def test_one_byzantine_agent_cannot_have_another_called_safe() -> None:
    rng = np.random.default_rng(0)
    honest = sent([rng.uniform(size=900) for _ in range(4)], 0.1)
    for claim in (0.0, 0.5):
        byzantine = QuantileAndTail(claim, 10**6, (10**5, 850_588), (claim, claim))
        found = diagnose({**honest, "byzantine": byzantine}, 0.1, (0.0, 1.0))
        assert found.verdict == "unsafe"
        assert set(only(found, "coverage").agents) == set(honest)
        assert only(found, "dominance").agents == ("byzantine",)


# ---- certain facts


def test_nobody_has_data() -> None:
    for none in ({}, {"a": Q(inf, 0), "b": Q(inf, 0)}):
        found = diagnose(none, 0.05)
        assert (found.verdict, codes(found)) == ("unsafe", [("no-data", "unsafe")])
        assert (found.agents, found.N) == (len(none), 0)
        assert "takes 19 points at some agent" in found.findings[0].says


def test_overflow_says_how_many_points_are_missing() -> None:
    agents = {"st-mary": Q(inf, 12), "a": Q(0.9, 200), "b": Q(0.9, 200)}
    found = diagnose(agents, 0.05)
    finding = only(found, "overflow")
    assert (found.verdict, finding.severity, finding.agents) == ("unsafe", "unsafe", ("st-mary",))
    assert "st-mary (n=12)" in finding.says
    assert "alpha=0.05 needs 19 points" in finding.says
    assert "themselves +inf" not in finding.says
    left_out = diagnose(agents, 0.05, overflow="exclude")
    assert left_out.verdict == "cannot tell"  # nothing is known of st-mary
    assert only(left_out, "excluded").agents == ("st-mary",)


def test_overflow_with_enough_points_means_infinite_scores() -> None:
    finding = only(diagnose({"a": Q(inf, 19), "b": Q(0.9, 18_000)}, 0.05), "overflow")
    assert "themselves +inf" in finding.says
    assert "needs" not in finding.says


def private(threshold: float, n: int) -> PrivateQuantile:
    return PrivateQuantile(threshold, n, 2.0, 0.0, REPLACED)


def test_private_overflow_means_too_few_points_for_epsilon() -> None:
    both = diagnose({"a": private(inf, 60), "b": private(0.9, 900)}, 0.1)
    finding = only(both, "overflow")
    assert "a (n=60) sent +inf" in finding.says
    assert "too few points for epsilon=2 and alpha=0.1" in finding.says
    assert "themselves" not in finding.says
    assert "A larger epsilon or more points make it finite" in finding.says
    assert "fcp" not in str(both)


def test_of_private_thresholds_nothing_is_known_and_nothing_more_is_asked() -> None:
    like = {"a": (1.0, 5), "b": (1.0, 20), "c": (0.2, 900)}  # too few points, and few
    plain = diagnose({name: Q(*s) for name, s in like.items()}, 0.1, (0.0, 1.0))
    assert {"clipped", "tiny", "saturated"} <= {code for code, _ in codes(plain)}
    drawn = diagnose({name: private(*s) for name, s in like.items()}, 0.1, (0.0, 1.0))
    assert codes(drawn) == [("coverage", "caution"), ("dominance", "caution")]
    assert drawn.verdict == "cannot tell"
    assert set(drawn.coverage.values()) == {(0.0, 1.0)}
    assert "fcp" not in str(drawn)
    assert "tail" not in str(drawn)


@given(st.sampled_from([0.7, 0.5, 0.2, 0.1, 0.05, 0.01, 0.003]))
def test_the_points_needed_are_those_of_the_rank(alpha: float) -> None:
    (needed,) = map(int, re.findall(r"takes (\d+) points", str(diagnose({}, alpha))))
    assert conformal_rank(needed, alpha) <= needed
    assert needed == 1 or conformal_rank(needed - 1, alpha) > needed - 1


def test_a_level_too_small_for_any_sample() -> None:
    assert only(diagnose({"a": Q(inf, 500)}, 1e-12), "overflow").severity == "unsafe"


def test_clipped_thresholds_give_themselves_away() -> None:
    # identical agents: (100 * 96/101 + 5 * 5/6) / 105 = 0.9449, within alpha/2 of 0.95
    few = diagnose({"a": Q(0.9, 100), "b": Q(0.85, 5)}, 0.05, overflow="clip")
    assert only(few, "clipped").severity == "caution"
    assert only(few, "clipped").agents == ("b",)
    assert "cover 0.945 on average" in only(few, "clipped").says
    every = diagnose({"a": Q(0.9, 5), "b": Q(0.85, 5)}, 0.05, overflow="clip")  # 5/6 on average
    assert (every.verdict, only(every, "clipped").severity) == ("unsafe", "unsafe")
    assert "0.833" in only(every, "clipped").says
    assert "tiny" not in dict(codes(every))


def test_tiny_agents() -> None:
    # Beta(18, 2), n = 19: sqrt(18 * 2 / 20^2 / 21) = 0.0655; Beta(90, 10), n = 99: 0.030
    found = diagnose({"a": Q(0.9, 99), "b": Q(0.9, 19)}, 0.1)
    finding = only(found, "tiny")
    assert (finding.severity, finding.agents) == ("caution", ("b",))
    assert "0.065 (standard deviation)" in finding.says


def test_thresholds_at_the_bound() -> None:
    # deterministic APS: more than alpha of the strong agent's scores are tied at 1
    agents = {"strong": Q(1.0, 500), "weak": Q(0.97, 500)}
    found = diagnose(agents, 0.05, (0.0, 1.0))
    assert codes(found) == [("coverage", "caution"), ("saturated", "caution")]
    assert only(found, "saturated").agents == ("strong",)
    assert "saturated" not in dict(codes(diagnose(agents, 0.05)))  # nobody can see it
    same = diagnose({"a": Q(1.0, 500), "b": Q(1.0, 500)}, 0.05, (0.0, 1.0))
    assert (same.verdict, codes(same)) == ("safe", [("coverage", "ok")])


def test_one_agent_dominates_unless_all_count_alike() -> None:
    agents = {"a": Q(0.9, 501), "b": Q(0.8, 500)}
    found = diagnose(agents, 0.1)
    assert only(found, "dominance").agents == ("a",)
    assert "50%" in only(found, "dominance").says
    assert "dominance" not in dict(codes(diagnose(agents, 0.1, weights="equally")))
    assert "dominance" not in dict(codes(diagnose({"a": Q(0.9, 5), "b": Q(0.8, 5)}, 0.3)))


def test_a_single_agent_and_an_empty_one() -> None:
    found = diagnose({"a": Q(0.9, 500), "b": Q(inf, 0)}, 0.1)
    assert codes(found) == [("empty", "caution"), ("single", "ok")]
    assert (found.verdict, found.agents, found.N) == ("safe", 2, 500)
    assert only(found, "empty").agents == ("b",)
    assert codes(diagnose({"a": Q(0.9, 500)}, 0.1)) == [("single", "ok")]


def test_many_agents_are_counted() -> None:
    finding = only(diagnose({f"a{k}": Q(inf, k + 1) for k in range(7)}, 0.05), "overflow")
    assert "a4 (n=5) and 2 more sent" in finding.says
    assert len(finding.agents) == 7


def test_it_prints_as_a_report() -> None:
    text = str(diagnose({"strong": Q(0.09, 900), "weak": Q(0.9, 100)}, 0.1, (0.0, 1.0)))
    lines = text.splitlines()
    assert lines[0] == (
        "these numbers do not show whether averaging is safe: 2 agents, N=1000, alpha=0.1"
    )
    assert lines[1].startswith(
        "  [caution] coverage: at the shared threshold 0.171 it is not shown that enough "
        "points are covered at weak"
    )
    assert lines[2].startswith("  [caution] dominance: strong holds 90%")
    assert len(lines) == 3
    safe = str(diagnose({"a": Q(0.9, 500)}, 0.1))
    assert safe.splitlines()[0] == "averaging is safe: 1 agent, N=500, alpha=0.1"


summaries = st.one_of(
    st.builds(Q, st.floats(0.01, 1), st.integers(1, 2000)),
    st.builds(Q, st.just(inf), st.integers(0, 30)),
)


@given(st.lists(summaries, max_size=6), st.sampled_from([0.05, 0.1, 0.3]), st.randoms())
def test_order_and_unit_do_not_matter(agents: list[Q], alpha: float, random: object) -> None:
    named = [(f"a{k}", s) for k, s in enumerate(agents)]
    found = diagnose(dict(named), alpha, (0.0, 1.0))
    scaled = {name: Q(4 * s.threshold, s.n) for name, s in named}
    again = diagnose(scaled, alpha, (0.0, 4.0))
    assert (again.verdict, codes(again)) == (found.verdict, codes(found))
    random.shuffle(named)
    again = diagnose(dict(named), alpha, (0.0, 1.0))
    assert (again.verdict, codes(again)) == (found.verdict, codes(found))


@given(st.lists(summaries, max_size=6), st.sampled_from(["propagate", "exclude"]))
def test_the_threshold_that_is_judged_is_the_one_that_a_round_releases(
    agents: list[Q], overflow: Overflow
) -> None:
    judged = diagnose({f"a{k}": s for k, s in enumerate(agents)}, 0.1, overflow=overflow)
    assert judged.threshold == FedWQCP(overflow).aggregate(agents, 0.1).value  # to the last bit


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="bounds must be a range"):
        diagnose({}, 0.1, (1.0, 0.0))
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        diagnose({}, 5)


# ---- of rounds


@pytest.mark.parametrize(
    ("method", "settings", "who"),
    [
        ("fedwq-cp", {}, {"a", "b", "few"}),
        ("fedwq-cp", {"tail": 16, "overflow": "exclude"}, {"a", "b", "few"}),
        ("fedavgq-cp", {"overflow": "exclude"}, {"a", "b", "few"}),
        ("private-fedwq-cp", {"epsilon": 50.0}, {"a", "b", "few"}),
        ("guarded-median-cp", {}, set()),
        ("fcp", {}, set()),
        ("split-cp", {}, set()),
    ],
)
def test_only_thresholds_that_were_averaged_are_judged(
    method: str, settings: dict, who: set
) -> None:
    scores = np.arange(1, 101) / 101
    cals = {"a": scores, "b": scores / 2, "few": scores[:3]}
    release = fw.calibrate(cals, method=fw.methods.get(method, **settings), alpha=0.1)
    found = diagnose_release(release, 0, 0.1)
    assert set(found.coverage if found else ()) == who
    assert excluded(release, 0) == (("few",) if "overflow" in settings else ())
    if found is not None:
        assert found.threshold == release.threshold("a")


def test_the_plain_mean_is_judged_where_it_lies() -> None:
    rng = np.random.default_rng(0)
    cals = {"large": rng.uniform(0, 1, 3000), "small": rng.uniform(0, 2, 300)}
    release = fw.calibrate(cals, method="fedavgq-cp", alpha=0.1)
    found = diagnose_release(release, 0, 0.1)
    own = [float(conformal_quantile(scores, 0.1)) for scores in cals.values()]
    assert found.threshold == pytest.approx(sum(own) / 2)


def test_nobody_is_excluded_where_all_are_infinite() -> None:
    method = fw.methods.get("fedwq-cp", overflow="exclude")
    release = fw.calibrate({"a": [0.1], "b": [0.2]}, method=method, alpha=0.1)
    assert excluded(release, 0) == ()
    assert diagnose_release(release, 0, 0.1).verdict == "unsafe"


# ---- of groups

AGENTS = {
    "a": fw.Calibration([0.1, 0.2, 0.3, 0.4, 0.5] * 8, groups=["f"] * 38 + ["m"] * 2),
    "b": fw.Calibration([0.1, 0.2, 0.3, 0.4, 0.5] * 8, groups=["f"] * 40),
}


def test_groups_without_a_finite_threshold_are_named():
    release = fw.calibrate(AGENTS, method="fedwq-cp", alpha=(0.1, 0.4), by="group", score="lac")
    found = diagnose_groups(release, 0.1, (0.0, 1.0))
    assert found.infinite == {"m": ("a", "b")}
    assert found.absent == {"m": ("b",)}
    assert set(found.averaged) == {"f", "m"}
    text = str(found)
    assert "by group, alpha=0.1" in text
    assert "infinite: the threshold is +inf, and every set of that group holds everything" in text
    assert "group m: at a, b\n" in text
    assert "no point of group m at b" in text
    assert "group m: overflow: a (n=2) sent +inf" in text
    finite = diagnose_groups(release, 0.4)
    assert finite.infinite == {}
    assert "infinite" not in str(finite)


def test_every_column_of_a_score_is_judged_and_the_worse_is_kept():
    even = np.arange(1, 1001) / 1001
    cals = {
        "a": fw.Calibration(np.column_stack([even, even]), groups=["f"] * 1000),
        "b": fw.Calibration(np.column_stack([even, 5 + even]), groups=["f"] * 1000),
    }
    method, score = fw.methods.get("fedwq-cp", tail=16), fw.CQR(symmetric=False)
    release = fw.calibrate(cals, method=method, alpha=0.1, score=score, by="group")
    first, second = (diagnose_release(release, task, 0.05) for task in (0, 1))
    assert (first.verdict, second.verdict) == ("safe", "unsafe")
    found = diagnose_groups(release)
    assert found.averaged == {"f": second}
    assert "averaging is safe in each" not in str(found)
    assert worst_of([None, first]) == first
    assert worst_of([None]) is None


def test_methods_that_do_not_average_are_not_judged_as_if_they_did():
    release = fw.calibrate(AGENTS, method="max-cp", alpha=0.1, by="group", score="lac")
    found = diagnose_groups(release)
    assert found.averaged == {}
    assert set(found.infinite) == {"m"}


def test_private_groups_are_not_sent_to_a_method_that_is_not():
    method = fw.methods.get("private-fedwq-cp", epsilon=1.0)
    text = str(diagnose_groups(fw.calibrate(AGENTS, method=method, alpha=0.1, by="group")))
    assert "A larger epsilon or more points make it finite" in text
    assert "fcp" not in text


def test_agents_of_their_own_are_told_apart():
    release = fw.calibrate(AGENTS, method="split-cp", alpha=0.4, by="group")
    assert diagnose_groups(release).infinite == {"m": ("b",)}


@pytest.mark.parametrize("method", ["split-cp", "guarded-median-cp"])
def test_what_agents_find_for_themselves_is_not_known_to_the_server(method):
    cal = fw.Calibration(np.arange(40) / 40, groups=["f", "m"] * 20)
    release = fw.calibrate({"a": cal, "b": cal}, method=method, alpha=0.4, by="group")
    assert diagnose_groups(release).infinite == {}  # known in the agents' process
    found = diagnose_groups(release.public())
    assert (found.infinite, found.complete) == (None, False)
    assert "every group has a finite threshold" not in str(found)
    assert "not known here: each agent's own data decide" in str(found)
    assert (found.absent is None) == (method == "split-cp")  # which asks nobody


@pytest.mark.filterwarnings("ignore::fedwqcp.InfiniteThresholdWarning")
def test_what_the_server_knows_in_part_is_not_shown_as_all():
    counts = {"a": (60, 60, 0), "b": (60, 60, 3), "c": (40, 0, 0)}
    cals = {
        name: fw.Calibration(np.arange(sum(n)) / sum(n), np.repeat([0, 1, 2], n), n_classes=3)
        for name, n in counts.items()
    }
    release = fw.calibrate(cals, method="guarded-median-cp", alpha=0.1, by="label")
    there = diagnose_groups(release)
    assert (there.infinite["2"], there.complete) == (("a", "b", "c"), True)
    assert "not known" not in str(there)
    found = diagnose_groups(replace(release, local={}))  # as the server has it
    assert (found.infinite["2"], found.complete) == (("a", "c"), False)
    assert str(found).endswith(
        "\n  of others not known here: each agent's own data decide whether its threshold is finite"
    )


def test_by_label_only_that_label_is_in_every_set():
    labels = np.repeat([0, 1], [38, 2])
    cal = fw.Calibration(np.arange(40) / 40, labels=labels, n_classes=3)
    text = str(
        diagnose_groups(
            fw.calibrate({"a": cal, "b": cal}, method="fedwq-cp", alpha=0.1, by="label")
        )
    )
    assert "infinite: the threshold is +inf, and that label is in every set:" in text
    assert "label 1: at a, b\n" in text
    assert "label 2: at a, b, without a point of it\n" in text
    assert "[caution] absent: no point of label 2 at a, b" in text
    assert "So the mean is +inf, and that label is in every set." in text
    assert "everything" not in text
    assert "group" not in text


def test_all_agents_of_which_nothing_is_known_are_named():
    two = {"a": Q(0.5, 1000), "b": Q(0.9, 100), "c": Q(0.8, 100), "d": Q(0.5, 25)}
    says = only(diagnose(two, 0.1), "coverage").says
    assert "covered at b, c, d; what b, c miss is not known: these numbers give no bound" in says
    assert "; d misses at most " in says


def test_nothing_to_say():
    cal = fw.Calibration([i / 400 for i in range(400)], groups=["f", "m"] * 200)
    release = fw.calibrate({"a": cal}, method="fcp", alpha=0.1, by="group")
    assert "every group has a finite threshold" in str(diagnose_groups(release))


def test_without_groups_there_is_another_function():
    with pytest.raises(InputError, match="no groups"):
        diagnose_groups(fw.calibrate({"a": [0.1]}, method="fedwq-cp", alpha=0.5))
