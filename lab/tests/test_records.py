"""The committed records: complete, unchanged, and what the shipped experiments give."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from fedwqcp_lab.evaluation import evaluate
from fedwqcp_lab.experiment import digest, load
from fedwqcp_lab.results import read_results
from fedwqcp_lab.studies import own, stress
from fedwqcp_lab.studies import scale as scale_study
from fedwqcp_lab.tables import write
from units import experiment, labels_unit

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
COMMITTED = RESULTS / "tables"
TEXTS = ("tables.md", "cells.csv", "verdicts.csv", "explained.md")


def script(name):
    """Return the names of a script in ``benchmarks/``."""
    return runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))


def same_figure(made, kept):
    """Compare two figures, unless another matplotlib drew the kept one."""
    import matplotlib as mpl

    (drawn_by,) = re.findall(r"<dc:title>Matplotlib v([^,]+),", kept.read_text())
    if drawn_by != mpl.__version__:
        pytest.skip(f"drawn by matplotlib {drawn_by}; another one may place ink elsewhere")
    assert made.read_bytes() == kept.read_bytes(), kept.name


def test_the_checksums_are_those_of_all_packed_records():
    lines = (RESULTS / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    packed = {str(file.relative_to(RESULTS)): file for file in RESULTS.rglob("*.xz")}
    found = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in packed.items()}
    assert found == listed


@pytest.mark.parametrize("name", ["", "beyond", "conventions", "readings"])
def test_the_settings_of_every_record_are_spelled_out(name):
    configs = json.loads((RESULTS / name / "configs.json").read_bytes())
    assert all(digest(config) == key for key, config in configs.items())
    for record in read_results(RESULTS / name):
        config = configs[record.config]
        named = (config[part]["name"] for part in ("dataset", "preset", "method"))
        assert tuple(named) == (record.dataset, record.preset, record.method)


@pytest.mark.parametrize(("name", "shipped"), [("", "paper"), ("readings",) * 2, ("beyond",) * 2])
def test_the_shipped_experiment_has_the_fingerprints_of_the_records(name, shipped):
    compared = load(Path(f"{shipped}.toml"))
    rows = {((r.dataset, r.preset, r.method), r.config) for r in read_results(RESULTS / name)}
    assert rows
    for row, fingerprint in rows:
        config = compared.config(*row)
        method, given = config["method"], config["method"]["settings"]
        if method["method"] == "fedls-cp":  # defaults, not named, when it was measured
            for setting, default in (("min_gap", 2), ("min_class", 1)):
                assert given.pop(setting) == default
        whole = {"fcp": "sketch", "cphet": "solver"}.get(method["method"])
        method["samples"] = whole is not None and given.get("scope") != "local"
        if method["samples"]:  # whole samples were sent, which gave the same thresholds
            given[whole] = "exact"
        assert digest(config) == fingerprint, row


@pytest.mark.parametrize("name", ["conventions", "tuning"])
def test_the_experiment_beside_its_records_can_be_run(name):
    rows = {(r.dataset, r.preset, r.method) for r in read_results(RESULTS / name)}
    assert all(load(RESULTS / name / f"{name}.toml").config(*row) for row in rows)


def test_tables_and_figures_are_what_the_records_give(tmp_path):
    pytest.importorskip("matplotlib")
    write(RESULTS, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in COMMITTED.iterdir()}
    for name in TEXTS:
        assert (tmp_path / name).read_bytes() == (COMMITTED / name).read_bytes(), name
    for figure in tmp_path.glob("*.svg"):
        same_figure(figure, COMMITTED / figure.name)


def test_the_figure_of_scale_is_what_its_records_give(tmp_path):
    pytest.importorskip("matplotlib")
    records = stress.journal_of(RESULTS / "scale").read()
    scale_study.draw_scale([r for r in records if r.preset == own.MAIN], tmp_path / "s")
    same_figure(tmp_path / "s.svg", RESULTS / "scale" / "scale.svg")


def test_the_stress_table_is_what_its_records_give(tmp_path):
    folder = RESULTS / "stress"
    made = stress.write_table(stress.journal_of(folder).read(), tmp_path)
    assert made.read_bytes() == (folder / "stress.csv").read_bytes()


def test_a_temperature_is_fitted_to_every_agents_outputs():
    temperature, unit = script("temperature"), labels_unit()
    found, fits = temperature["variants"](unit)
    assert [*found] == [*fits] == list(temperature["WAYS"])
    assert {len(ways) for ways in fits.values()} == {len(unit.outputs)}
    plain, fitted = found["none"], found["own rows"]
    assert np.array_equal(plain.outputs[0].calibration, unit.outputs[0].calibration)
    for k, (agent, t) in enumerate(zip(fitted.outputs, fits["own rows"], strict=True)):
        assert 0 < len(agent.calibration) == len(fitted.setting.part(k))
        assert len(agent.calibration) < len(unit.outputs[k].calibration)
        assert np.allclose(agent.test * t, plain.outputs[k].test, rtol=1e-5)
    assert evaluate(fitted, experiment())
