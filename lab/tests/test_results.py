"""The tables and figures in ``results/`` are what its records give."""

import json
import re
import runpy
from functools import cache
from pathlib import Path

import pytest

from fedwqcp_lab.experiment import digest
from fedwqcp_lab.pages import read, write
from fedwqcp_lab.stress import journal_of
from fedwqcp_lab.stress_figure import write as write_stress

matplotlib = pytest.importorskip("matplotlib")

RESULTS = Path(__file__).resolve().parents[2] / "results"
COMMITTED = RESULTS / "tables"
TEXTS = ("tables.md", "tables.tex", "cells.csv", "verdicts.csv")
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


def test_figures_have_the_same_bytes_each_time(made, tmp_path):
    again = [file for file in write(RESULTS, tmp_path) if file.suffix in (".svg", ".png")]
    assert len(again) == 2 * len(FIGURES) > 0
    for file in again:
        assert file.read_bytes() == (made / file.name).read_bytes(), file.name


def test_figures_are_those_in_the_repository_byte_for_byte(made):
    for file in FIGURES:
        drawn_by = re.search(r"<dc:title>Matplotlib v([^,]+),", file.read_text())
        assert drawn_by, f"{file.name} does not say which matplotlib drew it"
        if drawn_by[1] != matplotlib.__version__:
            pytest.skip(f"drawn by matplotlib {drawn_by[1]}; another one may place ink elsewhere")
        assert (made / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("name", ["", "beyond", "conventions"])
def test_the_settings_of_every_record_are_spelled_out(name):
    configs = json.loads((RESULTS / name / "configs.json").read_bytes())
    assert all(digest(config) == key for key, config in configs.items())
    for record in read(RESULTS / name):
        own = configs[record.config]
        assert own["dataset"]["name"] == record.dataset
        assert own["preset"]["name"] == record.preset
        assert own["method"]["name"] == record.method


@pytest.mark.parametrize("name", ["reproduction", "beyond"])
def test_the_page_shows_what_the_records_give(name):
    page = (RESULTS.parent / "docs" / f"{name}.md").read_text()
    for title, table in tables(name).items():
        assert f"\n\n{table}\n\n" in page, f"the table of {title} differs from docs/{name}.md"


def test_the_verdicts_in_words_are_those_of_the_table():
    made = tables("reproduction")
    page = " ".join((RESULTS.parent / "docs" / "reproduction.md").read_text().split())
    (three,) = [line for line in made["verdicts"].splitlines() if "| the three |" in line]
    _, inside, overlapping, outside = re.findall(r"\d+", three)[:4]
    assert f"{inside} are inside, {overlapping} overlapping and {outside} outside" in page
    readme = " ".join((RESULTS.parent / "README.md").read_text().split())
    assert f"{inside} of ours lie inside the published interval, {overlapping} overlap it" in readme
    rows = made["against FedWQ-CP's figures"].splitlines()[2:]
    counts = {
        name: [sum(map(int, column)) for column in zip(*cells, strict=True)]
        for name in ("fedwq-cp", "fedavgq-cp")
        if (cells := [re.findall(r"\d+", row)[1:] for row in rows if f"| {name} |" in row])
    }
    plain, weighted = counts["fedavgq-cp"], counts["fedwq-cp"]
    said = f"{plain[0]} inside, {plain[1]} overlapping, {plain[2]} outside against "
    assert said + f"{weighted[0]}, {weighted[1]} and {weighted[2]}" in page
    ratios = [float(line.split("|")[4]) for line in made["half-widths"].splitlines()[2:]]
    assert f"half-widths are {min(ratios):.1f} to {max(ratios):.1f} times ours" in page


def test_what_a_sceptic_reads_is_what_the_tables_say():
    made = {
        name: [row.split(" | ") for row in text[2:-2].split(" |\n| ")]
        for name, text in tables("beyond").items()
    }
    page, readme = (
        " ".join((RESULTS.parent / name).read_text().split())
        for name in ("docs/beyond.md", "README.md")
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
    assert said in readme
    matched = {tuple(row[:2]): row[-2:] for row in made["matched"]}
    at_worst, at_alpha = map(_less, matched["randomised APS", "fedls-cp"])
    assert f"then has sets {at_worst} smaller, where at alpha = 0.05 they are {at_alpha}" in page
    assert f"sets are {at_worst} smaller" in readme
    told = {tuple(row[:3]): row[3:] for row in made["simulated"]}
    plain, tilted = (
        told["calibrated", score, "fedwq-cp"] for score in ("randomised APS", "tilted APS")
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
    write_stress(journal_of(folder).read(), tmp_path)
    assert (tmp_path / "stress.csv").read_bytes() == (folder / "stress.csv").read_bytes()


def test_the_page_on_label_shift_shows_what_settings_were_chosen_on():
    page = (RESULTS.parent / "docs" / "explanation" / "label-shift.md").read_text()
    script = benchmark("beyond")
    assert f"\n\n{script['tuning']()}\n\n" in page
