"""The demo's command: one screen, and figure, numbers and report as files."""

import json
import sys

import pytest

pytest.importorskip("altair", reason="needs fedwqcp[report]")
pytest.importorskip("vl_convert", reason="needs fedwqcp[report]")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from fedwqcp.cli import main as command
from fedwqcp.demo.demo import METHODS, load_results
from fedwqcp.errors import InputError, MissingExtraError
from four_hospitals import results


def test_one_screen_and_its_files(tmp_path, capsys):
    out = tmp_path / "new" / "out"
    command.demo(out=out)
    said = capsys.readouterr().out
    lines = said.strip("\n").splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines[:-2])) <= 80  # the last two name files, which may lie deep
    assert sorted(file.name for file in out.iterdir()) == [
        "demo.json", "demo.png", "demo.svg", "report.html",
    ]  # fmt: skip
    assert said.rstrip().endswith(f"Report: {out / 'report.html'}")
    assert load_results(out / "demo.json") == results()


def test_all_methods_are_shown_on_demand(tmp_path, capsys):
    command.demo(out=tmp_path, every=True)
    assert "guarded-median" in capsys.readouterr().out
    found = load_results(tmp_path / "demo.json")
    assert {f.method for f in found.of("four")} > set(METHODS)


def test_many_splits_are_one_table_and_one_file(tmp_path, capsys):
    command.demo(out=tmp_path, splits=2)
    said = capsys.readouterr().out
    assert "**Four hospitals**, 2 splits" in said
    assert "| `fedwq-cp` |" in said
    found = json.loads((tmp_path / "splits.json").read_text())
    assert {each["splits"] for each in found if each["act"] != "simulated"} == {2}
    assert {each["splits"] for each in found if each["act"] == "simulated"} == {2 * 20}
    assert "**20 simulated sites and a new one**, 40 new sites" in said
    assert [file.name for file in tmp_path.iterdir()] == ["splits.json"]


@pytest.mark.parametrize("settings", [{"alpha": 5.0}, {"seed": -1}, {"splits": 1}])
def test_wrong_settings_write_nothing(tmp_path, settings):
    with pytest.raises(InputError):
        command.demo(out=tmp_path / "out", **settings)
    assert not list(tmp_path.rglob("*.*"))


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").write_text("here")
    with pytest.raises(InputError, match="out must be a folder, there is a file"):
        command.demo(out=tmp_path / "out")


def test_a_missing_extra_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(command, "run_demo", None)
    with pytest.raises(MissingExtraError, match=r"fedwqcp\[demo\]"):
        command.demo(out=tmp_path / "out")
