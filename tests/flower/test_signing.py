"""Signed answers over Flower: kept at the site, checked by the server and by an audit."""

from __future__ import annotations

import json

import pytest
from inprocess import sites, with_fields
from rounds import NAMES, QUICK, calibrations, terms

from changed import replace
from fedwqcp.errors import InputError
from fedwqcp.federation.audit import audit
from fedwqcp.federation.signing import new_key
from fedwqcp.federation.transport.flower import calibrate
from fedwqcp.federation.transport.settings import round_of


@pytest.fixture
def round(tmp_path):
    """A round that names a key for each of three agents."""
    keys = {name: new_key(tmp_path / f"{name}.pem") for name in NAMES}
    return replace(terms("fcp", quorum=2), keys=keys)


def grid(folder, tamper=None, more=(), **own):
    """A node for each agent with its key, and more that call themselves as they like."""
    names = (*NAMES, *more)
    keys = {name: {"sign-key": str(folder / f"{name}.pem"), **own.get(name, {})} for name in names}
    options = {"names": names, "own": keys, "allow-samples": True}
    return sites(folder, calibrations(), tamper, **options)


def test_every_step_is_signed_kept_and_audited(round, tmp_path):
    record = tmp_path / "record"
    release = calibrate(grid(tmp_path), round, timeouts=QUICK, record=record).release
    assert release.used == NAMES
    assert {len(held) for held in release.signatures.values()} == {release.rounds}
    assert release.rounds > 1
    kept = tmp_path / "100" / "rounds" / round.id
    for step in range(release.rounds):
        sent = (kept / f"step-{step}.json").read_bytes()
        assert sent == (record / "answers" / f"step-{step}" / "north.json").read_bytes()
        assert json.loads(sent)["signature"] == release.signatures["north"][step]
    assert audit(record).matches


def changed(node, change):
    """Let one node's answers be changed on the way."""

    def tamper(from_node, message, reply):
        fields = dict(reply.content["fedwqcp"])
        if from_node != node or not fields["body"].startswith(b"{"):
            return [reply]
        fields["body"] = json.dumps(change(json.loads(fields["body"]))).encode()
        return [with_fields(message, reply, body=fields["body"])]

    return tamper


@pytest.mark.parametrize("bound", [True, False])
def test_an_answer_that_is_changed_on_the_way_does_not_count(bound, round, tmp_path):
    def false_n(answer):
        answer["answers"][0]["n"] = 1000
        return answer

    nodes = {name: 100 + at for at, name in enumerate(NAMES)} if bound else None
    network = grid(tmp_path, changed(100, false_n))
    found = calibrate(network, round, timeouts=QUICK, nodes=nodes)
    assert found.release.used == ("south", "east")
    reason = found.release.refused["north"] if bound else found.unknown_nodes[100]
    assert reason.startswith("signature")


def test_a_node_without_the_key_cannot_take_a_name_or_block_it(round, tmp_path):
    new_key(tmp_path / "stranger.pem")
    network = grid(tmp_path, more=("north",))
    network.contexts[103].node_config["sign-key"] = str(tmp_path / "stranger.pem")
    found = calibrate(network, round, timeouts=QUICK)
    assert found.release.used == NAMES
    assert found.unknown_nodes[103].startswith(
        "data"
    )  # it refuses by itself: the key is not its own


def test_keys_come_from_the_run_configuration(round):
    said = ",".join(f"{name}={key}" for name, key in round.keys.items())
    assert round_of({"agents": ",".join(NAMES), "keys": said}).keys == round.keys
    with pytest.raises(InputError):
        round_of({"agents": ",".join(NAMES), "keys": f"{said},north=00"})
    with pytest.raises(InputError):
        round_of({"agents": ",".join(NAMES), "keys": "north,south,east"})
