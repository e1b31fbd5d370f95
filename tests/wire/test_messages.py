"""Payloads that break their own invariants cannot be built."""

from __future__ import annotations

from hashlib import sha256
from math import inf

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import fedwqcp as fw
from changed import replace
from engine import hold
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import kinds_of
from fedwqcp.federation.server import Server
from fedwqcp.methods._sketches import WeightedPoints
from fedwqcp.methods.auto import Borrowed
from fedwqcp.methods.cphet import FittedDensity, Weighed
from fedwqcp.methods.cphet.densities import FeatureDensities
from fedwqcp.methods.dp_fedcp import DescendFrom, LabelCounts, Step, Sums
from fedwqcp.methods.fcp import CountAt, Counts
from fedwqcp.methods.fed_crc import LossCurve
from fedwqcp.methods.fedcp_qq import QuantileOfQuantiles
from fedwqcp.methods.fedls_cp import ClassSketches
from fedwqcp.methods.private_fedwq_cp import PrivateQuantile
from fedwqcp.wire.codec import brief, decode, encode
from fedwqcp.wire.messages import (
    LONG_ROSTER,
    Census,
    Choice,
    LocalQuantile,
    PerAgentThresholds,
    RosterDigest,
    Round,
    SharedThreshold,
    SharedThresholdWithin,
    agent_name,
    ascii_name,
    check_names,
)
from fedwqcp.wire.terms import terms
from refusals import raises


@pytest.mark.parametrize(
    ("kind", "fields", "field"),
    [
        *((LocalQuantile, (0.5, n), "n") for n in (True, -1, 1.0, "3", None)),
        *((LocalQuantile, (q, 3), "threshold") for q in (True, "0.5", None, (0.5,))),
        (LocalQuantile, (0.5, 0), "threshold"),
        (SharedThreshold, (float("nan"),), "threshold"),
        (PerAgentThresholds, ((0.1, (0.2, -inf)),), "threshold"),
        *((SharedThresholdWithin, (0.5, m), "margin") for m in (-1e-9, inf, float("nan"))),
    ],
)
def test_payloads_that_cannot_be(kind, fields, field):
    with raises(InputError, field=field):
        kind(*fields)


ROUND = Round("ab", Choice("fedwq-cp"), Choice("aps"), (0.1,), ("a", "b"), 2)


ODD_NAMES = (
    "../b", "", "b.", "-b", "b/c", "b c", "b\n", "\u0301b", "nul", "COM1.x", "xn--b-1", "e\u0301",
    "ä" * 33, "\ud800", "b\u202e", "x" * 65,
)  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        *(("alphas", alphas) for alphas in ((), (0.1, 0.1), (5.0,))),
        *(("agents", agents) for agents in ((), ("a", "a"), ("köln", "KÖLN"))),
        *(("agents", ("a", name)) for name in ODD_NAMES),
        *(("quorum", quorum) for quorum in (0, 3, 10**4000)),
        ("max_n", 0),
    ],
)
def test_bad_terms_are_refused(field, value):
    with pytest.raises(InputError):
        replace(ROUND, **{field: value})


def test_a_setting_must_be_able_to_travel():
    assert Choice("x", {"a": (0.5, 0.5)}).settings == {"a": (0.5, 0.5)}
    with raises(InputError, field="settings"):
        Choice("x", {"a": [1]})


NAMES = tuple(f"agent-{i}" for i in range(LONG_ROSTER + 1))


def round_of(names, method="fedwq-cp"):
    """A round for these agents."""
    return Round("r", Choice(method), Choice("custom"), (0.5,), names, len(names))


def test_a_short_roster_travels_as_it_is():
    round = round_of(NAMES[:-1])
    assert round.brief() is round
    assert round.expects("agent-0")
    assert not round.expects("agent-256")


def test_of_a_long_roster_travel_its_number_and_its_digest():
    round = round_of(NAMES)
    sent = round.brief()
    text = "".join(f"{name}\n" for name in NAMES).encode()
    assert sent == replace(round, agents=(), roster=RosterDigest(257, sha256(text).hexdigest()))
    assert decode(encode(sent), Round) == sent
    assert len(encode(sent)) < 500
    assert terms(sent) == terms(round)
    assert terms(replace(round, agents=(*NAMES[:-1], "other"))) != terms(round)
    assert sent.expects("anyone"), "only the server knows who is in it"


