"""What the server runs: closing rounds, advice from records, audits, trial certificates."""

from __future__ import annotations

import numpy as np
import pytest

import fedwqcp as fw
from command_line import OPEN, call, call_json, refusal
from fedwqcp.errors import InputError
from fedwqcp.federation.audit import audit as recompute
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.record import Ledger
from fedwqcp.federation.server import Server
from fedwqcp.federation.transport.folder import read_round
from fedwqcp.wire.messages import Round
from worked import drawn

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Outputs of four agents, of which b's labels are what its model thinks least likely."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "roster.toml").write_text('agents = ["a", "b", "c", "d"]\nn_classes = 3\n')
    rng = np.random.default_rng(0)
    for name in NAMES:
        probs, labels = drawn(rng, 60)
        np.savez(f"{name}.npz", probs=probs, labels=probs.argmin(1) if name == "b" else labels)
    return tmp_path


@pytest.mark.parametrize(
    ("more", "target"),
    [
        (("fedls-cp",), "own"),
        (("fedls-cp", "--target", "mixture"), "mixture"),
        (("fedls-cp", "--target", "0.2,0.8"), (0.2, 0.8)),
        (("split-cp", "--target", "mixture"), "mixture"),
        (("fedls-cp", "--setting", "target=mixture"), None),
        (("fedls-cp", "--target", "0.2,0.3,0.5"), None),
        (("fedwq-cp", "--target", "0.5,0.5"), None),
    ],
)
def test_a_round_says_whom_its_thresholds_are_for(more, target, tmp_path):
    roster, out = tmp_path / "roster.toml", tmp_path / "round.json"
    roster.write_text('agents = ["a", "b"]\nn_classes = 2\n')
    words = ("server", "open", "--agents", roster, "--alpha", 0.1, "--out", out, "--method", *more)
    if target is None:
        refusal(*words, code=2)
    else:
        call(*words)
        assert read_round(out).target == target


def terms_of(method):
    """A round of three hospitals."""
    agents = ("north", "south", "west")
    choices = choose_method(method), choose_score("lac")
    return Round(new_id(), *choices, (0.1,), agents, 3, max_n=100, n_classes=2)


def recorded(folder, method="split-cp"):
    """A round of which nothing but its record is left."""
    terms = terms_of(method)
    ledger = Ledger(folder, terms)
    ledger.released(Server(terms).release())
    ledger.stored(())
    return terms


def test_audit_says_whether_a_record_matches(tmp_path):
    terms = recorded(tmp_path)
    audited = recompute(tmp_path)
    assert audited.matches
    made, said = audited.release.provenance, call("audit", tmp_path)
    assert made.keys() == {"created", "software"}
    assert all(text in said for text in (terms.id, *made.values(), "south: not asked"))
    (tmp_path / "release.json").write_text("{}")
    assert "release.json" in call("audit", tmp_path, code=1)
    (facts,) = call_json("audit", tmp_path, code=1)["records"]
    assert (facts["matches"], facts["record"]) == (False, str(tmp_path))
    assert facts["difference"].startswith("release.json")


def test_audit_tells_a_round_without_a_release_from_a_changed_record(tmp_path):
    ledger = Ledger(tmp_path / "1", terms_of("split-cp"))
    ledger.failed("the quorum")
    (facts,) = call_json("audit", tmp_path / "1", code=6)["records"]
    assert (facts["matches"], facts["failed"]) == (False, "the quorum")
    (tmp_path / "1" / "record.json").write_text("{}")  # a release was there
    assert call_json("audit", tmp_path / "1", code=1)["records"][0]["failed"] == ""


def test_several_records_and_folders_of_them(tmp_path):
    ids = [recorded(tmp_path / "records" / name).id for name in ("1", "2")]
    recorded(tmp_path / "other")
    (tmp_path / "records" / "notes.txt").write_text("not a round")
    said = call("audit", tmp_path / "records" / "1", tmp_path / "records" / "2")
    assert [line.split()[2].rstrip(",") for line in said.splitlines() if "matches" in line] == ids
    assert call("audit", tmp_path / "records") == said
    facts = call_json("audit", tmp_path / "records", tmp_path / "other")["records"]
    assert [each["matches"] for each in facts] == [True] * 3
    (tmp_path / "records" / "2" / "release.json").write_text("{}")
    said = call("audit", tmp_path / "records", code=1)
    assert f"matches: round {ids[0]}" in said
    assert f"{tmp_path / 'records' / '2'}" in said
    facts = call_json("audit", tmp_path / "records", code=1)["records"]
    assert [each["matches"] for each in facts] == [True, False]


def test_what_is_no_whole_record_is_named_and_a_stopped_round_is_no_changed_one(tmp_path):
    records = tmp_path / "records"
    recorded(records / "1")
    Ledger(records / "2", terms_of("split-cp"))  # its coordinator was killed
    stopped = call_json("audit", records, code=6)["records"]
    assert [bool(each["failed"]) for each in stopped] == [False, True]
    recorded(records / "3")
    (records / "3" / "log.jsonl").unlink()
    (records / "4").mkdir()
    facts = call_json("audit", records, code=1)["records"]
    assert [each["record"][-1] for each in facts] == ["1", "2", "3", "4"]
    assert [each["matches"] for each in facts] == [True, False, False, False]
    assert [bool(each["failed"]) for each in facts] == [False, True, False, False]


def test_two_rounds_share_no_file_and_a_folder_holds_the_answers(folder):
    with open("roster.toml", "a") as file:
        file.write("quorum = 2\n")
    ids = []
    for _ in range(2):
        facts = call_json(*OPEN, "--agents", "roster.toml", "--score", "lac",
                          "--alpha", 0.1, plain=False)  # fmt: skip
        ids.append(facts["round"])
        assert facts["file"] == f"round-{ids[-1]}.json"
    (folder / "answers").mkdir()
    for id in ids:
        for name in NAMES[:2]:
            call("agent", "calibrate", "--round", f"round-{id}.json", "--outputs", f"{name}.npz",
                 "--agent", name, plain=False)  # fmt: skip
            (folder / f"{name}-{id}.json").rename(folder / "answers" / f"{name}-{id}.json")
    said = call("server", "close", f"round-{ids[0]}.json", "answers", plain=False)
    assert f"{ids[0]}" in said
    assert fw.load(f"release-{ids[0]}.json").used == ("a", "b")
    call("agent", "predict", "--release", f"release-{ids[0]}.json", "--outputs", "c.npz",
         "--agent", "c", "--round", f"round-{ids[0]}.json", plain=False)  # fmt: skip
    assert (folder / f"sets-c-{ids[0]}.csv").exists()
    call("server", "close", f"round-{ids[1]}.json", "answers", plain=False)
    (folder / "empty").mkdir()
    with pytest.raises(InputError):
        call("server", "close", f"round-{ids[1]}.json", "empty", plain=False)
