"""Rounds on masked sums: the plain result to the stated margin, overflow, lost agents, refusals."""

from __future__ import annotations

import secrets
from itertools import combinations
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError, OutOfRangeError, QuorumError, RecordError, WrongRoundError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method, choose_score, new_id
from fedwqcp.federation.record import with_reasons
from fedwqcp.federation.secure import (
    SecureServer,
    mask_stream,
    plain_ask,
    replay_sums,
    scale_of,
    secure_round,
    sum_words,
    words_of,
    words_out_of_range,
)
from fedwqcp.methods import FixedPoint
from fedwqcp.methods.fcp import CountAt
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import (
    Ask,
    Begin,
    Round,
    SharedThresholdWithin,
)
from fedwqcp.wire.terms import terms
from refusals import raises

CAL = fw.Calibration(np.linspace(0.1, 0.6, 40), n_classes=2)
METHODS = [
    fw.methods.get(name, **settings)
    for name in ("fedwq-cp", "fedavgq-cp")
    for settings in ({}, {"overflow": "clip"})
] + [fw.methods.get("fcp", probes=255)]


def plain_round(method="fedwq-cp", agents="abcd", quorum=3, **more):
    """A round of a few agents."""
    return Round(
        id=new_id(),
        method=choose_method(method),
        score=choose_score("lac"),
        alphas=more.pop("alphas", (0.2,)),
        agents=tuple(agents),
        quorum=quorum,
        max_n=100,
        n_classes=2,
        **more,
    )


def plan_of(*terms, **more):
    """The same on masked sums."""
    return Plan.of(secure_round(plain_round(*terms, **more)))


def totals(plan, ask, agents):
    """The sums over some agents."""
    return sum_words([words_of(plan, ask, a.answer(plain_ask(plan, ask))) for a in agents])


scores = st.lists(st.floats(-5.0, 5.0), max_size=30)


@pytest.mark.guarantee("SECURITY.md", "thresholds up to the stated margin higher, never lower")
@given(
    agents=st.lists(scores, min_size=3, max_size=6),
    method=st.sampled_from(METHODS),
    alpha=st.sampled_from([0.05, 0.3]),
)
def test_never_below_the_plain_threshold_and_within_the_margin(agents, method, alpha):
    data = {f"a{i}": np.array(values, dtype=float) for i, values in enumerate(agents)}
    plain = fw.calibrate(data, method=method, alpha=alpha, allow_large_alpha=True)
    secure = fw.calibrate(
        data, method=method, alpha=alpha, allow_large_alpha=True, secure=(-5.0, 5.0)
    )
    (outcome,) = secure.outcomes
    q = plain.threshold("a0")
    assert q <= outcome.value <= np.nextafter(q + outcome.margin, inf)
    assert (secure.used, secure.received) == (plain.used, {})


@pytest.mark.parametrize(
    "method",
    [
        *("fedcp-qq", "split-cp", "cphet", fw.methods.get("fcp", sketch="order")),
        *(fw.methods.get(name, overflow="exclude") for name in ("fedwq-cp", "fedavgq-cp")),
        fw.methods.get("private-fedwq-cp", overflow="exclude"),
    ],
)
def test_a_method_that_needs_single_values_is_refused_with_those_that_work(method):
    with pytest.raises(InputError):
        plan_of(method)


def test_terms_that_cannot_be_secure_are_refused():
    for change in ({"quorum": 2}, {"by": "label"}):
        with pytest.raises(InputError):
            plan_of(**change)
    plan, other = plan_of(), plan_of()
    with pytest.raises(QuorumError):
        SecureServer(plan).receive("ab", (0, 0, 0))
    for ask in (SecureServer(other).ask(), encode(Ask(plan.round.id, 0, (Begin(), Begin())))):
        with pytest.raises(WrongRoundError):
            plain_ask(plan, ask)


def test_a_stated_range_never_passes_the_score_own():
    round = secure_round(plain_round(), (-3.0, 0.5))
    assert round.secure == (0.0, 0.5)
    assert scale_of(Plan.of(round)) == FixedPoint(0.0, 0.5, 100, 4)


def test_where_an_agent_is_lost_all_sums_are_of_the_others():
    data = {name: np.random.default_rng(i).uniform(size=20 + i) for i, name in enumerate("abcd")}
    plan = plan_of(fw.methods.get("fcp", probes=255))
    cals = {name: fw.Calibration(x, n_classes=2) for name, x in data.items()}
    agents = {name: Agent(name, plan, cal, limit=None) for name, cal in cals.items()}
    server = SecureServer(plan)
    server.receive("abcd", totals(plan, server.ask(), agents.values()))
    del agents["b"]
    while not server.ended:
        server.receive(tuple(agents), totals(plan, server.ask(), agents.values()))
    expected = fw.calibrate({n: data[n] for n in "acd"}, method="fcp", alpha=0.2).threshold("a")
    release = with_reasons(server.release(9, {}, {}), {"b": "answer: no"})
    assert release.threshold("a") == expected
    assert (release.used, release.refused, release.rounds) == (
        ("a", "c", "d"),
        {"b": "answer: no"},
        9,
    )


