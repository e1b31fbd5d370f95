import sys
from functools import partial

import pytest

from fedwqcp import methods
from fedwqcp.cli import demo as command
from fedwqcp.demo import demo as bench
from fedwqcp.demo.records import load_records
from fedwqcp.errors import InputError, MissingExtraError

pytest.importorskip("altair", reason="needs fedwqcp[report]")
pytest.importorskip("vl_convert", reason="needs fedwqcp[report]")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Run the command on reduced data."""
    reduced = partial(bench.Demo, digits=300, friedman=300, epochs=1)
    monkeypatch.setattr(command, "Demo", reduced)


def test_tables_figure_and_records(tmp_path, capsys, monkeypatch):
    out = tmp_path / "new" / "out"
    monkeypatch.setattr(methods, "available", lambda: ("fedwq-cp", "split-cp"))
    command.demo(out=out, seed=3)
    said = capsys.readouterr().out
    assert "digits: classification" in said
    assert "synthetic (Friedman): regression" in said
    assert "too few points" in said
    assert sorted(file.name for file in out.iterdir()) == [
        "demo.png",
        "demo.svg",
        "records.jsonl",
        "report.html",
        "shown.jsonl",
    ]
    assert said.rstrip().endswith(f"Report: {out / 'report.html'}")
    records = load_records(out / "records.jsonl")
    assert {r.experiment for r in records} == {"methods", "overflow"}
    assert {r.seed for r in records} == {3}


@pytest.mark.parametrize("settings", [{"alpha": 5.0}, {"seed": -1}])
def test_wrong_settings_write_nothing(tmp_path, settings):
    with pytest.raises(InputError):
        command.demo(out=tmp_path / "out", **settings)
    assert not list(tmp_path.rglob("*.*"))


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("here")
    with pytest.raises(InputError, match="--out must be a folder"):
        command.demo(out=tmp_path / "out")


def test_a_missing_extra_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(command, "run", None)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[demo\]"):
        command.demo(out=tmp_path / "out")
