"""What a site answers, keeps and refuses."""

from __future__ import annotations

import os
import time

import pytest
from flwr.app import Message, RecordDict
from inprocess import InProcessGrid
from rounds import calibrations, terms

import fedwqcp as fw
from changed import replace
from fedwqcp.federation.transport.envelope import ASK, RELEASE, Request
from fedwqcp.federation.transport.flower import client_app
from fedwqcp.federation.transport.flower.carrier import write_request
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import SharedThreshold

NORTH = {"agent": "north"}


def reply_to(action, ask, config, outputs=None, watchdog=False):
    """Status and body of one site's reply."""
    app = client_app(outputs or (lambda context: calibrations()["north"]), watchdog=watchdog)
    where = InProcessGrid({7: app}, {7: config})
    (message_id,) = where.push_messages([write_request(7, action, ask, 60.0, None)])
    (reply,) = where.pull_messages([message_id])
    fields = reply.content["fedwqcp"]
    assert fields["nonce"] == ask.nonce
    return fields["status"], fields["body"]


def first(round, seconds=20.0):
    """The first question of a round."""
    return Request("n", encode(round), b"", seconds)


@pytest.mark.parametrize("bad", ["../x", "a/b", "", "x" * 70])
def test_an_id_that_is_no_file_name_is_refused(tmp_path, bad):
    config = {**NORTH, "folder": str(tmp_path / "site")}
    assert reply_to(ASK, first(replace(terms(), id=bad)), config) == ("round", b"")
    assert not list(tmp_path.rglob("step-*.json"))


@pytest.mark.parametrize(
    ("ask", "config", "code"),
    [
        (Request("n", b"no round", b"", 9.0), NORTH, "terms"),
        (Request("n", encode(terms()), b"no question", 9.0), NORTH, "terms"),
        (first(terms()), {"agent": "elsewhere"}, "roster"),
        (first(terms()), {"agent": "bad name"}, "failed"),
        (first(terms()), {}, "failed"),
        (first(replace(terms(), max_n=3)), NORTH, "size"),
    ],
)
def test_a_refusal_is_a_fixed_code(ask, config, code):
    assert reply_to(ASK, ask, {**config, "folder": ""}) == (code, b"")


def test_a_message_that_is_no_question_gets_a_code():
    app = client_app(watchdog=False)
    where = InProcessGrid({7: app}, {7: NORTH})
    question = Message(RecordDict(), dst_node_id=7, message_type=f"query.{ASK}")
    where.push_messages([question])
    assert where.replies[0].content["fedwqcp"]["status"] == "failed"


def test_the_watchdog_ends_what_hangs_and_the_site_stays_usable():
    config = {**NORTH, "folder": ""}

    def hangs(context):
        time.sleep(600)

    assert reply_to(ASK, first(terms(), 0.5), config, hangs, watchdog=True) == ("deadline", b"")
    limited = {**config, "max-seconds": 0.5}
    assert reply_to(ASK, first(terms(), 500.0), limited, hangs, watchdog=True)[0] == "deadline"
    dies = reply_to(ASK, first(terms()), config, lambda context: os._exit(1), watchdog=True)
    assert dies == ("died", b"")
    assert reply_to(ASK, first(terms()), config, watchdog=True)[0] == "ok"


def test_a_release_of_other_terms_than_were_answered_is_refused(tmp_path):
    config = {**NORTH, "folder": str(tmp_path)}
    round = terms()
    assert reply_to(ASK, first(round), config)[0] == "ok"
    ours = replace(fw.calibrate(calibrations(), method="fedwq-cp", alpha=0.2).public(), round=round)
    for other in (replace(round, alphas=(0.5,)), replace(round, max_n=7)):
        handed = Request("n", b"", encode(replace(ours, round=other)), 9.0)
        assert reply_to(RELEASE, handed, config) == ("round", b"")
    assert "max_n: " in (tmp_path / "last-error.txt").read_text()
    assert not (tmp_path / "release.json").exists()
    assert reply_to(RELEASE, Request("n", b"", encode(ours), 9.0), config)[0] == "ok"


def test_a_release_that_passes_by_the_guard_is_refused(tmp_path):
    config = {**NORTH, "folder": str(tmp_path)}
    ours = fw.calibrate(calibrations(), method="guarded-median-cp", alpha=0.2)
    forged = replace(ours.public(), outcomes=(SharedThreshold(0.01),))
    for bad in (forged, replace(ours.public(), local={"north": (0.01,)})):
        assert reply_to(RELEASE, Request("n", b"", encode(bad), 9.0), config) == ("terms", b"")
    assert reply_to(RELEASE, Request("n", b"", encode(ours.public()), 9.0), config)[0] == "ok"


def test_a_release_is_stored_once(tmp_path):
    config = {**NORTH, "folder": str(tmp_path)}
    round = terms()
    release = fw.calibrate(calibrations(), method="fedwq-cp", alpha=0.2)
    ours = replace(release.public(), round=round)
    handed = Request("n", b"", encode(ours), 9.0)
    status, digest = reply_to(RELEASE, handed, config)
    assert (status, len(digest)) == ("ok", 64)
    assert reply_to(RELEASE, handed, config) == (status, digest)
    other = replace(ours, rounds=9)
    assert reply_to(RELEASE, Request("n", b"", encode(other), 9.0), config) == ("round", b"")
    assert fw.load(tmp_path / "release.json") == ours
    assert reply_to(RELEASE, handed, {**config, "agent": "elsewhere"}) == ("roster", b"")
    assert reply_to(RELEASE, Request("n", b"", b"{}", 9.0), config) == ("terms", b"")
