"""FedCP-QQ: a quantile of local quantiles."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.methods import UnfitAnswerError
from fedwqcp.methods.fedcp_qq import FedCPQQ, QuantileOfQuantiles, RankOf, SampleSize
from fedwqcp.wire.payload import Begin, LocalQuantile
from strategies import alphas
from worked import ABC, EMPTY, A, B, C, samples, threshold

RNG = np.random.default_rng(0)


class InOrder:
    """A generator that leaves everything in its place."""

    def permutation(self, values: np.ndarray) -> np.ndarray:
        return values


def outcome(agents: dict, alpha: float, **settings: object) -> QuantileOfQuantiles:
    method = fw.methods.get("fedcp-qq", **settings)
    return fw.calibrate(agents, method=method, alpha=alpha, seed=0).outcomes[0]


def test_the_worked_example() -> None:
    found = outcome(ABC, 0.2)
    assert (found.value, found.rank, found.k) == (0.45, None, 2)
    assert found.coverage == pytest.approx(0.8296594581, abs=1e-10)
    found = outcome(ABC, 0.05)
    assert (found.value, found.k, round(found.coverage, 4)) == (1.0, 3, 0.9722)


def test_the_worked_example_truncated() -> None:
    found = outcome(ABC, 0.2, selection="truncate_min")
    assert (found.rank, found.k) == (4, 3)
    assert found.coverage == pytest.approx(74 / 91, abs=1e-12)
    method = FedCPQQ(selection="truncate_min")
    first_five = [
        method.answer(fw.Calibration(v), RankOf(4, 5), 0.2, InOrder()).threshold for v in (A, B, C)
    ]
    assert (first_five, max(first_five)) == ([0.4, 0.35, 0.08], 0.4)


def test_truncation_draws_at_random_and_repeats_with_its_seed() -> None:
    method = FedCPQQ(selection="truncate_min")
    found = [fw.calibrate(ABC, method=method, alpha=0.2, seed=s).threshold("a") for s in range(20)]
    again = [fw.calibrate(ABC, method=method, alpha=0.2, seed=s).threshold("a") for s in range(20)]
    assert found == again
    assert len(set(found)) > 1
    assert fw.calibrate(ABC, method=method, alpha=0.2).rounds == 2


def test_truncation_keeps_equal_samples_whole() -> None:
    agents = {"a": A, "b": A + 1, "c": A + 2, "d": A + 3, "e": A + 4}
    assert outcome(agents, 0.1, selection="truncate_min").value == 3.0  # (l, k) = (10, 3)


def test_joint_ranks_of_five_agents_of_ten() -> None:
    agents = {"a": A, "b": A + 1, "c": A + 2, "d": A + 3, "e": A + 4}
    found = outcome(agents, 0.1, selection="joint", common_n=10)
    assert (found.value, found.rank, found.k) == (3.0, 10, 3)
    assert found.coverage == pytest.approx(20000 / 21607, abs=1e-12)


def test_joint_names_both_sizes_where_they_differ() -> None:
    method = FedCPQQ(selection="joint", common_n=10)
    with pytest.raises(InputError, match="common_n = 10 at every agent, got 5"):
        fw.calibrate({"a": A, "b": B}, method=method, alpha=0.1)


def test_joint_leaves_out_an_empty_agent() -> None:
    found = outcome({"a": A, "b": EMPTY}, 0.2, selection="joint", common_n=10)
    assert (found.value, found.rank, found.k) == (0.9, 9, 1)


@pytest.mark.parametrize(
    ("sample", "given_settings"),
    [
        (A[:3], {"selection": "joint", "common_n": 3}),
        (A[:3], {"selection": "truncate_min"}),
        (A[:3], {}),
    ],
)
def test_too_few_scores_give_infinity(sample: np.ndarray, given_settings: dict) -> None:
    agents = {f"agent-{i}": sample for i in range(6)}
    assert outcome(agents, 0.05, **given_settings) == QuantileOfQuantiles(inf, None, 0, 1.0)


@pytest.mark.parametrize("selection", ["fixed_local", "truncate_min"])
def test_nobody_with_scores_gives_infinity(selection: str) -> None:
    assert outcome({"a": EMPTY, "b": EMPTY}, 0.2, selection=selection).value == inf


@pytest.mark.parametrize("selection", ["fixed_local", "truncate_min"])
def test_an_empty_agent_takes_no_part(selection: str) -> None:
    with_empty = {"a": A, "empty": EMPTY, "b": B}
    found = fw.calibrate(with_empty, method=FedCPQQ(selection=selection), alpha=0.2, seed=4)
    without = fw.calibrate({"a": A, "b": B}, method=FedCPQQ(selection=selection), alpha=0.2, seed=4)
    assert (found.outcomes[0].k, found.outcomes[0].coverage) == (
        without.outcomes[0].k,
        without.outcomes[0].coverage,
    )
    assert found.threshold("empty") == found.threshold("a")


def test_the_training_conditional_choice() -> None:
    rng = np.random.default_rng(1)
    agents = {f"agent-{i}": rng.random(100) for i in range(6)}
    found = outcome(agents, 0.05, selection="joint", common_n=100, delta=0.2)
    assert (found.rank, found.k) == (97, 3)
    assert found.coverage >= 0.95
    loose, strict = outcome(agents, 0.05), outcome(agents, 0.05, delta=0.01)
    assert strict.k > loose.k
    method = FedCPQQ(delta=0.2)
    assert str(method.guarantee) == "training-conditional, finite-sample"
    assert "probability 0.8" in method.assumption
    assert str(FedCPQQ().guarantee) == "marginal-iid, finite-sample"


def test_saturated_and_negative_scores() -> None:
    assert outcome({"a": np.ones(30), "b": np.ones(9)}, 0.1).value == 1.0
    assert outcome({n: v - 5 for n, v in ABC.items()}, 0.2).value == 0.45 - 5


def test_what_is_sent_by_default() -> None:
    release = fw.calibrate(ABC, method="fedcp-qq", alpha=0.05)
    assert release.rounds == 1
    assert release.received["b"] == (LocalQuantile(0.45, 5),)  # clipped to the largest
    two = fw.calibrate(ABC, method=FedCPQQ(selection="truncate_min"), alpha=0.2)
    assert two.received["b"] == (SampleSize(5),)


@settings(max_examples=40)
@given(samples(max_agents=1), alphas(2))
def test_one_agent_alone_is_split_cp(agents: dict, alpha: float) -> None:
    own = fw.calibrate(agents, method="split-cp", alpha=alpha).threshold("agent-0")
    assert threshold(agents, "fedcp-qq", alpha) == own
    n = len(agents["agent-0"])
    if n:
        assert threshold(agents, "fedcp-qq", alpha, selection="joint", common_n=n) == own


@settings(max_examples=40)
@given(samples(), alphas(2))
def test_order_does_not_matter(agents: dict, alpha: float) -> None:
    turned = {name: agents[name][::-1] for name in reversed(agents)}
    assert threshold(turned, "fedcp-qq", alpha) == threshold(agents, "fedcp-qq", alpha)


@settings(max_examples=40)
@given(samples(), alphas(2))
def test_it_commutes_with_increasing_functions(agents: dict, alpha: float) -> None:
    mapped = {name: np.exp(sample) for name, sample in agents.items()}
    assert threshold(mapped, "fedcp-qq", alpha) == np.exp(threshold(agents, "fedcp-qq", alpha))


@settings(max_examples=40)
@given(samples(infinite=True), st.sampled_from([0.1, 0.2, 0.3]))
def test_it_is_one_of_the_local_values(agents: dict, alpha: float) -> None:
    found = threshold(agents, "fedcp-qq", alpha)
    local = {fw.conformal_quantile(v, alpha, "clip") for v in agents.values() if len(v)}
    assert found in local | {inf}


@pytest.mark.parametrize(
    ("given_settings", "match"),
    [
        ({"selection": "best"}, "selection must be one of fixed_local, joint"),
        ({"selection": "joint"}, "common_n must be given with selection='joint'"),
        ({"common_n": 10}, "common_n must be given with selection='joint', and only there"),
        ({"selection": "joint", "common_n": 0}, "common_n must be an integer of at least 1"),
        ({"selection": "joint", "common_n": True}, "common_n must be an integer of at least 1"),
        ({"delta": 1.0}, "delta must be strictly between 0 and 1"),
        ({"delta": "x"}, "delta must be strictly between 0 and 1"),
    ],
)
def test_settings_that_cannot_be(given_settings: dict, match: str) -> None:
    with pytest.raises(InputError, match=match):
        FedCPQQ(**given_settings)


def test_payloads_that_cannot_be() -> None:
    for build, match in [
        (lambda: SampleSize(-1), "^n: must"),
        (lambda: RankOf(0, 5), "^rank: must"),
        (lambda: RankOf(6, 5), "^rank: must"),
        (lambda: QuantileOfQuantiles(-inf, 1, 1, 0.9), "^value: must"),
        (lambda: QuantileOfQuantiles(0.1, 1, -1, 0.9), "^k: must"),
        (lambda: QuantileOfQuantiles(0.1, 1, 1, 1.1), "^coverage: must"),
    ]:
        with pytest.raises(InputError, match=match):
            build()


@pytest.mark.parametrize(
    ("method", "sample", "question", "match"),
    [
        (FedCPQQ(selection="truncate_min"), B, RankOf(2, 6), "at most n = 5"),
        (FedCPQQ(), B, RankOf(2, 5), "what this method's settings need"),
        (FedCPQQ(), EMPTY, RankOf(2, 5), "what this method's settings need"),
        (FedCPQQ("joint", common_n=5), B, RankOf(2, 4), "what this method's settings need"),
    ],
)
def test_an_agent_answers_no_other_question(method, sample, question, match) -> None:
    with pytest.raises(InputError, match=match):
        method.answer(fw.Calibration(sample), question, 0.2, RNG)


@pytest.mark.parametrize("n", [1, 19, 21])
def test_joint_goes_on_without_an_agent_of_another_size(n: int) -> None:
    talk = FedCPQQ(selection="joint", common_n=20).exchange(0.1)
    next(talk)
    with pytest.raises(UnfitAnswerError, match=f"n must be common_n = 20, got {n}") as unfit:
        talk.send([SampleSize(20), SampleSize(0), SampleSize(n), SampleSize(20)])
    assert unfit.value.position == 2


def test_the_server_goes_by_the_sizes_of_the_first_answers() -> None:
    talk = FedCPQQ(selection="truncate_min").exchange(0.2)
    assert next(talk) == Begin()
    assert talk.send([SampleSize(5), SampleSize(9), SampleSize(5)]) == RankOf(4, 5)
    with pytest.raises(StopIteration) as end:
        talk.send([LocalQuantile(0.1, 5), LocalQuantile(inf, 0), LocalQuantile(0.3, 5)])
    assert end.value.value.value == inf  # k = 3, and the second agent hides its value


def test_an_answer_to_another_question_is_told_by_its_place() -> None:
    talk = FedCPQQ().exchange(0.5)
    next(talk)
    with pytest.raises(UnfitAnswerError, match="must be of kind 'local-quantile'") as unfit:
        talk.send([LocalQuantile(0.5, 9), SampleSize(9)])
    assert unfit.value.position == 1
