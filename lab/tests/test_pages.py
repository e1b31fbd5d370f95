import csv
from dataclasses import replace

import pytest

from fedwqcp.errors import InputError
from fedwqcp_lab import ablation, latex, markdown
from fedwqcp_lab.compare import cells
from fedwqcp_lab.evaluate import evaluate, shares
from fedwqcp_lab.pages import write
from fedwqcp_lab.plans import MethodPlan
from fedwqcp_lab.stages import Folder
from units import experiment, labels_unit, lines_unit

pytest.importorskip("matplotlib")

METHODS = tuple(
    MethodPlan(name=name, method=name) for name in ("split-cp", "fedwq-cp", "fedavgq-cp")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records of a stand-in and of a regression, two seeds each."""
    root = tmp_path_factory.mktemp("run")
    small = experiment(
        datasets=(
            replace(experiment().datasets[0], name="tissuemnist"),
            replace(experiment().datasets[1], name="retinamnist"),
        ),
        methods=METHODS,
    )
    where = Folder(root)
    for seed in (0, 1):
        units = (
            _named(labels_unit(seed), "tissuemnist", "TissueMNIST", "subset"),
            _named(lines_unit(seed), "retinamnist", "RetinaMNIST", "published"),
        )
        for unit in units:
            where.results.append(evaluate(unit, small))
            where.shares.append(shares(unit))
    return root


@pytest.fixture(scope="module")
def written(folder):
    """All files made from these records."""
    write(folder, folder / "tables")
    return folder / "tables"


def _named(unit, dataset, title, status):
    setting = replace(unit.setting, dataset=dataset, title=title, status=status)
    return replace(unit, setting=setting)


def test_the_same_records_give_the_same_bytes(folder, written, tmp_path):
    again = write(folder, tmp_path)
    assert {file.name for file in again} == {file.name for file in written.iterdir()}
    assert {file.suffix for file in again} == {".md", ".tex", ".csv", ".png", ".svg"}
    for file in again:
        assert file.read_bytes() == (written / file.name).read_bytes(), file.name


def test_the_page_shows_published_figures_verdicts_and_stand_ins(written):
    page = (written / "tables.md").read_text()
    assert "## Coverage, preset `paper`" in page
    assert "## Size, preset `sound-cqr`" in page
    rows = [line for line in page.splitlines() if line.startswith("| TissueMNIST")]
    assert rows
    assert all(line.startswith("| TissueMNIST [subset] |") for line in rows)
    size = next(r for r in rows if "fedwq-cp" in r and "4.84 ± 0.40" in r)
    assert size.count("|") == len(["", "dataset", "method", "size", "less", "within", "inside"])
    assert "1.96 sd / sqrt" in page
    assert "| preset | method | metric | cells | inside | overlapping | outside | share |" in page
    assert "plain mean covers" in page


def test_the_size_table_has_the_reduction(written):
    page = (written / "tables.md").read_text()
    part = page.split("## Size, preset `paper`")[1].split("##")[0]
    row = next(line for line in part.splitlines() if "TissueMNIST" in line and "split-cp" in line)
    assert "(6.4 %)" in row  # (5.17 - 4.84) / 5.17
    retina = next(line for line in part.splitlines() if "RetinaMNIST | fedwq-cp" in line)
    assert retina.count("±") == 4  # ours, the paper's, within the range, labels inside


def test_cells_as_csv(written):
    with (written / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    own = [r for r in rows if r["dataset"] == "TissueMNIST" and r["method"] == "fedwq-cp"]
    assert {r["status"] for r in own} == {"subset"}
    size = next(r for r in own if r["preset"] == "paper" and r["metric"] == "size")
    assert (size["published"], size["published_half_width"], size["seeds"]) == ("4.84", "0.40", "2")
    assert size["verdict"] in ("inside", "overlapping", "outside")


def test_latex_is_balanced_and_escaped(written):
    text = (written / "tables.tex").read_text()
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 6
    assert text.count("{") == text.count("}")
    assert latex.escape("a_b & 5%") == r"a\_b \& 5\%"
    columns = {
        line.count("&") for line in text.split(r"\end{tabular}")[0].splitlines() if "&" in line
    }
    assert len(columns) == 1


def test_figures_mark_stand_ins(written):
    from xml.etree import ElementTree

    for name in ("ablation-paper.svg", "partitions.svg"):
        text = (written / name).read_text()
        ElementTree.fromstring(text)
        assert "TissueMNIST [subset]" in text  # matplotlib writes what it draws as a comment
        assert "<dc:date>" not in text


def test_without_published_figures(folder):
    found = cells(Folder(folder).results.read(), against=False)
    page = markdown.page(found, ablation.rows(found))
    assert "4.84" not in page
    assert "no published figure" in page


def test_the_ablation_says_which_way_it_goes(folder):
    found = cells(Folder(folder).results.read())
    rows = ablation.rows(found)
    assert len(rows) == 1 + 5
    for _, _, weighted, plain, word in rows[1:]:
        gap = float(plain) - float(weighted)
        assert word == ("alike" if abs(gap) < 5e-4 else "less" if gap < 0 else "more")
    only = [c for c in found if c.method != "fedavgq-cp"]
    assert len(ablation.rows(only)) == 1
    assert ablation.draw(only, 0.9, folder / "none") == ()


def test_a_folder_without_records_says_what_to_do(tmp_path):
    with pytest.raises(InputError, match="fedwqcp-lab run"):
        write(tmp_path, tmp_path / "out")
