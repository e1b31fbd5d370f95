"""A benchmark as one HTML page."""

from pathlib import Path

import pytest

pytest.importorskip("jinja2", reason="needs fedwqcp[report]")


from fedwqcp.errors import InputError
from fedwqcp.report.html.page import Cards
from fedwqcp_lab.comparison import cells
from fedwqcp_lab.html_page import read, write
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
    page = read(ROOT / "results", ("retinamnist",), ("paper",))
    assert [view.title for view in page.views] == ["RetinaMNIST, paper"]
    assert page.title.startswith("1 dataset, ")
    for parts in ((("x",), ()), ((), ("x",))):
        with pytest.raises(InputError):
            read(ROOT / "results", *parts)


def test_cards_and_tables_show_one_interval_over_seeds():
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
