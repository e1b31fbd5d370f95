"""The command ``fedwqcp-lab``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from command_line import commands
from fedwqcp.errors import InputError
from fedwqcp_lab import cli as bench
from fedwqcp_lab import unit as units
from fedwqcp_lab.cli import data_app as app
from fedwqcp_lab.datasets import catalog, files
from fedwqcp_lab.pipeline import Folder
from made_data import arrays, entry, npz, remote
from units import experiment, labels_unit

CONFIG = """
name = "small"
alpha = 0.1
beta = 0.5
seeds = [0, 1, 2]
strong = 2
weak = 1
datasets = [{ name = "blobs" }, { name = "lines" }]

[[presets]]
name = "paper"
labels = { name = "aps", randomized = false }

[[methods]]
name = "split-cp"
method = "split-cp"

[[methods]]
name = "fedwq-cp"
method = "fedwq-cp"
"""


def call(app, *words):
    """Run a command."""
    return CliRunner().invoke(app, [str(word) for word in words])


def test_run_then_tables(tmp_path):
    pytest.importorskip("matplotlib")
    config, out = tmp_path / "e.toml", tmp_path / "out"
    config.write_text(CONFIG)
    for seed in (0, 1):
        units.save(labels_unit(seed), Folder(out).unit(experiment(), ("blobs", seed)))
    done = call(bench.app, "run", config, "--out", out, "--datasets", "blobs", "--seeds", "0-1")
    assert done.exit_code == 0, done.output
    assert "2 units done" in done.output
    again = call(bench.app, "run", config, "--out", out, "--datasets", "blobs", "--seeds", "0-1")
    assert isinstance(again.exception, InputError)
    made = call(bench.app, "tables", out, "--against", "published")
    assert made.exit_code == 0, made.output
    assert (out / "tables" / "tables.md").exists()


def test_the_embedded_data_run_without_a_folder(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    small = experiment(
        datasets=(bench.embedded().datasets[1],),
        strong_epochs=1,
        seeds=(0,),
        presets=experiment().presets[:1],
    )
    monkeypatch.setattr(bench, "embedded", lambda: small)
    done = call(bench.app, "reproduce", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "embedded datasets" in done.output
    assert "synthetic (Friedman)" in (tmp_path / "tables" / "tables.md").read_text()


def facts(*words):
    """Run a command with ``--json`` and return the one object it prints."""
    done = call(bench.app, *words, "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert found["version"] == 1
    return found


def test_data():
    names = {row["name"] for row in facts("data", "list")["datasets"]}
    assert {"digits", "mnist"} <= names
    assert facts("data", "show", "friedman")["dataset"]["found"] == ["embedded"]
    assert facts("data", "verify", "friedman")["verdicts"][0]["verdict"] == "synthetic"
    assert facts("data", "fetch", "friedman")["files"] == {}


def test_tables_counts_the_published_cells_that_a_reading_gives(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # xdist's workers have 80, where names are cut
    results = Path(__file__).resolve().parents[2] / "results"
    monkeypatch.setattr(bench, "write", lambda source, out, against: (out / "explained.md",))
    found = facts("tables", results)
    *methods, total = found["explained"]
    given = {row["published row"]: int(row["inside"]) + int(row["overlapping"]) for row in methods}
    assert len(given) == 6
    assert total["cells"] == "320"
    assert sum(given.values()) == 320 - len(found["outside"]) >= 290
    tried = {row["published row"]: row["other rows tried"] != "0" for row in found["outside"]}
    assert tried == {"fedwq-cp": False, "fcp": False, "cphet": True, "dp-fedcp": True}
    shown = call(bench.app, "tables", results).output
    assert "320" in shown
    assert "[subset]" in shown  # a stand-in is called so


COMMANDS = commands(typer.main.get_command(bench.app))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json(name):
    assert [p.is_flag for p in COMMANDS[name].params if "--json" in p.opts] == [True]


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """Give a data folder with a made MNIST that can also be downloaded."""
    made = arrays()
    body = npz(made)
    (tmp_path / "there.npz").write_bytes(body)
    mnist = entry(
        "mnist", made, remote=(remote("mnist.npz", body, (tmp_path / "there.npz").as_uri()),)
    )
    others = tuple(catalog.find(name) for name in ("bloodmnist", "friedman"))
    monkeypatch.setattr(catalog, "CATALOG", (mnist, *others))
    monkeypatch.setattr(files, "SYSTEM_FOLDERS", ())
    monkeypatch.setenv("FEDWQCP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mnist.npz").write_bytes(body)
    return tmp_path / "data"


def run(*words, code=0):
    """Run a command and return what it printed."""
    done = call(app, *words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def test_verify_fails_where_a_file_is_another(shelf):
    (shelf / "mnist.npz").write_bytes(npz(arrays(seed=1)))
    assert "unsound" in run("verify", "--data", shelf, code=2)
    (mnist, *_) = json.loads(run("verify", "--data", shelf, "--json", code=2))["verdicts"]
    assert mnist["verdict"] == "unsound"
