"""``fedwqcp-lab byzantine``."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fedwqcp.errors import InputError
from fedwqcp_lab import cli as bench
from fedwqcp_lab import liars_run
from fedwqcp_lab import unit as units
from fedwqcp_lab.liars_record import read
from fedwqcp_lab.stages import Folder
from units import experiment, lines_unit


def test_without_model_outputs_it_says_how_to_make_them(tmp_path) -> None:
    result = CliRunner().invoke(bench.app, ["byzantine", "--outputs", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "fedwqcp-lab reproduce --quick" in str(result.exception)


@pytest.mark.slow
def test_it_writes_records_tables_and_figure(tmp_path, monkeypatch) -> None:
    pytest.importorskip("matplotlib")
    chosen = experiment()
    monkeypatch.setattr(liars_run, "_experiments", lambda: (chosen,))
    outputs, out = tmp_path / "outputs", tmp_path / "out"
    units.save(lines_unit(n=60), Folder(outputs, outputs).unit(chosen, ("lines", 0)))
    words = ["byzantine", "--outputs", str(outputs), "--out", str(out), "--datasets", "lines"]
    result = CliRunner().invoke(bench.app, [*words, "--seeds", "0"])
    assert result.exit_code == 0, result.output
    assert "100%  lines: seed 0 done" in result.output
    records = read(out / "records.jsonl.xz")
    assert {record.liars for record in records} == {0, 1, 2}  # of three agents one is honest
    assert {path.name for path in out.iterdir()} == {
        "records.jsonl.xz",
        "tables.md",
        "two-liars.svg",
    }
