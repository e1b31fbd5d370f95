"""Finite-sample guarantees, checked exactly: every way to hold out the test points is tried.

A guarantee under exchangeability is a statement about fixed values in random order. So take n + 1
values, ties or not, let each in turn be the test point, and count: the share of covered test points
must keep the bound for every choice of values, sizes and level. Nothing here is left to chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import inf

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from engine import hold
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method, choose_score
from fedwqcp.federation.server import Server
from fedwqcp.methods import Calibration, PerAgentQuestions
from fedwqcp.methods.fcp import FCP
from fedwqcp.methods.fed_crc import FedCRC
from fedwqcp.methods.fedcp_qq import FedCPQQ
from fedwqcp.methods.fedls_cp import FedLSCP, ranks_of, rounded_up
from fedwqcp.methods.guarded_median_cp import GuardedMedianCP
from fedwqcp.methods.max_cp import MaxCP
from fedwqcp.methods.new_agent_cp import NewAgentCP
from fedwqcp.methods.split_cp import SplitCP
from fedwqcp.wire.messages import Local, LocalQuantile, Round

levels = st.integers(1, 99).map(lambda k: k / 100)
tied = st.integers(0, 6).map(float)
RNG = np.random.default_rng(0)


def exact(alpha):
    """Return a level of two digits without rounding."""
    return Fraction(round(100 * alpha), 100)


def solve(method, cals, alpha):
    """Hold the dialogue of a method with agents that are here."""
    talk = method.exchange(alpha)
    ask = next(talk)
    while True:
        asked = ask.questions if isinstance(ask, PerAgentQuestions) else [ask] * len(cals)
        answers = [method.answer(c, q, alpha, RNG) for c, q in zip(cals, asked, strict=True)]
        try:
            ask = talk.send(answers)
        except StopIteration as end:
            return end.value


def held_out(groups: Sequence[Sequence[float]]) -> Iterator[tuple[list, list]]:
    """Give every choice of one test value from each group, and what is left of the groups."""
    for places in product(*(range(len(group)) for group in groups)):
        rest = [[*g[:at], *g[at + 1 :]] for g, at in zip(groups, places, strict=True)]
        yield [g[at] for g, at in zip(groups, places, strict=True)], rest


def shares(groups, threshold) -> list[Fraction]:
    """Return how often the test value of each group is at most the threshold of the rest."""
    found = [[t <= threshold(rest) for t in tests] for tests, rest in held_out(groups)]
    return [Fraction(sum(column), len(found)) for column in zip(*found, strict=True)]


def distinct(groups):
    """Return groups in the same order without ties."""
    order = iter(np.random.default_rng(1).permutation(sum(map(len, groups))).tolist())
    return [[float(next(order)) for _ in group] for group in groups]


SAMPLE = st.lists(tied, min_size=1, max_size=12)
GROUPS = st.lists(st.lists(tied, min_size=1, max_size=4), min_size=1, max_size=3)


@pytest.mark.guarantee("split-cp", "1 - alpha <= P(Y in C_k(X))")
@pytest.mark.guarantee("split-cp", "it is at most 1 - alpha + 1/(n_k + 1)")
@given(SAMPLE, levels, st.sampled_from(["propagate", "exclude"]))
def test_split_cp(values, alpha, overflow):
    method = SplitCP(overflow=overflow)

    def threshold(rest):
        return float(method.localize(Local(), Calibration(rest[0]), 0, alpha))

    assert shares([values], threshold)[0] >= 1 - exact(alpha)
    (most,) = shares(distinct([values]), threshold)
    assert most <= 1 - exact(alpha) + Fraction(1, len(values))


@pytest.mark.guarantee("split-cp", "``clip`` loses it.")
@pytest.mark.guarantee("guarded-median-cp", "``clip`` loses it.")
@pytest.mark.parametrize("method", [SplitCP("clip"), GuardedMedianCP(overflow="clip")])
def test_clip_loses_it(method):
    def threshold(rest):
        cal = Calibration(rest[0])
        outcome = Local()
        if not isinstance(method, SplitCP):
            outcome = method.aggregate([method.summarize(cal, 0.1)], 0.1)
        return float(method.localize(outcome, cal, 0, 0.1))

    assert shares([list(range(6))], threshold) == [Fraction(5, 6)]  # below 0.9


FCPS = [FCP(), FCP(sketch="order", points=2, min_gap=2)]


@pytest.mark.guarantee("fcp", "1 - alpha <= P(Y in C(X)) for a test point that comes from agent k")
@pytest.mark.guarantee("fcp", "it is at most 1 - alpha + M / (N + M).")
@pytest.mark.parametrize("method", FCPS, ids=repr)
@settings(max_examples=15, deadline=None)
@given(groups=GROUPS, alpha=levels)
@example(groups=[[0.0, 1.0, 2.0, 3.0], [7.0, 8.0, 9.0, 10.0]], alpha=0.6)  # N + 1 is not enough
def test_fcp(method, groups, alpha):
    def threshold(rest):
        return solve(method, [Calibration(own) for own in rest], alpha).value

    def mixture(groups):
        found = shares(groups, threshold)
        total = sum(map(len, groups))
        return sum(hit * len(group) / total for hit, group in zip(found, groups, strict=True))

    assert mixture(groups) >= 1 - exact(alpha)
    if method == FCPS[0]:
        total = sum(map(len, groups))
        assert mixture(distinct(groups)) <= 1 - exact(alpha) + Fraction(len(groups), total)


@pytest.mark.guarantee("fcp", "Nothing is promised at a single agent.")
def test_fcp_promises_nothing_at_a_single_agent():
    easy, hard = list(range(20)), [100.0, 101.0]

    def threshold(rest):
        return solve(FCP(), [Calibration(own) for own in rest], 0.2).value

    assert shares([easy, hard], threshold)[1] == 0


@pytest.mark.guarantee("fedcp-qq", "P(Y in C(X)) is at least this expected coverage")
@pytest.mark.parametrize(
    "sizes", [(1, 1), (2, 3), (1, 1, 3), pytest.param((2, 2, 2), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("alpha", [0.1, 0.25, 0.4, 0.6])
@pytest.mark.parametrize("ties", [False, True])
def test_fedcp_qq(sizes, alpha, ties):
    values = [float(v // 2 if ties else v) for v in range(sum(sizes) + 1)]
    hits, ways = 0, 0
    for test, agents in assigned(values, sizes):
        outcome = solve(FedCPQQ(), [Calibration(own) for own in agents], alpha)
        hits, ways = hits + (test <= outcome.value), ways + 1
    assert outcome.coverage >= 1 - alpha - 1e-12
    covered = hits / ways
    assert covered == pytest.approx(outcome.coverage, abs=1e-9) or ties
    assert covered >= outcome.coverage - 1e-9


def assigned(values, sizes):
    """Give every way to deal values to a test point and to agents of these sizes."""
    if not sizes:
        yield values[0], []
        return
    for chosen in combinations(range(len(values)), sizes[0]):
        own = [values[i] for i in chosen]
        rest = [v for i, v in enumerate(values) if i not in chosen]
        for test, agents in assigned(rest, sizes[1:]):
            yield test, [own, *agents]


ANYTHING = st.builds(
    LocalQuantile, tied | st.floats(-1e9, 1e9) | st.just(inf), st.integers(1, 10**9)
)


@pytest.mark.guarantee("guarded-median-cp", "1 - alpha <= P(Y in C_k(X)) at every honest agent k")
@pytest.mark.guarantee("guarded-median-cp", "it is at most 1 - (1 - slack) alpha + 1/(n_k + 1)")
@settings(deadline=None)
@given(SAMPLE, st.lists(ANYTHING, max_size=4), levels, st.integers(0, 19), st.booleans())
def test_guarded_median_cp(values, others, alpha, twentieths, exclude):
    """The other agents are all Byzantine."""
    method = GuardedMedianCP(slack=twentieths / 20, overflow="exclude" if exclude else "propagate")

    def threshold(rest):
        cal = Calibration(rest[0])
        outcome = method.aggregate([method.summarize(cal, alpha), *others], alpha)
        return float(method.localize(outcome, cal, 0, alpha))

    assert shares([values], threshold)[0] >= 1 - exact(alpha)
    (most,) = shares(distinct([values]), threshold)
    bound = 1 - (1 - Fraction(twentieths, 20)) * exact(alpha) + Fraction(1, len(values))
    assert most <= bound + Fraction(1, 10**9)  # (1 - slack) alpha is rounded as a float


QUARTERS = st.integers(0, 4).map(lambda k: k / 4)
POINT = st.tuples(QUARTERS | st.just(inf), QUARTERS, st.integers(0, 4), st.integers(0, 4))
POINTS = st.lists(POINT, min_size=1, max_size=5)


def calibrated(points):
    """Return points of two scores with weights that add up to at most 1."""
    rows = np.array([(a, b) for a, b, _, _ in points], dtype=np.float64).reshape(-1, 2)
    weights = np.array([(v / 8, w / 8) for _, _, v, w in points], dtype=np.float64).reshape(-1, 2)
    return Calibration(rows, weights=weights)


def loss(point, t):
    """Return the weight of a point's scores above a threshold."""
    a, b, v, w = point
    return Fraction(v, 8) * (a > t) + Fraction(w, 8) * (b > t)


