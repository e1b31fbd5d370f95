"""What commands print: one JSON object for scripts, and the table of agents."""

from __future__ import annotations

import json
import subprocess
import sys
from math import inf
from pathlib import Path

import numpy as np
import pytest

from command_line import COMMANDS, OPEN, call, call_json
from fedwqcp import methods
from fedwqcp.cli import main
from fedwqcp.cli.output import VERSION, Output
from fedwqcp.errors import InputError
from four_hospitals import SITES


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_it(name):
    flags = [p for p in COMMANDS[name].params if "--json" in p.opts]
    assert [flag.is_flag for flag in flags] == [True]


def test_numbers_that_json_lacks_become_text(capsys):
    Output(True).done(
        n=np.int64(3),
        row=np.array([0.5, inf]),
        threshold=inf,
        nested=({"low": -inf},),
        path=Path("a") / "b",
    )
    facts = json.loads(capsys.readouterr().out)
    assert facts["version"] == VERSION
    assert facts["threshold"] == "inf"
    assert (facts["n"], facts["row"]) == (3, [0.5, "inf"])
    assert facts["nested"] == [{"low": "-inf"}]
    assert facts["path"] == "a/b"


def test_words_and_facts_are_never_mixed(capsys):
    words, facts = Output(False), Output(True)
    for output in (words, facts):
        output.say("[hello]")
        output.done("{n} of {n}".format, n=1)
    assert capsys.readouterr().out == '[hello]\n1 of 1\n{"version": 1, "n": 1}\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with a roster, outputs of two agents, and a closed round of the ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    (tmp_path / "roster.toml").write_text('agents = ["a", "b"]\nn_classes = 3\n')
    rng = np.random.default_rng(5)
    for name in ("a", "b"):
        probs = rng.dirichlet([1, 2, 3], size=60)
        np.savez(f"{name}.npz", probs=probs, labels=rng.integers(0, 3, size=60))
    return tmp_path


def test_a_round(folder):
    opened = call_json(*OPEN, "--agents", "roster.toml", "--alpha", 0.1)
    assert opened["agents"] == ["a", "b"]
    assert opened["file"] == "round.json"
    for name in ("a", "b"):
        facts = call_json("agent", "calibrate", "--round", "round.json", "--outputs", f"{name}.npz",
                    "--agent", name)  # fmt: skip
        assert facts["bytes"] == (folder / facts["answer"]).stat().st_size
        assert (facts["new"], facts["budget_left"]) == (True, None)
        assert [finding["code"] for finding in facts["findings"]] == ["no-ids"]
    closed = call_json("server", "close", "round.json", "a.json", "b.json")
    assert closed["release"] == "release.json"
    assert closed["guarantee"] == {"kind": "none", "strength": "none"}
    assert [agent["status"] for agent in closed["agents"]] == ["used", "used"]
    assert [found["alpha"] for found in closed["diagnoses"]] == [0.1]
    sets = call_json("agent", "predict", "--release", "release.json", "--outputs", "b.npz",
                "--agent", "b")  # fmt: skip
    (found,) = sets["measured"]
    assert sets["n"] == found["n"] == 60
    assert found["low"] <= found["coverage"] <= found["high"]
    assert len((folder / sets["sets"]).read_text().splitlines()) == 61
    own = call_json("agent", "predictor", "--release", "release.json", "--round", "round.json",
                    "--agent", "b", "--calibration", "b.npz", "--out", "own.json")  # fmt: skip
    assert own["levels"][0]["thresholds"] == [[sets["threshold"][0]]]
    read = ("agent", "predict", "--predictor", "own.json", "--outputs", "b.npz")
    with pytest.raises(InputError):  # it would be replaced
        call(*read, "--out", "own.json")
    assert call_json("agent", "page", "sets.html")["files"] == ["sets.html"]


def test_lists():
    listed = call_json("methods")["methods"]
    assert tuple(row["name"] for row in listed) == methods.available()
    assert next(r for r in listed if r["name"] == "fedwq-cp")["settings"]["overflow"] == "propagate"
    assert call_json("methods", "fcp")["name"] == "fcp"
    assert "aps" in {row["name"] for row in call_json("scores")["scores"]}


def test_keys_for_trying_out(folder):
    pytest.importorskip("cryptography")
    facts = call_json("certs", "keys", "--agent", "a")
    assert "keys/server.pem" in facts["files"]


def test_keys_that_sign(folder):
    pytest.importorskip("cryptography")
    made = call_json("keys", "new", "site.pem")
    assert made["key"] == "site.pem"
    assert call_json("keys", "show", "site.pem")["public"] == made["public"]


def test_an_app_of_ones_own(folder):
    pytest.importorskip("flwr")
    assert "my-app/pyproject.toml" in call_json("flower", "new", "my-app")["files"]


def test_a_job_of_ones_own(folder):
    pytest.importorskip("nvflare.apis")
    assert "my-job/meta.json" in call_json("nvflare", "new", "my-job")["files"]


def test_a_startup_kit(folder):
    pytest.importorskip("nvflare.apis")
    Path("kit/local").mkdir(parents=True)
    Path("kit/local/resources.json.default").write_text('{"components": []}')
    Path("kit/local/authorization.json.default").write_text('{"permissions": {}}')
    assert "kit/local/resources.json" in call_json("nvflare", "allow", "kit")["files"]


def test_the_demo(folder, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    pytest.importorskip("sklearn")
    monkeypatch.setattr(main, "hospitals", SITES)
    facts = call_json("demo", "--out", "out")
    assert (facts["report"], facts["files"]) == ("out/report.html", ["out/demo.png"])
    assert set(facts["covered"]) == {site.name for site in SITES(0)}


def test_a_site_sees_what_it_told_and_what_waits(tmp_path):
    (tmp_path / "roster.toml").write_text('agents = ["a", "b"]')
    call("server", "open", "--agents", tmp_path / "roster.toml", "--alpha", 0.1,
         "--method", "fedwq-cp", "--out", tmp_path / "round.json")  # fmt: skip
    np.savez(tmp_path / "cal.npz", probs=np.tile([0.25, 0.75], (30, 1)), labels=[1] * 30)
    call("agent", "calibrate", "--round", tmp_path / "round.json", "--agent", "a",
         "--outputs", tmp_path / "cal.npz", "--out", tmp_path / "a.json")  # fmt: skip
    facts = call_json("agent", "ledger", tmp_path / "cal.npz")
    assert facts["accounts"] == [{"of": "everybody", "people": 30, "told": 1, "left": 5}]
    assert not call_json("agent", "ledger", tmp_path / "cal.npz.ledger", "--renew")["accounts"]
    assert call_json("agent", "folder", tmp_path / "site")["new"]
    (tmp_path / "site" / "ledger").mkdir()
    for command, path in (("ledger", "other.ledger"), ("ledger", "site"), ("approve", "none")):
        with pytest.raises(InputError):  # "nothing" of the wrong folder would be false comfort
            call("agent", command, tmp_path / path)
    assert call_json("agent", "approve", tmp_path / "site")["waiting"] == []


@pytest.mark.parametrize(
    ("name", "text"), [("FEDWQCP_BACKEND", "Numba"), ("FEDWQCP_THREADS", "two")]
)
def test_a_wrong_environment_is_refused_before_anything_is_done(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(InputError):
        call_json("methods")


def test_an_error_leaves_stdout_empty(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fedwqcp", "audit", str(tmp_path / "nowhere"), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