def test_the_range_is_one_of_the_terms():
    round = plain_round()
    ranges = [secure_round(round, (0.0, high)) for high in (0.5, 0.75)]
    assert len({terms(made) for made in (round, *ranges)}) == 3
    with raises(InputError, field="secure"):
        SecureServer(Plan.of(round))
    for wrong in ((0.5,), (0.5, 0.5), (1.0, 0.0), (0.0, inf), ()):
        with raises(InputError, field="secure"):
            replace(round, secure=wrong)


@pytest.mark.parametrize(
    "method",
    [*METHODS[:4], fw.methods.get("fcp"), fw.methods.get("private-fedwq-cp", epsilon=25.0)],
)
def test_one_agent_out_of_range_makes_the_threshold_infinite_and_no_other_is_told(method):
    plan = plan_of(method)
    small, large = (fw.Calibration(np.full(n, 0.5), n_classes=2) for n in (90, 101))
    agents = {name: Agent(name, plan, small, limit=None) for name in "abc"}
    if not method.traits.private:  # which counts a random part of its points instead
        with pytest.raises(OutOfRangeError):
            Agent("d", plan, large)
    server = SecureServer(plan)
    ask = server.ask()
    words = [words_of(plan, ask, a.answer(plain_ask(plan, ask))) for a in agents.values()]
    words.append(words_out_of_range(plan, ask))
    assert {len(found) for found in words} == {server.width}
    server.receive("abcd", sum_words(words))
    assert server.ended
    assert server.release(1, {}, {}).outcomes == (SharedThresholdWithin(inf, 0.0),)


