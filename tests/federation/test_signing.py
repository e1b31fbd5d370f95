"""Signed answers: neither who carries an answer nor who keeps it can change or make one."""

from __future__ import annotations

import builtins
import json
import stat
from pathlib import Path

import pytest

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError, MissingExtraError, QuorumError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.plan import Plan, choose_method, choose_score
from fedwqcp.federation.secure import secure_round
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport import local
from fedwqcp.federation.transport.folder import write_answer
from fedwqcp.wire.codec import decode, encode
from fedwqcp.wire.messages import Answer, Ask, Choice, Round

pytest.importorskip("cryptography")
from fedwqcp.federation.signing import SigningKey, new_key

NAMES = ("north", "south", "east")
SCORES = {"north": [0.1, 0.2, 0.3, 0.4], "south": [0.2, 0.5, 0.6], "east": [0.3, 0.7, 0.9]}


@pytest.fixture
def keys(tmp_path):
    """A key for each of three agents."""
    for name in NAMES:
        new_key(tmp_path / f"{name}.pem")
    return {name: SigningKey(tmp_path / f"{name}.pem") for name in NAMES}


def terms(keys, method="fedwq-cp", id="r1", quorum=3, **settings):
    """A round that names the agents' keys."""
    return Round(
        id=id,
        method=choose_method(fw.methods.get(method, **settings)),
        score=choose_score("lac"),
        alphas=(0.4,),
        agents=NAMES,
        quorum=quorum,
        keys={name: key.public for name, key in keys.items()},
    )


def agent(round, name, keys, **options):
    """One agent that signs."""
    return Agent(
        name, round, fw.Calibration(SCORES[name]), sign_key=keys[name], limit=None, **options
    )


def answers(round, keys):
    """What all agents answer first."""
    return {name: agent(round, name, keys).answer() for name in NAMES}


@pytest.mark.parametrize("method", ["fedwq-cp", "fcp"])
def test_a_signed_round_gives_the_thresholds_of_an_unsigned_one(method, keys):
    round = terms(keys, method)
    release = local.run(Server(round), {name: agent(round, name, keys) for name in NAMES})
    plain = local.run(
        Server(replace(round, keys={})),
        {
            n: Agent(n, replace(round, keys={}), fw.Calibration(SCORES[n]), limit=None)
            for n in NAMES
        },
    )
    assert release.outcomes == plain.outcomes
    assert {name: len(held) for name, held in release.signatures.items()} == dict.fromkeys(
        NAMES, release.rounds
    )
    assert release.public().signatures == {}
    assert plain.signatures == {}


def refusal_of(round, data, agent="north"):
    """What a server says of an answer."""
    return Server(round).receive(data, agent)


