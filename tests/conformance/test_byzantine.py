"""Agents that do not run this program: raw messages against every step of every method.

An agent may say what it likes; what no single sample of its first size could have answered is
refused by name, and the round goes on without it, as if it had never been there.
"""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from changed import replace
from engine import hold
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.federation.server import Server
from fedwqcp.methods import Calibration, Terms
from fedwqcp.methods.auto import PartSketches
from fedwqcp.methods.cphet import CPhet, FittedDensity, Weighed
from fedwqcp.methods.cphet.densities import FeatureDensities, clip_weights, pooled_ratios
from fedwqcp.methods.dp_fedcp import DPFedCP, LabelCounts, Step, Sums
from fedwqcp.methods.fcp import CountAt, Counts
from fedwqcp.methods.fed_crc import LossCurve
from fedwqcp.methods.private_fedwq_cp import PrivateQuantile
from fedwqcp.quantile import conformal_rank
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Answer, Ask, Begin, Choice, LocalQuantile, Round
from fedwqcp.wire.terms import terms

HONEST = ("a", "b", "c")


def cals(n=60, classes=3):
    rng = np.random.default_rng(0)
    return {
        name: Calibration(
            rng.uniform(size=n),
            rng.permutation(np.arange(n) % classes),
            rng.normal(size=(n, 2)),
            classes,
        )
        for name in HONEST
    }


def opened(method, alpha=0.2, **more):
    return Round(
        id="r1",
        method=choose_method(method),
        score=Choice("lac"),
        alphas=(alpha,),
        agents=(*HONEST, "m"),
        quorum=3,
        n_classes=3,
        target=getattr(method, "target", "own"),
        **{"max_n": 1000, **more},
    )


def play(round, honest, raw):
    """Hold a round in which ``m`` sends what ``raw`` makes of its question."""
    server = Server(round)
    agents = {name: Agent(name, round, cal, allow_samples=True) for name, cal in honest.items()}

    def on_the_way(name, ask, said):
        if name in agents:
            return said
        step = server.step
        question = decode(ask, Ask, server.plan.kinds).questions[0] if step else Begin()
        named = round.method.name, round.score.name, round.alphas
        return encode(Answer(round.id, terms(round), step, name, *named, (raw(step, question),)))

    return hold(server, agents, on_the_way)


def claims_one_and_counts_many(step, question):
    return Counts(1) if step == 0 else Counts(400, (400,) * len(question.values))


def changes_its_mind(step, question):
    """Counts that never decrease in one answer, and contradict the answer before."""
    if step == 0:
        return Counts(60)
    return Counts(60, (60 if step % 2 else 0,) * len(question.values))


def below_the_range(step, question):
    """All its scores lie below what the score can be."""
    return Counts(60) if step == 0 else Counts(60, (60,) * len(question.values))


def huge_sums(step, question):
    if step == 0:
        return LabelCounts((1, 0, 0))
    return Sums((1e15,) * (len(question.values) * 3))


def falling_sums(step, question):
    if step == 0:
        return LabelCounts((1, 0, 0))
    return Sums((1.0, 0.0, 0.0) * (len(question.values) - 1) + (0.0, 0.0, 0.0))


def leaps(size, mean=None):
    def raw(step, question):
        if step == 0:
            return LabelCounts((1, 0, 0))
        where = question.q if mean is None else (mean,) * len(question.q)
        return Step((size,) * len(question.q), where)

    return raw


def heavy(step, question):
    """It has one point and claims a weight of 1e15."""
    if step == 0:
        return FittedDensity(1, ())
    if step == 1:
        T = len(question.densities.sizes)
        return Weighed((1e15,) * T, (1e30,) * T)
    return Sums((1e15,) * (len(question.probes) * len(question.densities.sizes)))


def light_then_heavy(step, question):
    """Its weights are possible at first; then it answers with sums beyond them."""
    if step == 0:
        return FittedDensity(1, ())
    light = tuple(
        float(bool(mixture)) for mixture in question.densities.mixtures
    )  # 0 towards its own
    if step == 1:
        return Weighed(light, light)
    return Sums((1e15,) * (len(question.probes) * len(light)))


