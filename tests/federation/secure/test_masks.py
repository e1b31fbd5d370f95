"""Masks: they cancel in the sum, and what the server sees of one agent is uniform noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fedwqcp as fw
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method, choose_score, new_id
from fedwqcp.federation.secure.contribution import inner_ask, secure_round, words_of
from fedwqcp.federation.secure.masks import masked, stream, summed
from fedwqcp.federation.secure.sums import SumServer
from fedwqcp.federation.transport.masked import masked_vectors
from fedwqcp.wire.round import Round

RARE = 1e-6


def test_masks_cancel_in_the_sum_and_only_there():
    words = [np.array([1, 2**29, 0]), np.array([5, 7, 1]), np.array([2**29, 0, 3])]
    ab, ac, bc = b"a" * 32, b"b" * 32, b"c" * 32
    hidden = [
        masked(words[0], [ab, ac], []),
        masked(words[1], [bc], [ab]),
        masked(words[2], [], [ac, bc]),
    ]
    assert summed(hidden) == tuple(np.sum(words, axis=0).tolist())
    assert all((h != w).all() for h, w in zip(hidden, words, strict=True))
    assert summed(hidden[:2]) != tuple((words[0] + words[1]).tolist())


def test_a_mask_depends_on_every_byte_of_its_seed():
    seed = bytes(range(32))
    swapped = seed[4:8] + seed[:4] + seed[8:]  # the same if folded to four bytes
    assert (stream(seed, 50) != stream(swapped, 50)).all()
    assert (stream(seed, 50) == stream(seed, 80)[:50]).all()
    assert stream(seed, 10_000).max() > 2**32 - 2**20


def federation(thresholds):
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
    return SumServer(plan), agents


def test_equal_sums_of_different_values_leave_the_same_noise():
    """What the server sees passes one uniformity test for both; the words themselves fail it."""
    seen, totals = [], []
    for thresholds in ((0.25, 0.5, 0.75), (0.5, 0.5, 0.5)):
        server, agents = federation(thresholds)
        ask = server.ask()
        plain = [words_of(a.plan, ask, a.answer(inner_ask(a.plan, ask))) for a in agents.values()]
        totals.append(np.sum(plain, axis=0).tolist())
        views = [dict(masked_vectors(agents, ask)) for _ in range(1500)]
        seen.append(np.array([[view[name] for name in "abc"] for view in views]) / 2**32)
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
    server, agents = federation((0.25, 0.5, 0.75))
    ask = server.ask()
    pairs = []
    for _ in range(1500):
        view = dict(masked_vectors(agents, ask))
        pairs.append((view["a"][0] + view["b"][0]) % 2**32)
    assert stats.kstest(np.array(pairs) / 2**32, "uniform").pvalue > RARE


@pytest.mark.parametrize("thresholds", [(0.25, 0.5, 0.75), (0.5, 0.5, 0.5)])
def test_the_sum_gives_the_threshold(thresholds):
    server, agents = federation(thresholds)
    server.hear(tuple("abc"), summed([v for _, v in masked_vectors(agents, server.ask())]))
    assert server.ended
    (outcome,) = server.release(1).outcomes
    assert 0.5 <= outcome.value <= 0.5 + outcome.margin < 0.5 + 1e-8
