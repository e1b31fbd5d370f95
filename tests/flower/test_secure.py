"""Secure rounds over an in-process grid: Flower's SecAgg+ itself, between ClientApps of ours."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import ndarray_to_bytes
from inprocess import InProcessGrid, lost, sites
from rounds import NAMES, QUICK, calibrations, events, terms

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError, QuorumError, RoundError
from fedwqcp.federation.audit import audit
from fedwqcp.federation.plan import Plan, new_id
from fedwqcp.federation.secure import SecureServer, secure_round
from fedwqcp.federation.transport.envelope import ASK, Request
from fedwqcp.federation.transport.flower import Timeouts, calibrate
from fedwqcp.federation.transport.flower.carrier import READY, write_request
from fedwqcp.federation.transport.flower.secagg import expand_seed
from fedwqcp.federation.transport.settings import secure_of
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import SharedThresholdWithin

RANGE = (-1.0, 2.0)
PATIENT = Timeouts(deadline=60.0, grace=60.0, poll=0.01)
FOUR = (*NAMES, "west")
STAGES = ("setup", "share_keys", "collect_masked_vectors", "unmask")
CONFIGS = "secaggplus_configs"


def data_of_four():
    """Four agents, so that one may be lost."""
    return {**calibrations(), "west": fw.Calibration(np.linspace(-0.9, 0.4, 30))}


def grid(folder, tamper=None, data=None):
    """Four nodes whose data are known to their app."""
    return sites(folder, data or data_of_four(), tamper)


def round_of_four(method="fedwq-cp", quorum=3, alphas=(0.2,), **settings):
    """The terms that several tests share."""
    return replace(terms(method, alphas=alphas, **settings), agents=FOUR, quorum=quorum)


def stage_of(message):
    """Which stage of SecAgg+ a message asks for."""
    configs = message.content.config_records.get(CONFIGS)
    return None if configs is None else configs.get("stage")


def at_stage(stage, node, change):
    """Tamper with one node's reply in one stage."""
    seen = {}

    def tamper(from_node, message, reply):
        if message.metadata.message_type.endswith("sum"):
            seen[from_node] = seen.get(from_node, -1) + 1
            if from_node == node and STAGES[seen[from_node] % 4] == stage:
                return change(message, reply)
        return [reply]

    return tamper


def plain_of(names, method="fedwq-cp", **settings):
    """The same round without masks."""
    data = {name: cal.scores for name, cal in data_of_four().items() if name in names}
    return fw.calibrate(data, method=fw.methods.get(method, **settings), alpha=0.2).threshold(
        "north"
    )


@pytest.mark.parametrize(
    ("method", "settings", "sums"),
    [("fedwq-cp", {}, 1), ("fedavgq-cp", {"overflow": "clip"}, 1), ("fcp", {"probes": 4095}, 7)],
)
def test_the_threshold_is_the_plain_one_to_the_margin(method, settings, sums, tmp_path):
    round = round_of_four(method, **settings)
    found = calibrate(
        grid(tmp_path), round, timeouts=QUICK, secure=RANGE, record=tmp_path / "record"
    )
    (outcome,) = found.release.outcomes
    plain = plain_of(FOUR, method, **settings)
    assert plain <= outcome.value <= plain + outcome.margin <= plain + 1e-6
    assert found.release.rounds == 1 + 4 * sums
    assert (found.release.used, found.stored, found.release.received) == (FOUR, FOUR, {})
    assert audit(tmp_path / "record").matches
    assert fw.load(tmp_path / "record" / "record.json") == found.release


@pytest.mark.parametrize("stage", STAGES)
def test_an_agent_lost_at_any_stage_leaves_one_set_for_both_sums(stage, tmp_path):
    tamper = at_stage(stage, 103, lambda message, _: [lost(message)])
    found = calibrate(grid(tmp_path, tamper), round_of_four(), timeouts=QUICK, secure=RANGE)
    used = FOUR if stage == "unmask" else FOUR[:3]  # its masked words were there by then
    plain = plain_of(used)
    (outcome,) = found.release.outcomes
    assert found.release.used == used
    assert plain <= outcome.value <= plain + outcome.margin
    assert set(found.release.missing) == set(FOUR) - set(used)


