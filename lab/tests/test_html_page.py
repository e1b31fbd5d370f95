"""A benchmark as one HTML page."""

import json
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="needs fedwqcp[report]")
pytest.importorskip("vl_convert", reason="needs fedwqcp[report]")

from fedwqcp.errors import InputError
from fedwqcp.report.html import render
from fedwqcp.report.html.charts import unchecked
from fedwqcp.report.html.page import Cards, Page, Section, View, ViewVerdict
from fedwqcp_lab.comparison import cells
from fedwqcp_lab.html_page import partition_chart, read, traffic_chart, write
from fedwqcp_lab.results import read_results
from pages import Read

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_benchmark_of_the_repository_is_told_in_less_than_three_megabytes(
    tmp_path,
):
    html = write(ROOT / "results", tmp_path / "page.html").read_text()
    assert len(html) < 3_000_000
    page = Read(html)
    assert "DermaMNIST [reencoded], paper" in page.words
    assert "Stand-in data." in page.words
    assert "img" not in {tag for tag, _ in page.tags}


@pytest.mark.slow
def test_a_part_of_a_benchmark_can_be_told(tmp_path):
    with unchecked():
        page = read(ROOT / "results", ("retinamnist",), ("paper",))
    assert [view.title for view in page.views] == ["RetinaMNIST, paper"]
    assert page.title.startswith("1 dataset, ")
    for parts in ((("x",), ()), ((), ("x",))):
        with pytest.raises(InputError):
            read(ROOT / "results", *parts)


def test_cards_and_tables_show_one_interval_over_seeds():
    with unchecked():
        page = read(ROOT / "results", ("cifar10",), ("paper",))
    (cards,) = [b for s in page.views[0].sections for b in s.blocks if isinstance(b, Cards)]
    found = {
        (c.method, c.agent): c
        for c in cells(read_results(ROOT / "results"))
        if (c.dataset, c.preset, c.metric) == ("cifar10", "paper", "coverage")
    }
    for method, own in cards.groups.items():
        for card in own:
            cell = found[method, card.agent]
            low, high = cell.median - cell.half, min(1.0, cell.median + cell.half)
            said = f"{low:.3f} to {high:.3f}, median ± 1.96 sd / sqrt(seeds)"
            assert (card.figure, card.interval) == (f"{cell.median:.3f}", said)


def test_a_hostile_name_is_data_of_the_charts_alone(monkeypatch):
    monkeypatch.setattr(render, "_library", lambda: "")
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}"

    def page(name):
        charts = [
            partition_chart({name: (1, 2)}, name),
            traffic_chart([(name, name, 10, 20)], method=name),
        ]
        verdicts = {name: ViewVerdict("good", name, name)}
        view = View(name, [name], name, verdicts, [Section("all", name, name, charts)])
        return Read(render.to_html(Page(name, name, [], [view])))

    plain, found = page("st-mary"), page(hostile)
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags]
    specs = [json.loads(text) for text in found.scripts if text.startswith("{")]
    assert len(specs) == 2
    assert all(hostile in json.dumps(spec).replace('\\"', '"') for spec in specs)
    plots = [own for _, own in plain.tags if own.get("class") == "plot"]
    assert all(own["role"] == "img" and "st-mary" in own["aria-label"] for own in plots)
    assert len([own for _, own in plain.tags if "download" in own]) == 2