ATTACKS = [
    ("fcp", {}, claims_one_and_counts_many, "n"),
    ("fcp", {}, changes_its_mind, "counts"),
    ("fcp", {}, below_the_range, "counts"),
    ("dp-fedcp", {"solver": "exact"}, huge_sums, "values"),
    ("dp-fedcp", {"solver": "exact"}, falling_sums, "values"),
    ("dp-fedcp", {"rounds": 5}, leaps(-1e9), "shift"),
    ("dp-fedcp", {"rounds": 5}, leaps(0.0, mean=-1e9), "mean"),
    ("cphet", {}, heavy, "totals"),
    ("cphet", {}, light_then_heavy, "values"),
    ("dp-fedcp", {"rounds": 5}, lambda step, q: LabelCounts((1,) * 100), "counts"),
    (
        "private-fedwq-cp",
        {"size_epsilon": 1.0},
        lambda step, q: PrivateQuantile(0.0, 10**6, 2.0, 4e-5),
        "epsilon",
    ),
    ("auto", {}, lambda step, q: PartSketches((), (), (0.0,), 60), "values"),  # must be more
]


@pytest.mark.guarantee(
    "SECURITY.md", "So a Byzantine agent can do no more than one that invents n scores"
)
@pytest.mark.parametrize(("name", "settings", "raw", "field"), ATTACKS)
def test_what_no_sample_could_have_answered_is_refused_and_leaves_no_trace(
    name, settings, raw, field
):
    method, honest = fw.methods.get(name, **settings), cals()
    release = play(opened(method), honest, raw)
    assert list(release.refused) == ["m"]
    assert release.refused["m"].startswith(f"{field}: ")
    if "private" in name:
        return  # noise is drawn anew
    alone = fw.calibrate(honest, method=method, alpha=0.2, score="lac")
    if method.traits.predicts_from_own_data:
        assert release.outcomes == alone.outcomes
        return
    for agent in honest:
        np.testing.assert_allclose(release.threshold(agent), alone.threshold(agent), atol=1e-9)


# --- what one Byzantine agent with weight n can do at most ----------------------------------------


@st.composite
def distribution_functions(draw):
    """Any function from scores to counts that an agent could make up: n, and where it rises."""
    n = draw(st.integers(0, 40))
    return sorted(draw(st.lists(st.floats(0, 1), min_size=n, max_size=n)))


@given(made_up=distribution_functions(), alpha=st.sampled_from([0.05, 0.1, 0.3]))
@settings(max_examples=40, deadline=None)
def test_fcp_moves_by_at_most_n_ranks_of_the_honest_scores(made_up, alpha):
    honest = cals()
    pooled = np.sort(np.concatenate([cal.scores for cal in honest.values()]))

    def raw(step, question):
        if step == 0:
            return Counts(len(made_up))
        return Counts(len(made_up), tuple(sum(s <= v for s in made_up) for v in question.values))

    release = play(opened("fcp", alpha), honest, raw)
    assert release.refused == {}
    N, n, M = len(pooled), len(made_up), 4
    R = conformal_rank(N + n, alpha, extra=M)
    order = [-inf, *pooled.tolist(), inf]
    assert order[max(0, R - n)] <= release.threshold("a") <= order[min(R, N + 1)]