CHANGES = {
    "threshold": lambda a: {**a, "answers": [{**a["answers"][0], "threshold": 0.99}]},
    "n": lambda a: {**a, "answers": [{**a["answers"][0], "n": 900}]},
    "nothing but a digit of the signature": lambda a: {
        **a,
        "signature": a["signature"][:-1] + ("0" if a["signature"][-1] != "0" else "1"),
    },
    "letters of the signature": lambda a: {**a, "signature": a["signature"].upper()},
    "a longer signature": lambda a: {**a, "signature": a["signature"] + "00"},
    "no hexadecimal digits": lambda a: {**a, "signature": "é" * 64},
    "no signature": lambda a: {k: v for k, v in a.items() if k != "signature"},
    "an empty signature": lambda a: {**a, "signature": ""},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_answer_is_refused(change, keys):
    round = terms(keys)
    honest = answers(round, keys)["north"]
    changed = json.dumps(change(json.loads(honest))).encode()
    assert refusal_of(round, honest) is None
    assert refusal_of(round, changed).field == "signature"


def test_every_byte_of_an_answer_is_covered(keys):
    round = terms(keys)
    honest = answers(round, keys)["north"]
    for at in range(len(honest) - 1):
        changed = honest[:at] + bytes([honest[at] ^ 1]) + honest[at + 1 :]
        assert refusal_of(round, changed) is not None, honest[at - 20 : at + 1]


def test_a_key_that_is_not_in_the_roster_signs_nothing(keys, tmp_path):
    new_key(tmp_path / "stranger.pem")
    stranger = SigningKey(tmp_path / "stranger.pem")
    round = terms(keys)
    plan = Plan.of(round)
    mine = decode(answers(round, keys)["north"], Answer, plan.kinds)
    assert refusal_of(round, encode(stranger.sign(mine, plan))).field == "signature"
    with pytest.raises(InputError):
        Agent("north", round, fw.Calibration(SCORES["north"]), sign_key=stranger)


def test_an_answer_cannot_be_used_in_another_round_or_step(keys):
    one, two = terms(keys, "fcp"), terms(keys, "fcp", id="r2")
    honest = decode(answers(one, keys)["north"], Answer, Plan.of(one).kinds)
    moved = replace(honest, round="r2", terms=Plan.of(two).terms)
    assert refusal_of(two, encode(moved)).field == "signature"
    server = Server(one)
    for name, data in answers(one, keys).items():
        server.receive(data, name)
    server.close_step()
    later = encode(replace(honest, step=1))
    assert server.receive(later, "north").field == "signature"


def test_an_answer_to_other_values_than_the_server_says_is_refused(keys):
    round = terms(keys, "fcp")
    sites = {name: agent(round, name, keys) for name in NAMES}
    server = Server(round)
    for name, site in sites.items():
        server.receive(site.answer(), name)
    server.close_step()
    honest = server.asks()["north"]
    (question,) = decode(honest, Ask, server.plan.kinds).questions
    other = replace(question, values=tuple(v * 2 if v > 0 else v for v in question.values))
    assert other != question
    signed = sites["north"].answer(encode(Ask(round.id, 1, (other,))))
    assert server.receive(signed, "north").field == "signature"
    fresh = agent(round, "north", keys)  # one agent answers a step once
    assert server.receive(fresh.answer(honest), "north") is None


def test_terms_with_the_same_short_digest_are_told_apart(keys, monkeypatch):
    """A server that finds two rounds of one short digest cannot move an answer between them."""
    monkeypatch.setattr("fedwqcp.federation.plan.terms", lambda _: "0" * 16)
    agreed, other = terms(keys), replace(terms(keys), quorum=1)
    data = answers(agreed, keys)["north"]
    assert refusal_of(agreed, data) is None
    assert refusal_of(other, data).field == "signature"


def test_a_round_that_needs_signatures_does_not_close_without_them(keys):
    round = terms(keys)
    server = Server(round)
    for name in NAMES:
        unsigned = Agent(name, replace(round, keys={}), fw.Calibration(SCORES[name])).answer()
        rebound = {**json.loads(unsigned), "terms": Plan.of(round).terms}
        refusal = server.receive(json.dumps(rebound).encode(), name)
        assert refusal.field == "signature"
    with pytest.raises(QuorumError, match="0 of 3"):
        server.close_step()


def test_a_site_with_a_key_answers_no_round_without_signatures(keys):
    downgraded = replace(terms(keys), keys={})
    with pytest.raises(InputError, match="takes unsigned answers"):
        agent(downgraded, "north", keys)
    with pytest.raises(InputError):
        Agent("north", terms(keys), fw.Calibration(SCORES["north"]))


def test_a_signature_that_nobody_asked_for_is_refused(keys):
    plain = replace(terms(keys), keys={})
    data = Agent("north", plain, fw.Calibration(SCORES["north"])).answer()
    signed = keys["north"].sign(decode(data, Answer, Plan.of(plain).kinds), Plan.of(plain))
    assert refusal_of(plain, encode(signed)).field == "signature"


def forgeries(round, keys):
    """What somebody without north's key can send in its name."""
    true = agent(round, "north", keys).answer()
    said = json.loads(true)
    unsigned = {key: value for key, value in said.items() if key != "signature"}
    more = [{**said["answers"][0], "n": 999}]
    for forged in (
        {**said, "answers": more},
        unsigned,
        {**said, "round": "r0"},
        {"agent": "north"},
    ):
        yield json.dumps(forged).encode()
    yield b"garbage"
    yield agent(round, "east", keys).answer().replace(b'"east"', b'"north"')


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("sender", ["north", Path("north.json")])
def test_a_forgery_makes_nobody_refused(keys, number, sender):
    round = terms(keys, quorum=2)
    server = Server(round)
    data = list(forgeries(round, keys))[number]
    assert server.receive(data, sender) is not None
    for name in ("south", "east"):
        assert server.receive(agent(round, name, keys).answer(), name) is None
    server.close_step()
    assert (server.release().missing, server.release().refused) == (("north",), {})


def test_a_signed_answer_that_cannot_be_is_refused_by_name(keys):
    round = replace(terms(keys, quorum=2), max_n=3)
    server = Server(round)
    signed = decode(agent(round, "south", keys).answer(), Answer, server.plan.kinds)
    (summary,) = signed.answers
    claim = replace(signed, agent="north", answers=(replace(summary, n=10**6),))
    false = encode(keys["north"].sign(claim, server.plan))
    assert server.receive(false, "north").field == "n"
    assert server.receive(b"garbage", "north") is not None
    for name in ("south", "east"):
        assert server.receive(agent(round, name, keys).answer(), name) is None
    server.close_step()
    assert list(server.release().refused) == ["north"]


def hidden(round, keys):
    """The round with the digest of a long roster, which names these keys, in place of its own."""
    many = tuple(f"a{i}" for i in range(300))
    named = {name: f"{at:04x}{7:060x}" for at, name in enumerate(many)}
    return replace(round, agents=(*many, *keys), keys={**named, **keys}, quorum=1).brief()


@pytest.mark.guarantee("SECURITY.md", "By files such a round is not answered")
@pytest.mark.parametrize("named", [True, False])
def test_by_files_no_round_is_answered_that_hides_its_roster(keys, named, tmp_path):
    own = keys["north"].public if named else "f" * 64
    side = agent(hidden(terms(keys), {"north": own}), "north", keys)
    with pytest.raises(InputError):
        write_answer(side, tmp_path / "north.json")
    unsigned = replace(terms(keys), keys={}, agents=tuple(f"a{i}" for i in range(300)), quorum=1)
    bare = Agent("north", unsigned.brief(), fw.Calibration(SCORES["north"]))
    with pytest.raises(InputError):
        write_answer(bare, tmp_path / "north.json")
    assert not (tmp_path / "north.json").exists()


@pytest.mark.guarantee("SECURITY.md", "a roster with another key cannot use that signature")
def test_what_is_signed_for_the_digest_of_one_roster_counts_in_no_other(keys):
    """A site asked under a roster that does not name its key gives nothing to one that does."""
    many = tuple(f"a{i}" for i in range(300))
    named = {name: f"{at:04x}{7:060x}" for at, name in enumerate(many)}
    honest = replace(
        terms(keys),
        agents=(*many, "north"),
        keys={**named, "north": keys["north"].public},
        quorum=1,
    )
    said = agent(hidden(terms(keys), {"north": "f" * 64}), "north", keys).answer()
    moved = replace(decode(said, Answer, Plan.of(honest).kinds), terms=Plan.of(honest).terms)
    assert refusal_of(honest, said).field == "terms"
    assert refusal_of(honest, encode(moved)).field == "signature"
    assert refusal_of(honest, agent(honest.brief(), "north", keys).answer()) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda k: {"north": k["north"]},
        lambda k: {**k, "west": "0" * 64},
        lambda k: {**k, "north": "ab"},
        lambda k: {**k, "north": k["south"]},
    ],
)
def test_keys_of_a_round_are_one_for_each_agent(change, keys):
    round = terms(keys)
    with pytest.raises(InputError):
        replace(round, keys=change(round.keys))
    with pytest.raises(InputError):
        secure_round(round)