@pytest.mark.parametrize("stage", ["setup", "collect_masked_vectors"])
def test_without_a_quorum_nothing_is_unmasked(stage, tmp_path):
    tamper = at_stage(stage, 103, lambda message, _: [lost(message)])
    network = grid(tmp_path, tamper)
    with pytest.raises(QuorumError, match="needs 4"):
        calibrate(network, round_of_four(quorum=4), timeouts=QUICK, secure=RANGE)
    assert "unmask" not in {stage_of(message) for message in network.sent}


@pytest.mark.parametrize("overflow", ["propagate", "clip"])
def test_an_agent_outside_the_range_says_so_under_the_mask(overflow, tmp_path):
    round = round_of_four(overflow=overflow)
    found = calibrate(
        grid(tmp_path), round, timeouts=QUICK, secure=(0.3, 1.0), record=tmp_path / "record"
    )
    assert found.release.outcomes == (SharedThresholdWithin(np.inf, 0.0),)
    assert found.release.used == FOUR, "nobody learns that it was west"
    note = (tmp_path / "103" / "last-error.txt").read_text()
    assert "threshold: " in note
    assert audit(tmp_path / "record").matches


def ready(network, round, node=103):
    """What a site answers to the question whether it can take part, without the nonce."""
    body = SecureServer(Plan.of(round)).ask()
    message = write_request(node, READY, Request("0" * 32, encode(round), body, 60.0), 60.0, None)
    (reply,) = network.send_and_receive([message])
    return {key: value for key, value in reply.content["fedwqcp"].items() if key != "nonce"}


def questions():
    """Forty ranges, and seventeen largest sizes, as a server asks that searches for both."""
    plain = round_of_four()
    for at in range(40):
        high = -0.99 + 2.0 * at / 40
        yield secure_round(replace(plain, id=new_id()), (-1.0, high))
        yield secure_round(plain, (-1.0, high))  # other terms under one id
    for at in range(17):
        yield secure_round(replace(plain, id=new_id(), max_n=2**at), RANGE)
        yield secure_round(replace(plain, max_n=2**at), RANGE)


@pytest.mark.parametrize("folder", [True, False], ids=["with a folder", "without"])
def test_a_server_that_asks_forty_times_learns_nothing_of_a_site(folder, tmp_path):
    """Whatever the data are, the replies are the same, so they tell nothing about them."""
    asked = list(questions())
    replies = []
    for at, scores in enumerate([np.linspace(-0.9, 0.4, 30), np.linspace(0.3, 0.9, 700)]):
        network = grid(tmp_path / str(at), data={**data_of_four(), "west": fw.Calibration(scores)})
        if not folder:
            network.contexts[103].node_config["folder"] = ""
        replies.append([ready(network, round) for round in asked])
    assert replies[0] == replies[1]
    new_ids = [
        reply for round, reply in zip(asked, replies[0], strict=True) if round.id != asked[1].id
    ]
    assert len(new_ids) == 57
    assert all(reply == {"agent": "west", "status": "ok", "body": b""} for reply in new_ids)
    if folder:
        others = [
            r["status"] for round, r in zip(asked, replies[0], strict=True) if round == asked[1]
        ]
        assert others == ["ok"]
        assert sum(reply["status"] == "round" for reply in replies[0]) == 56


def test_a_site_says_the_same_when_it_is_asked_again(tmp_path):
    data = {**data_of_four(), "west": fw.Calibration([[0.1, 0.2]] * 30)}  # two columns
    network = grid(tmp_path, data=data)
    round = secure_round(round_of_four(), RANGE)
    assert ready(network, round)["status"] == "data"
    data["west"] = data_of_four()["west"]
    assert ready(network, round)["status"] == "data", "nothing is learned by asking again"
    assert ready(network, replace(round, id=new_id()))["status"] == "ok"


def test_a_plain_question_in_a_secure_round_gets_no_answer(tmp_path):
    network = grid(tmp_path)
    round = secure_round(round_of_four(), RANGE)
    message = write_request(103, ASK, Request("0" * 32, encode(round), b"", 60.0), 60.0, None)
    (reply,) = network.send_and_receive([message])
    assert (reply.content["fedwqcp"]["status"], reply.content["fedwqcp"]["body"]) == ("secure", b"")
    message = write_request(
        103, READY, Request("0" * 32, encode(round_of_four()), b"", 60.0), 60.0, None
    )
    (reply,) = network.send_and_receive([message])
    assert reply.content["fedwqcp"]["status"] == "terms"


