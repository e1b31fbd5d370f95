"""The commands ``audit``, ``certs`` and ``flower new``, called as functions of the program."""

from __future__ import annotations

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import fedwqcp as fw
from fedwqcp.cli import keys
from fedwqcp.cli import server as commands
from fedwqcp.errors import InputError
from fedwqcp.federation.agent import Agent
from fedwqcp.federation.audit import audit as recompute
from fedwqcp.federation.plan import Plan, choose_method, choose_score, new_id
from fedwqcp.federation.record import Ledger
from fedwqcp.federation.secure import SecureServer, plain_ask, secure_round, words_of
from fedwqcp.federation.server import Server
from fedwqcp.wire.round import Round


def program(command):
    """A program of one command."""
    app = typer.Typer()
    app.command()(command)
    return app


def run(command, *arguments):
    """Run a command; its own errors come through."""
    done = CliRunner().invoke(program(command), [str(a) for a in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def differing(*arguments):
    """What is said by a command that ends with the code for a difference."""
    done = CliRunner().invoke(program(commands.audit), [str(a) for a in arguments])
    assert done.exit_code == commands.DIFFERS == 1
    return done.stdout


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
    assert recompute(tmp_path).matches
    said = run(commands.audit, tmp_path)
    assert f"matches: round {terms.id}, split-cp, its terms alone give the release" in said
    assert "south: used" in said
    (tmp_path / "release.json").write_text("{}")
    assert "does not match: release.json" in differing(tmp_path)
    told = json.loads(differing(tmp_path, "--json"))
    assert (told["matches"], told["record"]) == (False, str(tmp_path))
    assert told["difference"].startswith("release.json")


def test_several_records_and_folders_of_them(tmp_path):
    ids = [recorded(tmp_path / "records" / name).id for name in ("1", "2")]
    recorded(tmp_path / "other")
    (tmp_path / "records" / "notes.txt").write_text("not a round")
    said = run(commands.audit, tmp_path / "records" / "1", tmp_path / "records" / "2")
    assert [line.split()[2].rstrip(",") for line in said.splitlines() if "matches" in line] == ids
    assert run(commands.audit, tmp_path / "records") == said
    told = json.loads(run(commands.audit, tmp_path / "records", tmp_path / "other", "--json"))
    assert [each["matches"] for each in told] == [True] * 3
    assert [each["version"] for each in told] == [1] * 3
    (tmp_path / "records" / "2" / "release.json").write_text("{}")
    said = differing(tmp_path / "records")
    assert f"matches: round {ids[0]}" in said
    assert f"{tmp_path / 'records' / '2'} does not match: release.json" in said
    told = json.loads(differing(tmp_path / "records", "--json"))
    assert [each["matches"] for each in told] == [True, False]


def test_one_record_in_a_folder_of_records_is_told_as_a_list(tmp_path):
    terms = recorded(tmp_path / "records" / "1")
    (told,) = json.loads(run(commands.audit, tmp_path / "records", "--json"))
    assert told["round"] == terms.id
    assert json.loads(run(commands.audit, tmp_path / "records" / "1", "--json")) == told


def test_what_can_be_audited_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "round.json").write_text("{}")
    for name, what in (
        ("nowhere", "it does not exist"),
        ("empty", "it holds none"),
        ("round.json", "that is a file"),
    ):
        with pytest.raises(InputError, match=rf"cannot read .*records/ID, with log\.jsonl.*{what}"):
            run(commands.audit, tmp_path / name)


def test_a_secure_round_rests_on_sums(tmp_path):
    terms = secure_round(terms_of("fedwq-cp"), (0.0, 1.0))
    plan, ledger = Plan.of(terms), Ledger(tmp_path, terms)
    server = SecureServer(plan)
    cal = fw.Calibration(np.arange(1, 41) / 40)
    agents = [Agent(name, terms, cal) for name in terms.agents]
    ask = server.ask()
    words = [words_of(plan, ask, a.answer(plain_ask(plan, ask))) for a in agents]
    totals = [int(total) for total in np.sum(words, axis=0)]
    ledger.summed(0, terms.agents, totals)
    server.receive(terms.agents, totals)
    ledger.released(server.release(1))
    ledger.stored(())
    assert recompute(tmp_path).sums == 1
    assert "fedwq-cp, the sums over 3 agents give the release" in run(commands.audit, tmp_path)


def test_certs_writes_a_key_for_each_site(tmp_path):
    pytest.importorskip("cryptography")
    said = run(keys.certs, tmp_path / "c", "--agent", "north", "--agent", "south")
    assert "hands over keys/NAME.pub alone" in said
    assert (tmp_path / "c" / "keys" / "south.pub").exists()
    assert (tmp_path / "c" / "ca.crt").exists()


def test_flower_new_writes_an_app(tmp_path):
    pytest.importorskip("flwr")
    from fedwqcp.cli import flower

    done = CliRunner().invoke(flower.app, ["new", str(tmp_path / "my-app")])
    assert done.exit_code == 0
    assert (tmp_path / "my-app" / "my_app" / "client_app.py").exists()