def test_a_key_that_is_no_point_of_the_curve_checks_nothing(keys):
    round = terms(keys)
    broken = replace(round, keys={**round.keys, "north": "f" * 64})
    data = answers(round, keys)["north"]
    moved = replace(decode(data, Answer, Plan.of(round).kinds), terms=Plan.of(broken).terms)
    assert refusal_of(broken, encode(moved)).field == "signature"


def test_a_private_key_is_the_owner_s_alone_and_never_replaced(tmp_path):
    path = tmp_path / "site.pem"
    public = new_key(path)
    assert SigningKey(path).public == public
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(InputError, match="never replaced"):
        new_key(path)


@pytest.mark.parametrize("data", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_what_is_no_key_is_refused_without_its_text(data, tmp_path):
    path = tmp_path / "site.pem"
    path.write_bytes(data)
    with pytest.raises(InputError):
        SigningKey(path)


def test_without_the_extra_it_is_named(tmp_path, keys, monkeypatch):
    known = builtins.__import__

    def without(name, *args, **options):
        if name.startswith("cryptography"):
            raise ImportError(name)
        return known(name, *args, **options)

    round = terms(keys)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[sign\]"):
        new_key(tmp_path / "x.pem")
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[sign\]"):
        Server(round)
    Server(replace(round, keys={}))


@pytest.mark.parametrize("sign", [0, 1 << 255])
@pytest.mark.parametrize("y", [0, 1, -1, "eighth", "other eighth"])
def test_a_key_that_anyone_can_sign_for_is_refused_when_a_round_is_opened(y, sign):
    """Of the eight points of small order, by all their spellings; see `_has_small_order`."""
    eighth = int.from_bytes(
        bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
    )
    prime = 2**255 - 19
    place = {"eighth": eighth, "other eighth": -eighth}.get(y, y) % prime
    for spelt in {place, place + prime if place + prime < 2**255 else place}:
        weak = (spelt | sign).to_bytes(32, "little").hex()
        with pytest.raises(InputError) as error:
            Round(
                "r", Choice("fedwq-cp"), Choice("lac"), (0.1,), ("a", "b"), 2,
                keys={"a": weak, "b": "58" + "66" * 31},
            )  # fmt: skip
        assert error.value.field == "keys"
