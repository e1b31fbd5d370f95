"""A third party recomputes a release from the record, and finds every change to it."""

from __future__ import annotations

import json
from hashlib import sha256

import numpy as np
import pytest

import fedwqcp as fw
from changed import replace
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.audit import audit
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.record import Ledger, with_reasons
from fedwqcp.federation.server import Server
from fedwqcp.scores.custom import Custom
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Choice, Round

DATA = {"a": np.arange(1, 11) / 10, "b": np.arange(1, 6) / 7, "c": np.arange(1, 21) / 50}


def recorded(folder, method="fedwq-cp", without=(), **settings):
    """Run a round and keep its record; agents of `without` are refused in the first step."""
    round = Round(
        id=new_id(),
        method=choose_method(fw.methods.get(method, **settings)),
        score=choose_score(Custom()),
        alphas=(0.2, 0.3),
        agents=tuple(DATA),
        quorum=2,
    )
    ledger, server, reasons = Ledger(folder, round), Server(round), {}
    sides = {
        name: Agent(name, round, fw.Calibration(data), limit=None) for name, data in DATA.items()
    }
    while not server.ended:
        for name, ask in server.asks().items():
            if name in without:
                reasons[name] = "data: could not be read"
                ledger.refused(server.step, name, reasons[name])
                continue
            answer = sides[name].answer(ask if server.step else None)
            assert server.receive(answer, name) is None
            ledger.accepted(server.step, name, answer)
        server.close_step()
        ledger.closed(server.step - 1)
    release = with_reasons(server.release(), reasons)
    ledger.released(release)
    ledger.stored(release.used)
    return release


@pytest.mark.parametrize(
    ("method", "settings"),
    [("fedwq-cp", {}), ("split-cp", {}), ("fcp", {"sketch": "bisection"}), ("fedcp-qq", {})],
)
def test_an_honest_record_matches(tmp_path, method, settings):
    release = recorded(tmp_path, method, **settings)
    found = audit(tmp_path)
    assert found.difference == ""
    assert found.matches
    assert found.answers == 3 * release.rounds
    assert encode(found.release) == (tmp_path / "record.json").read_bytes()


def test_a_record_of_other_terms_than_agents_answered_differs(tmp_path):
    answered = recorded(tmp_path).round
    assert audit(tmp_path, answered).matches
    assert "round.json" in audit(tmp_path, replace(answered, max_n=7, quorum=3)).difference
    assert "max_n" in audit(tmp_path, replace(answered, max_n=7, quorum=3)).difference


def test_refusals_are_part_of_the_release(tmp_path):
    release = recorded(tmp_path, without=("b",))
    assert list(release.refused) == ["b"]
    assert audit(tmp_path).matches


def rewritten(folder, change):
    """A record whose lines and files were changed with all digests made to fit again."""
    previous, lines = "0" * 64, []
    for line in (folder / "log.jsonl").read_text().splitlines():
        entry = change(json.loads(line))
        if entry is None:
            continue
        if "file" in entry:
            entry["sha256"] = sha256((folder / entry["file"]).read_bytes()).hexdigest()
        entry["previous"] = previous
        lines.append(json.dumps(entry) + "\n")
        previous = sha256(lines[-1].encode()).hexdigest()
    (folder / "log.jsonl").write_text("".join(lines))


def test_a_changed_answer_is_named(tmp_path):
    recorded(tmp_path)
    path = tmp_path / "answers" / "step-0" / "b.json"
    path.write_bytes(path.read_bytes().replace(b'"n":5', b'"n":6'))
    assert "answers/step-0/b.json" in audit(tmp_path).difference
    rewritten(tmp_path, lambda entry: entry)
    assert audit(tmp_path).difference.startswith("record.json: threshold (outcomes[0].value): ")


def test_a_changed_release_is_named(tmp_path):
    recorded(tmp_path)
    path = tmp_path / "release.json"
    text = json.loads(path.read_text())
    text["outcomes"][1]["value" if "value" in text["outcomes"][1] else "threshold"] = 0.5
    path.write_text(json.dumps(text))
    rewritten(tmp_path, lambda entry: entry)
    difference = audit(tmp_path).difference
    assert difference.startswith("release.json: threshold (outcomes[1].")
    assert "0.5" in difference


