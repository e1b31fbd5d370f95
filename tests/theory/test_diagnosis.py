from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods.private_fedwq_cp import REPLACED, PrivateQuantile
from fedwqcp.quantile import conformal_quantile, conformal_rank
from fedwqcp.theory import Diagnosis, Finding, ScoreLaw, diagnose
from fedwqcp.theory.diagnosis import averaged, excluded
from fedwqcp.wire.payload import LocalQuantile

Q = LocalQuantile


def codes(found: Diagnosis) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in found.findings]


def only(found: Diagnosis, code: str) -> Finding:
    (finding,) = (f for f in found.findings if f.code == code)
    return finding


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0), (0.0, inf)])
def test_the_designed_in_failure_is_unsafe(bounds: tuple[float, float] | None) -> None:
    law = ScoreLaw((0.1, 1.0), "uniform")
    strong, weak = law.quantile(0.9, np.eye(2))
    threshold = (900 * strong + 100 * weak) / 1000
    assert threshold == pytest.approx(0.171)
    assert law.cdf(threshold, np.eye(2)) == pytest.approx([1.0, 0.171])

    found = diagnose({"strong": Q(float(strong), 900), "weak": Q(float(weak), 100)}, 0.1, bounds)
    assert not found.safe
    assert codes(found) == [("spread", "unsafe"), ("dominance", "caution")]
    assert found.findings[0].agents == ("strong", "weak")
    assert "split-cp" in found.advice[0]
    assert "fcp" in found.advice[0]
    assert "randomised APS" in found.advice[0]


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)])
def test_six_like_agents_are_safe(bounds: tuple[float, float] | None) -> None:
    found = diagnose({f"a{k}": Q(0.9 + k / 500, 300 + k) for k in range(6)}, 0.1, bounds)
    assert found.safe
    assert codes(found) == [("spread", "ok")]
    assert found.advice == ()


@pytest.mark.parametrize("family", ["uniform", "exponential"])
@pytest.mark.parametrize(
    ("n", "alpha", "alarms"), [(20, 0.1, 3), (40, 0.1, 0), (80, 0.05, 0), (400, 0.05, 0)]
)
def test_noise_alone_hardly_ever_alarms(family: str, n: int, alpha: float, alarms: int) -> None:
    law, rng = ScoreLaw((1.0,), family), np.random.default_rng(n)
    bounds = (0.0, 1.0) if family == "uniform" else (0.0, inf)
    unsafe = 0
    for draw in law.sample(n, np.ones((100, 6, 1)), rng):
        sent = {str(k): Q(conformal_quantile(own, alpha), n) for k, own in enumerate(draw)}
        unsafe += not diagnose(sent, alpha, bounds).safe
    assert unsafe <= alarms


def test_nobody_has_data() -> None:
    for sent in ({}, {"a": Q(inf, 0), "b": Q(inf, 0)}):
        found = diagnose(sent, 0.05)
        assert codes(found) == [("no-data", "unsafe")]
        assert (found.agents, found.N) == (len(sent), 0)
        assert found.advice == ("at least 19 points at some agent",)


def test_overflow_says_how_many_points_are_missing() -> None:
    found = diagnose({"st-mary": Q(inf, 12), "a": Q(0.9, 200), "b": Q(0.9, 200)}, 0.05)
    finding = only(found, "overflow")
    assert (finding.severity, finding.agents) == ("unsafe", ("st-mary",))
    assert "st-mary (n=12)" in finding.says
    assert "alpha=0.05 needs 19 points" in finding.says
    assert "themselves +inf" not in finding.says
    assert "fcp" in finding.instead
    assert not found.safe


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
    assert "n is too small for epsilon=2 and alpha=0.1" in finding.says
    assert "themselves" not in finding.says
    for way in ("a larger epsilon", "more points", 'overflow="exclude"'):
        assert way in finding.instead
    assert "fcp" not in str(both)
    alone = only(diagnose({"a": private(inf, 60)}, 0.1), "overflow")
    assert "exclude" not in alone.instead  # nobody would be left


def test_private_thresholds_are_not_taken_for_order_statistics() -> None:
    like = {"a": (1.0, 5), "b": (1.0, 20), "c": (0.2, 900)}  # too few points, and few
    plain = diagnose({name: Q(*s) for name, s in like.items()}, 0.1, (0.0, 1.0))
    assert {"clipped", "tiny", "spread"} <= {code for code, _ in codes(plain)}
    drawn = diagnose({name: private(*s) for name, s in like.items()}, 0.1, (0.0, 1.0))
    assert codes(drawn) == [("spread", "unsafe"), ("dominance", "caution")]
    assert "fcp" in str(plain)
    assert "fcp" not in str(drawn)
    assert "split-cp" in str(drawn)


