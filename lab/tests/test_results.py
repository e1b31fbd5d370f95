"""The tables and figures in ``results/`` are what its records give."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import resource
import runpy
from dataclasses import replace
from functools import cache
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from fedwqcp.errors import InputError, RecordError
from fedwqcp_lab.evaluation import evaluate, partitions
from fedwqcp_lab.experiment import digest, load
from fedwqcp_lab.results import AgentPartition, Journal, Result, read_results
from fedwqcp_lab.studies.stress import journal_of, write_table
from fedwqcp_lab.tables import write
from units import experiment, labels_unit, lines_unit

matplotlib = pytest.importorskip("matplotlib")

RESULTS = Path(__file__).resolve().parents[2] / "results"
COMMITTED = RESULTS / "tables"
TEXTS = ("tables.md", "tables.tex", "cells.csv", "verdicts.csv", "explained.md")
LARGER = ("agents-20", "agents-100")
FIGURES = sorted(COMMITTED.glob("*.svg"))


def benchmark(name):
    """The names of a script in ``benchmarks/``."""
    return runpy.run_path(str(RESULTS.parent / "benchmarks" / f"{name}.py"))


@cache
def tables(name):
    """Every table of a page, from the records."""
    return dict(benchmark(name)["tables"]())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Everything made anew from the records."""
    folder = tmp_path_factory.mktemp("tables")
    write(RESULTS, folder)
    return folder


def test_texts_are_those_in_the_repository_byte_for_byte(made):
    assert {file.name for file in made.iterdir()} == {file.name for file in COMMITTED.iterdir()}
    for name in TEXTS:
        assert (made / name).read_bytes() == (COMMITTED / name).read_bytes(), name


