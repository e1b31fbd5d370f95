"""A long roster travels to agents as a number and a digest."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest

import fedwqcp as fw
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import kinds_of
from fedwqcp.federation.server import Server
from fedwqcp.wire.codec import brief, decode, encode, terms
from fedwqcp.wire.payload import ToEach
from fedwqcp.wire.release import Release
from fedwqcp.wire.roster import LONG, Census, Roster
from fedwqcp.wire.round import Choice, Round

NAMES = tuple(f"agent-{i}" for i in range(LONG + 1))


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
    assert sent == replace(round, agents=(), roster=Roster(257, sha256(text).hexdigest()))
    assert decode(encode(sent), Round) == sent
    assert len(encode(sent)) < 500
    assert terms(sent) == terms(round)
    assert terms(replace(round, agents=(*NAMES[:-1], "other"))) != terms(round)
    assert sent.expects("anyone"), "only the server knows who is in it"


def test_names_and_what_stands_for_them_exclude_each_other():
    with pytest.raises(InputError, match="roster: stands for the names"):
        replace(round_of(NAMES), roster=Roster(257, "0" * 64))
    with pytest.raises(InputError, match="quorum: must be from 1 to 3, the number of agents"):
        replace(round_of(NAMES).brief(), roster=Roster(3, "0" * 64))


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
            assert server.receive(answer, name, name) is None
        server.close_step()
    return server.release()


@pytest.mark.parametrize("method", ["fedwq-cp", "fedcp-qq"])
def test_the_release_that_agents_get_counts_its_agents(method):
    whole = released(method)
    sent = brief(whole)
    digest = sha256(encode(whole.public())).hexdigest()
    assert (sent.census, sent.agents) == (Census(257, 0, 0, digest), ())
    read = decode(encode(sent), Release, kinds_of(fw.methods.find(method)))
    assert read == sent
    assert len(encode(sent)) < 1500
    assert read.threshold("agent-3") == whole.threshold("agent-3")


def test_thresholds_of_one_s_own_need_the_whole_release():
    whole = fw.calibrate({name: [0.1, 0.2] for name in NAMES}, method="fedwq-cp", alpha=0.5)
    each = replace(whole, outcomes=(ToEach((0.5,) * len(NAMES)),))
    assert brief(each) == each.public()
