"""The server admits sound answers, refuses the rest by name and reason, and keeps the quorum."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from engine import hold
from fedwqcp import methods
from fedwqcp.errors import (
    ImplausibleValueError,
    MalformedMessageError,
    QuorumError,
    RoundError,
    WrongRoundError,
)
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import choose_method
from fedwqcp.federation.server import Server
from fedwqcp.methods import Calibration, Exchange, Method, PerAgentQuestions
from fedwqcp.methods.cphet import FittedDensity, density_of
from fedwqcp.methods.dp_fedcp import LabelCounts, Step, Sums
from fedwqcp.methods.fcp import Counts, order_sketch
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import (
    Answer,
    Ask,
    Begin,
    Choice,
    LocalQuantile,
    Outcome,
    PerAgentThresholds,
    Question,
    Round,
    Summary,
)
from fedwqcp.wire.release import NO_GUARANTEE
from fedwqcp.wire.terms import terms
from worked import unlike

ROUND = Round(
    id="r1",
    method=Choice("fedwq-cp", {"overflow": "propagate"}),
    score=Choice("lac"),
    alphas=(0.2,),
    agents=("a", "b", "c"),
    quorum=2,
    max_n=100,
)


SOUND = LocalQuantile(0.5, 10)


def answer(round=ROUND, agent="a", summary=SOUND, **changes):
    fields = {
        "round": round.id,
        "terms": terms(round),
        "step": 0,
        "agent": agent,
        "method": round.method.name,
        "score": round.score.name,
        "alphas": round.alphas,
        "answers": (summary,),
    }
    return encode(Answer(**{**fields, **changes}))


def test_a_clean_round():
    server = Server(ROUND)
    assert set(server.asks()) == {"a", "b", "c"}
    for name, q in (("a", 0.9), ("b", 0.3), ("c", 0.6)):
        assert server.receive(answer(agent=name, summary=LocalQuantile(q, 10)), name) is None
    server.close_step()
    release = server.release()
    assert release.threshold("b") == pytest.approx(0.6)
    assert release.rounds == 1
    assert release.used == ("a", "b", "c")
    assert release.bytes_up("a") == len(answer(agent="a", summary=LocalQuantile(0.9, 10)))
    assert release.bytes_down("a") == len(encode(ROUND))
    assert release.received["b"] == (LocalQuantile(0.3, 10),)
    assert server.asks() == {}


@pytest.mark.guarantee("SECURITY.md", "at most `max_n` points, thresholds within")
@pytest.mark.parametrize(
    ("message", "error", "field"),
    [
        (answer(round=replace(ROUND, id="r0")), WrongRoundError, "round"),
        (answer(terms="0" * 16), WrongRoundError, "terms"),
        (answer(alphas=(0.1,)), WrongRoundError, "alpha"),
        (answer(score="aps"), WrongRoundError, "score"),
        (answer(method="fcp"), WrongRoundError, "method"),
        (answer(version=1), WrongRoundError, "version"),
        (answer(step=1), WrongRoundError, "step"),
        (answer(agent="mallory"), WrongRoundError, "agent"),
        (answer(summary=LocalQuantile(0.5, 101)), ImplausibleValueError, "n"),
        (answer(summary=LocalQuantile(999.0, 5)), ImplausibleValueError, "threshold"),
        (answer(summary=LocalQuantile(-0.1, 5)), ImplausibleValueError, "threshold"),
        (answer(answers=()), MalformedMessageError, "answers"),
        (answer(answers=(None,)), MalformedMessageError, "answers"),
        (b"garbage", MalformedMessageError, "message"),
    ],
)
def test_unsound_answers_are_refused_by_name_and_reason(message, error, field):
    server = Server(ROUND)
    refusal = server.receive(message, "a")
    assert (type(refusal), refusal.field) == (error, field)
    assert server.refusals == [refusal]
    assert server.receive(answer(summary=LocalQuantile(inf, 3)), "a") is None  # may come still


def test_the_first_answer_stands():
    server = Server(ROUND)
    assert server.receive(answer(), "a") is None
    second = server.receive(answer(summary=LocalQuantile(0.9, 100)), Path("a-again.json"))
    assert "has already answered" in str(second)
    server.receive(answer(agent="b"), "b")
    server.close_step()
    release = server.release()
    assert release.threshold("a") == 0.5
    assert release.refused == {}
    assert release.missing == ("c",)


def test_a_sender_that_the_transport_knows_cannot_speak_for_another():
    server = Server(ROUND)
    refusal = server.receive(answer(agent="b"), "a")
    assert (refusal.agent, refusal.field) == ("a", "agent")
    assert server.receive(answer(agent="b"), "b") is None


def test_refused_and_missing_agents_are_named_and_the_quorum_decides():
    server = Server(replace(ROUND, quorum=1))
    server.receive(answer(round=replace(ROUND, quorum=1)), "a")
    server.receive(b"{}", "b")
    server.close_step()
    release = server.release()
    assert release.used == ("a",)
    assert list(release.refused) == ["b"]
    assert release.missing == ("c",)
    assert server.lost == ("b",)


def test_a_missed_quorum_says_who():
    server = Server(ROUND)
    server.receive(answer(agent="mallory"), Path("mail.json"))
    server.receive(b"{}", Path("junk.json"))
    server.receive(answer(agent="b", summary=LocalQuantile(0.5, 101)), "b")
    assert server.receive(answer(), "a") is None  # one of the two that are needed
    with pytest.raises(QuorumError) as error:
        server.close_step()
    assert all(name in str(error.value) for name in ("b (n: ", "mallory (", "junk.json ("))
    with pytest.raises(QuorumError):
        server.release()


class Said(Summary):
    value: int


class Next(Question):
    value: int


@dataclass(frozen=True)
class TwoSteps(Method[Said]):
    """Each agent says its n; then each is sent the sum of the others and says it again."""

    summaries = (Said,)
    questions = (Begin, Next)
    outcomes = (PerAgentThresholds,)
    guarantee = NO_GUARANTEE
    assumption = "none"

    def answer(self, cal: Calibration, question: Question, alpha: float, rng: object) -> Said:
        return Said(question.value if isinstance(question, Next) else cal.n)

    def exchange(self, alpha: float) -> Exchange[Said, Outcome]:
        first = yield Begin()
        total = sum(said.value for said in first)
        second = yield PerAgentQuestions(tuple(Next(total - said.value) for said in first))
        return PerAgentThresholds(tuple(float(said.value) for said in second))


@pytest.fixture
def two_steps(monkeypatch):
    monkeypatch.setattr(methods, "get", lambda name, **settings: TwoSteps())
    return replace(ROUND, method=Choice("two-steps"), alphas=(0.2, 0.4))


def agents_of(round):
    return {
        name: Agent(name, round, Calibration([0.1] * n), limit=None)
        for name, n in zip("abc", (1, 2, 4), strict=True)
    }


def test_a_dialogue_of_two_steps(two_steps):
    release = hold(Server(two_steps), agents_of(two_steps))
    assert release.rounds == 2
    assert [release.threshold(name, 0.4) for name in "abc"] == [6, 5, 3]


def test_an_agent_lost_on_the_way_restarts_the_dialogue_without_it(two_steps):
    server, agents = Server(two_steps), agents_of(two_steps)
    for name in server.asks():
        server.receive(agents[name].answer(), name)
    server.close_step()
    for name, ask in server.asks().items():
        if name != "b":
            server.receive(agents[name].answer(ask), name)
    server.close_step()  # b is lost here
    assert set(server.asks()) == {"a", "c"}
    server.receive(agents["b"].answer(encode_step(server)), "b")
    for name, ask in server.asks().items():
        server.receive(agents[name].answer(ask), name)
    server.close_step()
    release = server.release()
    assert [release.threshold(name, 0.2) for name in "ac"] == [4, 1]
    assert release.missing == ("b",)


def encode_step(server):
    """A question of the current step that any agent can answer."""
    return encode(Ask(server.round.id, server.step, (Next(1), Next(1))))


def test_what_nobody_foresaw_in_one_message_refuses_that_agent_alone(monkeypatch, caplog):
    def check_answers(answer, plan, questions, earlier):
        if answer.agent == "b":
            raise KeyError(f"secret {answer.answers[0].threshold}")

    monkeypatch.setattr("fedwqcp.federation.server.check_answers", check_answers)
    server = Server(ROUND)
    server.asks()
    for name in ROUND.agents:
        server.receive(answer(agent=name, summary=LocalQuantile(0.3125, 10)), name)
    server.close_step()
    release = server.release()
    assert release.used == ("a", "c")
    assert "check_answers" in caplog.text, "the log says where"
    assert "0.3125" not in caplog.text + release.refused["b"]


def test_an_answer_that_cannot_be_combined_refuses_its_agent_or_ends_the_round(monkeypatch):
    mean = type(methods.get("fedwq-cp"))
    true = mean.aggregate

    def aggregate(self, summaries, alpha):
        if any(summary.n == 13 for summary in summaries):
            raise ZeroDivisionError("13")
        if sum(summary.n for summary in summaries) == 21:
            raise ZeroDivisionError("21")
        return true(self, summaries, alpha)

    monkeypatch.setattr(mean, "aggregate", aggregate)
    server = Server(ROUND)
    for name, n in (("a", 10), ("b", 13), ("c", 10)):
        server.receive(answer(agent=name, summary=LocalQuantile(0.5, n)), name)
    server.close_step()
    assert server.release().used == ("a", "c")
    assert server.release().refused["b"].startswith("internal: ZeroDivisionError")
    server = Server(ROUND)
    for name in ROUND.agents:  # together they fail, each alone does not
        server.receive(answer(agent=name, summary=LocalQuantile(0.5, 7)), name)
    with pytest.raises(RoundError):
        server.close_step()
    assert server.refusals == []


SORTED = order_sketch(np.array([0.1, 0.2, 0.3, 0.4]), 2, 2)
CASES = [
    ("fcp", {}, 1, Counts(5, (1,))),
    ("fcp", {}, 2, SORTED),
    ("fcp", {"sketch": "order"}, 0, Counts(5)),
    ("fedcp-qq", {}, 0, Counts(5)),
    ("dp-fedcp", {"solver": "exact"}, 0, LabelCounts((1,))),
    ("dp-fedcp", {"solver": "exact"}, 1, LabelCounts((1, 2, 3))),
    ("dp-fedcp", {"rounds": 5}, 2, Step((0.1,), (0.1,))),
    ("cphet", {}, 0, Sums((1.0,))),
    ("cphet", {}, 0, FittedDensity(9, density_of(np.eye(3)))),
    ("cphet", {}, 1, Sums((1.0,))),
    ("cphet", {}, 2, Sums((1.0,))),
]


@pytest.mark.parametrize(("name", "settings", "bad_step", "wrong"), CASES)
def test_the_round_goes_on_without_it(name, settings, bad_step, wrong):
    method = fw.methods.get(name, **settings)
    round = Round("r1", choose_method(method), Choice("lac"), (0.2,), tuple("abcd"), 3, n_classes=3)
    cals = unlike(a=40, b=40, c=40, d=40)
    agents = {who: Agent(who, round, cal, limit=None) for who, cal in cals.items()}
    server = Server(round)

    def on_the_way(who, ask, said):
        if who != "b" or server.step != bad_step:
            return said
        return answer(round, "b", wrong, step=bad_step)

    release = hold(server, agents, on_the_way)
    assert release.used == ("a", "c", "d")
    assert list(release.refused) == ["b"]
    del cals["b"]
    alone = fw.calibrate(cals, method=method, alpha=0.2, score="lac")
    for who in cals:
        np.testing.assert_allclose(release.threshold(who), alone.threshold(who), atol=1e-9)