def test_an_answer_left_out_of_the_log_changes_the_release(tmp_path):
    recorded(tmp_path)
    rewritten(tmp_path, lambda e: None if (e["event"], e.get("agent")) == ("accepted", "c") else e)
    assert audit(tmp_path).difference.startswith("record.json: ")


@pytest.mark.parametrize("line", [b"no json\n", b"[]\n", b'{"event": "closed"}\n'])
def test_a_damaged_log_is_reported(tmp_path, line):
    recorded(tmp_path)
    with (tmp_path / "log.jsonl").open("ab") as log:
        log.write(line)
    assert "cannot be read" in audit(tmp_path).difference


def test_a_round_without_release_says_so(tmp_path):
    round = Round(
        new_id(), choose_method("fedwq-cp"), choose_score(Custom()), (0.2,), tuple(DATA), 2
    )
    Ledger(tmp_path / "failed", round).failed("nobody came")
    assert audit(tmp_path / "failed").difference
    Ledger(tmp_path / "open", round)
    assert not audit(tmp_path / "open").matches
    assert audit(tmp_path / "open").failed
    with pytest.raises(InputError):
        Ledger(tmp_path / "open", round)
    with pytest.raises(InputError, match="cannot read"):
        audit(tmp_path / "nowhere")


def test_a_file_outside_the_record_is_not_read(tmp_path):
    recorded(tmp_path / "one")
    recorded(tmp_path / "two")
    elsewhere = "../two/answers/step-0/a.json"
    rewritten(
        tmp_path / "one",
        lambda e: {**e, "file": elsewhere} if e.get("file") == "answers/step-0/a.json" else e,
    )
    difference = audit(tmp_path / "one").difference
    assert f"{elsewhere}" in difference


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_lines_that_were_cut_off_the_end_are_missed(tmp_path, cut):
    recorded(tmp_path)
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "log.jsonl").write_bytes(b"".join(lines[:-cut]))
    found = audit(tmp_path)
    assert not found.matches
    assert "log.jsonl" in found.difference


@pytest.mark.parametrize(
    "change",
    [
        {"agents": ["nobody"]},
        {"agents": ["a", "a"]},
        {"agents": "a"},
        {"agents": [["a"]]},
        {"agents": None},
        {"reason": 3},
        {"more": "words"},
    ],
)
def test_the_last_line_says_what_a_server_can_say(change, tmp_path):
    terms = Round("r", Choice("split-cp"), Choice("lac"), (0.1,), ("a", "b"), 2)
    ledger = Ledger(tmp_path, terms)
    ledger.released(Server(terms).release())
    ledger.stored(("a",))
    assert audit(tmp_path).matches
    *lines, last = (tmp_path / "log.jsonl").read_bytes().splitlines(keepends=True)
    spaced = json.dumps(json.loads(last), indent=1).replace("\n", "").encode() + b"\n"
    for changed in (spaced, json.dumps({**json.loads(last), **change}).encode() + b"\n"):
        (tmp_path / "log.jsonl").write_bytes(b"".join([*lines, changed]))
        assert "log.jsonl" in audit(tmp_path).difference


def test_an_answer_that_would_be_refused_is_noticed(tmp_path):
    recorded(tmp_path)
    path = tmp_path / "answers" / "step-0" / "b.json"
    path.write_bytes(path.read_bytes().replace(b'"agent":"b"', b'"agent":"a"'))
    rewritten(tmp_path, lambda entry: entry)
    assert "b.json" in audit(tmp_path).difference


@pytest.mark.parametrize("name", ["log.jsonl", "round.json", "record.json"])
def test_nested_files_are_named_and_not_followed(tmp_path, name):
    recorded(tmp_path)
    (tmp_path / name).write_bytes(b"[" * 10**5 + b"]" * 10**5 + b"\n")
    if name != "log.jsonl":
        rewritten(tmp_path, lambda entry: entry)
    assert name in audit(tmp_path).difference
