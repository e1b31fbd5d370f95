"""Rounds over an in-process grid: the same release as without Flower, and every fault of values."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from inprocess import InProcessGrid, lost, sites, with_fields
from rounds import NAMES, QUICK, calibrations, events, terms

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError, QuorumError, RoundError
from fedwqcp.federation.audit import audit
from fedwqcp.federation.transport.flower import calibrate, calibrate_as, server_app
from fedwqcp.wire.codec import encode

ALL = {"max-share": 1.0}  # small samples, of which counts tell every score


def grid(folder, tamper=None, data=None, **options):
    """Three nodes whose data are known to their app."""
    return sites(folder, data or calibrations(), tamper, **options)


def only(node, change, action="ask"):
    """Tamper with the replies of one node to one kind of question."""

    def tamper(from_node, message, reply):
        if from_node == node and message.metadata.message_type.endswith(action):
            return change(message, reply)
        return [reply]

    return tamper


def test_what_left_is_kept_at_the_site_byte_for_byte(tmp_path):
    round = terms("fcp", sketch="bisection")
    where = grid(tmp_path, **ALL)
    release = calibrate(where, round, timeouts=QUICK, record=tmp_path / "record").release
    assert release.rounds > 1
    for node, name in zip((100, 101, 102), NAMES, strict=True):
        kept = tmp_path / str(node) / "rounds" / round.id
        sent = [kept / f"step-{step}.json" for step in range(release.rounds)]
        assert sum(len(path.read_bytes()) for path in sent) == release.bytes_up(name)
        assert (kept / "round.json").read_bytes() == encode(round)
        stored = fw.load(tmp_path / str(node) / "release.json")
        assert stored == release.public()
        seen = tmp_path / "record" / "answers" / "step-1" / f"{name}.json"
        assert seen.read_bytes() == sent[1].read_bytes()


def test_only_the_declared_fields_leave(tmp_path):
    replies = []
    calibrate(grid(tmp_path, lambda n, m, r: replies.append(r) or [r]), terms(), timeouts=QUICK)
    for reply in replies:
        assert set(reply.content) == {"fedwqcp"}
        assert set(reply.content["fedwqcp"]) == {"nonce", "agent", "status", "body"}
    nonces = [reply.content["fedwqcp"]["nonce"] for reply in replies]
    assert len(set(nonces)) == len(nonces)


def test_a_site_whose_app_fails_is_asked_once(tmp_path):
    failed = lambda message, _: [Message(Error(2, "raised"), reply_to=message)]  # noqa: E731
    where = grid(tmp_path, only(101, failed))
    where.get_nodes = lambda: [NodeInfo(node_id=node, name="ward") for node in where.contexts]
    found = calibrate(where, terms(quorum=2), timeouts=QUICK)
    assert found.release.missing == ("south",)
    assert found.unknown_nodes[101].startswith("ward: engine: ")
    asked = [m for m in where.sent if m.metadata.message_type.endswith("ask")]
    assert len(asked) == len(NAMES)


def test_a_site_for_secure_rounds_alone_answers_no_other(tmp_path):
    where = grid(tmp_path, **{"secure-only": True})
    with pytest.raises(QuorumError, match="secure: "):
        calibrate(where, terms(), timeouts=QUICK)
    assert not list(tmp_path.glob("*/rounds"))
    found = calibrate(where, terms(), timeouts=QUICK, secure=(0.0, 1.0))
    assert found.release.used == NAMES
    with pytest.raises(QuorumError, match="secure: "):  # nor the same round once more, in the clear
        calibrate(where, replace(found.release.round, secure=None), timeouts=QUICK)


def test_the_text_of_an_error_stays_at_the_site(tmp_path):
    def fails(context):
        if context.node_config["agent"] == "south":
            raise RuntimeError("patient Miller, score 0.77123")
        return calibrations()[context.node_config["agent"]]

    replies = []
    where = grid(tmp_path, lambda n, m, r: replies.append(r) or [r], outputs=fails)
    found = calibrate(where, terms(quorum=2), timeouts=QUICK, record=tmp_path / "record")
    assert found.release.refused["south"].startswith("failed: ")
    everything = str([dict(r.content["fedwqcp"]) for r in replies]) + str(found)
    everything += (tmp_path / "record" / "log.jsonl").read_text()
    assert "Miller" not in everything
    assert "77123" not in everything
    note = (tmp_path / "101" / "last-error.txt").read_text()
    assert "RuntimeError" in note
    assert "Miller" not in note


def test_the_model_reaches_the_function_of_the_site(tmp_path):
    seen = {}

    def outputs(context):
        name = context.node_config["agent"]
        seen[name] = context.state["fedwqcp.model"].to_numpy_ndarrays()[0]
        return calibrations()[name]

    model = ArrayRecord([np.arange(3.0)])
    calibrate(grid(tmp_path, outputs=outputs), terms(), timeouts=QUICK, model=model)
    assert all((seen[name] == np.arange(3.0)).all() for name in NAMES)


def record(message, reply):
    """A reply with a record of another kind."""
    return Message(RecordDict({"a": MetricRecord({"q": 1.0})}), reply_to=message)


HOSTILE = {
    "another nonce": ({"nonce": "0" * 32}, "nonce"),
    "a number as nonce": ({"nonce": 7}, "nonce"),
    "bytes as nonce": ({"nonce": b"0" * 32}, "nonce"),
    "half a character": ({"nonce": "\ud800"}, "nonce"),
    "one more field": ({"more": 1}, "malformed"),
    "words as status": ({"status": "patient 7 has a fever"}, "malformed"),
    "a list as status": ({"status": ["ok"]}, "malformed"),
    "a number as status": ({"status": 1.5}, "malformed"),
    "true as status": ({"status": True}, "malformed"),
    "what the server alone says": ({"status": "engine"}, "malformed"),
    "text as body": ({"body": "text"}, "malformed"),
    "no name": ({"agent": "", "status": "ok"}, "malformed"),
    "a long name": ({"agent": "x" * 65}, "malformed"),
    "a list of names": ({"agent": ["south"]}, "malformed"),
    "a record of another kind": (record, "malformed"),
    "a lost node": (lambda message, _: lost(message), "engine"),
}


@pytest.mark.parametrize("named", [True, False], ids=["named nodes", "free names"])
@pytest.mark.parametrize("fault", HOSTILE)
def test_a_hostile_reply_refuses_itself_and_nobody_else(fault, named, tmp_path):
    change, code = HOSTILE[fault]
    nodes = {"north": 100, "south": 101, "east": 102} if named else None
    changed = change if callable(change) else lambda m, r: with_fields(m, r, **change)
    where = grid(tmp_path, only(101, lambda m, r: [changed(m, r)]))
    found = calibrate(
        where, terms(quorum=2), timeouts=QUICK, nodes=nodes, record=tmp_path / "record"
    )
    assert found.release.used == ("north", "east")
    assert "fever" not in str(found)
    assert audit(tmp_path / "record").matches
    told = [line["reason"] for line in events(tmp_path / "record") if line.get("node") == "101"]
    assert told
    assert all(reason.startswith(code) for reason in told)
    if named:
        assert [*found.release.refused, *found.release.missing] == ["south"]


def test_a_node_acknowledges_for_no_agent_but_its_own(tmp_path):
    def tamper(node, message, reply):
        if node == 101:
            return []
        lies = node == 102 and message.metadata.message_type.endswith("release")
        return [with_fields(message, reply, agent="south")] if lies else [reply]

    nodes = {"north": 100, "south": 101, "east": 102}
    found = calibrate(grid(tmp_path, tamper), terms(quorum=2), timeouts=QUICK, nodes=nodes)
    assert found.release.missing == ("south",)
    assert found.stored == ("north",)


class Stopped(InProcessGrid):
    """Raises where a reply to one kind of question is fetched."""

    def __init__(self, healthy, action, error):
        super().__init__(healthy.apps, {n: c.node_config for n, c in healthy.contexts.items()})
        self.action, self.error = action, error

    def pull_messages(self, message_ids):
        if self.sent and self.sent[-1].metadata.message_type.endswith(self.action):
            raise self.error
        return super().pull_messages(message_ids)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionError("score 0.77123"), "internal: ConnectionError"),
        (KeyboardInterrupt(), "interrupted: KeyboardInterrupt"),
        (SystemExit(0), "interrupted: SystemExit"),
    ],
)
def test_the_record_says_why_on_every_exit(error, reason, tmp_path, caplog):
    kind = RoundError if isinstance(error, Exception) else type(error)
    with pytest.raises(kind):
        calibrate(
            Stopped(grid(tmp_path), "ask", error),
            terms(),
            timeouts=QUICK,
            record=tmp_path / "first",
        )
    assert events(tmp_path / "first")[-1]["event"] == "failed"
    assert events(tmp_path / "first")[-1]["reason"] == reason
    with pytest.raises((kind, type(error))):
        calibrate(
            Stopped(grid(tmp_path / "b"), "release", error),
            terms(),
            timeouts=QUICK,
            record=tmp_path / "second",
        )
    assert events(tmp_path / "second")[-1] | {"previous": ""} == {
        "event": "stored",
        "agents": [],
        "reason": reason,
        "previous": "",
    }
    assert audit(tmp_path / "second").matches, "it was released before it was handed over"
    assert "77123" not in caplog.text


def test_a_round_that_fails_ends_in_one_line(caplog):
    """As Flower logs what a ServerApp raises."""
    log = logging.getLogger("flwr")
    log.error("%s raised an exception", "ServerApp", exc_info=QuorumError("too few"))
    log.error("%s raised an exception", "ServerApp", exc_info=ValueError("of another"))
    ours, other = caplog.records
    assert ours.getMessage().endswith("too few")
    assert ours.exc_info is None
    assert other.exc_info


def test_terms_that_are_refused_name_no_argument_of_python():
    config = {"agents": "a", "method": "fedwq-cp", "by": "group"}
    with pytest.raises(InputError) as refused:
        server_app()(None, Context(1, 1, {}, RecordDict(), config))
    with pytest.raises(InputError) as direct:
        calibrate_as(None, config)
    assert direct.value.cure[0] in str(direct.value)
    assert direct.value.cure[0] not in str(refused.value)


def test_a_flower_without_a_name_that_is_used_ends_in_one_line():
    broken = "import flwr.serverapp; del flwr.serverapp.Grid; import fedwqcp.federation.transport."
    command = (sys.executable, "-c", broken + "flower")
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert said.splitlines()[-1].startswith("fedwqcp.errors.InputError: flwr: ")
    assert version("flwr") in said.splitlines()[-1]