@given(q=st.floats(0, 1) | st.just(inf), n=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_mean_moves_by_at_most_the_agents_share_of_the_range(q, n):
    q = q if n else inf
    private = PrivateQuantile(q, n, 25.0, 0.0)
    for method, said, share in (
        ("fedwq-cp", LocalQuantile(q, n), n / (180 + n)),
        ("fedavgq-cp", LocalQuantile(q, n), (n > 0) / (3 + (n > 0))),
        (fw.methods.get("private-fedwq-cp", epsilon=25.0), private, n / (180 + n)),
    ):
        release = play(opened(method), cals(), lambda *_, said=said: said)
        assert release.refused == {}
        alone = np.mean([release.received[name][0].threshold for name in HONEST])  # of equal sizes
        if n and q == inf:
            assert release.threshold("a") == inf
        else:
            assert abs(release.threshold("a") - alone) <= share * max(alone, 1 - alone) + 1e-12


@given(q=st.floats(0, 1), n=st.integers(1, 1000))
@settings(max_examples=30, deadline=None)
def test_a_quantile_of_quantiles_stays_between_its_honest_neighbours(q, n):
    honest = cals()
    release = play(opened("fedcp-qq"), honest, lambda *_: LocalQuantile(q, n))
    own = sorted(fw.calibrate({k: v}, method="fedcp-qq", alpha=0.2, score="lac").threshold(k)
                 for k, v in honest.items())  # fmt: skip
    around, k = [0.0, *own, 1.0], release.outcomes[0].k
    assert around[k - 1] <= release.threshold("a") <= around[k]


@st.composite
def loss_curves(draw):
    """Any curve that is admitted: n, and sums of losses from n to 0 that never rise."""
    n = draw(st.integers(0, 40))
    levels = sorted(draw(st.lists(st.floats(0, 1), min_size=1, max_size=12)), reverse=True)
    at = np.minimum(np.arange(1001) * len(levels) // 1000, len(levels) - 1)
    return LossCurve(tuple((n * np.array(levels)[at]).tolist()), n)


@given(curve=loss_curves())
@settings(max_examples=60, deadline=None)
def test_fed_crc_moves_by_at_most_n_ranks_of_the_honest_scores(curve):
    honest, n = cals(), curve.n
    pooled = np.sort(np.concatenate([cal.scores for cal in honest.values()]))
    release = play(opened("fed-crc"), honest, lambda *_: curve)
    assert release.refused == {}
    R = conformal_rank(len(pooled) + n, 0.2, extra=4)
    order = [0.0, *pooled.tolist(), inf]
    low, high = order[max(0, R - n)], order[min(R, len(pooled) + 1)]
    assert low <= release.threshold("a") <= high + 1 / 1000  # up to one step of the grid


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_admitted_counts_are_those_of_one_sample(data):
    """Whatever an agent sends to many questions, what is admitted is one distribution function."""
    method, n, bound = fw.methods.get("fcp"), data.draw(st.integers(1, 9)), None
    bound = method.check(Begin(), Counts(n), None, Terms(0.1))
    low, high, said = 0.0, 1.0, {}
    for _ in range(data.draw(st.integers(1, 5))):
        values = tuple(np.linspace(low, high, 5)[1:-1].tolist())
        counts = tuple(sorted(data.draw(st.lists(st.integers(0, n), min_size=3, max_size=3))))
        trial = {**said, **dict(zip(values, counts, strict=True))}
        ordered = [trial[v] for v in sorted(trial)]
        possible = ordered == sorted(ordered)
        try:
            bound = method.check(CountAt(values), Counts(n, counts), bound, Terms(0.1))
        except fw.errors.InputError:
            assert not possible
            break
        assert possible
        said = trial
        at = data.draw(st.integers(0, 3))
        ends = (low, *values, high)
        low, high = ends[at], ends[at + 1]


@pytest.mark.parametrize("way", [(-0.2,), (0.8,), (0.8, -0.2), (0.8, 0.8, 0.8, -0.2)])
def test_dp_fedcp_moves_by_at_most_the_agents_share_of_every_step(way):
    """The furthest steps that pass, down by alpha, up by 1 - alpha: share x K x eta a round."""
    T, K, eta, alpha = 30, 20, 1e-3, 0.2
    method = DPFedCP(target="mixture", rounds=T, average="last")
    honest = cals()

    def furthest(step, question):
        if step == 0:
            return LabelCounts((20, 20, 20))
        q, far = np.array(question.q), K * eta * way[step % len(way)]
        return Step((far,) * len(q), tuple((q + far * (K - 1) / 2 / K).tolist()))

    moved = play(opened(method), honest, furthest)
    assert moved.refused == {}
    alone = fw.calibrate(
        honest,
        method=method,
        target="mixture",
        alpha=alpha,
        allow_large_alpha=True,
        score="lac",
    ).threshold("a")
    # 60 of 240 points: it takes the place of honest agents whose steps lie within the same bounds
    most = 60 / 240 * T * K * eta
    assert (np.abs(np.asarray(moved.threshold("a")) - alone) <= most + 1e-9).all()


def targeting(n, towards, scores=(0.0,)):
    """An agent of cphet with the most weight that is admitted, evenly on scores of its choice."""
    claimed = ()

    def raw(step, question):
        nonlocal claimed
        if step == 0:
            return FittedDensity(n, ())
        if step == 1:
            sizes = question.densities.sizes[:3]
            share = sum(sizes) / sizes[0] if towards == "one" else 1.0
            claimed = (n * share, 0.0, 0.0, 0.0) if towards == "one" else (n * share,) * 3 + (0.0,)
            return Weighed(claimed, tuple(total * share for total in claimed))
        shares = (sum(score <= v for score in scores) / len(scores) for v in question.probes)
        return Sums(tuple(share * total for share in shares for total in claimed))

    return raw


@pytest.mark.parametrize(("n", "towards", "mass"), [(6, "all", (6, 6, 6)), (6, "one", (18, 0, 0))])
@given(scores=st.just([0.0]) | st.just([1.0]) | st.lists(st.floats(0, 1), min_size=1, max_size=9))
@settings(max_examples=15, deadline=None)
def test_cphet_moves_by_at_most_n_weights_of_which_other_targets_lack_what_one_has(
    n, towards, mass, scores
):
    """Towards one target n N / N_t, towards all n: thresholds pass less honest weight than that."""
    honest = cals()
    release = play(opened("cphet"), honest, targeting(n, towards, scores))
    assert release.refused == {}
    expected = fw.calibrate(honest, method="cphet", alpha=0.2, score="lac")
    pooled, weights = honest_weights(honest)
    for at, agent in enumerate(honest):
        # its own weights do not change: an agent without a density is none of the mixture
        low, high = sorted((release.threshold(agent), expected.threshold(agent)))
        passed = weights[at][(low < pooled) & (pooled < high)].sum()
        assert (low == high) if not mass[at] else (passed <= mass[at] + 1e-9)
        if mass[at] and scores == [0.0]:
            assert release.threshold(agent) < expected.threshold(agent), "and it does move"


def honest_weights(honest):
    """The scores of all honest agents, and their weights towards each."""
    method, rng = CPhet(), np.random.default_rng(0)
    fitted = [method.answer(cal, Begin(), 0.2, rng) for cal in honest.values()]
    densities = FeatureDensities(tuple(f.n for f in fitted), tuple(f.density for f in fitted))
    ratios = [pooled_ratios("own", densities, cal.features) for cal in honest.values()]
    weights = [clip_weights(ratio, method.clip_weights) for ratio in ratios]
    return np.concatenate([cal.scores for cal in honest.values()]), np.hstack(weights)


def test_cphet_refuses_the_largest_weight_towards_every_target():
    def raw(step, question):
        if step == 0:
            return FittedDensity(6, ())
        sizes = question.densities.sizes[:3]
        most = tuple(6 * sum(sizes) / size for size in sizes)
        return Weighed((*most, 0.0), (*(total * 3 for total in most), 0.0))

    release = play(opened("cphet"), cals(), raw)
    assert list(release.refused) == ["m"]


@pytest.mark.parametrize("method", ["fedwq-cp", "fcp"])
def test_two_agents_do_what_one_with_both_their_points_does(method):
    """But for the agents' number M, which raises the rank of fcp."""
    honest = cals()

    def lowest(n):
        def raw(step, question):
            if method == "fedwq-cp":
                return LocalQuantile(0.0, n)
            values = getattr(question, "values", ())
            return Counts(n, tuple(n if value >= 0 else 0 for value in values))

        return raw

    one = play(opened(method), honest, lowest(40))
    two = play(replace(opened(method), agents=(*HONEST, "m", "o")), honest, lowest(20))
    assert one.refused == two.refused == {}
    if method == "fedwq-cp":
        assert one.threshold("a") == two.threshold("a")
    else:
        assert one.threshold("a") <= two.threshold("a")


LOCAL, SHARED = {"local-quantile"}, {"value"}


@pytest.mark.guarantee("SECURITY.md", "What the server learns of an agent is what its answers hold")
@pytest.mark.parametrize(
    ("method", "answers", "questions", "outcome"),
    [
        ("split-cp", set(), set(), set()),
        ("guarded-median-cp", LOCAL, set(), SHARED),
        ("max-cp", LOCAL, set(), SHARED),
        ("new-agent-cp", {"weighted-points"}, set(), SHARED),
        ("fedcp-qq", LOCAL, set(), {"value", "k", "coverage"}),
        ("fcp", {"counts"}, {"count-at"}, SHARED),
        ("fed-crc", {"loss-curve"}, set(), SHARED),
        (
            "fedls-cp",
            {"class-sketches"},
            set(),
            {"values", "unknown", "borrowed", "effective"},
        ),
        ("dp-fedcp", {"label-counts", "step"}, {"descend-from"}, {"values"}),
        (
            "cphet",
            {"fitted-density", "weighed", "sums"},
            {"weigh", "sums-at"},
            {"values", "effective"},
        ),
        ("fedwq-cp", LOCAL, set(), SHARED),
        ("private-fedwq-cp", {"private-quantile"}, set(), SHARED),
        ("fedavgq-cp", LOCAL, set(), SHARED),
    ],
)
def test_this_reaches_the_server_and_this_the_other_agents(method, answers, questions, outcome):
    settings = {"private-fedwq-cp": {"epsilon": 5.0}}.get(method, {})
    server = Server(replace(opened(fw.methods.get(method, **settings)), agents=HONEST))
    agents = {k: Agent(k, server.plan, cal, allow_samples=True) for k, cal in cals().items()}
    up, down, kinds = set(), set(), server.plan.kinds

    def on_the_way(name, ask, said):
        up.update(each.kind for each in decode(said, Answer, kinds).answers)
        if server.step:
            down.update(q.kind for q in decode(ask, Ask, kinds).questions)
        return said

    sent = hold(server, agents, on_the_way).public()
    assert (up, down, sent.received) == (answers, questions, {})
    told = {n for one in sent.outcomes for n in one.__struct_fields__ if getattr(one, n) != ()}
    assert told == outcome