def test_names_and_what_stands_for_them_exclude_each_other():
    with raises(InputError, field="roster"):
        replace(round_of(NAMES), roster=RosterDigest(257, "0" * 64))
    with raises(InputError, field="quorum"):
        replace(round_of(NAMES).brief(), roster=RosterDigest(3, "0" * 64))


def released(method):
    """What a round of all agents ends with; they see nothing but what is sent."""
    round = round_of(NAMES, method)
    server, sent = Server(round), decode(encode(round.brief()), Round)
    agents = {
        name: Agent(name, sent, fw.Calibration([at / 300, 0.5, 0.9]))
        for at, name in enumerate(NAMES)
    }
    asked = set()
    release = hold(server, agents, lambda name, ask, said: asked.add(len(ask)) or said)
    assert max(asked) < 500
    assert server.refusals == []
    return release


@pytest.mark.parametrize("method", ["fedwq-cp", "fedcp-qq"])
def test_the_release_that_agents_get_counts_its_agents(method):
    whole = released(method)
    sent = brief(whole)
    digest = sha256(encode(whole.public())).hexdigest()
    assert (sent.census, sent.agents) == (Census(257, 0, 0, digest), ())
    read = decode(encode(sent), fw.Release, kinds_of(fw.methods.find(method)))
    assert read == sent
    assert len(encode(sent)) < 1500
    assert read.threshold("agent-3") == whole.threshold("agent-3")


@pytest.mark.parametrize("name", ["köln", "서울", "नगर", "مشفى-1", "ä" * 32, "a" * 64, "7.b_c-d"])
def test_names_of_agents_in_any_script(name):
    check_names((name, "other"))
    there = ascii_name(name)
    assert there.isascii()
    assert agent_name(there) == name


WORDS = st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=12)


@given(st.lists(WORDS, min_size=2, max_size=2, unique=True))
def test_no_two_names_are_mapped_to_one(names):
    try:
        check_names(tuple(names))
    except InputError:
        reject()
    assert len(set(map(ascii_name, names))) == 2


NAN = float("nan")
IMPOSSIBLE = [
    (CountAt, [(), (0.2, 0.1), (0.1, 0.1), (NAN,)], ()),
    (Counts, [-1], ((),)),
    (Counts, [3], ((2, 1),)),
    (LossCurve, [(1.0, 2.0), (4.0, 2.0), (1.0, -1.0), (NAN,)], (3,)),
    (ClassSketches, [(-1,), (0,)], (((0.5,),),)),
    (LabelCounts, [(1, -1)], ()),
    (Sums, [(1.0, -0.5), (inf,)], ()),
    (Step, [(1.0, 2.0), (inf,)], ((0.0,),)),
    (DescendFrom, [(inf,), (0.2, 0.3)], ((1.0,), 0.5)),
    (FittedDensity, [-1], ((),)),
    (FeatureDensities, [(), (-1,), (1, 2)], (((),),)),
    (Weighed, [(-1.0,), (1.0, 1.0)], ((1.0,),)),
    (PrivateQuantile, [NAN], (10, 1.0, 0.0)),
    (PrivateQuantile, [0.9], (10, 0.0, 0.0)),
    (PrivateQuantile, [0.9], (10, 1.0, 1.0)),
    (WeightedPoints, [(0.2, 0.1), (NAN, 1.0)], ((1, 2), 3)),
    (QuantileOfQuantiles, [0.1], (-1, 0.9)),
    (PerAgentThresholds, [(0.5,)], ((0.1, 0.2), (0.1,), (9.0,))),
    (PerAgentThresholds, [(0.5,)], ((0.1,), (1.1,), (9.0,))),
    (PerAgentThresholds, [(0.5,)], ((0.1,), (0.1,), (-9.0,))),
    (Borrowed, [(0.5,)], (0.5, (0.1, 0.2), (9.0, 9.0))),
]


@pytest.mark.parametrize(("kind", "values", "rest"), IMPOSSIBLE)
def test_no_method_s_payload_can_contradict_itself(kind, values, rest):
    for value in values:
        with pytest.raises(InputError):
            kind(value, *rest)
