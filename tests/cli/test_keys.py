"""Signed answers by files, from the keys to the audit."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest

from changed import replace
from command_line import OPEN, call, refusal
from fedwqcp.federation.record import load
from fedwqcp.federation.server import Server
from fedwqcp.wire.codec import encode
from fedwqcp.wire.messages import Answer

pytest.importorskip("cryptography")


def run(*words, code=0):
    """Run a command; one that is refused gives the text of its error."""
    return call(*words, code=code) if code <= 1 else refusal(*words, code=code)


@pytest.mark.parametrize("name", ["st.mary", "köln", "north"])
def test_what_is_printed_for_the_roster_is_toml(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    line = run("keys", "new", f"{name}.pem").splitlines()[-1]
    assert list(tomllib.loads(line)) == [name]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder with two sites' keys and outputs, and the server's roster."""
    monkeypatch.chdir(tmp_path)
    lines = ['agents = ["north", "south"]', "n_classes = 3", "quorum = 1", "[keys]"]
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        said = run("keys", "new", f"{name}.pem")
        lines.append(said.splitlines()[-1])
        assert run("keys", "show", f"{name}.pem").strip() == lines[-1]
        np.savez(
            f"{name}.npz", probs=rng.dirichlet([1, 1, 1], size=60), labels=rng.integers(0, 3, 60)
        )
    (tmp_path / "agents.toml").write_text("\n".join(lines))
    return tmp_path


def opened(*more):
    """Open a round."""
    return run(*OPEN, "--agents", "agents.toml", "--alpha", "0.2", *more)


def answered(name, *more, code=0):
    """Answer it as one site."""
    what = ("--round", "round.json", "--outputs", f"{name}.npz", "--agent", name)
    return run("agent", "calibrate", *what, *more, code=code)


def closed(code=0):
    """Close it with all answers."""
    return run("server", "close", "round.json", "north.json", "south.json", code=code)


def test_a_signed_round_by_files_from_the_keys_to_the_audit(site):
    opened()
    assert "--sign-key" in answered("north", code=2)
    for name in ("north", "south"):
        answered(name, "--sign-key", f"{name}.pem")
    before = (site / "north.json").read_bytes()
    answered("north", "--sign-key", "north.pem")
    assert (site / "north.json").read_bytes() == before
    assert "closed" in closed()
    assert "matches" in run("audit", "round.record.json")
    assert b"signature" not in (site / "release.json").read_bytes()
    record = json.loads((site / "round.record.json").read_bytes())
    assert record["signatures"]["north"] == [json.loads(before)["signature"]]


def test_a_roster_names_the_keys_of_all_agents_or_none(site):
    lines = (site / "agents.toml").read_text()
    for text in (
        lines.replace("south =", "# south ="),
        'agents = ["a"]\nkeys = 3\n',
        'agents = ["a"]\n[keys]\na = 3\n',
    ):
        (site / "agents.toml").write_text(text)
        run(*OPEN, "--agents", "agents.toml", "--alpha", "0.2", code=2)


def test_an_audit_with_the_round_that_was_answered_finds_a_record_without_its_keys(site):
    opened()
    for name in ("north", "south"):
        answered(name, "--sign-key", f"{name}.pem")
    closed()
    run("audit", "round.record.json", "--round", "round.json")
    kept = load("round.record.json")
    round = replace(kept.round, keys={})  # the server takes the keys out, and changes an answer
    server = Server(round)
    server.asks()
    for name, (summary,) in kept.received.items():
        other = Answer(
            round=round.id, terms=server.plan.terms, step=0, agent=name, method=round.method.name,
            score=round.score.name, alphas=round.alphas, answers=(replace(summary, threshold=0.5),),
        )  # fmt: skip
        assert server.receive(encode(other), name) is None
    server.close_step()
    (site / "round.record.json").write_bytes(encode(server.release()))
    assert "none is signed" in run("audit", "round.record.json")
    assert json.loads(run("audit", "round.record.json", "--json"))["records"][0]["signed"] is False
    run("audit", "round.record.json", "--round", "round.json", code=1)


def left_out(record, reason):
    """Leave south out of a record: its thresholds are those of north alone."""
    record["agents"][1].update(status="refused" if reason else "missing", reason=reason)
    for kept in ("received", "signatures"):
        record[kept].pop("south", None)
    record["outcomes"][0]["value"] = record["received"]["north"][0]["threshold"]


def test_an_audit_says_that_left_out_agents_are_the_server_s_word(site):
    opened()
    for name in ("north", "south"):
        answered(name, "--sign-key", f"{name}.pem")
    closed()
    assert "word" not in run("audit", "round.record.json")
    record = json.loads((site / "round.record.json").read_bytes())
    left_out(record, "n: south cheated")
    (site / "round.record.json").write_text(json.dumps(record))
    run("audit", "round.record.json", "--round", "round.json")
    closed(code=2)  # where the answers are, the record is held against them


FIELDS = {
    "rounds": lambda record: record.update(rounds=7),
    "advice": lambda record: record.update(advice="use split-cp"),
    "assumption": lambda record: record.update(assumption="none"),
    "agents[north].bytes_up": lambda record: record["agents"][0].update(bytes_up=10**9),
    "agents[north].bytes_down": lambda record: record["agents"][0].update(bytes_down=1),
    "agents[north].reason": lambda record: record["agents"][0].update(reason="n: wrong"),
    "agents[north].status": lambda record: record["agents"][0].update(status="missing"),
    "absent": lambda record: record.update(absent={"x": ["north"]}),
    "outcomes[0].value": lambda record: record["outcomes"][0].update(value=0.5),
    "'north': signature": lambda record: record["received"]["north"][0].update(threshold=0.5),
    "signature: is": lambda record: record["received"]["north"][0].update(n=7),
    "signature": lambda record: record.update(signatures={}),
}


@pytest.mark.parametrize("field", FIELDS)
def test_an_audit_by_files_compares_every_field(site, field):
    opened()
    for name in ("north", "south"):
        answered(name, "--sign-key", f"{name}.pem")
    closed()
    assert "matches" in run("audit", "round.record.json")
    record = json.loads((site / "round.record.json").read_bytes())
    FIELDS[field](record)
    (site / "round.record.json").write_text(json.dumps(record))
    said = run("audit", "round.record.json", code=1)
    assert f"{field}" in said