@pytest.mark.parametrize(
    "kept",
    [
        b"", b"7", b"[]", b"{}", b"[" * 99_999, b'{"agents": "abcd", "totals": [0, 0, 0]}',
        b'{"agents": [1, 2], "totals": [0, 0, 0]}', b'{"agents": [[]], "totals": [0, 0, 0]}',
        b'{"agents": ["a"], "totals": 5}', b'{"agents": ["a"], "totals": [0, 0, "0"]}',
        b'{"agents": ["a"], "totals": [0, 0, -1]}', b'{"agents": ["a"], "totals": [0, 0, true]}',
        b'{"agents": ["a"], "totals": [0, 0, 4294967296]}', b'{"agents": ["a"], "totals": [1e300]}',
        b'{"agents": ["a"], "totals": [%s]}' % (b"9" * 5000), b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_kept_sum_that_nobody_wrote_is_refused_by_its_name(kept, tmp_path):
    (tmp_path / "0.json").write_bytes(kept)
    with pytest.raises(RecordError):
        replay_sums(tmp_path, plan_of().round, ["0.json"])


RARE = 1e-6


@pytest.mark.parametrize(
    ("method", "question"),
    [
        *((method, Begin()) for method in METHODS),
        *((method, CountAt((0.1, 0.5, 0.9))) for method in METHODS[4:]),
    ],
)
def test_terms_that_fit_one_agent_alone_tell_nothing_of_it(method, question):
    """All others lie outside `max_n`: every total but the number of those outside is uniform."""
    plan = plan_of(method)
    ask = encode(Ask(plan.round.id, int(question != Begin()), (question,)))
    own = words_of(plan, ask, Agent("a", plan, CAL, limit=None).answer(plain_ask(plan, ask)))
    seen = np.array(
        [sum_words([own, *(words_out_of_range(plan, ask) for _ in "bcd")]) for _ in range(1500)]
    )
    if question == Begin():
        assert (seen[:, -1] == 3).all(), "how many agents lie outside is not hidden"
        seen = seen[:, :-1]
    for total in seen.T:
        assert stats.kstest(total / 2**32, "uniform").pvalue > RARE


@pytest.mark.parametrize("method", METHODS[:4:2])
def test_a_level_that_one_agent_alone_has_points_for_tells_nothing_of_it(method):
    plan = plan_of(method, alphas=(0.05,))
    few = fw.Calibration([0.1, 0.2], n_classes=2)
    agents = [Agent(name, plan, CAL if name == "a" else few, limit=None) for name in "abcd"]
    ask = SecureServer(plan).ask()
    seen = np.array([totals(plan, ask, agents) for _ in range(1500)])
    assert (seen[:, 2] == 3).all()
    for total in seen[:, :2].T:
        assert stats.kstest(total / 2**32, "uniform").pvalue > RARE


def masked(vectors):
    """Words of agents, each pair of which shares a mask: one adds it, the other subtracts it."""
    hidden = [np.array(words) for words in vectors]
    for first, second in combinations(range(len(hidden)), 2):
        mask = mask_stream(secrets.token_bytes(32), len(hidden[0]))
        hidden[first] = (hidden[first] + mask) % 2**32
        hidden[second] = (hidden[second] - mask) % 2**32
    return hidden


def test_masks_cancel_in_the_sum_and_only_there():
    words = [np.array([1, 2**29, 0]), np.array([5, 7, 1]), np.array([2**29, 0, 3])]
    hidden = masked(words)
    assert sum_words(hidden) == tuple(np.sum(words, axis=0).tolist())
    assert all((h != w).all() for h, w in zip(hidden, words, strict=True))
    assert sum_words(hidden[:2]) != tuple((words[0] + words[1]).tolist())


def test_a_mask_depends_on_every_byte_of_its_seed():
    seed = bytes(range(32))
    swapped = seed[4:8] + seed[:4] + seed[8:]  # the same if folded to four bytes
    assert (mask_stream(seed, 50) != mask_stream(swapped, 50)).all()
    assert (mask_stream(seed, 50) == mask_stream(seed, 80)[:50]).all()
    assert mask_stream(seed, 10_000).max() > 2**32 - 2**20


def server_and_agents(thresholds):
    """Three agents of ten equal scores, so that each has its score as threshold."""
    scores = {name: np.full(10, q) for name, q in zip("abc", thresholds, strict=True)}
    round = Round(
        id=new_id(), method=choose_method("fedwq-cp"), score=choose_score("lac"), alphas=(0.2,),
        agents=tuple("abc"), quorum=3, max_n=10, n_classes=2,
    )  # fmt: skip
    plan = Plan.of(secure_round(round))
    agents = {
        name: Agent(name, plan, fw.Calibration(values, n_classes=2))
        for name, values in scores.items()
    }
    return SecureServer(plan), agents


def test_equal_sums_of_different_values_leave_the_same_noise():
    """What the server sees passes one uniformity test for both; the words themselves fail it."""
    seen, totals = [], []
    for thresholds in ((0.25, 0.5, 0.75), (0.5, 0.5, 0.5)):
        server, agents = server_and_agents(thresholds)
        ask = server.ask()
        plain = [words_of(a.plan, ask, a.answer(plain_ask(a.plan, ask))) for a in agents.values()]
        totals.append(np.sum(plain, axis=0).tolist())
        seen.append(np.array([masked(plain) for _ in range(1500)]) / 2**32)
        bare = np.repeat(np.array(plain)[:, 0], 1500) / 2**32
        assert stats.kstest(bare, "uniform").pvalue < RARE, "without masks the test fails"
    assert totals[0][1:] == totals[1][1:] == [30, 0]
    assert abs(totals[0][0] - totals[1][0]) <= 1, "equal sums, up to the rounding of one word"
    for views in seen:
        for agent in range(3):
            for word in range(3):
                assert stats.kstest(views[:, agent, word], "uniform").pvalue > RARE
        cells = np.bincount((views * 64).astype(int).ravel(), minlength=64)
        assert stats.chisquare(cells).pvalue > RARE
    for agent in range(3):
        pair = (views[:, agent, 0] for views in seen)
        assert stats.ks_2samp(*pair).pvalue > RARE


def test_two_of_three_masked_vectors_tell_nothing_of_their_words():
    server, agents = server_and_agents((0.25, 0.5, 0.75))
    ask, pairs = server.ask(), []
    words = [words_of(a.plan, ask, a.answer(plain_ask(a.plan, ask))) for a in agents.values()]
    for _ in range(1500):
        one, other, _ = masked(words)
        pairs.append((one[0] + other[0]) % 2**32)
    assert stats.kstest(np.array(pairs) / 2**32, "uniform").pvalue > RARE


@pytest.mark.parametrize(
    "secure", [True, (1, 2), (0,), (0, 1, 2), 1, "yes", (0, "1"), (False, True)]
)
def test_what_is_no_range_is_refused(secure):
    data = {name: [0.1, 0.2, 0.3] for name in "abc"}
    with pytest.raises(InputError):  # this score has no range of its own
        fw.calibrate(data, method="fedwq-cp", alpha=0.3, secure=secure)
