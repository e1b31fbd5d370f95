"""FedWQ-CP on private thresholds: what leaves, what it spends, and what may be combined."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from scipy import stats

import fedwqcp as fw
from fedwqcp.errors import InputError, OutOfRangeError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.methods import Calibration, FixedPoint, Terms
from fedwqcp.methods._masked_sums import Total
from fedwqcp.methods._noise import count_bins, edges_of, mechanism
from fedwqcp.methods.private_fedwq_cp import PrivateFedWQCP, PrivateQuantile
from fedwqcp.wire.codec import decode
from fedwqcp.wire.messages import Answer, Begin, Choice, Round, SharedThreshold
from refusals import raises

MANY = Calibration(np.random.default_rng(0).uniform(size=2000))


def answer(method, cal=MANY, alpha=0.1, seed=0):
    return method.answer(cal, Begin(), alpha, np.random.default_rng(seed))


def ended(method, answers, alpha=0.1):
    """Hold the dialogue with these answers."""
    talk = method.exchange(alpha)
    assert next(talk) == Begin()
    with pytest.raises(StopIteration) as end:
        talk.send(answers)
    return end.value.value


def summaries(*pairs, epsilon=1.0):
    return [PrivateQuantile(q, n, epsilon, 0.0) for q, n in pairs]


def test_the_server_takes_the_weighted_mean():
    assert ended(PrivateFedWQCP(), summaries((0.9, 10), (0.3, 30))) == SharedThreshold(0.45)


def test_an_answer_states_unit_and_budget():
    found = answer(PrivateFedWQCP())
    assert (found.n, found.epsilon, found.size_epsilon) == (2000, 1.0, 0.0)
    assert found.threshold in edges_of(1000, None)
    assert 0.9 < found.threshold < 0.97
    noised = answer(PrivateFedWQCP(size_epsilon=0.2, epsilon=0.1))
    assert noised.epsilon == 0.3
    assert noised.n != 2000
    assert noised.sizes() == (noised.n - 200,)


def test_an_answer_that_spent_otherwise_is_refused():
    (cheap,), (dear,) = summaries((0.9, 10)), summaries((0.9, 10), epsilon=9.0)
    PrivateFedWQCP().check(Begin(), cheap, None, Terms(0.1))
    with raises(InputError, field="epsilon"):
        PrivateFedWQCP().check(Begin(), dear, None, Terms(0.1))


def test_scores_beyond_the_range_need_a_stated_one():
    far = Calibration(np.linspace(0, 40, 3000))
    with pytest.raises(OutOfRangeError) as error:
        fw.calibrate({"a": far}, method=PrivateFedWQCP(), alpha=0.1)
    assert error.value.field == "bounds"
    assert "40" not in str(error.value)
    assert 36 <= answer(PrivateFedWQCP(bounds=(0.0, 50.0)), far).threshold <= 39
    assert answer(PrivateFedWQCP(bounds=(0.0, 1.0)), far).threshold == inf
    lower = answer(PrivateFedWQCP(bounds=(37.9, 50.0)), far)  # 90 % lie below the range
    assert lower.threshold < 38.2


def test_too_few_points_for_epsilon():
    few = Calibration(np.linspace(0, 1, 100))
    assert answer(PrivateFedWQCP(), few).threshold == inf
    assert answer(PrivateFedWQCP(overflow="exclude"), few).threshold == inf
    assert answer(PrivateFedWQCP(overflow="clip"), few).threshold == 1.0
    assert answer(PrivateFedWQCP(overflow="clip", bounds=(0.0, 3.0)), few).threshold == 3.0
    assert answer(PrivateFedWQCP(overflow="clip"), Calibration([])).threshold == inf
    mixed = summaries((inf, 10), (0.5, 30))
    assert ended(PrivateFedWQCP(), mixed) == SharedThreshold(inf)
    assert ended(PrivateFedWQCP(overflow="exclude"), mixed) == SharedThreshold(0.5)


def test_a_large_alpha_has_no_proof():
    assert answer(PrivateFedWQCP(), alpha=0.5).threshold < inf
    with pytest.raises(InputError):
        answer(PrivateFedWQCP(), alpha=0.51)


def test_noise_comes_from_the_agent_and_not_from_the_round():
    round = Round("r", choose_method(PrivateFedWQCP()), Choice("lac"), (0.1,), ("a",), 1)
    found = {
        decode(Agent("a", round, MANY).answer(), Answer, (PrivateQuantile,)).answers[0].threshold
        for _ in range(8)
    }
    assert len(found) > 1


def test_masked_sums_give_the_mean_of_private_thresholds():
    method, scale = PrivateFedWQCP(), FixedPoint(0.0, 1.0, 5000, 3)
    assert method.traits.maskable
    assert not PrivateFedWQCP(overflow="exclude").traits.maskable
    cals = [Calibration(np.random.default_rng(i).uniform(size=1500 + i)) for i in range(3)]
    plain = [answer(method, cal, seed=i) for i, cal in enumerate(cals)]
    words = [method.words(summary, Begin(), scale) for summary in plain]
    talk = method.from_sums(0.1, scale)
    next(talk)
    with pytest.raises(StopIteration) as end:
        talk.send(Total(tuple(map(sum, zip(*words, strict=True))), 3))
    masked, exact = end.value.value, ended(method, plain)
    assert 0 <= masked.value - exact.value <= masked.margin < 1e-5


def test_groups_are_disjoint_and_cost_once():
    terms = Round(
        "r", choose_method(PrivateFedWQCP(epsilon=9.0, size_epsilon=1.0)), Choice("lac"), (0.1,),
        ("a",), 1, n_classes=3, by="label",
    )  # fmt: skip
    cal = Calibration(MANY.scores, np.arange(MANY.n) % 2, n_classes=3)
    agent = Agent("a", terms, cal)
    assert agent.spends == 10.0
    said = decode(agent.answer(), Answer, (PrivateQuantile,)).answers
    assert len(said) == 3
    assert said[2] is None  # as where it has a few points
    assert said[0].threshold < inf


@pytest.mark.guarantee("private-fedwq-cp", "The mean is a heuristic, as in FedWQ-CP.")
@pytest.mark.slow
def test_what_averaging_private_thresholds_gives():
    """Five agents with one distribution: nothing is proved of the mean; here it covers."""
    rng, hits, trials = np.random.default_rng(9), 0, 1500
    edges, sizes = edges_of(200, None), (300, 400, 600, 1000, 2000)
    mechanisms = [mechanism(n, 0.1, epsilon=1.0, bins=200, gamma=0.1, failure=0.01) for n in sizes]
    for _ in range(trials):
        drawn = [
            edges[each.draw(count_bins(rng.uniform(size=n), edges), rng)]
            for n, each in zip(sizes, mechanisms, strict=True)
        ]
        hits += (
            rng.uniform()
            <= ended(PrivateFedWQCP(), summaries(*zip(drawn, sizes, strict=True))).value
        )
    assert stats.binom.cdf(hits, trials, 0.9) > 1e-6


@pytest.mark.parametrize("size_epsilon", [0.0, 1.0])
def test_a_level_that_no_sample_reaches_has_no_finite_threshold(size_epsilon):
    method = PrivateFedWQCP(epsilon=2.5, size_epsilon=size_epsilon)
    release = fw.calibrate({"a": np.full(50, 0.5)}, alpha=5e-324, method=method, rng=0)
    assert release.threshold("a") == np.inf
