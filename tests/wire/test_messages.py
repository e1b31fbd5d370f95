"""Payloads that break their own invariants cannot be built."""

from __future__ import annotations

from hashlib import sha256
from math import inf

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import kinds_of
from fedwqcp.federation.server import Server
from fedwqcp.wire.codec import brief, decode, encode, terms
from fedwqcp.wire.messages import (
    LONG_ROSTER,
    Census,
    Choice,
    Local,
    LocalQuantile,
    Outcome,
    PerAgentThresholds,
    RosterDigest,
    Round,
    SharedThreshold,
    SharedThresholdWithin,
    Summary,
    agent_name,
    ascii_name,
    check_names,
)
from refusals import raises


def test_kinds_are_named_after_their_class():
    assert (LocalQuantile.kind, SharedThreshold.kind, Local.kind) == (
        "local-quantile",
        "shared-threshold",
        "local",
    )


@pytest.mark.parametrize("n", [True, -1, 1.0, "3", None])
def test_a_sample_size_is_a_whole_number(n):
    with raises(InputError, field="n"):
        LocalQuantile(0.5, n)


@pytest.mark.parametrize("q", [True, "0.5", None, (0.5,)])
def test_a_threshold_is_a_number(q):
    with raises(InputError, field="threshold"):
        LocalQuantile(q, 3)


def test_an_empty_agent_has_no_finite_threshold():
    with raises(InputError, field="threshold"):
        LocalQuantile(0.5, 0)
    assert LocalQuantile(inf, 0).scores() == (inf,)


def test_what_a_summary_claims():
    assert LocalQuantile(0.5, 7).sizes() == (7,)
    assert (Summary().sizes(), Summary().scores()) == ((), ())


def test_outcomes_give_each_agent_its_threshold():
    assert SharedThreshold(0.5).threshold(4) == 0.5
    assert PerAgentThresholds((0.1, (0.2, 0.3))).threshold(1) == (0.2, 0.3)
    assert Local().threshold(0) is None
    assert Outcome().threshold(0) is None
    with pytest.raises(InputError):
        SharedThreshold(float("nan"))
    with pytest.raises(InputError):
        PerAgentThresholds((0.1, (0.2, -inf)))


ROUND = Round("ab", Choice("fedwq-cp"), Choice("aps"), (0.1,), ("a", "b"), 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "must be 3"),
        ({"alphas": ()}, "at least one"),
        ({"alphas": (0.1, 0.1)}, "each may occur once"),
        ({"alphas": (5.0,)}, "strictly between 0 and 1"),
        ({"agents": ()}, "at least one"),
        ({"agents": ("a", "a")}, "each name may occur once"),
        *(
            ({"agents": ("a", name)}, "letters of any script, digits")
            for name in (
                "../b",
                "",
                "b.",
                "-b",
                "b/c",
                "b c",
                "b\n",
                "\u0301b",
                "nul",
                "COM1.x",
                "xn--b-1",
                "e\u0301",
                "ä" * 33,
                "\ud800",
                "b\u202e",
            )
        ),
        ({"agents": ("köln", "KÖLN")}, "differ in capitals alone"),
        ({"agents": ("a", "x" * 65)}, "at most 64 bytes"),
        ({"quorum": 0}, "from 1 to 2"),
        ({"quorum": 3}, "from 1 to 2"),
        ({"quorum": 10**4000}, "got an integer of many digits"),
        ({"max_n": 0}, "at least 1"),
    ],
)
def test_bad_terms_are_refused(change, says):
    with pytest.raises(InputError, match=says):
        replace(ROUND, **change)


def test_a_setting_must_be_able_to_travel():
    assert Choice("x", {"a": (0.5, 0.5)}).settings == {"a": (0.5, 0.5)}
    with pytest.raises(InputError, match="cannot travel: list"):
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
    while not server.ended:
        for name, ask in server.asks().items():
            assert len(ask) < 500
            answer = agents[name].answer(ask if server.step else None)
            assert server.receive(answer, name) is None
        server.close_step()
    return server.release()


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


def test_thresholds_of_one_s_own_need_the_whole_release():
    whole = fw.calibrate({name: [0.1, 0.2] for name in NAMES}, method="fedwq-cp", alpha=0.5)
    each = replace(whole, outcomes=(PerAgentThresholds((0.5,) * len(NAMES)),))
    assert brief(each) == each.public()


def test_a_threshold_tells_its_margin():
    assert SharedThresholdWithin(0.5, 1e-6).threshold(None) == 0.5
    for margin in (-1e-9, inf, float("nan")):
        with pytest.raises(InputError, match="margin"):
            SharedThresholdWithin(0.5, margin)


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


def test_what_is_no_mapped_name_stays_as_it_is():
    assert agent_name("xn--\u00e4") == "xn--\u00e4"
    assert agent_name("xn--99999999") == "xn--99999999"
