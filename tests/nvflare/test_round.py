"""Rounds through FLARE's own classes within one process, with sites that fail in every way."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest
from nvflare.apis.signal import Signal

import fedwqcp as fw
from changed import replace
from engine import hold
from fedwqcp.errors import RoundError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.audit import audit
from fedwqcp.federation.plan import choose_method, new_id
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.envelope import ASK, CODES, RELEASE
from fedwqcp.federation.transport.nvflare import CalibrationExecutor, deployment
from fedwqcp.federation.transport.settings import Timeouts
from fedwqcp.wire.messages import Choice, Round
from flare import federation, run
from worked import unlike

NAMES = ("north", "south", "east")
SOUND = NAMES[:2]
SHORT = Timeouts(deadline=2.0, grace=0.2, poll=0.01)


def data():
    return unlike(north=40, south=25, east=60)


def terms(quorum=3, method="fedwq-cp", **settings):
    chosen = choose_method(fw.methods.get(method, **settings))
    return Round(new_id(), chosen, Choice("lac"), (0.2,), NAMES, quorum, max_n=1000, n_classes=3)


def without_engine(round, names):
    """The release that the answers of some agents give."""
    sides = {name: Agent(name, round, data()[name], limit=None) for name in names}
    return hold(Server(round), sides)


def changed(**fields):
    """East's answers with other fields; what the others say stays."""

    def tamper(name, task, reply):
        if name == "east" and task == ASK:
            now = {k: v(reply["fedwqcp"][k]) if callable(v) else v for k, v in fields.items()}
            reply["fedwqcp"] = {**reply["fedwqcp"], **now}
        return [reply]

    return tamper


def claims(key, value):
    return lambda body: re.sub(b'("%s": ?)[^,}]+' % key, rb"\g<1>" + value, body)


def test_what_the_coordinator_kept_is_what_the_sites_sent_and_gives_the_release(tmp_path):
    round = terms()
    result = run(round, tmp_path, data(), record=tmp_path / "record")
    assert result.stored == NAMES
    assert result.release == without_engine(round, NAMES)
    assert audit(tmp_path / "record").matches
    public = (tmp_path / "record" / "release.json").read_bytes()
    for name in NAMES:
        kept = tmp_path / f"{name}.kept"
        sent = tmp_path / "record" / "answers" / "step-0" / f"{name}.json"
        assert (kept / "rounds" / round.id / "step-0.json").read_bytes() == sent.read_bytes()
        assert (kept / "release.json").read_bytes() == public


def test_sites_tell_a_fifth_of_their_people_over_all_rounds(tmp_path):
    used = []
    for i in range(3):
        levels = tuple((1 + i + 4 * j) / 26 for j in range(4))
        round = replace(terms(quorum=3 - i), alphas=levels)
        used.append(run(round, tmp_path, data(), settings="min-class = 10\n").release.used)
    assert used == [NAMES, ("north", "east"), ("east",)], "8 of 40, 5 of 25, 12 of 60"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"body": bytes(range(256))}, "message: "),
        ({"body": b""}, "message: "),
        ({"body": claims(b"threshold", b"NaN")}, "message: "),
        ({"body": claims(b"threshold", b"999.0")}, "threshold: must lie between 0 and 1"),
        ({"body": claims(b"n", b"1000000000000")}, "n: must be an integer from 0 to 1000"),
        ({"nonce": "0" * 32}, "nonce: "),
        ({"agent": "north"}, "roster: "),
        ({"status": "fine"}, "malformed: "),
        ({"status": "internal"}, "malformed: "),
        ({"body": "text"}, "malformed: "),
        ({"more": 1}, "malformed: "),
    ],
)
def test_a_site_that_lies_is_refused_by_name_and_the_quorum_decides(tmp_path, fields, reason):
    round = terms(quorum=2)
    result = run(round, tmp_path, data(), SHORT, tamper=changed(**fields))
    assert result.release.used == SOUND
    assert result.release.refused["east"].startswith(reason)
    assert result.release.outcomes == without_engine(round, SOUND).outcomes
    assert "north" in result.stored, "a site that takes another's name does it no harm"


