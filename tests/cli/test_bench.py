import pytest
from typer.testing import CliRunner

from fedwqcp.bench import unit as units
from fedwqcp.bench.stages import Folder
from fedwqcp.bench.toml import parse_seeds
from fedwqcp.cli import bench, report
from fedwqcp.errors import InputError
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
    made = call(report.app, "tables", out, "--against", "published")
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
    monkeypatch.setattr(bench.resolve, "SYSTEM_FOLDERS", ())
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