@pytest.mark.guarantee("fed-crc", "the expected loss of a test point is at most alpha")
@pytest.mark.guarantee("fed-crc", "``mixture``: for a test point that comes from agent k")
@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(POINT, min_size=1, max_size=3), min_size=1, max_size=3), levels)
@example([[(a / 4, 0.0, 8, 0) for a in range(4)], [(1.0, 0.0, 8, 0)] * 4], 0.6)  # not for N + 1
def test_fed_crc_mixture(groups, alpha):
    method, total = FedCRC(points=4), sum(map(len, groups))
    found, ways = Fraction(0), 0
    for tests, rest in held_out(groups):
        t = solve(method, [calibrated(own) for own in rest], alpha).value
        found += sum(loss(p, t) * len(g) for p, g in zip(tests, groups, strict=True)) / total
        ways += 1
    assert found / ways <= exact(alpha)


@pytest.mark.guarantee("fed-crc", "``pooled``: if all points are i.i.d.")
@settings(max_examples=40, deadline=None)
@given(points=POINTS, alpha=levels)
def test_fed_crc_pooled(points, alpha):
    method, found = FedCRC("pooled", points=4), Fraction(0)
    for at, test in enumerate(points):
        rest = [*points[:at], *points[at + 1 :]]
        outcome = solve(method, [calibrated(own) for own in (rest[:2], rest[2:])], alpha)
        found += loss(test, outcome.threshold(0))
    assert found / len(points) <= exact(alpha)


