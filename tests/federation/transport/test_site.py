"""A site's settings; and work that hangs, dies or starts processes of its own is ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from hashlib import sha256
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest

from changed import replace
from fedwqcp.errors import InputError
from fedwqcp.federation.site_folder import ROUNDS_KEPT, make_site_folder
from fedwqcp.federation.transport import site as transport_site
from fedwqcp.federation.transport.envelope import Request
from fedwqcp.federation.transport.site import (
    RefusedError,
    Site,
    answer,
    keep_error,
    load_settings,
    reply_to,
    run_with_timeout,
)
from fedwqcp.methods import Calibration
from fedwqcp.methods.fcp import CountAt
from fedwqcp.readers.batches import OutputBatches
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Ask, Choice, Round


def test_what_hangs_is_ended(tmp_path):
    pid = tmp_path / "pid"

    def hangs():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        pid.write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
        return "ok", b""

    assert run_with_timeout(hangs, 1.0) == ("deadline", b"")
    for process in map(int, pid.read_text().split()):
        assert is_gone(process)


def test_what_dies_is_reported():
    assert run_with_timeout(lambda: os._exit(3), 20) == ("died", b"")


def is_gone(process):
    """Whether a process ends within a moment."""
    for _ in range(100):
        try:
            with open(f"/proc/{process}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max-seconds", "ten"),
        ("max-seconds", float("nan")),
        ("max-share", float("nan")),
        ("max-share", 1.5),
        ("privacy-budget", float("nan")),
        ("min-class", 10.5),
        ("allow-samples", "true"),
        ("secure-only", "false"),
        ("secure-only", 1),
        ("agent", True),
        ("folder", 3),
        ("data-set", "../x"),
        ("honest-others", -1),
    ],
)
def test_a_setting_of_another_kind_is_refused(key, value):
    with pytest.raises(InputError, match=key):
        Site.of({"agent": "north", key: value})


def test_a_limit_that_is_misspelled_is_refused_and_other_keys_are_the_app_s_own():
    own = {"partition-id": 3, "num-partitions": 5, "data-folder": "x", "label": "diagnosis"}
    assert Site.of(own) == Site.of({"agent": "agent-3", "folder": ""})
    for wrong, meant in (("data_set", "data-set"), ("aprove", "approve")):
        with pytest.raises(InputError, match=meant):
            Site.of({**own, wrong: 1})


def test_a_budget_needs_a_folder():
    site = Site.of({"agent": "north", "folder": "", "privacy-budget": 1.0})
    with pytest.raises(InputError):
        _ = site.budget
    assert Site.of({"agent": "north"}).budget is None


def asked(site, round, watchdog=False):
    """The code and body of a site's reply to the first question."""
    cal = Calibration(np.linspace(0, 1, 200), n_classes=2)
    request = Request("", encode(round), b"", 60.0)
    return site.perform(lambda: answer(site, request, lambda: cal), request, watchdog)


@pytest.mark.parametrize("watchdog", [False, True])
def test_a_site_answers_only_from_a_folder_that_a_person_made(tmp_path, watchdog):
    kept = tmp_path / "kept"
    site = Site.of({"agent": "a", "folder": str(kept), "privacy-budget": 3.0})
    private = Choice("private-fedwq-cp", {"epsilon": 3.0})
    round = Round("r1", private, Choice("lac"), (0.1,), ("a",), 1, n_classes=2)
    assert asked(site, round, watchdog) == ("folder", b"")
    assert not kept.exists()
    assert make_site_folder(kept)
    assert asked(site, round, watchdog)[0] == "ok"
    assert asked(site, replace(round, id="r2"), watchdog) == ("budget", b"")
    shutil.rmtree(kept)
    for _ in range(2):  # it never begins a new record by itself
        assert asked(site, replace(round, id="r2"), watchdog) == ("folder", b"")
    (kept / "privacy").mkdir(parents=True)
    assert asked(site, replace(round, id="r2"), watchdog) == ("folder", b"")


