"""An agent answers its own round, and nothing private leaves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changed import replace
from fedwqcp import calibrate, methods
from fedwqcp.errors import DisclosureError, InputError, WrongRoundError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.disclosure_limit import DisclosureLimit
from fedwqcp.federation.plan import Plan
from fedwqcp.federation.privacy_budget import Budget
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.local import run
from fedwqcp.methods import Calibration, OneShot
from fedwqcp.methods._search import CountAt
from fedwqcp.methods.cphet import SumsAt, Weigh, density_of
from fedwqcp.methods.cphet.densities import FeatureDensities
from fedwqcp.methods.dp_fedcp import DescendFrom
from fedwqcp.methods.fedls_cp import ClassSketches
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import (
    Answer,
    Ask,
    Begin,
    Choice,
    LocalQuantile,
    Round,
    SharedThreshold,
    Summary,
)
from fedwqcp.wire.release import NO_GUARANTEE
from refusals import raises

ROUND = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.2,), ("a", "b"), 2, max_n=10)
CAL = Calibration([0.1, 0.2, 0.3, 0.4])


def test_the_first_question_needs_no_message():
    agent = Agent("a", ROUND, CAL)
    said = decode(agent.answer(), Answer, (LocalQuantile,))
    assert said.answers == (LocalQuantile(0.4, 4),)
    assert agent.answer(encode(Ask("r1", 0, (Begin(),)))) == agent.answer()


@pytest.mark.parametrize(
    "ask", [Ask("r2", 0, (Begin(),)), Ask("r1", 0, (Begin(), Begin())), Ask("r1", 0, ())]
)
def test_a_question_of_another_round_or_of_other_tasks_is_not_answered(ask):
    with pytest.raises(WrongRoundError):
        Agent("a", ROUND, CAL).answer(encode(ask))


def test_the_first_question_gets_one_answer_however_often_it_is_asked():
    method = Choice("private-fedwq-cp", {"epsilon": 50.0, "size_epsilon": 0.5})
    round = replace(ROUND, method=method, max_n=1000)
    cal = Calibration(np.linspace(0, 1, 90))
    agent = Agent("a", round, cal, limit=None)
    first = agent.answer()
    assert agent.answer() == first
    assert agent.answer(encode(Ask("r1", 0, (Begin(),)))) == first
    others = {Agent("a", round, cal, limit=None).answer() for _ in range(20)}
    assert len(others) > 1, "the noise is fresh elsewhere"
    with raises(WrongRoundError, field="step"):
        agent.answer(encode(Ask("r1", 1, (Begin(),))))


def test_a_step_is_answered_for_one_question_alone():
    round = terms("fcp", count_gap=5)
    agent = Agent("a", round, HALVES)
    one, other = (encode(Ask("r1", 1, (CountAt((value,)),))) for value in (0.5, 0.6))
    assert agent.answer(one) == agent.answer(one)
    with raises(WrongRoundError, field="step"):
        agent.answer(other)


def test_who_is_not_in_the_roster_does_not_answer():
    with pytest.raises(InputError):
        Agent("c", ROUND, CAL)


@pytest.mark.parametrize("scores", [np.full(11, 0.5), [0.5, 3.0], np.zeros((3, 2))])
def test_data_that_do_not_fit_the_round_stay_unsent(scores):
    with pytest.raises(InputError):
        Agent("a", ROUND, Calibration(scores))


class Raw(Summary):
    values: tuple[float, ...]


@dataclass(frozen=True)
class Teller(OneShot[Raw]):
    """Sends everything."""

    summaries = (Raw,)
    guarantee = NO_GUARANTEE
    assumption = "none"

    def summarize(self, cal, alpha):
        return Raw(tuple(float(v) for v in cal.scores))

    def aggregate(self, summaries, alpha):
        return SharedThreshold(max(max(s.values) for s in summaries))


def test_samples_leave_only_where_they_are_allowed(monkeypatch):
    monkeypatch.setattr(methods, "get", lambda name, **settings: Teller())
    round = replace(ROUND)  # with a plan of its own
    with pytest.raises(InputError):
        Agent("a", round, CAL).answer()
    agents = {name: Agent(name, round, CAL, allow_samples=True) for name in ("a", "b")}
    assert run(Server(round), agents).threshold("a") == 0.4


def test_a_method_that_answers_with_its_data_is_stopped(monkeypatch):
    class Leak(Teller):
        def summarize(self, cal, alpha):
            return cal

    monkeypatch.setattr(methods, "get", lambda name, **settings: Leak())
    round = replace(ROUND)
    with pytest.raises(InputError):
        Agent("a", round, CAL, limit=None).answer()


def test_an_error_never_shows_a_score():
    with pytest.raises(InputError) as error:
        Agent("a", ROUND, Calibration([0.5, 123.456]))
    assert "123" not in str(error.value)
    assert "0.5" not in repr(Calibration([0.5, 0.25]))


@pytest.mark.parametrize("changed", [-5.0, 7.0])
def test_a_threshold_outside_the_score_is_not_used(changed):
    release = calibrate({"a": CAL}, method="fedwq-cp", alpha=0.2, score="lac")
    edited = replace(release, outcomes=(SharedThreshold(changed),))
    with pytest.raises(InputError):
        edited.predict_set("a", [[0.5, 0.5]])


@pytest.mark.parametrize(
    "change",
    [{"rule": "until"}, {"method": Choice("dp-fedcp"), "score": Choice("absolute-residual")}],
)
def test_terms_that_nobody_could_follow_are_refused_at_once(change):
    with pytest.raises(InputError):
        Server(replace(ROUND, **change))


HUNDRED = np.linspace(0.005, 0.995, 100)
HALVES = Calibration(HUNDRED, np.arange(100) % 2, n_classes=2)


def terms(method, alphas=(0.1,), **settings):
    more = {"target": settings.pop("target", "own"), "max_n": 10**5, "n_classes": 2}
    return Round("r1", Choice(method, settings), Choice("lac"), alphas, ("a", "b"), 2, **more)


@pytest.mark.parametrize(
    ("round", "count"),
    [
        (terms("fcp", sketch="order", points=10**5, min_gap=2), 50),
        (terms("fcp", probes=10**5), 100),
        (terms("fcp"), 100),  # 15 values in each of 16 questions
        (terms("fedls-cp", min_gap=2), 25),  # of the 50 scores of a class
        (terms("fed-crc"), 100),
        (terms("dp-fedcp", rounds=1), 50),  # towards as many targets as the server says
        (terms("dp-fedcp", rounds=1, target="mixture"), 50),  # a real number may tell several
        (terms("dp-fedcp", solver="exact"), 50),
        (terms("fedwq-cp", tuple(i / 100 for i in range(2, 99))), 97),
    ],
)
def test_scores_of_single_people_stay_home_whatever_the_settings(round, count):
    with pytest.raises(InputError):
        Agent("a", round, HALVES).answer()
    assert Agent("a", round, HALVES, limit=DisclosureLimit(share=1.0)).answer()
    assert Agent("a", round, HALVES, allow_samples=True).answer()


@pytest.mark.parametrize(
    "round",
    [
        terms("fedwq-cp"),
        terms("fedcp-qq"),
        terms("guarded-median-cp"),
        terms("fcp", sketch="order", points=10**5),
        terms("fcp", count_gap=5, probes=10**5),
        terms("fcp", count_gap=5),
        terms("fcp", (0.05, 0.1, 0.2), count_gap=5),  # every level asks of the same points
        terms("fedls-cp"),
        terms("fed-crc", min_gap=5),
        terms("fedwq-cp", tuple(i / 100 for i in range(5, 25))),
    ],
)
def test_what_stays_within_a_fifth_is_answered(round):
    assert Agent("a", round, HALVES).answer()


def test_one_score_is_told_of_a_sample_of_any_size_but_of_no_small_group():
    five = Calibration(HUNDRED[:5], np.zeros(5, int), n_classes=2)
    assert Agent("a", terms("fedwq-cp", (0.5,)), five).answer()
    by_label = replace(terms("fedwq-cp", (0.5,)), by="label")
    with pytest.raises(InputError):
        Agent("a", by_label, five).answer()
    assert Agent("a", by_label, five, limit=DisclosureLimit(min_class=5)).answer()
    too_few = replace(by_label, alphas=(0.1,))
    assert Agent("a", too_few, five).answer(), "+inf is the score of nobody"


def test_of_a_small_class_only_its_size_is_sent():
    cal = Calibration(HUNDRED, [1] * 9 + [0] * 91, n_classes=2)
    said = decode(Agent("a", terms("fedls-cp"), cal).answer(), Answer, (ClassSketches,))
    assert said.answers[0].counts == (91, 9)
    assert said.answers[0].values[1] == ()
    with pytest.raises(InputError):
        Agent("a", terms("fedls-cp", min_class=1), cal).answer()


@pytest.mark.parametrize("labels", [None, np.zeros(100, int), np.repeat([0, 1], [99, 1])])
def test_no_density_of_features_leaves_a_site_that_sets_a_limit(labels):
    """A covariance with a flag that one patient had once told all features of that patient."""
    features = np.column_stack([np.arange(100) == 7, HUNDRED])
    cal, settings = Calibration(HUNDRED, labels, features, 2), {"target": "mixture"}
    for round in (terms("cphet"), terms("cphet", scope="local", **settings)):
        with pytest.raises(DisclosureError):
            Agent("a", round, cal).answer()
        assert Agent("a", round, cal, allow_samples=True).answer()


def test_no_weights_that_the_server_names_single_out_a_small_class():
    cal = Calibration(HUNDRED, [1] + [0] * 99, n_classes=2)
    settings = {"target": "mixture", "rounds": 1, "local_steps": 1, "step_size": 1.0}
    round = terms("dp-fedcp", smoothing=10.0, **settings)
    alone = Ask("r1", 1, (DescendFrom((0.0, 0.0), (0.0, 1.0), 0.0),))  # its score over 10
    for ask in (None, encode(alone)):
        with pytest.raises(InputError):
            Agent("a", round, cal).answer(ask)


def test_an_empty_question_is_refused_outside_the_dialogue_and_spends_no_budget(tmp_path):
    spent = Budget(tmp_path / "budget", 2.0)
    round = terms("private-fedwq-cp", epsilon=1.0)
    agent = Agent("a", round, HALVES, budget=spent)
    agent.answer()
    with raises(WrongRoundError, field="step"):
        agent.answer(encode(Ask("r1", 1, (None,))))
    assert Agent("a", replace(round, id="r2"), HALVES, budget=spent).answer()
    counts = Agent("a", terms("fcp", count_gap=5), HALVES)
    assert counts.answer(encode(Ask("r1", 16, (None,))))  # it has no point of the group
    with raises(WrongRoundError, field="step"):
        counts.answer(encode(Ask("r1", 17, (None,))))


def test_a_dialogue_that_begins_again_is_refused_once_it_would_tell_more():
    large = Calibration(np.linspace(0, 1, 1400))
    round = replace(terms("fcp"), quorum=1)  # one agent can be lost: 33 questions at most
    agent = Agent("a", round, large)  # 280 of 1400: 18 questions of 15 values
    ask = CountAt(tuple(np.linspace(0.1, 0.9, 15)))
    assert agent.answer(encode(Ask("r1", 18, (ask,))))
    with pytest.raises(InputError):
        agent.answer(encode(Ask("r1", 19, (ask,))))
    with raises(WrongRoundError, field="step"):
        agent.answer(encode(Ask("r1", 34, (ask,))))


def _later(kind):
    """A question of a kind, as a server could put it."""
    densities = FeatureDensities((100, 100), (density_of([[0.0], [2.0]]),) * 2)
    return {
        CountAt: CountAt((0.5,)),
        DescendFrom: DescendFrom((0.5, 0.5), (1.0, 1.0), 0.5),
        Weigh: Weigh(densities),
        SumsAt: SumsAt((0.5,), densities),
    }[kind]


PLANS = [
    ("fcp", {}, [(CountAt, 1, 16)]),
    ("fcp", {"sketch": "order"}, []),
    ("fedwq-cp", {}, []),
    ("fedcp-qq", {}, []),
    ("dp-fedcp", {"rounds": 3}, [(DescendFrom, 1, 3)]),
    ("dp-fedcp", {"solver": "exact"}, [(CountAt, 1, 62)]),
    ("cphet", {}, [(Weigh, 1, 1), (SumsAt, 2, 65)]),
    ("cphet", {"scope": "local"}, []),
]


@pytest.mark.guarantee(
    "SECURITY.md", "It cannot make an agent answer what the method's settings do not ask"
)
@pytest.mark.parametrize("quorum", [2, 1])
@pytest.mark.parametrize(("method", "settings", "plan"), PLANS)
def test_an_agent_holds_the_server_to_the_method_s_plan_of_questions(
    method, settings, plan, quorum
):
    """Kinds, order and how often, also where the site lets single scores leave."""
    cal = Calibration(HUNDRED, np.arange(100) % 2, HUNDRED[:, None], n_classes=2)
    round = replace(terms(method, **settings), quorum=quorum)
    asked = {kind: (first, last) for kind, first, last in plan}
    again = (2 - quorum) * (1 + max((last for _, last in asked.values()), default=0))
    known = Plan.of(round).method.questions
    for kind in set(known) - {Begin}:
        first, last = asked.get(kind, (1, 0))
        for step in {1, 2, 3, first, last, last + 1, last + again, last + again + 1, 10**6} - {0}:
            agent = Agent("a", round, cal, allow_samples=True)
            ask = encode(Ask("r1", step, (_later(kind),)))
            if kind in asked and first <= step <= last + again:
                assert agent.answer(ask)
                continue
            with pytest.raises(WrongRoundError) as refused:
                agent.answer(ask)
            assert refused.value.field == "step"


@given(st.integers(1, 80), st.integers(2, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_coarse_counts_tell_no_more_than_one_score_in_a_gap_whatever_is_asked(n, gap, seed):
    cal = Calibration(np.random.default_rng(seed).normal(size=n).round(2))
    method = methods.get("fcp", count_gap=gap, probes=4 * n)
    values = np.unique(np.concatenate([cal.scores, np.nextafter(cal.scores, -np.inf), [-9.0, 9.0]]))
    counts = method.answer(cal, CountAt(tuple(values.tolist())), 0.1, np.random.default_rng(0))
    (most,) = method.reveals(cal, 0.1, steps=99)
    assert len(set(counts.counts) - {0}) <= most.scores == max(1, n // gap)
    true = np.searchsorted(np.sort(cal.scores), values, side="right")
    assert (np.array(counts.counts) <= true).all(), "so no threshold is ever lower"


@pytest.mark.parametrize(
    "bad",
    [*({"share": share} for share in ("a", None, [1], True, 0.0, 1.5, np.nan)), {"min_class": 0}],
)
def test_a_limit_is_a_share_and_a_size(bad):
    with pytest.raises(InputError):
        DisclosureLimit(**bad)
