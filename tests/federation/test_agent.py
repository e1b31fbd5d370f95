"""An agent answers its own round, and nothing private leaves it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fedwqcp import calibrate, methods
from fedwqcp.errors import InputError, WrongRoundError
from fedwqcp.federation.agent import Agent, thresholds
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.local import run
from fedwqcp.methods import Calibration, OneShot
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.envelope import Answer, Ask
from fedwqcp.wire.guarantee import NO_GUARANTEE
from fedwqcp.wire.payload import Begin, LocalQuantile, Summary, ToAll
from fedwqcp.wire.round import Choice, Round

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
def test_a_question_of_another_round_is_not_answered(ask):
    with pytest.raises(WrongRoundError, match="not r1"):
        Agent("a", ROUND, CAL).answer(encode(ask))


def test_the_first_question_gets_one_answer_however_often_it_is_asked():
    method = Choice("dp-fedcp", {"count_noise": 50.0})
    round = replace(ROUND, method=method, n_classes=3, max_n=1000)
    cal = Calibration(np.linspace(0, 1, 90), np.arange(90) % 3, n_classes=3)
    agent = Agent("a", round, cal)
    first = agent.answer()
    assert agent.answer() == first
    assert agent.answer(encode(Ask("r1", 0, (Begin(),)))) == first
    assert Agent("a", round, cal).answer() != first, "the noise is fresh elsewhere"
    with pytest.raises(WrongRoundError, match="step: the first question is asked in step 0 alone"):
        agent.answer(encode(Ask("r1", 1, (Begin(),))))


def test_who_is_not_in_the_roster_does_not_answer():
    with pytest.raises(InputError, match="'c' is not in the round; its agents: a, b"):
        Agent("c", ROUND, CAL)


@pytest.mark.parametrize(
    ("cal", "says"),
    [
        (Calibration(np.full(11, 0.5)), "n must be at most the round's max_n = 10, got 11"),
        (Calibration([0.5, 3.0]), "scores must lie between 0 and 1 for lac"),
        (Calibration(np.zeros((3, 2))), "1 column"),
    ],
)
def test_data_that_do_not_fit_the_round_stay_unsent(cal, says):
    with pytest.raises(InputError, match=says):
        Agent("a", ROUND, cal)


@dataclass(frozen=True)
class Raw(Summary):
    reveals = "samples"
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
        return ToAll(max(max(s.values) for s in summaries))


def test_samples_leave_only_where_they_are_allowed(monkeypatch):
    monkeypatch.setattr(methods, "get", lambda name, **settings: Teller())
    with pytest.raises(InputError, match="sends scores of single people; allow it with"):
        Agent("a", ROUND, CAL).answer()
    agents = {name: Agent(name, ROUND, CAL, allow_samples=True) for name in ("a", "b")}
    assert run(Server(ROUND), agents).threshold("a") == 0.4


def test_a_method_that_answers_with_its_data_is_stopped(monkeypatch):
    class Leak(Teller):
        def summarize(self, cal, alpha):
            return cal

    monkeypatch.setattr(methods, "get", lambda name, **settings: Leak())
    with pytest.raises(InputError, match="only a Summary can leave an agent, got Calibration"):
        Agent("a", ROUND, CAL).answer()


def test_thresholds_with_and_without_the_agents_data():
    release = calibrate({"a": CAL, "b": [0.5] * 9}, method="split-cp", alpha=0.2).public()
    with pytest.raises(InputError, match="own calibration data"):
        thresholds(release, "a")
    assert thresholds(release, "a", calibration=CAL) == 0.4
    shared = calibrate({"a": CAL, "b": [0.5] * 9}, alpha=0.2)
    assert thresholds(shared, "a") == thresholds(shared, "a", calibration=CAL)


def test_two_columns_give_two_thresholds():
    two = Calibration(np.array([[0.1, 0.5], [0.2, 0.6], [0.3, 0.7], [0.4, 0.8]]))
    release = calibrate({"a": two}, method="split-cp", alpha=0.4)
    np.testing.assert_array_equal(release.threshold("a"), [0.4, 0.8])
    np.testing.assert_array_equal(thresholds(release, "a", calibration=two), [0.4, 0.8])


def test_an_error_never_shows_a_score():
    with pytest.raises(InputError) as error:
        Agent("a", ROUND, Calibration([0.5, 123.456]))
    assert "123" not in str(error.value)
    assert "0.5" not in repr(Calibration([0.5, 0.25]))


def test_a_round_with_unknown_names_is_refused():
    with pytest.raises(InputError, match=r"unknown score 'apps'; known: .*aps"):
        Agent("a", replace(ROUND, score=Choice("apps")), CAL)
    with pytest.raises(InputError, match="rule must be one of"):
        Agent("a", replace(ROUND, rule="top5"), CAL)


@pytest.mark.parametrize("changed", [-5.0, 7.0])
def test_a_threshold_outside_the_score_is_not_used(changed):
    release = calibrate({"a": CAL}, alpha=0.2, score="lac")
    edited = replace(release, outcomes=(ToAll(changed),))
    with pytest.raises(InputError, match="must lie between 0 and 1 for lac"):
        thresholds(edited, "a")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rule": "until"}, "rule 'until' reads labels in order and does not fit LAC"),
        (
            {"method": Choice("dp-fedcp"), "score": Choice("absolute-residual")},
            "method 'dp-fedcp' is for sets of labels, which score 'absolute-residual' does not",
        ),
    ],
)
def test_terms_that_nobody_could_follow_are_refused_at_once(change, says):
    with pytest.raises(InputError, match=says):
        Server(replace(ROUND, **change))