def test_old_rounds_leave_digests_and_are_never_answered_again(tmp_path):
    make_site_folder(tmp_path)
    site = Site.of({"agent": "a", "folder": str(tmp_path), "privacy-budget": 1000.0})
    private = Choice("private-fedwq-cp", {"epsilon": 1.0})
    terms = Round("r", private, Choice("lac"), (0.1,), ("a",), 1, n_classes=2)
    rounds = [replace(terms, id=f"r{at}") for at in range(ROUNDS_KEPT + 3)]
    said = [asked(site, round) for round in rounds]
    assert {status for status, _ in said} == {"ok"}
    assert {path.name for path in (tmp_path / "rounds").iterdir()} == {r.id for r in rounds[3:]}
    closed = json.loads((tmp_path / "closed" / "r0.json").read_text())
    assert closed["step-0.json"] == sha256(said[0][1]).hexdigest()
    assert [asked(site, round) for round in rounds[3:]] == said[3:], "the same bytes again"
    for round in rounds[:3]:
        for other in (round, replace(round, alphas=(0.2,))):
            assert asked(site, other) == ("round", b"")
    (tmp_path / "rounds" / "r1").mkdir()  # as a process leaves it that was closed meanwhile
    (tmp_path / "rounds" / "r1" / "step-0.json").write_bytes(b"{}")
    assert asked(site, rounds[1]) == ("round", b"")


def test_rounds_that_were_killed_while_they_read_leave_no_scores_for_ever(tmp_path):
    make_site_folder(tmp_path)
    site = Site.of({"agent": "a", "folder": str(tmp_path)})
    for at in range(ROUNDS_KEPT + 9):
        (tmp_path / "rounds" / f"killed{at}" / "scores").mkdir(parents=True)
    source = OutputBatches([(np.full((9, 2), 0.5), np.zeros(9, int))])
    terms = Round("r", Choice("private-fedwq-cp"), Choice("lac"), (0.1,), ("a",), 1, n_classes=2)
    request = Request("n", encode(terms), b"", 60.0)
    status, _ = site.perform(lambda: answer(site, request, lambda: source), request, False)
    assert (status, len(list((tmp_path / "rounds").iterdir()))) == ("answer", ROUNDS_KEPT + 1)


def test_a_large_source_says_in_the_site_s_log_how_far_it_is(tmp_path, monkeypatch, caplog):
    clock = iter(range(0, 100, 3))
    monkeypatch.setattr(transport_site, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr("fedwqcp.methods._stored.ROWS", 9)
    make_site_folder(tmp_path)
    site = Site.of({"agent": "a", "folder": str(tmp_path)})
    batch = np.full((10, 2), 0.5), np.zeros(10, int)
    source = OutputBatches([batch] * 6)
    terms = Round("r", Choice("fedwq-cp"), Choice("lac"), (0.1,), ("a",), 1, n_classes=2)
    request = Request("n", encode(terms), b"", 60.0)
    status, _ = site.perform(lambda: answer(site, request, lambda: source), request, False)
    said = [line.getMessage() for line in caplog.records if line.levelname == "INFO"]
    assert status == "ok"
    assert [line.split()[1] for line in said] == ["20", "40", "60"]  # of six, one every 5 seconds


def test_what_is_kept_of_an_error_names_no_argument_of_python(tmp_path):
    make_site_folder(tmp_path)
    error = InputError(
        "this round takes signed answers alone", cure=("pass sign_key=", "--sign-key")
    )
    keep_error(tmp_path, None, "data", error)
    assert error.cure[0] not in (tmp_path / "last-error.txt").read_text()


def test_the_last_error_is_dated_and_is_gone_once_the_site_answers(tmp_path, caplog):
    make_site_folder(tmp_path)
    config, note = {"agent": "a", "folder": str(tmp_path)}, tmp_path / "last-error.txt"
    plain = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.1,), ("a",), 1, n_classes=2)
    request = Request("n", encode(plain), b"", 60.0)

    def status(at=request, **settings):
        cal = Calibration(np.linspace(0, 1, 200), n_classes=2)
        fields = reply_to(
            lambda: at,
            lambda: {**config, **settings},
            lambda s, r: answer(s, r, lambda: cal),
            False,
        )
        return fields["status"]

    few = replace(request, round=encode(replace(plain, id="r2", max_n=9)))
    refused = [
        (few, {}, "size"),
        (request, {"max-shar": 0.1}, "failed"),
        (request, {"secure-only": True}, "secure"),
        (request, {"privacy-budget": 1.0}, "budget"),
    ]
    for at, settings, code in refused:
        assert status(at, **settings) == code
        when, _, round, text = note.read_text().splitlines()[0].split(" ", 3)
        assert datetime.fromisoformat(when).tzinfo is not None
        assert (round, text.split(":")[0]) == (f"{'r2' if at is few else 'r1'}:", code)
    assert [record.args[1] for record in caplog.records] == [code for *_, code in refused]
    assert (status(), note.exists()) == ("ok", False)


