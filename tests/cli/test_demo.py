"""The demo's command: one screen, a figure and a report."""

import pytest

pytest.importorskip("jinja2", reason="needs fedwqcp[report]")
pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from fedwqcp.cli import main as command
from four_hospitals import SITES


@pytest.fixture(autouse=True)
def one_run(monkeypatch):
    monkeypatch.setattr(command, "hospitals", SITES)


def test_one_screen_and_its_files(tmp_path, capsys):
    out = tmp_path / "new" / "out"
    command.demo(out=out)
    lines = capsys.readouterr().out.strip("\n").splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines[:-1])) <= 80  # the last names files, which may lie deep
    assert sorted(file.name for file in out.iterdir()) == ["demo.png", "report.html"]