SHARES = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any)
CLASSES = st.lists(st.lists(tied, min_size=1, max_size=5), min_size=3, max_size=3)


def of_classes(method, rest, alpha):
    """Return FedLS-CP's threshold of an agent with these scores of each class."""
    labels = np.repeat(np.arange(len(rest)), [len(own) for own in rest])
    cal = Calibration(np.concatenate([np.array(own) for own in rest]), labels, n_classes=len(rest))
    other = Calibration([0.0] * 3, [0, 1, 2], n_classes=3)  # what another agent has is no matter
    return solve(method, [cal, other], alpha).values[0]


@pytest.mark.guarantee("fedls-cp", "coverage at the target is at least 1 - alpha in finite samples")
@pytest.mark.parametrize("floor", [False, True])
@settings(max_examples=30, deadline=None)
@given(groups=CLASSES, alpha=levels, pi=SHARES)
def test_fedls_cp_covers_the_target(floor, groups, alpha, pi):
    method = FedLSCP(tuple(map(float, pi)), 0.0, min_gap=2, min_class=1)
    found = shares(groups, lambda rest: of_classes(method, rest, alpha))
    assert sum(p * c for p, c in zip(pi, found, strict=True)) >= sum(pi) * (1 - exact(alpha))


@pytest.mark.guarantee("fedls-cp", "Without ties it is at most 1 - alpha + sum_c pi_c g_c")
@settings(max_examples=30, deadline=None)
@given(groups=CLASSES, alpha=levels, pi=SHARES)
def test_fedls_cp_covers_little_more(groups, alpha, pi):
    method = FedLSCP(tuple(map(float, pi)), 0.0, min_gap=2, min_class=1)
    groups = distinct(groups)
    found = shares(groups, lambda rest: of_classes(method, rest, alpha))
    n = [len(group) - 1 for group in groups]
    gaps = [max(np.diff((0, *ranks_of(m, alpha, 48, 2), m + 1))) for m in n]
    one = [Fraction(p, sum(pi) * (m + 1)) for p, m in zip(pi, n, strict=True)]
    above = sum(int(g) * s for g, s in zip(gaps, one, strict=True)) + max(one)
    covered = sum(Fraction(p, sum(pi)) * c for p, c in zip(pi, found, strict=True))
    assert covered <= 1 - exact(alpha) + above