def test_masks_use_whole_seeds():
    seed = bytes(range(32))
    swapped = seed[4:8] + seed[:4] + seed[8:]
    (a, b), (c,) = expand_seed(seed, 2**32, [(1,), (2, 2)]), expand_seed(swapped, 2**32, [(1,)])
    assert (a.shape, b.shape) == ((1,), (2, 2))
    assert a != c
    with pytest.raises(InputError, match="modulo 2"):
        expand_seed(seed, 2**16, [(1,)])


def test_rounds_in_threads_keep_their_masks_and_flower_keeps_its_own(tmp_path):
    from flwr.client.mod import secaggplus_mod
    from flwr.server.workflow import SecAggPlusWorkflow

    users = (secaggplus_mod.__globals__, SecAggPlusWorkflow.__call__.__globals__)
    before = {user["pseudo_rand_gen"] for user in users}
    meet = threading.Barrier(2)
    seen = set()

    def both_inside(node, message, reply):
        """Let each round wait in the middle of a sum until the other one is there too."""
        if stage_of(message) == "collect_masked_vectors" and node == 100:
            meet.wait(20)
        seen.update(user["pseudo_rand_gen"] for user in users)
        return [reply]

    def held(at):
        where = grid(tmp_path / str(at), both_inside)
        return calibrate(where, round_of_four(quorum=4), timeouts=PATIENT, secure=RANGE).release

    with ThreadPoolExecutor(2) as threads:
        releases = list(threads.map(held, range(2)))
    plain = plain_of(FOUR)
    for release in releases:
        assert plain <= release.outcomes[0].value <= plain + release.outcomes[0].margin
    assert seen == before, "Flower's own SecAgg+ is left alone, also while we add"


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("setup", {"threshold": 2}),
        ("setup", {"share_num": 3}),
        ("setup", {"sample_num": 2}),
        ("setup", {"target_range": 2**20}),
        ("setup", {"clipping_range": 1.0}),
        ("setup", {"mod_range": 2**31}),
        ("collect_masked_vectors", {"srcs": [101], "ctxts": [b""]}),
        ("unmask", {"active_nids": [100, 101]}),
        ("unmask", {"active_nids": [100, 101, 102, 103], "dead_nids": [103]}),
    ],
)
def test_a_site_refuses_a_stage_that_would_hide_less(stage, change, tmp_path):
    class Curious(InProcessGrid):
        def push_messages(self, messages):
            messages = list(messages)
            for message in messages:
                if stage_of(message) == stage:
                    message.content.config_records[CONFIGS].update(change)
            return super().push_messages(messages)

    honest = grid(tmp_path)
    curious = Curious(
        honest.apps,
        {node: dict(context.node_config) for node, context in honest.contexts.items()},
    )
    with pytest.raises(QuorumError):
        calibrate(curious, round_of_four(), timeouts=QUICK, secure=RANGE)
    note = (tmp_path / "100" / "last-error.txt").read_text()
    assert "masked sum" in note


def staged(change):
    """Tamper with the fields of a stage; None for a field leaves it out."""

    def changed(message, reply):
        fields = {**reply.content.config_records[CONFIGS], **change(reply)}
        fields = {key: value for key, value in fields.items() if value is not None}
        return [
            Message(RecordDict({**reply.content, CONFIGS: ConfigRecord(fields)}), reply_to=message)
        ]

    return changed


def without(*names):
    """Tamper with a reply: leave whole records out."""

    def changed(message, reply):
        kept = {name: part for name, part in reply.content.items() if name not in names}
        return [Message(RecordDict(kept), reply_to=message)]

    return changed


def field(reply, name):
    """One field of a stage's reply."""
    return reply.content.config_records[CONFIGS][name]


