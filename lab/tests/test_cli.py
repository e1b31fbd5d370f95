import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fedwqcp.cli.output import VERSION
from fedwqcp.errors import InputError
from fedwqcp_lab import cli as bench
from fedwqcp_lab import unit as units
from fedwqcp_lab.stages import Folder
from fedwqcp_lab.toml import parse_seeds
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


def test_fetched_data_need_no_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    monkeypatch.setenv("FEDWQCP_CACHE", str(tmp_path))
    monkeypatch.setattr(bench.dataset_files, "SYSTEM_FOLDERS", ())
    seen = []
    monkeypatch.setattr(
        bench, "run", lambda experiment, where, **rest: seen.append(experiment.name) or 0
    )
    call(bench.app, "reproduce", "--quick")
    call(bench.app, "reproduce", "--quick", "--datasets", "bloodmnist")
    for name in bench.QUICK:
        (tmp_path / f"{name}.npz").touch()
    call(bench.app, "reproduce", "--quick")
    call(bench.app, "reproduce")
    assert seen == ["embedded", "paper", "paper", "embedded"]


def test_quick_means_two_seeds_of_the_small_datasets(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        bench, "run", lambda experiment, where, **rest: seen.append(experiment) or 0
    )
    call(bench.app, "reproduce", "--data", tmp_path, "--quick", "--out", tmp_path / "o")
    call(bench.app, "reproduce", "--data", tmp_path, "--quick", "--datasets", "retinamnist")
    assert [plan.name for plan in seen[0].datasets] == ["retinamnist", "dermamnist", "bloodmnist"]
    assert seen[0].seeds == (0, 1)
    assert [plan.name for plan in seen[1].datasets] == ["retinamnist"]


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1--2", "1.5"])
def test_seeds_of_another_form_are_refused(text):
    with pytest.raises(InputError, match="seeds are written like"):
        parse_seeds(text)


def facts(*words):
    """Run a command with ``--json`` and return the one object it prints."""
    done = CliRunner().invoke(bench.app, [*map(str, words), "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    (line,) = done.stdout.splitlines()
    told = json.loads(line)
    assert told["version"] == VERSION
    return told


def test_data():
    names = {row["name"] for row in facts("data", "list")["datasets"]}
    assert {"digits", "mnist"} <= names
    assert facts("data", "show", "friedman")["dataset"]["found"] == ["embedded"]
    assert facts("data", "verify", "friedman")["verdicts"][0]["verdict"] == "synthetic"
    assert facts("data", "fetch", "friedman")["files"] == {}


def test_experiments_as_json(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDWQCP_DATA", raising=False)
    small = replace(experiment(), datasets=experiment().datasets[:1], seeds=(0, 1))
    monkeypatch.setattr(bench, "load", lambda path: small)
    monkeypatch.setattr(bench, "embedded", lambda: small)
    for folder in ("runs", "again"):
        for seed in (0, 1):
            units.save(labels_unit(seed), Folder(tmp_path / folder).unit(small, ("blobs", seed)))
    assert facts("run", "e.toml", "--out", "runs")["units"] == 2
    found = facts("reproduce", "--out", "again")
    row = found["methods"][0]
    assert row["worst"] <= row["coverage"]
    assert row["seeds"] == 2
    monkeypatch.setattr(bench, "write", lambda source, out, against: (out / "tables.md",))
    assert facts("tables", "runs")["files"] == ["runs/tables/tables.md"]
    assert facts("figure", "coverage-vs-size", "runs", "-o", "f.svg")["files"] == ["f.svg"]


def test_studies_and_pages_as_json(monkeypatch):
    """The work itself is tested where it is done."""
    monkeypatch.setattr(bench.stress, "run", lambda *_, **__: 3)
    monkeypatch.setattr(bench, "write_stress", lambda lines, out: (out / "stress.csv",))
    told = facts("stress", "--out", "study")
    assert (told["federations"], told["files"]) == (3, ["study/stress.csv"])
    monkeypatch.setattr(bench.liars_run, "run", lambda *_, **__: [1, 2])
    monkeypatch.setattr(bench.liars_page, "write", lambda records, out: (out / "tables.md",))
    told = facts("byzantine", "--out", "lies")
    assert (told["records"], told["files"]) == (2, ["lies/tables.md"])
    monkeypatch.setattr(bench.html_page, "write", lambda *parts: parts[1])
    assert facts("report", "runs", "-o", "r.html")["files"] == ["r.html"]


def _walk(command, words=()):
    """Yield every command with its words."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(words), command
        return
    for name, each in inner.items():
        yield from _walk(each, (*words, name))


COMMANDS = dict(_walk(typer.main.get_command(bench.app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json_and_is_tested_with_it(name):
    flags = [p for p in COMMANDS[name].params if "--json" in p.opts]
    assert [flag.is_flag for flag in flags] == [True]
    words = ", ".join(f'"{word}"' for word in name.split())
    assert f"facts({words}" in Path(__file__).read_text(encoding="utf-8")