@pytest.mark.parametrize(("min_gap", "min_class"), [(2, 1), (5, 10)])
@settings(max_examples=40, deadline=None)
@given(groups=CLASSES, alpha=levels, pi=SHARES, seed=st.integers(0, 10**6))
def test_fedls_cp_lies_between_the_two_thresholds_of_its_proof(
    min_gap, min_class, groups, alpha, pi, seed
):
    """With scores of many digits and larger classes: q* <= q <= q** rounded up."""
    rng = np.random.default_rng(seed)
    own = [rng.uniform(size=len(g) * int(rng.integers(1, 30)) - 1) for g in groups]
    fresh = [np.append(scores, rng.uniform()) for scores in own]
    method = FedLSCP(tuple(map(float, pi)), 0.0, min_gap=min_gap, min_class=min_class)
    q = of_classes(method, own, alpha)
    ranks = [(0, *ranks_of(len(x), alpha, 48, min_gap, min_class), len(x) + 1) for x in own]
    gaps = [max(np.diff(sent)) for sent in ranks]
    more = sum(
        Fraction(p * int(g), sum(pi) * len(x)) for p, g, x in zip(pi, gaps, fresh, strict=True)
    )

    def first(level):
        """The smallest value at which the classes' shares, fresh scores included, reach it."""
        places = sorted(float(v) for x in fresh for v in x)
        reached = (
            v for v in places
            if sum(Fraction(p * int((x <= v).sum()), sum(pi) * len(x))
                   for p, x in zip(pi, fresh, strict=True)) >= level
        )  # fmt: skip
        return next(reached, inf)

    assert first(1 - exact(alpha)) <= q <= rounded_up(first(1 - exact(alpha) + more))


@pytest.mark.guarantee("fedls-cp", "never counts as covered: with more than alpha of the target")
def test_fedls_cp_never_covers_a_class_that_it_has_not_seen():
    scores = [list(range(50)), list(range(50)), []]
    rare, common = (FedLSCP(target=(1.0 - p, 0.0, p), n0=0.0) for p in (0.05, 0.11))
    assert of_classes(rare, scores, 0.1) < inf
    assert of_classes(common, scores, 0.1) == inf
    few = [list(range(50)), list(range(50)), [0.0] * 9]  # below min_class
    assert of_classes(common, few, 0.1) == inf


@pytest.mark.guarantee("fed-crc", "The grid costs at most one step of the threshold.")
@given(st.lists(st.integers(1, 1000).map(lambda k: k / 1000), min_size=1, max_size=60), levels)
def test_the_grid_costs_one_step(scores, alpha):
    coarse = fw.calibrate(
        {"a": scores}, method=FedCRC(points=10), alpha=alpha, allow_large_alpha=True
    ).threshold("a")
    fine = fw.calibrate(
        {"a": scores}, method=FedCRC(points=1000), alpha=alpha, allow_large_alpha=True
    ).threshold("a")
    assert fine == coarse == inf or fine <= coarse < fine + 0.1 + 1e-9


@pytest.mark.guarantee(
    "max-cp", "coverage of at least 1 - alpha, in finite samples, at every agent"
)
@pytest.mark.parametrize("overflow", ["propagate", "exclude"])
@settings(max_examples=40, deadline=None)
@given(groups=GROUPS, alpha=levels)
def test_max_cp(overflow, groups, alpha):
    method = MaxCP(overflow)

    def threshold(rest):
        return solve(method, [Calibration(own) for own in rest], alpha).value

    for group, share in zip(groups, shares(groups, threshold), strict=True):
        n = len(group) - 1  # of what is left of it
        if overflow == "propagate" or fw.conformal_rank(n, alpha) <= n:
            assert share >= 1 - exact(alpha)