def test_the_size_of_a_site_with_a_budget_is_in_no_code(tmp_path):
    make_site_folder(tmp_path)
    site = Site.of({"agent": "a", "folder": str(tmp_path), "privacy-budget": 1.0})
    plain = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.1,), ("a",), 1, n_classes=2)
    codes = {asked(site, replace(plain, id=f"r{n}", max_n=n))[0] for n in (9, 199, 200, 9999)}
    assert codes == {"budget"}


def test_a_folder_is_one_place_and_a_simulated_site_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Site.of({"agent": "a"}).folder == tmp_path / ".fedwqcp" / "a"
    monkeypatch.chdir(tmp_path)
    assert Site.of({"agent": "a", "folder": "x"}).folder == tmp_path / "x"
    assert Site.of({"agent": "a", "partition-id": 0}).folder is not None
    assert Site.of({"partition-id": 0}).folder is None


def test_a_folder_below_the_startup_kit_is_refused(tmp_path):
    kit = tmp_path / "kit"
    (kit / "local").mkdir(parents=True)
    (tmp_path / "link").symlink_to(kit)
    settings = kit / "local" / "fedwqcp.toml"
    for folder in (".", "kept", "../kit/x", "../out/../kit/x", str(kit / "x"), "../link/x"):
        settings.write_text(f'folder = "{folder}"')
        with pytest.raises(InputError) as error:
            load_settings(settings, kit)
        assert error.value.field == "folder"
    for folder in ("../kept", str(tmp_path / "kit2"), ""):
        settings.write_text(f'folder = "{folder}"')
        assert "folder" in load_settings(settings, kit)


def asked_at_once(folder, rounds, bodies):
    """Ask one site in threads that all have its data before any of them has answered."""
    make_site_folder(folder)
    site = Site.of({"agent": "a", "folder": str(folder)})
    meet = Barrier(len(rounds))

    def outputs():
        meet.wait(20)
        return Calibration(np.linspace(0, 1, 200), n_classes=2)

    def reply(round, body):
        try:
            return answer(site, Request("", encode(round), body, 60.0), outputs)
        except RefusedError as refused:
            return refused.code

    with ThreadPoolExecutor(len(rounds)) as threads:
        return list(threads.map(reply, rounds, bodies))


def test_of_several_questions_at_once_one_is_answered(tmp_path):
    counts = Choice("fcp", {"count_gap": 5})
    round = Round("r1", counts, Choice("lac"), (0.1,), ("a", "b"), 2, n_classes=2)
    asks = [encode(Ask("r1", 1, (CountAt((value,)),))) for value in (0.2, 0.4, 0.6)]
    assert len(set(asked_at_once(tmp_path / "counts", [round] * 3, asks))) == 1
    private = replace(round, method=Choice("private-fedwq-cp"))
    said = asked_at_once(tmp_path / "noise", [private] * 3, [b""] * 3)
    assert len(set(said)) == 1, "other noise would tell more"
    terms = [replace(private, alphas=(alpha,)) for alpha in (0.1, 0.2, 0.3)]
    said = asked_at_once(tmp_path / "terms", terms, [b""] * 3)
    assert said.count("answer") == 2