def public_key(curve):
    """A public key as SecAgg+ sends it."""
    return (
        ec.generate_private_key(curve)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


P256, OTHER = public_key(ec.SECP256R1()), public_key(ec.SECP384R1())
HUGE = ndarray_to_bytes(np.zeros(4, dtype=np.int64)).replace(b"(4,)", b"(1000000000000,)")
HOSTILE = {
    "setup": [
        without(CONFIGS),
        staged(lambda r: {"pk1": None}),
        staged(lambda r: {"pk1": 7}),
        staged(lambda r: {"pk1": ["a"], "pk2": [1.5]}),
        staged(lambda r: {"pk1": b""}),
        staged(lambda r: {"pk1": field(r, "pk1")[:-40]}),
        staged(lambda r: {"pk2": bytes(reversed(field(r, "pk2")))}),
        staged(lambda r: {"pk1": field(r, "pk2")}),
        staged(lambda r: {"pk1": P256}),
        staged(lambda r: {"more": 1}),
    ],
    "share_keys": [
        without(CONFIGS),
        staged(lambda r: {"dsts": None}),
        staged(lambda r: {"dsts": 100}),
        staged(lambda r: {"dsts": [1.0, 2.0, 3.0]}),
        staged(lambda r: {"dsts": [True, True, True]}),
        staged(lambda r: {"dsts": [100, 101]}),
        staged(lambda r: {"dsts": [100, 101, 101]}),
        staged(lambda r: {"dsts": [100, 101, 103]}),
        staged(lambda r: {"ctxts": None}),
        staged(lambda r: {"ctxts": field(r, "ctxts")[:2]}),
        staged(lambda r: {"ctxts": ["a", "b", "c"]}),
        staged(lambda r: {"ctxts": [b"x" * 10**6] * 3}),
        staged(lambda r: {"ctxts": [b"x"] * 3}),  # every other site says so
        staged(lambda r: {"ctxts": [*field(r, "ctxts")[1:], field(r, "ctxts")[0]]}),
    ],
    "collect_masked_vectors": [
        without(CONFIGS),
        staged(lambda r: {"masked_params": None}),
        staged(lambda r: {"masked_params": []}),
        staged(lambda r: {"masked_params": 5}),
        staged(lambda r: {"masked_params": ["a", "b"]}),
        staged(lambda r: {"masked_params": field(r, "masked_params")[::-1]}),
        staged(lambda r: {"masked_params": [field(r, "masked_params")[0], b"not an array"]}),
        staged(lambda r: {"masked_params": [field(r, "masked_params")[0], HUGE]}),
        staged(lambda r: {"masked_params": [ndarray_to_bytes(np.zeros(n)) for n in (1, 4)]}),
        staged(lambda r: {"masked_params": [ndarray_to_bytes(np.full(n, -1)) for n in (1, 4)]}),
    ],
    "unmask": [
        without(CONFIGS),
        staged(lambda r: {"nids": None}),
        staged(lambda r: {"nids": [1, 2, 3, 4]}),
        staged(lambda r: {"nids": [1.0]}),
        staged(lambda r: {"nids": field(r, "nids")[::-1]}),
        staged(lambda r: {"shares": None}),
        staged(lambda r: {"shares": field(r, "shares")[:3]}),
        staged(lambda r: {"shares": [b""] * 4}),
        staged(lambda r: {"shares": [share[:-1] for share in field(r, "shares")]}),
        staged(lambda r: {"shares": [share + b"0" * 16 for share in field(r, "shares")]}),
        staged(lambda r: {"shares": ["a"] * 4}),
    ],
}
CASES = [(stage, at) for stage, changes in HOSTILE.items() for at in range(len(changes))]


@pytest.mark.parametrize(("stage", "at"), CASES)
def test_a_malformed_stage_refuses_its_site_and_no_other(stage, at, tmp_path):
    tamper = at_stage(stage, 103, HOSTILE[stage][at])
    record = tmp_path / "record"
    found = calibrate(
        grid(tmp_path, tamper), round_of_four(), timeouts=QUICK, secure=RANGE, record=record
    )
    used = FOUR if stage == "unmask" else FOUR[:3]  # its masked words were there by then
    plain = plain_of(used)
    (outcome,) = found.release.outcomes
    assert found.release.used == used
    assert plain <= outcome.value <= plain + outcome.margin
    refused = [line for line in events(record) if line["event"] == "refused"]
    assert {line["agent"] for line in refused} == {"west"}
    assert all(line["reason"].startswith("malformed: ") for line in refused)
    assert audit(record).matches


def test_sites_with_the_same_keys_are_refused_and_no_other(tmp_path):
    keys = {}

    def copied(message, reply):
        keys.setdefault("first", dict(reply.content.config_records[CONFIGS]))
        return staged(lambda r: keys["first"])(message, reply)

    one, two = (at_stage("setup", node, copied) for node in (102, 103))

    def tamper(node, message, reply):
        return one(node, message, reply) if node == 102 else two(node, message, reply)

    data = {**data_of_four(), "centre": fw.Calibration(np.linspace(0.0, 0.5, 20))}
    round = replace(round_of_four(), agents=tuple(data))
    found = calibrate(grid(tmp_path, tamper, data), round, timeouts=QUICK, secure=RANGE)
    assert found.release.used == ("north", "south", "centre")
    assert set(found.release.refused) == {"east", "west"}


def test_a_dispute_that_nobody_can_settle_ends_the_round_without_blame(tmp_path):
    def for_one(reply):
        at = field(reply, "dsts").index(100)
        return {"ctxts": [b"x" if i == at else c for i, c in enumerate(field(reply, "ctxts"))]}

    def falsely(message, reply):
        fields = {**reply.content["fedwqcp"], "status": "shares", "body": b"[103]"}
        return [Message(RecordDict({"fedwqcp": ConfigRecord(fields)}), reply_to=message)]

    for at, tamper in enumerate(
        [at_stage("share_keys", 103, staged(for_one)), at_stage(STAGES[2], 100, falsely)]
    ):
        record = tmp_path / f"record-{at}"
        network = grid(tmp_path / str(at), tamper)
        with pytest.raises(RoundError, match=r"north .* west"):
            calibrate(network, round_of_four(), timeouts=QUICK, secure=RANGE, record=record)
        assert events(record)[-1]["event"] == "failed"
        assert "refused" not in {line["event"] for line in events(record)}
        assert "unmask" not in {stage_of(message) for message in network.sent}


def test_a_site_that_accuses_most_others_is_the_one_that_is_left_out(tmp_path):
    def falsely(message, reply):
        fields = {**reply.content["fedwqcp"], "status": "shares", "body": b"[101, 102, 103]"}
        return [Message(RecordDict({"fedwqcp": ConfigRecord(fields)}), reply_to=message)]

    tamper = at_stage(STAGES[2], 100, falsely)
    found = calibrate(grid(tmp_path, tamper), round_of_four(), timeouts=QUICK, secure=RANGE)
    assert found.release.used == FOUR[1:]
    assert list(found.release.refused) == ["north"]


@pytest.mark.parametrize("accused", [b"", b"103", b"[]", b"[100]", b"[7]", b'["103"]', b"[" * 9999])
def test_an_accusation_must_name_sites_of_the_sum(accused, tmp_path):
    def falsely(message, reply):
        fields = {**reply.content["fedwqcp"], "status": "shares", "body": accused}
        return [Message(RecordDict({"fedwqcp": ConfigRecord(fields)}), reply_to=message)]

    tamper = at_stage(STAGES[2], 100, falsely)
    found = calibrate(grid(tmp_path, tamper), round_of_four(), timeouts=QUICK, secure=RANGE)
    assert list(found.release.refused) == ["north"]


def flipped(data, at):
    """Bytes with one of them changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("unmask", lambda r: {"shares": [flipped(s, 10) for s in field(r, "shares")]}),
        ("unmask", lambda r: {"shares": [flipped(s, 51) for s in field(r, "shares")]}),
        ("unmask", lambda r: {"shares": [flipped(s, 0) for s in field(r, "shares")]}),
        ("setup", lambda r: {"pk1": OTHER}),  # it masks with another key than it announced
    ],
    ids=["share", "padding", "index", "key"],
)
def test_masks_that_do_not_cancel_release_nothing_and_blame_nobody(stage, change, tmp_path):
    tamper = at_stage(stage, 103, staged(change))
    record = tmp_path / "record"
    with pytest.raises(RoundError, match=r"masks: |needs 4") as error:
        calibrate(
            grid(tmp_path, tamper),
            round_of_four(quorum=4),
            timeouts=QUICK,
            secure=RANGE,
            record=record,
        )
    assert events(record)[-1]["event"] == "failed"
    assert {line["agent"] for line in events(record) if line["event"] == "refused"} <= {"west"}
    assert "internal" not in str(error.value)
    assert not (record / "release.json").exists()


def test_a_round_that_cannot_be_secure_says_so_before_it_begins(tmp_path):
    with pytest.raises(InputError):
        calibrate(
            grid(tmp_path), round_of_four("fedcp-qq"), secure=RANGE, record=tmp_path / "record"
        )
    assert not (tmp_path / "record").exists()


def test_the_switch_in_a_run_configuration():
    assert secure_of({}) is False
    assert secure_of({"secure": True}) is True
    assert secure_of({"secure": True, "score-low": -3, "score-high": 40.0}) == (-3.0, 40.0)
    for wrong in ({"secure": "yes"}, {"score-low": "0"}, {"secure": True, "score-high": 10**400}):
        with pytest.raises(InputError):
            secure_of(wrong)