def test_figures_are_those_in_the_repository_byte_for_byte(made):
    assert FIGURES
    for file in FIGURES:
        drawn_by = re.search(r"<dc:title>Matplotlib v([^,]+),", file.read_text())
        assert drawn_by, f"{file.name} does not say which matplotlib drew it"
        if drawn_by[1] != matplotlib.__version__:
            pytest.skip(f"drawn by matplotlib {drawn_by[1]}; another one may place ink elsewhere")
        assert (made / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("name", ["", "beyond", "conventions", "readings"])
def test_the_settings_of_every_record_are_spelled_out(name):
    configs = json.loads((RESULTS / name / "configs.json").read_bytes())
    assert all(digest(config) == key for key, config in configs.items())
    for record in read_results(RESULTS / name):
        own = configs[record.config]
        assert own["dataset"]["name"] == record.dataset
        assert own["preset"]["name"] == record.preset
        assert own["method"]["name"] == record.method


@pytest.mark.parametrize(("name", "shipped"), [("", "paper"), ("readings",) * 2, ("beyond",) * 2])
def test_the_shipped_experiment_has_the_fingerprints_of_the_records(name, shipped):
    compared = load(Path(f"{shipped}.toml"))
    rows = {((r.dataset, r.preset, r.method), r.config) for r in read_results(RESULTS / name)}
    assert rows
    for row, fingerprint in rows:
        config = compared.config(*row)
        if config["method"]["method"] == "fedls-cp":  # defaults, not named, when it was measured
            for setting, default in (("min_gap", 2), ("min_class", 1)):
                assert config["method"]["settings"].pop(setting) == default
        assert digest(config) == fingerprint, row


def test_the_page_beyond_the_paper_shows_what_the_records_give():
    page = (RESULTS.parent / "docs" / "beyond.md").read_text()
    for title, table in tables("beyond").items():
        assert f"\n\n{table}\n\n" in page, f"the table of {title} differs from docs/beyond.md"


def test_what_a_sceptic_reads_is_what_the_tables_say():
    made = {
        name: [row.split(" | ") for row in text[2:-2].split(" |\n| ")]
        for name, text in tables("beyond").items()
    }
    page, advice = (
        " ".join((RESULTS.parent / name).read_text().split())
        for name in ("docs/beyond.md", "docs/explanation/which-method.md")
    )
    cells = {row[0]: row[1:] for row in made["summary"]}
    gaps, over, under = (
        cells[name] for name in ("mean gap to 0.95", "of it over-coverage", "of it under-coverage")
    )
    assert f"Of the recipe's gap of {gaps[0]}, {over[0]} is over-coverage" in page
    assert f"({under[0]} against {min(under[1:4])} to {max(under[1:4])})" in page
    below = [row.split()[0] for row in cells["agents and seeds covered below 0.95"][:4]]
    assert f"{below[0]} % against {min(below[1:])} to {max(below[1:])} %" in page
    size = cells["size beside the recipe's"]
    said = f"from {float(gaps[0]):.3f} to {float(gaps[2]):.3f}, with sets {_less(size[2])} smaller"
    assert said in advice
    matched = {tuple(row[:2]): row[-2:] for row in made["matched"]}
    at_worst, at_alpha = map(_less, matched["randomised APS", "fedls-cp"])
    assert f"then has sets {at_worst} smaller, where at alpha = 0.05 they are {at_alpha}" in page
    assert f"sets are {at_worst} smaller" in advice
    simulated = {tuple(row[:3]): row[3:] for row in made["simulated"]}
    plain, tilted = (
        simulated["calibrated", score, "fedwq-cp"] for score in ("randomised APS", "tilted APS")
    )
    assert f"gap rises from {plain[0]} to {tilted[0]}" in page
    assert f"worst agent falls from {plain[1]} to {tilted[1]}" in page
    for row in made["scale"]:
        if row[1] in ("20", "100"):  # "its worst agent covers less than FCP's on each dataset"
            assert float(row[4]) < float(row[2]), row


def _less(ratio):
    """Return by how much a ratio is below 1, in per cent."""
    return f"{100 * (1 - float(ratio)):.0f} %"


@pytest.mark.parametrize("models", ["calibrated", "strong overconfident, weak underconfident"])
def test_the_simulation_gives_its_records_again(models):
    script = benchmark("beyond")
    recorded = [r for r in script["simulated"]() if (r["models"], r["seed"]) == (models, 0)]
    again = script["simulate"](0, models)
    assert [r["hits"] for r in again] == [r["hits"] for r in recorded]
    assert [r["method"] for r in again] == 2 * list(script["METHODS"])


def test_the_tilt_is_recommended_nowhere():
    root = RESULTS.parent
    assert "tilt" not in (root / "README.md").read_text().lower()
    for folder in ("docs/tutorial", "docs/gallery", "examples", "src/fedwqcp/theory"):
        for file in (root / folder).rglob("*"):
            if file.suffix in (".md", ".py", ".toml"):
                assert "tilted" not in file.read_text().lower(), file
    for name in ("docs/beyond.md", "docs/explanation/label-shift.md"):
        assert "not recommended" in (root / name).read_text(), name


def test_the_stress_table_is_what_its_records_give(tmp_path):
    folder = RESULTS / "stress"
    made = write_table(journal_of(folder).read(), tmp_path)
    assert made.read_bytes() == (folder / "stress.csv").read_bytes()


def test_the_page_on_label_shift_shows_what_settings_were_chosen_on():
    page = (RESULTS.parent / "docs" / "explanation" / "label-shift.md").read_text()
    script = benchmark("beyond")
    assert f"\n\n{script['tuning']()}\n\n" in page


def test_a_temperature_is_fitted_to_every_agents_outputs():
    script, unit = benchmark("temperature"), labels_unit()
    found, fits = script["variants"](unit)
    assert [*found] == [*fits] == list(script["WAYS"])
    assert {len(each) for each in fits.values()} == {len(unit.outputs)}
    plain, own = found["none"], found["own rows"]
    assert np.array_equal(plain.outputs[0].calibration, unit.outputs[0].calibration)
    for at, (agent, t) in enumerate(zip(own.outputs, fits["own rows"], strict=True)):
        assert 0 < len(agent.calibration) == len(own.setting.part(at))
        assert len(agent.calibration) < len(unit.outputs[at].calibration)
        assert np.allclose(agent.test * t, plain.outputs[at].test, rtol=1e-5)
    assert evaluate(own, experiment())


@pytest.fixture(scope="module")
def results():
    return evaluate(labels_unit(), experiment())


def test_records_survive_a_file_and_are_appended(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    assert journal.read() == ()
    assert not journal.repair()
    journal.append(results[:2])
    journal.append(results[2:])
    assert journal.read() == results
    assert not journal.repair()
    times = [r.calibration_s for r in journal.read()]
    assert times == [r.calibration_s for r in results]


def test_nothing_is_appended_twice(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    journal.append(results[:1])
    journal.append_new(results[:2])
    journal.append(results[2:3])
    journal.append_new(results)
    journal.append_new(results)
    Journal(tmp_path / "r.jsonl", Result).append_new(results)
    assert journal.read() == results


def test_regressions_and_partitions_survive_too(tmp_path):
    unit = lines_unit()
    found = evaluate(unit, experiment())
    assert any(r.labels is not None for r in found)
    Journal(tmp_path / "r.jsonl", Result).append(found)
    Journal(tmp_path / "s.jsonl", AgentPartition).append(partitions(unit))
    assert Journal(tmp_path / "r.jsonl", Result).read() == found
    assert Journal(tmp_path / "s.jsonl", AgentPartition).read() == partitions(unit)


def test_a_torn_last_line_is_left_out_and_cut_off(tmp_path, results):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, Result)
    journal.append(results[:3])
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (last + 1, (last + len(whole)) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert journal.read() == results[:2]
        assert journal.repair()
        assert path.read_bytes() == whole[:last]
        journal.append(results[2:3])
        assert journal.read() == results[:3]


def test_damage_elsewhere_is_refused(tmp_path, results):
    path = tmp_path / "r.jsonl"
    journal = Journal(path, Result)
    journal.append(results[:2])
    good = path.read_text()
    path.write_text(good.replace('"hits"', '"hit"', 1))
    with pytest.raises(RecordError, match=r"line 1: missing or unknown: hit, hits"):
        journal.read()
    path.write_text(good + good)
    with pytest.raises(RecordError, match="occurs twice"):
        journal.read()
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(RecordError, match="line 1: must be one JSON object"):
        journal.read()


def test_another_version_is_refused(tmp_path, results):
    path = tmp_path / "r.jsonl"
    Journal(path, Result).append(results[:1])
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(RecordError, match="run the experiment again"):
        Journal(path, Result).read()


def test_a_file_that_cannot_be_written_is_named(tmp_path, results):
    with pytest.raises(InputError, match=r"with --resume: cannot write "):
        Journal(tmp_path / "none" / "r.jsonl", Result).append(results[:1])


def test_a_disk_that_takes_a_part_is_full(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    journal.append(results[:1])
    one = journal.path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * one + one // 2, before[1]))
    try:
        with pytest.raises(InputError, match=r"with --resume: cannot write "):
            journal.append(results[1:4])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert journal.repair()
    assert journal.read() == results[:2]


def test_a_packed_file_is_read_and_appended_to(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    journal.append(results[:2])
    packed = tmp_path / "r.jsonl.xz"
    packed.write_bytes(lzma.compress(journal.path.read_bytes()))
    journal.path.unlink()
    assert journal.exists
    assert journal.read() == results[:2]
    assert not journal.repair()
    journal.append(results[2:])
    assert journal.read() == results
    journal.path.unlink()
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(RecordError, match="cannot be read"):
        journal.repair()


def test_infinite_thresholds_come_back_and_nan_is_refused(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    odd = (
        replace(results[0], threshold=inf, local=-inf),
        replace(results[1], threshold=(0.5, inf), title='says "inf"'),
    )
    journal.append(odd)
    assert journal.read() == odd
    with pytest.raises(InputError, match="NaN must not stand in a record"):
        journal.append([replace(results[2], size=nan)])
    text = journal.path.read_bytes()
    for wrong in (b"{bad", b"[1]", b'{"size": NaN}', b'{"size": 1e999}'):
        journal.path.write_bytes(text + wrong + b"\n")
        with pytest.raises(RecordError, match="line 3: must be one JSON object of finite numbers"):
            journal.read()


def test_a_torn_line_is_cut_off_by_the_next_append_too(tmp_path, results):
    journal = Journal(tmp_path / "r.jsonl", Result)
    journal.append(results[:1])
    with journal.path.open("ab") as file:
        file.write(b'{"dataset": "bl')
    journal.append(results[1:3])
    assert journal.read() == results[:3]


def test_hits_must_fit(results):
    with pytest.raises(InputError, match="hits: must be from 0 to n_test"):
        Result(**{**results[0].__dict__, "hits": 10**6})


def test_the_checksums_are_those_of_all_packed_records():
    lines = (RESULTS / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    packed = sorted(RESULTS.rglob("*.xz"))
    assert sorted(listed) == [str(file.relative_to(RESULTS)) for file in packed]
    for file in packed:
        found = hashlib.sha256(file.read_bytes()).hexdigest()
        assert listed[str(file.relative_to(RESULTS))] == found, file
