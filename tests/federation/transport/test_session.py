"""How long a step waits, and a session without any engine's library."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from engine import InMemoryCarrier
from fedwqcp.errors import InputError, QuorumError, RecordError
from fedwqcp.federation.audit import audit
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.transport import session
from fedwqcp.federation.transport.envelope import ASK, CODES, RELEASE
from fedwqcp.federation.transport.logs import configure_logs
from fedwqcp.federation.transport.session import Session, collect
from fedwqcp.federation.transport.settings import Timeouts, timeouts_of
from fedwqcp.federation.transport.site import Site, SiteSettings
from fedwqcp.outputs import Outputs
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.messages import Round


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves only when somebody sleeps."""
    now = [0.0]
    monkeypatch.setattr(session.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(session.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    return now


def waited(clock, arrivals, quorum, timeouts):
    """How long a step takes when agents reply at the given times (negative: unsound)."""
    received = set()

    def receive():
        for agent, at in arrivals.items():
            if agent not in received and abs(at) <= clock[0]:
                received.add(agent)
                yield agent, at >= 0

    collect(receive, ["a", "b", "c"], quorum, timeouts)
    return pytest.approx(clock[0], abs=0.3)


TIMEOUTS = Timeouts(deadline=90, grace=10, poll=0.25)


@pytest.mark.parametrize(
    ("arrivals", "quorum", "seconds"),
    [
        ({"a": 0, "b": 3, "c": 5}, 2, 5),  # all came
        ({"a": 0, "b": 3}, 2, 13),  # the quorum, then its grace
        ({"a": 0, "b": 3, "c": 12}, 2, 12),  # within the grace
        ({"a": 0}, 2, 90),  # the deadline
        ({}, 1, 90),
        ({"a": 0, "b": -3}, 2, 90),  # an unsound answer is no part of the quorum
        ({"a": 0, "b": -3, "c": -4}, 2, 4),  # nobody is left to wait for
        ({"a": 85, "b": 85}, 2, 90),  # the deadline ends the grace
    ],
)
def test_a_step_ends(clock, arrivals, quorum, seconds):
    assert waited(clock, arrivals, quorum, TIMEOUTS) == seconds


def test_replies_that_came_while_an_engine_was_kept_waiting_are_taken(clock):
    calls, taken = [], []

    def receive():
        calls.append(clock[0])
        if len(calls) == 1:  # a site died while it sent: the engine waits for the rest
            clock[0] += 180
            return
        for agent in ("b", "c"):
            yield agent, True
            taken.append(agent)

    collect(receive, ["a", "b", "c"], 2, TIMEOUTS)
    assert (calls, taken) == ([0, 180], ["b", "c"])


def test_an_unsound_first_answer_is_no_part_of_the_quorum(clock, tmp_path):
    engine = carrier(tmp_path)

    def receive():
        """Node 0 sends garbage; the answer of node 2 comes long after the grace."""
        replies = InMemoryCarrier.receive(engine)
        if clock[0] < 30:
            engine._replies += [reply for reply in replies if reply.node == "node-2"]
            replies = [reply for reply in replies if reply.node != "node-2"]
        return [replace(r, body=b"") if r.node == "node-0" else r for r in replies]

    engine.receive = receive
    release = Session(engine, terms("fedwq-cp"), TIMEOUTS, None, None).run().release
    assert (release.used, list(release.refused)) == (("b", "c"), ["a"])


@pytest.mark.parametrize(
    "bad", [{"deadline": 0}, {"grace": -1}, {"poll": 0}, {"grace": 1e999}, {"deadline": 10**400}]
)
def test_a_timeout_is_a_number_of_seconds(bad):
    with pytest.raises(InputError):
        Timeouts(**bad)


QUICK = Timeouts(deadline=0.4, grace=0.05, poll=0.01)
DATA = {name: np.arange(1, 10 + at) / 30 for at, name in enumerate("abc")}


def lines(record):
    """The log of a record."""
    return [json.loads(line) for line in (record / "log.jsonl").read_text().splitlines()]


def carrier(folder, agents="abc"):
    """Nodes that are named unlike their agents, as engines do."""
    sites = {}
    for at, agent in enumerate(agents):
        site = Site(agent, folder / f"node-{at}", SiteSettings(allow_samples=True))
        sites[f"node-{at}"] = (site, fw.Calibration(DATA.get(agent, DATA["a"])))
    return InMemoryCarrier(sites)


def terms(method="fcp", quorum=2):
    """A round of several steps for three agents."""
    return Round(
        id=new_id(),
        method=choose_method(method),
        score=choose_score(Custom()),
        alphas=(0.2,),
        agents=tuple(DATA),
        quorum=quorum,
        max_n=100,
    )


def test_a_node_that_returns_is_asked_again(tmp_path):
    engine = carrier(tmp_path)
    engine.lose("node-1")
    result = Session(engine, terms(), QUICK, None, tmp_path / "record").run()
    assert result.release.used == tuple("abc")
    assert result.stored == tuple("abc")
    assert engine.sent[:4].count(("node-1", ASK)) == 2
    expected = fw.calibrate(DATA, method="fcp", alpha=0.2)
    assert result.release.outcomes == expected.outcomes
    assert audit(tmp_path / "record").matches


def test_a_node_that_stays_away_is_missing_and_the_quorum_decides(tmp_path):
    engine = carrier(tmp_path / "one")
    engine.lose("node-1", polls=10**6)
    result = Session(engine, terms(), QUICK, None, None).run()
    assert (result.release.missing, result.stored) == (("b",), ("a", "c"))
    engine = carrier(tmp_path / "two")
    engine.lose("node-1", polls=10**6)
    with pytest.raises(QuorumError, match="2 of 3"):
        Session(engine, terms(quorum=3), QUICK, None, None).run()


def test_who_failed_is_named_with_its_node_and_reason_in_record_and_log(tmp_path, caplog):
    engine = carrier(tmp_path)
    engine.lose("node-1", polls=10**6)
    nodes = {"a": "node-0", "b": "node-1", "c": "node-2"}
    result = Session(engine, terms(), QUICK, nodes, tmp_path / "record").run()
    (line,) = [line for line in lines(tmp_path / "record") if line["event"] == "missing"]
    assert (line["agent"], line["node"]) == ("b", "node-1")
    assert line["reason"].startswith("engine")
    assert result.unknown_nodes == {"node-1": f"b: {line['reason']}"}
    assert (result.release.missing, result.release.refused) == (("b",), {})
    assert any("node-1" in record.message for record in caplog.records)
    assert audit(tmp_path / "record").matches


def test_a_log_is_json_where_the_environment_asks(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FEDWQCP_LOG", "json")
    log = logging.getLogger("fedwqcp")
    before = log.handlers, log.propagate, log.level
    try:
        configure_logs("fedwqcp")
        log.info("")  # as engines do between paragraphs
        round = terms()
        Session(carrier(tmp_path), round, QUICK, None, None).run()
    finally:
        log.handlers, log.propagate, log.level = before
    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    begins, *agents = written
    assert round.id in begins["message"]
    assert [(line["agent"], line["status"]) for line in agents] == [
        (name, "used") for name in "abc"
    ]
    assert {(line["round"], line["level"]) for line in written} == {(round.id, "INFO")}


@pytest.mark.parametrize("nodes", [None, {"a": "node-0", "b": "node-1", "c": "node-2"}])
def test_refused_and_offline_sites_have_lines_with_their_nodes(tmp_path, nodes, caplog):
    engine = carrier(tmp_path, "ab")
    engine.sites["node-1"][0].folder.joinpath("site.json").unlink()
    found = Session(engine, terms(quorum=1), QUICK, nodes, tmp_path / "record").run()
    assert (found.release.used, found.release.missing) == (("a",), ("c",))
    told = {line["agent"]: line for line in lines(tmp_path / "record") if "reason" in line}
    refused, offline = told["b"], told["c"]
    assert (refused["event"], refused["node"]) == ("refused", "node-1")
    assert refused["reason"] == found.release.refused["b"]
    assert (offline["event"], offline.get("node", "")) == ("missing", (nodes or {}).get("c", ""))
    assert offline["reason"].startswith("offline: ")
    facts = {
        (line.agent, line.status): line.node for line in caplog.records if "agent" in vars(line)
    }
    assert facts["b", "refused"] == "node-1"
    assert sorted(agent for agent, _ in facts) == ["a", "b", "c"], "one line for each"
    where = "no node" if nodes is None else nodes["c"].replace("node-", "node node-")
    assert found.failed == {"b (node node-1)": refused["reason"], f"c ({where})": offline["reason"]}
    assert audit(tmp_path / "record").missing == {"c": offline["reason"]}
    assert facts["c", "missing"] == (nodes or {}).get("c", "")
    assert audit(tmp_path / "record").matches


def test_a_round_without_a_quorum_names_nodes_and_reasons(tmp_path, caplog):
    engine = carrier(tmp_path, "ab")
    engine.sites["node-1"][0].folder.joinpath("site.json").unlink()
    with pytest.raises(QuorumError, match=r"node-1.*folder"):
        Session(engine, terms(quorum=3), QUICK, None, tmp_path / "record").run()
    said = [(line["event"], line.get("agent")) for line in lines(tmp_path / "record")]
    assert said[-3:] == [("accepted", "a"), ("refused", "b"), ("failed", None)]
    assert ("missing", "c") in said
    facts = [(line.agent, line.status) for line in caplog.records if "agent" in vars(line)]
    assert sorted(facts) == [("b", "refused"), ("c", "missing")]


def test_a_node_that_never_replies_is_named(tmp_path):
    engine = carrier(tmp_path)
    engine.lose("node-1", polls=10**6)
    engine.receive = lambda: [r for r in InMemoryCarrier.receive(engine) if r.node != "node-1"]
    found = Session(engine, terms(), QUICK, None, None).run()
    assert found.unknown_nodes["node-1"].startswith("silent")


def test_a_site_that_was_away_gets_the_release_later(tmp_path):
    engine, record = carrier(tmp_path / "sites"), tmp_path / "record"
    engine.lose("node-1", polls=10**6)
    first = Session(engine, terms(), QUICK, None, record).run()
    assert first.stored == ("a", "c")
    engine.lose("node-1", polls=3)  # away when the hand-over begins
    engine.gone = {"node-1"}
    again = session.hand_over(engine, record, QUICK, None)
    assert again.stored == tuple("abc")
    assert (
        fw.load(tmp_path / "sites" / "node-1" / "release.json").outcomes == first.release.outcomes
    )
    assert [line["agents"] for line in lines(record) if line["event"] == "stored"] == [
        ["a", "c"],
        ["a", "b", "c"],
    ]
    assert audit(record).matches


def test_a_release_that_its_record_does_not_give_is_not_handed_over(tmp_path):
    record = tmp_path / "record"
    Session(carrier(tmp_path / "sites"), terms(), QUICK, None, record).run()
    (record / "record.json").write_text("{}")
    with pytest.raises(RecordError):
        session.hand_over(carrier(tmp_path / "sites"), record, QUICK, None)


def test_a_deadline_follows_the_roster():
    assert [Timeouts.of(sites).deadline for sites in (3, 1000)] == [90, 1000]
    assert timeouts_of({"agents": ",".join(f"a{i}" for i in range(400))}).deadline == 400
    assert timeouts_of({"agents": "a", "deadline": 5.0}).deadline == 5


def test_a_name_that_two_nodes_claim_is_refused_and_an_unknown_one_listed(tmp_path):
    result = Session(carrier(tmp_path, "abcbx"), terms(), QUICK, None, None).run()
    assert result.release.refused == {"b": session.CLAIMED_TWICE}
    assert list(result.unknown_nodes) == ["node-4"]


@pytest.mark.guarantee("SECURITY.md", "a name that two nodes claim counts for neither")
@pytest.mark.parametrize("nodes", [None, {"a": "node-0", "b": "node-1", "c": "node-2"}])
def test_a_node_in_another_s_name_evicts_it_unless_names_are_bound(tmp_path, nodes):
    """The node of a answers as b: without nodes= nobody can know which of the two is b."""
    result = Session(carrier(tmp_path, "bbc"), terms(quorum=1), QUICK, nodes, None).run()
    if nodes is None:
        assert (result.release.used, result.release.missing) == (("c",), ("a",))
        assert result.release.refused == {"b": session.CLAIMED_TWICE}
    else:
        assert result.release.used == ("b", "c")
        assert list(result.release.refused) == ["a"]


@pytest.mark.guarantee("SECURITY.md", "A free name that it claims counts as that agent's")
def test_a_node_under_a_free_name_counts_as_that_agent(tmp_path):
    result = Session(carrier(tmp_path, "bc"), terms(quorum=1), QUICK, None, None).run()
    assert (result.release.used, result.release.missing) == (("b", "c"), ("a",))


def test_named_nodes_alone_are_asked(tmp_path):
    engine = carrier(tmp_path, "abcb")
    nodes = {"a": "node-0", "b": "node-1", "c": "node-2"}
    result = Session(engine, terms(), QUICK, nodes, None).run()
    assert result.release.used == tuple("abc")
    assert {node for node, _ in engine.sent} == set(nodes.values())
    assert [node for node, action in engine.sent if action == RELEASE].count("node-1") == 1


def test_nodes_that_leave_an_agent_out_are_refused_before_anything_is_sent(tmp_path):
    engine, nodes = carrier(tmp_path / "sites"), {"a": "node-0", "b": "node-1"}
    with pytest.raises(InputError) as error:
        Session(engine, terms(), QUICK, nodes, tmp_path / "record")
    assert (error.value.field, engine.sent) == ("nodes", [])
    assert not (tmp_path / "record").exists()


def test_a_hand_over_of_an_unknown_round_names_the_known_ones(tmp_path, caplog):
    round = terms()
    Session(carrier(tmp_path / "sites"), round, QUICK, None, tmp_path / "records" / round.id).run()
    caplog.clear()
    with pytest.raises(InputError, match=round.id) as error:
        session.hand_over(carrier(tmp_path / "sites"), tmp_path / "records" / "x", QUICK, None)
    assert error.value.field == "hand-over"
    session.hand_over(carrier(tmp_path / "sites"), tmp_path / "records" / round.id, QUICK, None)
    assert [line.round for line in caplog.records] == [round.id], "it says that it begins"


def test_a_site_with_its_classes_in_another_order_is_refused_by_name(tmp_path):
    classes, rng = ("melanoma", "nevus", "other"), np.random.default_rng(0)
    sites = {}
    for at, agent in enumerate("abc"):
        own = classes if agent != "b" else ("nevus", "melanoma", "other")
        probs, labels = rng.dirichlet([1, 2, 3], size=30), rng.integers(0, 3, 30)
        sites[at] = (Site(agent, tmp_path / agent), Outputs(probs, labels, classes=own))
    round = replace(
        terms("fedwq-cp"), score=choose_score("lac"), max_n=30, n_classes=3, classes=classes
    )
    found = Session(InMemoryCarrier(sites), round, QUICK, None, None).run()
    assert found.release.used == ("a", "c")
    assert found.release.refused == {"b": f"classes: {CODES['classes']}"}
    assert (tmp_path / "b" / "last-error.txt").read_text()
    assert fw.load(tmp_path / "a" / "release.json").round.classes == classes