def test_a_site_that_the_engine_lost_is_missing_and_listed_as_lost(tmp_path):
    waits = threading.Event()
    lost = {**data(), "east": lambda: waits.wait(20)}

    def tamper(name, task, reply):
        if (name, task) == ("south", ASK):  # FLARE tells the controller what it noticed
            with held.new_context() as context:
                communicator.process_dead_client_report("east", context)
        if task == RELEASE:
            waits.set()
        return [reply]

    patient = Timeouts(deadline=30.0, grace=3.0, poll=0.01)  # it could come back until then
    with federation(tmp_path, lost, tamper=tamper) as (controller, context):
        from fedwqcp.federation.transport.nvflare.controller import TaskCarrier
        from fedwqcp.federation.transport.session import Session

        communicator, held = controller.communicator, context.get_engine()
        communicator._dead_client_grace = 0.0
        communicator._job_policy_violated = lambda: False  # of the job's own min_clients
        carrier = TaskCarrier(controller, Signal(), context, patient)
        nodes = {name: name for name in NAMES}
        session = Session(carrier, terms(quorum=2), patient, nodes, None)
        result = session.run()
    assert (result.release.used, result.release.missing) == (SOUND, ("east",))
    assert result.unknown_nodes["east"].startswith("east: engine: ")


def test_a_job_that_is_stopped_ends_the_round_and_the_record_says_so(tmp_path):
    stop = Signal()

    refused = "Aborting job job due to reported failure from north: unsafe component\n"

    def hangs():
        (tmp_path / "log.txt").write_text(refused)  # where FLARE's own process is told of it
        stop.trigger("operator")
        return data()["east"]

    config = {"agents": "north,south,nobody", "alpha": 0.2, "score": "lac", "n-classes": 3}
    sites = {**{name: data()[name] for name in SOUND}, "nobody-else": hangs, "south": hangs}
    with federation(tmp_path, sites, config) as (controller, context):
        controller.control_flow(stop, context)
        (panic,) = context.get_engine().panics
    assert "was stopped" in panic
    (record,) = (tmp_path / "records").iterdir()
    assert "north: unsafe component" in audit(record).difference


def test_a_round_on_the_terms_of_a_job(tmp_path):
    settings = {"method-setting": {"overflow": "clip"}}
    config = settings | {"agents": "n,s", "nodes": "n=north,s=south", "alpha": 0.2, "score": "lac"}
    config |= {"n-classes": 3, "quorum": 1, "deadline": 3.0, "grace": 0.3, "method": "fedwq-cp"}
    sites = {name: data()[name] for name in SOUND}
    with federation(tmp_path, sites, config, settings='agent = "n"\n') as (controller, context):
        controller.control_flow(Signal(), context)
        assert not context.get_engine().panics
    (record,) = (tmp_path / "records").iterdir()
    release = fw.load(record / "record.json")
    assert release.used == ("n",)
    assert release.round.method.settings["overflow"] == "clip"
    assert release.refused["s"].startswith("roster: "), "a site cannot take another's name"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"agents": "north,south", "secure": True}, "secure must be false over NVIDIA FLARE"),
        ({"agents": "north,south", "alhpa": 0.2}, "unknown key 'alhpa'"),
    ],
)
def test_terms_that_cannot_be_run_end_the_job_with_the_reason(tmp_path, config, reason):
    with federation(tmp_path, data(), config) as (controller, context):
        controller.control_flow(Signal(), context)
        (panic,) = context.get_engine().panics
    assert reason in panic


@pytest.mark.parametrize("settings", [None, "allow-sample = true\n", "agent = [\n", 'agent = ""\n'])
def test_a_site_with_wrong_settings_answers_nothing(tmp_path, settings):
    round = terms(quorum=1)
    with pytest.raises(RoundError, match="failed: "):
        run(round, tmp_path, data(), SHORT, settings=settings)
    assert not list(tmp_path.glob("*.kept/rounds/*/step-0.json"))


def test_a_site_on_an_older_flare_answers_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(deployment, "version", lambda name: "2.8.1")
    with pytest.raises(RoundError) as error:
        run(terms(quorum=1), tmp_path, data(), SHORT)
    assert CODES["terms"] in str(error.value)


def test_a_job_can_pass_the_executor_nothing():
    with pytest.raises(TypeError):
        CalibrationExecutor(folder="/")


def test_a_site_answers_from_the_file_that_it_names(tmp_path):
    cals, round = data(), terms()
    rng = np.random.default_rng(0)
    for name in NAMES:
        (tmp_path / name).mkdir()
        probs = rng.dirichlet(np.ones(3), size=len(cals[name].scores))
        np.savez(tmp_path / name / "cal.npz", probs=probs, labels=np.arange(len(probs)) % 3)
    sites = dict.fromkeys(NAMES, CalibrationExecutor())
    result = run(round, tmp_path, sites, settings='outputs = "cal.npz"\n')
    assert result.stored == NAMES
