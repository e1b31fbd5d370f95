"""A short run of the fuzzer; the model that it trusts; and what it must be able to find."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from fractions import Fraction
from math import inf

import numpy as np
import pytest

from fedwqcp import methods
from fedwqcp.errors import MalformedMessageError
from fedwqcp.federation.server import Server
from fedwqcp.methods import auto
from fedwqcp.quantile import conformal_quantile
from fuzz import fuzzer, model

MESSAGE = json.dumps({"a": [1, 2.5, "inf", None, {"kind": "x", "n": 3}], "answers": []}).encode()


CASES = {"server": 20, "folder": 10, "flower": 10}


@pytest.mark.parametrize("target", fuzzer.available())
def test_hostile_messages_are_refused_and_nothing_else_happens(target):
    cases = CASES.get(target, 40)
    result = fuzzer.run(2026, 0, cases=cases, names=(target,))
    assert result.findings == {}
    assert result.cases == {target: cases}


def test_a_case_is_the_same_each_time():
    targets = fuzzer.available(("server", "ask", "round", "release"))
    one, two = (fuzzer.run_case(7, 12, targets)[0] for _ in range(2))
    assert (one.target, one.done, one.sent) == (two.target, two.done, two.sent)
    assert one.sent


def found_by(target, cases=60):
    """What the fuzzer finds in a package with a fault, if any."""
    return " ".join(fuzzer.run(2026, 0, cases=cases, names=(target,)).findings)


@pytest.fixture
def simple(monkeypatch):
    """Rounds that the plain model knows, alone."""
    few = tuple(s for s in fuzzer.setups() if s.plan.round.method.name == "fedwq-cp")
    monkeypatch.setattr(fuzzer, "setups", lambda: few)
    monkeypatch.setattr(fuzzer, "signed_setups", fuzzer.signed_setups.__wrapped__)


@pytest.mark.usefixtures("simple")
def test_it_finds_a_server_that_raises(monkeypatch):
    honest = Server.receive

    def receive(self, data, sender):
        if not data.endswith(b"\n"):
            raise KeyError("fault")
        return honest(self, data, sender)

    monkeypatch.setattr(Server, "receive", receive)
    assert "KeyError" in found_by("server")


@pytest.mark.usefixtures("simple")
def test_it_finds_a_refusal_that_nobody_foresaw(monkeypatch):
    honest = Server.receive

    def receive(self, data, sender):
        found = honest(self, data, sender)
        return found and MalformedMessageError(found.agent, "internal", "KeyError")

    monkeypatch.setattr(Server, "receive", receive)
    assert "internal" in found_by("server", 10)


@pytest.mark.usefixtures("simple")
def test_it_finds_a_server_that_takes_too_large_a_sample(monkeypatch):
    monkeypatch.setattr("fedwqcp.federation.server._check_claims", lambda *_: None)
    assert "model refuses it" in found_by("server", 200)


@pytest.mark.usefixtures("simple")
def test_it_finds_an_audit_that_sees_nothing(monkeypatch):
    class Blind:
        matches = True

    monkeypatch.setattr(fuzzer, "audit", lambda _: Blind())
    assert "passes its audit" in found_by("record", 5)


@pytest.mark.usefixtures("simple")
def test_it_finds_signatures_that_nobody_checks(monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.setattr("fedwqcp.federation.server.check_signature", lambda *_: None)
    assert "passes as signed" in found_by("signed")


@pytest.fixture
def default(monkeypatch):
    """Rounds of the default method alone."""
    few = tuple(s for s in fuzzer.setups() if s.plan.round.method.name == "auto")
    monkeypatch.setattr(fuzzer, "setups", lambda: few)


@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("fault", [lambda own, borrowed: borrowed, max], ids=["floor", "ceiling"])
def test_it_finds_a_default_that_follows_others_beyond_its_own_data(monkeypatch, fault):
    def localize(self, outcome, cal, position, alpha, features=None):
        borrowed = auto.borrowed_of(outcome, position)
        return np.asarray(fault(conformal_quantile(cal.scores, alpha), borrowed))

    monkeypatch.setattr(auto.Auto, "localize", localize)
    assert "own data allow" in found_by("release", 400)


@pytest.mark.usefixtures("default")
def test_it_finds_a_default_that_takes_scores_of_any_number(monkeypatch):
    monkeypatch.setattr(auto.Auto, "check", lambda self, question, answer, earlier, terms: None)
    assert found_by("server", 100)


def test_the_model_computes_what_the_papers_say():
    sent = [(0.9, 10), (0.3, 30), (inf, 0)]
    assert model.released("fedwq-cp", {}, sent) == (Fraction(0.9) * 10 + Fraction(0.3) * 30) / 40
    assert model.agrees(0.45, model.released("fedwq-cp", {}, sent))
    assert not model.agrees(0.4500001, model.released("fedwq-cp", {}, sent))
    assert model.agrees(0.6, model.released("fedavgq-cp", {}, sent))
    assert model.released("fedwq-cp", {}, [(inf, 3), (0.1, 9)]) == inf
    assert model.agrees(
        0.1, model.released("fedwq-cp", {"overflow": "exclude"}, [(inf, 3), (0.1, 9)])
    )


def test_the_model_refuses_a_whole_number_beyond_any_float():
    """Case 7961 of seed 20264: 10^400 as a threshold of scores without bounds."""
    setup = next(s for s in fuzzer.setups() if s.plan.round.method.name == "fedavgq-cp")
    honest = fuzzer.honest_dialogue(setup)[0]["south"][1]
    sent = json.loads(honest)
    for threshold, may in ((10**400, None), (-(10**309), None), (10**308, [(1e308, 25)])):
        sent["answers"][0]["threshold"] = threshold
        data = json.dumps(sent).encode()
        assert model.quantiles_of(data, honest, "south", setup.plan.bounds, 1000) == may
        refusal = Server(setup.plan).receive(data, "south")
        assert (refusal is None) == (may is not None)


NUMBERS = (10**400, -(10**400), 10**309, int(1.7976931348623157e308), -1e308, 10**20)
"""Whole numbers that no double holds, the largest that one does, and one beyond 64 bits."""


@pytest.mark.parametrize("method", methods.built_in())
def test_a_number_beyond_any_float_refuses_at_most_its_own_message(method):
    seen = set()
    for setup in (s for s in fuzzer.setups() if s.plan.round.method.name == method):
        dialogue = fuzzer.honest_dialogue(setup)
        for step, said in enumerate(dialogue):
            sent = json.loads(said["south"][1])
            for container, key, path in numbers_in(sent["answers"], ""):
                place = (setup.plan.bounds, re.sub(r"\d+", "", path))
                if place in seen:
                    continue
                seen.add(place)
                honest = container[key]
                for container[key] in NUMBERS:
                    hold(setup, dialogue[: step + 1], json.dumps(sent).encode())
                container[key] = honest


def numbers_in(node, path):
    """Every number of a payload: what holds it, where, and its path with the kinds on the way."""
    for key, value in list(node.items()) if isinstance(node, dict) else list(enumerate(node)):
        at = f"{path}/{key}"
        if isinstance(value, dict | list):
            kind = value.get("kind", "") if isinstance(value, dict) else ""
            yield from numbers_in(value, at + kind)
        elif isinstance(value, int | float):
            yield node, key, at


def hold(setup, dialogue, answer):
    """Hold steps of a round, the last one with another answer of south; the others go on."""
    server = Server(setup.plan)
    for step in dialogue:
        for name, (_, honest) in step.items():
            changed = step is dialogue[-1] and name == "south"
            refusal = server.receive(answer if changed else honest, name)
            assert refusal is None or (changed and refusal.field != "internal")
        server.close_step()
    assert {r.agent for r in server.refusals} <= {"south"}
    assert "internal" not in {r.field for r in server.refusals}


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"a":1,"a":1}', b'{"a":NaN}', b'{"a":1e999}', b"\xff", b"1" * 5000],
)
def test_the_model_takes_nothing_that_is_no_answer(data):
    assert model.quantiles_of(data, MESSAGE, "north", (0.0, 1.0), 10) is None


def test_it_finds_a_predictor_of_any_level(monkeypatch):
    monkeypatch.setattr("fedwqcp.serve.predictor.as_alpha", lambda _: None)
    assert "of level" in found_by("predictor", 2000)


SITE_FAULTS = {
    "a ledger of one round": ("fedwqcp.federation.disclosure_ledger._spent", lambda _: Counter()),
    "scores of another model for nothing": (
        "fedwqcp.federation.disclosure_ledger._of_same",
        lambda one, other: one.accounts.keys() == other.accounts.keys(),
    ),
    "small private groups": (
        "fedwqcp.federation.agent.Agent._without_small_groups",
        lambda self, answers, least: answers,
    ),
    "an unchecked budget": (
        "fedwqcp.federation.privacy_budget.Budget._check",
        lambda *_: None,
    ),
    "masks that lift the limit": ("fedwqcp.federation.transport.site.Site.hides", lambda *_: True),
    "differences": ("fedwqcp.federation.disclosure_ledger._check_differences", lambda *_: None),
    "a lost ledger": ("fedwqcp.federation.site_folder._Marker.lost", lambda *_: []),
    "an approval of the method alone": (
        "fedwqcp.federation.approval._name",
        lambda terms: terms.method.name,
    ),
    "an approval that lasts": (
        "fedwqcp.federation.approval.move",
        lambda path, to: bool(shutil.copy(path, to)),
    ),
}


@pytest.mark.parametrize(("place", "fault"), SITE_FAULTS.values(), ids=SITE_FAULTS)
def test_it_finds_faults_of_a_site_over_many_rounds(monkeypatch, place, fault):
    monkeypatch.setattr(place, fault)
    assert found_by("rounds", 120)