def new_agent(groups, threshold):
    """Give, for each group as the new agent, what it is and the threshold of the others."""
    for at, group in enumerate(groups):
        yield group, threshold([*groups[:at], *groups[at + 1 :]])


MARGINAL = [NewAgentCP(), NewAgentCP(min_gap=2), NewAgentCP(points=1)]
AGENTS = st.lists(st.lists(tied, min_size=1, max_size=5), min_size=2, max_size=7)


@pytest.mark.guarantee("new-agent-cp", "1 - alpha for a point of the new agent, over the draw")
@pytest.mark.parametrize("method", MARGINAL, ids=repr)
@settings(max_examples=40, deadline=None)
@given(groups=AGENTS, alpha=levels)
def test_new_agent_cp_covers_a_point_of_a_new_agent(method, groups, alpha):
    def threshold(rest):
        return solve(method, [Calibration(own) for own in rest], alpha).value

    covered = [
        Fraction(sum(v <= q for v in group), len(group))
        for group, q in new_agent(groups, threshold)
    ]
    assert sum(covered) / len(groups) >= 1 - exact(alpha)


@pytest.mark.guarantee("new-agent-cp", "from a sample of an exchangeable size, would have been no")
@settings(max_examples=60, deadline=None)
@given(groups=AGENTS, alpha=levels, delta=levels)
def test_new_agent_cp_with_confidence(groups, alpha, delta):
    method = NewAgentCP("confident", delta=delta)

    def threshold(rest):
        return solve(method, [Calibration(own) for own in rest], alpha).value

    kept = [fw.conformal_quantile(g, alpha) <= q for g, q in new_agent(groups, threshold)]
    assert Fraction(sum(kept), len(groups)) >= 1 - exact(delta)


def test_confidence_says_nothing_of_an_agent_of_another_size():
    """Identical agents with 10^5 points; the new one has ten: nine of them lie below too rarely."""
    rng = np.random.default_rng(0)
    own = [fw.conformal_quantile(rng.uniform(size=100_000), 0.1) for _ in range(20)]
    q = (
        NewAgentCP("confident", delta=0.1)
        .aggregate([LocalQuantile(v, 100_000) for v in own], 0.1)
        .value
    )
    assert abs(q - 0.9) < 5 * 0.3 / 100_000**0.5  # standard deviations of a local threshold
    enough = 10 * q**9 * (1 - q) + q**10  # at least nine of ten uniform scores up to q
    assert round(enough, 2) == 0.74  # 0.736 at q = 0.9, where 0.9 is promised for equal sizes


@pytest.mark.guarantee("new-agent-cp", "none is left out for its size or its scores")
def test_leaving_out_small_agents_breaks_the_promise_to_a_new_one():
    hard, easy = [[10.0]] * 10, [[float(v) for v in range(5)]] * 10
    q = solve(NewAgentCP(min_gap=2), [Calibration(g) for g in (*hard, *easy)], 0.1).value
    biased = solve(NewAgentCP(min_gap=2), [Calibration(g) for g in easy], 0.1).value
    assert (q, biased) == (10.0, 4.0)  # a new agent is a hard one half of the time


@pytest.mark.guarantee("new-agent-cp", "An agent without points, or whose answer was refused")
@pytest.mark.parametrize("method", [*MARGINAL, NewAgentCP("confident", delta=0.2)], ids=repr)
def test_an_absent_agent_counts_in_a_round(method):
    def released(answering: int) -> float:
        round = Round(
            "r", choose_method(method), choose_score("lac"), (0.2,), tuple("abcdefghij"), 5
        )
        here = round.agents[:answering]
        agents = {n: Agent(n, round, Calibration([0.1] * 20), limit=None) for n in here}
        return hold(Server(round), agents).threshold("a")

    assert released(10) == released(9) == 0.1  # shares must sum to 0.8 * 11 = 8.8, or rank 9 of 10
    assert released(8) == inf
