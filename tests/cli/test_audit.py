"""The commands ``audit``, ``certs`` and ``flower new``, called as functions of the program."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from fedwqcp.cli import audit, certs
from fedwqcp.errors import InputError, RecordError
from fedwqcp.federation.plan import choose_method, choose_score, new_id
from fedwqcp.federation.record.audit import audit as recompute
from fedwqcp.federation.record.ledger import Ledger
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


def test_audit_says_whether_a_record_matches(tmp_path):
    terms = Round(
        new_id(), choose_method("split-cp"), choose_score("lac"), (0.1,), ("north", "south"), 2
    )
    ledger = Ledger(tmp_path, terms)
    ledger.released(Server(terms).release())
    assert recompute(tmp_path).matches
    said = run(audit.audit, tmp_path)
    assert f"matches: round {terms.id}, split-cp" in said
    assert "south: used" in said
    (tmp_path / "release.json").write_text("{}")
    with pytest.raises(RecordError, match=r"does not match: release\.json"):
        run(audit.audit, tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        run(audit.audit, tmp_path / "nowhere")


def test_certs_writes_a_key_for_each_site(tmp_path):
    pytest.importorskip("cryptography")
    said = run(certs.certs, tmp_path / "c", "--agent", "north", "--agent", "south")
    assert "hands over keys/NAME.pub alone" in said
    assert (tmp_path / "c" / "keys" / "south.pub").exists()
    assert (tmp_path / "c" / "ca.crt").exists()


def test_flower_new_writes_an_app(tmp_path):
    pytest.importorskip("flwr")
    from fedwqcp.cli import flower

    done = CliRunner().invoke(flower.app, ["new", str(tmp_path / "my-app")])
    assert done.exit_code == 0
    assert (tmp_path / "my-app" / "my_app" / "client_app.py").exists()