@pytest.mark.parametrize(
    ("method", "settings", "who"),
    [
        ("fedwq-cp", {}, {"a", "b", "few"}),
        ("fedavgq-cp", {"overflow": "exclude"}, {"a", "b"}),
        ("private-fedwq-cp", {"epsilon": 50.0}, {"a", "b", "few"}),
        ("private-fedwq-cp", {"epsilon": 50.0, "combine": "weighted-median-cp"}, set()),
        ("weighted-median-cp", {}, set()),
        ("trimmed-mean-cp", {}, set()),
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
    assert set(averaged(release, 0)) == who
    assert excluded(release, 0) == (("few",) if "overflow" in settings else ())


def test_nobody_is_excluded_where_all_are_infinite() -> None:
    method = fw.methods.get("fedwq-cp", overflow="exclude")
    release = fw.calibrate({"a": [0.1], "b": [0.2]}, method=method, alpha=0.1)
    assert excluded(release, 0) == ()
    assert set(averaged(release, 0)) == {"a", "b"}


def test_fcp_is_not_advised_where_it_overflows_too() -> None:
    # M = 2, N = 20: ceil(22 * 0.95) = 21 > 20
    found = diagnose({"a": Q(inf, 10), "b": Q(inf, 10)}, 0.05)
    assert codes(found) == [("overflow", "unsafe")]
    assert "fcp" not in found.advice[0]


@given(st.sampled_from([0.7, 0.5, 0.2, 0.1, 0.05, 0.01, 0.003]))
def test_the_points_needed_are_those_of_the_rank(alpha: float) -> None:
    needed = int(diagnose({}, alpha).advice[0].split()[2])
    assert conformal_rank(needed, alpha) <= needed
    assert needed == 1 or conformal_rank(needed - 1, alpha) > needed - 1


def test_a_level_too_small_for_any_sample() -> None:
    assert only(diagnose({"a": Q(inf, 500)}, 1e-12), "overflow").severity == "unsafe"


def test_clipped_thresholds_give_themselves_away() -> None:
    # like agents: (100 * 96/101 + 5 * 5/6) / 105 = 0.9449, within a quarter of alpha of 0.95
    few = diagnose({"a": Q(0.9, 100), "b": Q(0.85, 5)}, 0.05)
    assert only(few, "clipped").severity == "caution"
    assert only(few, "clipped").agents == ("b",)
    assert "cover 0.945 on average" in only(few, "clipped").says
    every = diagnose({"a": Q(0.9, 5), "b": Q(0.85, 5)}, 0.05)  # 5/6 on average
    assert only(every, "clipped").severity == "unsafe"
    assert "0.833" in only(every, "clipped").says
    assert "tiny" not in dict(codes(every))


def test_tiny_agents() -> None:
    # Beta(18, 2), n = 19: sqrt(18 * 2 / 20^2 / 21) = 0.0655; Beta(90, 10), n = 99: 0.030
    found = diagnose({"a": Q(0.9, 99), "b": Q(0.9, 19)}, 0.1)
    finding = only(found, "tiny")
    assert (finding.severity, finding.agents) == ("caution", ("b",))
    assert "0.065 (standard deviation)" in finding.says
    assert found.safe


@pytest.mark.parametrize(
    ("top", "severity"), [(0.94, "ok"), (1.02, "caution"), (1.09, "caution"), (1.2, "unsafe")]
)
def test_spread_against_the_range(top: float, severity: str) -> None:
    # n = 10^6: no noise to speak of. alpha = 0.1: caution above 0.1, unsafe above 0.2 of the range
    found = diagnose({"a": Q(0.9, 10**6), "b": Q(top, 10**6)}, 0.1, (0.0, 1.0))
    assert only(found, "spread").severity == severity
    twice = diagnose({"a": Q(1.8, 10**6), "b": Q(2 * top, 10**6)}, 0.1, (0.0, 2.0))
    assert only(twice, "spread").severity == severity


@pytest.mark.parametrize(
    ("top", "severity"), [(1.4, "ok"), (1.5, "caution"), (1.85, "caution"), (1.9, "unsafe")]
)
def test_spread_against_the_median(top: float, severity: str) -> None:
    # alpha log(1 / alpha) = 0.2303: caution above 0.434 of the median, unsafe above 0.869
    found = diagnose({"a": Q(1.0, 10**6), "b": Q(top, 10**6)}, 0.1)
    assert only(found, "spread").severity == severity


def test_spread_less_than_noise_is_no_finding() -> None:
    far, near = (diagnose({"a": Q(0.7, n), "b": Q(0.95, n)}, 0.1, (0, 1)) for n in (10**6, 30))
    assert only(far, "spread").severity == "unsafe"
    assert only(near, "spread").severity == "ok"


def test_beyond_one_half_the_level_itself_is_the_room() -> None:
    found = diagnose({"a": Q(0.1, 10**6), "b": Q(0.35, 10**6)}, 0.9, (0, 1))
    assert only(found, "spread").severity == "unsafe"


@pytest.mark.parametrize("bounds", [None, (-inf, inf)])
def test_negative_thresholds_carry_no_scale(bounds: tuple[float, float] | None) -> None:
    apart = diagnose({"a": Q(-0.2, 500), "b": Q(0.3, 500)}, 0.1, bounds)
    assert only(apart, "spread").severity == "caution"
    assert "pass bounds" in only(apart, "spread").says
    same = diagnose({"a": Q(-0.2, 500), "b": Q(-0.2, 500)}, 0.1, bounds)
    assert codes(same) == [("spread", "ok")]


def test_thresholds_at_the_bound() -> None:
    # deterministic APS: more than alpha of the strong agent's scores are tied at 1
    sent = {"strong": Q(1.0, 500), "weak": Q(0.97, 500)}
    found = diagnose(sent, 0.05, (0.0, 1.0))
    assert codes(found) == [("saturated", "unsafe"), ("spread", "ok")]
    assert only(found, "saturated").agents == ("strong",)
    assert diagnose(sent, 0.05).safe  # without bounds nobody can see it


def test_thresholds_near_the_bound() -> None:
    found = diagnose({"a": Q(0.996, 500), "b": Q(0.97, 500)}, 0.05, (0.0, 1.0))
    assert codes(found) == [("saturated", "caution"), ("spread", "ok")]
    assert only(found, "saturated").agents == ("a",)


@pytest.mark.parametrize(
    "sent",
    [
        {"a": Q(1.0, 500), "b": Q(1.0, 500)},  # all alike: the mean is the bound
        {"a": Q(0.999, 25), "b": Q(0.95, 500)},  # a maximum of few points may lie anywhere
        {"a": Q(0.994, 500), "b": Q(0.95, 500)},
    ],
)
def test_thresholds_not_at_the_bound(sent: dict[str, LocalQuantile]) -> None:
    assert "saturated" not in dict(codes(diagnose(sent, 0.05, (0.0, 1.0))))


def test_one_agent_dominates() -> None:
    found = diagnose({"a": Q(0.9, 501), "b": Q(0.9, 500)}, 0.1)
    assert only(found, "dominance").agents == ("a",)
    assert "50%" in only(found, "dominance").says
    assert codes(diagnose({"a": Q(0.9, 500), "b": Q(0.9, 500)}, 0.1)) == [("spread", "ok")]


def test_a_single_agent_and_an_empty_one() -> None:
    found = diagnose({"a": Q(0.9, 500), "b": Q(inf, 0)}, 0.1)
    assert codes(found) == [("empty", "caution"), ("single", "ok")]
    assert (found.safe, found.agents, found.N) == (True, 2, 500)
    assert only(found, "empty").agents == ("b",)
    assert codes(diagnose({"a": Q(0.9, 500)}, 0.1)) == [("single", "ok")]


def test_many_agents_are_counted() -> None:
    finding = only(diagnose({f"a{k}": Q(inf, k + 1) for k in range(7)}, 0.05), "overflow")
    assert "a4 (n=5) and 2 more sent" in finding.says
    assert len(finding.agents) == 7


def test_it_prints_as_a_report() -> None:
    text = str(diagnose({"strong": Q(0.09, 900), "weak": Q(0.9, 100)}, 0.1, (0.0, 1.0)))
    lines = text.splitlines()
    assert lines[0] == "averaging is UNSAFE: 2 agents, N=1000, alpha=0.1"
    assert lines[1].startswith("  [unsafe] spread: thresholds run from 0.09 (strong) to 0.9 (weak)")
    assert lines[2].startswith("  [caution] dominance: strong holds 90%")
    assert lines[3] == "what to use instead:"
    assert len(lines) == 6
    safe = str(diagnose({"a": Q(0.9, 500)}, 0.1))
    assert safe.splitlines()[0] == "nothing unsafe was found: 1 agent, N=500, alpha=0.1"
    assert "instead" not in safe


summaries = st.one_of(
    st.builds(Q, st.floats(0.01, 1), st.integers(1, 2000)),
    st.builds(Q, st.just(inf), st.integers(0, 30)),
)


@given(st.lists(summaries, max_size=6), st.sampled_from([0.05, 0.1, 0.3]), st.randoms())
def test_order_and_unit_do_not_matter(sent: list[Q], alpha: float, random: object) -> None:
    agents = [(f"a{k}", s) for k, s in enumerate(sent)]
    found = diagnose(dict(agents), alpha, (0.0, 1.0))
    assert found.safe == all(f.severity != "unsafe" for f in found.findings)
    scaled = {name: Q(4 * s.threshold, s.n) for name, s in agents}
    assert codes(diagnose(scaled, alpha, (0.0, 4.0))) == codes(found)
    random.shuffle(agents)
    assert codes(diagnose(dict(agents), alpha, (0.0, 1.0))) == codes(found)


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="bounds must be a range"):
        diagnose({}, 0.1, (1.0, 0.0))
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        diagnose({}, 5)
