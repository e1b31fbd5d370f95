"""Rounds carried by files: atomic and repeatable."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from threading import Barrier, Thread

import numpy as np
import pytest

from changed import replace
from fedwqcp import calibrate, methods
from fedwqcp.errors import (
    FedwqcpError,
    InputError,
    MalformedMessageError,
    QuorumError,
)
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.record import load, save
from fedwqcp.federation.signing import SigningKey, new_key
from fedwqcp.federation.transport.folder import (
    answer_files,
    close_round,
    open_round,
    read_round,
    write_answer,
)
from fedwqcp.methods import Calibration
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Ask, Begin, Choice, Round, SharedThreshold
from refusals import raises

RNG = np.random.default_rng(5)
CALS = {name: Calibration(RNG.uniform(size=n)) for name, n in (("a", 30), ("b", 50), ("c", 40))}
ROUND = Round("r1", Choice("fedwq-cp"), Choice("lac"), (0.2,), tuple(CALS), 2)


def write_all(tmp_path, round=ROUND):
    return [_write(tmp_path, round, name) for name in CALS]


def _write(tmp_path, round, name):
    path = tmp_path / f"{name}.json"
    write_answer(Agent(name, round, CALS[name], limit=None), path)
    return path


def test_a_round_of_files_equals_one_in_process(tmp_path):
    open_round(ROUND, tmp_path / "round.json")
    round = read_round(tmp_path / "round.json")
    assert round == ROUND
    closed = close_round(tmp_path / "round.json", write_all(tmp_path), tmp_path / "release.json")
    direct = calibrate(CALS, method="fedwq-cp", alpha=0.2)
    assert closed.release.threshold("a") == direct.threshold("a")
    assert load(tmp_path / "release.json") == closed.release.public()
    assert load(tmp_path / "round.record.json") == closed.release
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".fedwqcp.lock", "a.json", "b.json", "c.json",
        "release.json", "round.json", "round.record.json",
    ]  # fmt: skip


def opened(tmp_path, round=ROUND):
    open_round(round, tmp_path / "round.json")
    return tmp_path / "round.json"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.json", "answer"),
        ("release.json", "release"),
        ("roster.toml", "roster"),
        ("notes.txt", "another kind"),
    ],
)
def test_a_file_that_is_no_round_is_named_as_what_it_is(tmp_path, name, kind):
    close_round(opened(tmp_path), write_all(tmp_path), tmp_path / "release.json")
    (tmp_path / "roster.toml").write_text("agents = ['a', 'b']\n")
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(InputError, match=f"{name} is .*{kind}"):
        read_round(tmp_path / name)
    (tmp_path / "round").write_text('{"quorum": 2}')
    with pytest.raises(MalformedMessageError):
        read_round(tmp_path / "round")


def test_running_a_step_twice_changes_nothing(tmp_path):
    path = opened(tmp_path)
    with pytest.raises(InputError):
        open_round(ROUND, path)
    answers = write_all(tmp_path)
    before = answers[0].read_bytes()
    assert write_answer(Agent("a", ROUND, CALS["a"]), answers[0]) is False
    with pytest.raises(InputError):
        write_answer(Agent("a", ROUND, CALS["b"]), answers[0])
    assert answers[0].read_bytes() == before
    first = close_round(path, answers[:2], tmp_path / "release.json")
    stat = os.stat(tmp_path / "release.json")
    again = close_round(path, answers[:2], tmp_path / "release.json")
    assert again.already
    assert again.release == first.release
    assert os.stat(tmp_path / "release.json").st_mtime_ns == stat.st_mtime_ns


def test_a_closed_round_names_whose_answer_is_not_given_again(tmp_path):
    path = opened(tmp_path)
    answers = write_all(tmp_path)
    close_round(path, answers, tmp_path / "release.json")
    with pytest.raises(InputError) as error:
        close_round(path, answers[:-1], tmp_path / "release.json")
    assert "agents[" not in str(error.value)


def test_a_closed_round_stays_closed_whatever_the_release_is_called(tmp_path):
    path = opened(tmp_path)
    answers = write_all(tmp_path)
    first = close_round(path, answers[:2], tmp_path / "release.json")
    again = close_round(path, answers[:2], tmp_path / "other.json")
    assert again.already
    assert load(tmp_path / "other.json") == first.release.public()
    with pytest.raises(InputError):
        close_round(path, answers, tmp_path / "third.json")
    assert not (tmp_path / "third.json").exists()


def test_another_file_in_the_way_is_never_replaced(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("my notes")
    with pytest.raises(InputError):
        write_answer(Agent("a", ROUND, CALS["a"]), path)
    assert path.read_text() == "my notes"
    save(calibrate(CALS, method="fedwq-cp", alpha=0.2), tmp_path / "release.json")
    with pytest.raises(InputError):
        close_round(opened(tmp_path), [], tmp_path / "release.json")


def test_garbage_and_replays_are_refused_by_name(tmp_path):
    old = replace(ROUND, id="r0")
    (tmp_path / "old").mkdir()
    replayed = _write(tmp_path / "old", old, "b")
    good = [_write(tmp_path, ROUND, "a"), _write(tmp_path, ROUND, "c")]
    (tmp_path / "b.json").write_bytes(b"\x00garbage")
    files = [*good, tmp_path / "b.json", replayed, good[0]]
    closed = close_round(opened(tmp_path), files, tmp_path / "release.json")
    assert closed.release.used == ("a", "c")
    assert list(closed.release.refused) == ["b"]
    assert [(r.agent, r.field) for r in closed.refusals] == [("b", "message"), ("b", "round")]
    assert closed.repeated == (good[0],)
    assert closed.lost == ("b",)


def test_the_same_answer_given_twice_counts_once(tmp_path):
    path, answers = opened(tmp_path), write_all(tmp_path)
    for folder in ("again", "other"):
        (tmp_path / folder).mkdir()
    copy, renamed = tmp_path / "again" / "a.json", tmp_path / "again" / "mail.json"
    for file in (copy, renamed, tmp_path / "other" / "b.json"):  # the last speaks for another
        file.write_bytes(answers[0].read_bytes())
    given = [tmp_path / "other" / "b.json", *answers, copy, renamed]
    for _ in range(2):
        closed = close_round(path, given, tmp_path / "release.json")
        assert closed.release.used == ("a", "b", "c")
        assert closed.repeated == (copy, renamed)
        assert closed.lost == ()
        assert [(r.agent, r.field) for r in closed.refusals] == [("b", "agent")]


@pytest.mark.parametrize("name", ["a-corrected.json", "z.json"])
def test_of_different_answers_of_an_agent_none_counts_in_whatever_order(tmp_path, name):
    """Files have no order: which one comes first is a matter of their names."""
    path, answers, other = opened(tmp_path), write_all(tmp_path), tmp_path / name
    write_answer(Agent("a", ROUND, CALS["b"]), other)
    for given in ([*answers, other], [other, *answers], sorted([*answers, other])):
        closed = close_round(path, given, tmp_path / "release.json")
        assert closed.release.used == ("b", "c")
        assert closed.lost == ("a",)
        reason = "agent: gave different answers to one question, and nothing says which one counts"
        assert closed.release.refused == {"a": reason}
        named = {refusal.agent for refusal in closed.refusals if refusal.from_file}
        assert named == {str(answers[0]), str(other)}
    (tmp_path / "round.record.json").unlink()
    with pytest.raises(QuorumError) as error:
        close_round(path, [*answers[:2], other], tmp_path / "release.json")
    why = "agent: is one of 2 different answers of agent 'a': give one alone"
    assert f"{answers[0]}" in str(error.value)
    assert f"{why}" in str(error.value)
    assert f"{other}" in str(error.value)
    alone = close_round(path, [other, *answers[1:]], tmp_path / "release.json")
    assert alone.release.used == ("a", "b", "c")


def test_nobody_without_the_key_makes_an_answer_ambiguous(tmp_path):
    pytest.importorskip("cryptography")
    new_key(tmp_path / "a.key")
    new_key(tmp_path / "b.key")
    keys = {name: SigningKey(tmp_path / f"{name}.key") for name in ("a", "b")}
    round = replace(ROUND, agents=("a", "b"), keys={n: key.public for n, key in keys.items()})
    path, forged = opened(tmp_path, round), tmp_path / "0.json"
    for name, key in keys.items():
        write_answer(Agent(name, round, CALS[name], sign_key=key), tmp_path / f"{name}.json")
    said = json.loads((tmp_path / "a.json").read_bytes())
    said["answers"][0]["n"] += 1
    forged.write_text(json.dumps(said))
    given = [forged, tmp_path / "a.json", tmp_path / "b.json"]
    closed = close_round(path, given, tmp_path / "release.json")
    assert closed.release.used == ("a", "b")
    assert [refusal.field for refusal in closed.refusals] == ["signature"]


def test_another_file_of_the_round_among_the_answers_is_refused(tmp_path):
    path, answers = opened(tmp_path), write_all(tmp_path)
    close_round(path, answers, tmp_path / "release.json")
    (tmp_path / "ask.json").write_bytes(encode(Ask(ROUND.id, 1, (Begin(),))))
    (tmp_path / "b.json").write_bytes(path.read_bytes())
    (tmp_path / "round.record.json").rename(tmp_path / "record.json")
    (tmp_path / "junk.npz").write_bytes(b"PK\x03\x04")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(2**40)  # refused unread
    names = ("b.json", "round.json", "release.json", "record.json", "ask.json", "junk.npz")
    wrong = [tmp_path / name for name in (*names, "huge.json")]
    closed = close_round(path, [answers[0], answers[2], *wrong], tmp_path / "release.json")
    assert {refusal.agent for refusal in closed.refusals} == {"b", *names[1:], "huge.json"}
    with pytest.raises(InputError):
        close_round(path, [tmp_path / "nowhere.json"], tmp_path / "release.json")
    (tmp_path / "round.record.json").unlink()
    with pytest.raises(QuorumError) as error:
        close_round(path, [answers[0], *wrong], tmp_path / "another.json")
    assert all(f" {refused} (message: " in str(error.value) for refused in ("b", *names[1:]))
    assert not (tmp_path / "another.json").exists()
    assert close_round(path, [answers[0], answers[2]], tmp_path / "another.json").release


@pytest.mark.parametrize("method", ["fcp", "cphet", "dp-fedcp"])
def test_a_method_that_asks_more_than_once_is_for_engines(tmp_path, method):
    round, path = replace(ROUND, method=Choice(method), n_classes=3), tmp_path / "round.json"
    with raises(InputError, field="method"):
        open_round(round, path)
    assert not list(tmp_path.iterdir())
    path.write_bytes(encode(round))  # other software may open it
    cal = Calibration([0.5] * 30, [0] * 30, [[0.0]] * 30, 3)
    with raises(InputError, field="method"):
        write_answer(Agent("a", round, cal, limit=None), tmp_path / "a.json")
    with raises(InputError, field="method"):
        close_round(path, [], tmp_path / "release.json")
    open_round(replace(ROUND, method=Choice("fcp", {"sketch": "order"})), tmp_path / "one.json")


def test_an_answer_to_a_later_question_is_refused(tmp_path):
    path, answers = opened(tmp_path), write_all(tmp_path)
    later = json.loads(answers[0].read_bytes())
    answers[0].write_text(json.dumps({**later, "step": 1}))
    closed = close_round(path, answers, tmp_path / "release.json")
    assert [(refusal.agent, refusal.field) for refusal in closed.refusals] == [("a", "step")]


def forbid(monkeypatch, path):
    """Let the system refuse all access to a path, as it would to others than root."""
    for name in ("stat", "lstat", "open"):
        real = getattr(os, name)

        def denied(file, *args, real=real, **more):
            if not isinstance(file, int) and os.fspath(file) == str(path):
                raise PermissionError(13, "Permission denied", str(path))
            return real(file, *args, **more)

        monkeypatch.setattr(os, name, denied)


UNREADABLE = {
    "folder": lambda path, _: path.mkdir(),
    "long link": lambda path, _: path.symlink_to("x" * 300),
    "loop": lambda path, _: path.symlink_to(path.name),
    "nowhere": lambda path, _: path.symlink_to("nowhere"),
    "pipe": lambda path, _: os.mkfifo(path),
    "forbidden": lambda path, patch: (path.touch(), forbid(patch, path)),
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("named", [True, False])
def test_one_unreadable_answer_does_not_stop_the_round(tmp_path, monkeypatch, kind, named):
    path, out = opened(tmp_path), tmp_path / "release.json"
    (tmp_path / "answers").mkdir()
    answers = write_all(tmp_path / "answers")
    answers[1].unlink()
    UNREADABLE[kind](answers[1], monkeypatch)
    given = answers  # an empty folder that is named holds no answers: the operator's mistake
    if not named or kind != "folder":
        given = answer_files(path, answers if named else [tmp_path / "answers"], out)
    closed = close_round(path, given, out)
    assert closed.release.used == ("a", "c")
    assert closed.release.refused["b"].startswith("file: ")


@pytest.mark.parametrize("own", ["round.json", "round.record.json", "Round.Record.json"])
@pytest.mark.parametrize("before", [False, True])
def test_a_release_is_not_written_over_the_rounds_own_files(tmp_path, own, before):
    path, answers = opened(tmp_path), write_all(tmp_path)
    if before:
        close_round(path, answers, tmp_path / "release.json")
    kept = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(InputError):
        close_round(path, answers, tmp_path / own)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == kept


@pytest.mark.parametrize(
    "name", ["round", "release", "Release", "round.record", "march", "march.record"]
)
def test_no_agent_is_called_like_a_file_of_the_round(tmp_path, name):
    round = replace(ROUND, agents=("a", "b", name))
    with pytest.raises(InputError):
        open_round(round, tmp_path / "march.json")
    assert list(tmp_path.iterdir()) == []
    open_round(replace(ROUND, agents=("a", "rounds", "st.release")), tmp_path / "march.json")


def test_the_answer_to_a_secure_round_does_not_leave_as_a_file(tmp_path):
    secure = replace(ROUND, quorum=3, secure=(0.0, 1.0))
    with pytest.raises(InputError):
        _write(tmp_path, secure, "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", ["[/red]", "x" * 100_000, "\x1b[2J\x1b[31m"])
def test_a_senders_words_are_short_and_plain(tmp_path, words):
    path, answers = opened(tmp_path), write_all(tmp_path)
    said = json.loads(answers[1].read_bytes())
    answers[1].write_text(json.dumps({**said, "round": words}))
    reason = close_round(path, answers, tmp_path / "release.json").release.refused["b"]
    assert len(reason) < 400
    assert reason.isprintable()


def another(tmp_path, folder="other", alpha=0.4):
    """A round of the same agents, closed in a folder of its own."""
    place = tmp_path / folder
    place.mkdir()
    other = replace(ROUND, id=f"r-{folder}", alphas=(alpha,))
    path = opened(place, other)
    close_round(path, write_all(place, other), place / "release.json")
    return place


def test_a_round_is_not_opened_beside_what_another_left(tmp_path):
    (tmp_path / "round.record.json").write_text("{}")
    with pytest.raises(InputError):
        open_round(ROUND, tmp_path / "round.json")
    assert not (tmp_path / "round.json").exists()
    open_round(ROUND, tmp_path / "next.json")


def test_the_record_of_another_round_is_not_handed_out(tmp_path):
    other = another(tmp_path)
    path, answers = opened(tmp_path), write_all(tmp_path)
    shutil.copy(other / "round.record.json", tmp_path)
    with pytest.raises(InputError):
        close_round(path, answers, tmp_path / "release.json")
    assert not (tmp_path / "release.json").exists()
    (tmp_path / "round.record.json").unlink()
    shutil.copy(other / "release.json", tmp_path)
    with pytest.raises(InputError):
        close_round(path, answers, tmp_path / "release.json")


def closed_round(tmp_path, round):
    """Hold a round by files; return its terms, all answers and the release."""
    path, files = opened(tmp_path, round), write_all(tmp_path, round)
    return path, files, close_round(path, files, tmp_path / "release.json").release


def test_a_planted_release_is_replaced(tmp_path):
    path, answers, true = closed_round(tmp_path, ROUND)
    out = tmp_path / "release.json"
    save(replace(true, outcomes=(SharedThreshold(0.05),)).public(), out)
    again = close_round(path, answers, out)
    assert (again.already, again.replaced) == (True, True)
    assert load(out) == true.public()
    assert close_round(path, answers, out).replaced is False


def left_out(true, status, reason=""):
    """A record from which c is left out, with the threshold of the others."""
    agents = tuple(
        replace(each, status=status, reason=reason, bytes_up=0) if each.name == "c" else each
        for each in true.agents
    )
    received = {name: found for name, found in true.received.items() if name != "c"}
    summaries = [found for (found,) in received.values()]
    outcomes = (methods.get("fedwq-cp").aggregate(summaries, 0.2),)
    return replace(true, agents=agents, received=received, outcomes=outcomes)


LOW = {"outcomes": (SharedThreshold(0.05),)}
CHANGES = {
    "threshold": lambda true: replace(true, **LOW),
    "no answers": lambda true: replace(true, received={}),
    "no answers, no steps": lambda true: replace(true, **LOW, rounds=0, received={}),
    "steps": lambda true: replace(true, rounds=true.rounds + 1),
    "missing": lambda true: left_out(true, "missing"),
    "slander": lambda true: left_out(true, "refused", "n: c cheated"),
    "bytes": lambda true: replace(
        true, agents=tuple(replace(each, bytes_up=10**9) for each in true.agents)
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("released", [False, True])
def test_a_planted_record_is_refused_unless_the_answers_come_to_it(tmp_path, change, released):
    path, answers, true = closed_round(tmp_path, ROUND)
    out = tmp_path / "release.json"
    planted = CHANGES[change](true)
    save(planted, tmp_path / "round.record.json")
    if released:
        save(planted.public(), out)
    for given in (answers, answers[:1], []):
        before = out.read_bytes()
        for at in (out, tmp_path / "another.json"):
            with pytest.raises(FedwqcpError):
                close_round(path, given, at)
        assert out.read_bytes() == before
    assert not (tmp_path / "another.json").exists()


def test_a_round_whose_record_cannot_be_kept_is_not_released(tmp_path):
    path, answers = opened(tmp_path), write_all(tmp_path)
    (tmp_path / "round.record.json").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError):
        close_round(path, answers, tmp_path / "release.json")
    assert not (tmp_path / "release.json").exists()


def at_once(call, count=8):
    """Call a function from several threads at the same time; tell how many succeeded."""
    ready, won = Barrier(count), []

    def one(number):
        ready.wait()
        with contextlib.suppress(InputError):
            call(number)
            won.append(number)

    threads = [Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


@pytest.mark.parametrize("trial", range(10))
def test_of_several_that_open_or_answer_at_once_one_succeeds(tmp_path, trial):
    path = tmp_path / "round.json"
    won = at_once(lambda k: open_round(replace(ROUND, id=f"r{k}"), path))
    assert len(won) == 1
    assert read_round(path).id == f"r{won[0]}"
    cals = [Calibration([0.1 + k / 100] * 9) for k in range(8)]
    won = at_once(lambda k: write_answer(Agent("a", ROUND, cals[k]), tmp_path / "a.json"))
    assert len(won) == 1
    assert (tmp_path / "a.json").read_bytes() == Agent("a", ROUND, cals[won[0]]).answer()


def test_closing_at_once_with_other_answers_gives_one_release(tmp_path):
    path = opened(tmp_path, replace(ROUND, quorum=1))
    answers = write_all(tmp_path, read_round(path))
    found = {}
    at_once(lambda k: found.update({k: close_round(path, [answers[k % 3]], tmp_path / "out.json")}))
    assert len({encode(closed.release) for closed in found.values()}) == 1
    assert sum(not closed.already for closed in found.values()) == 1
    assert len({number % 3 for number in found}) == 1, "other answers come too late"
    assert len(found) >= 2, "those who wait with the same answers get what was released"


def test_who_was_killed_locks_nobody_out(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; import fedwqcp._io as f\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with f.locked(Path(sys.argv[1])): f.write_atomic(Path(sys.argv[1]) / 'round.json', b'x')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "round.json").exists()
    (left,) = tmp_path.glob(".round.json.*.part")
    assert left.stat().st_mode & 0o077 == 0
    open_round(ROUND, tmp_path / "round.json")
    assert read_round(tmp_path / "round.json") == ROUND
