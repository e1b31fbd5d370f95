"""The demo's report in a browser: it draws, filters, tells the records' numbers, loads nothing."""

from __future__ import annotations

import csv
import io
from math import inf

import pytest

from fedwqcp.metrics import Rate
from fedwqcp.report.html.charts import coverage_chart
from fedwqcp.report.html.page import Page, Section, View, ViewVerdict
from fedwqcp.report.html.render import to_html
from opened import DESKTOP, PHONE, Opened, grave


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def opened(request, chromium, folder):
    context = chromium.new_context(viewport=request.param, offline=True)
    yield Opened(context.new_page()).open(folder / "report.html")
    context.close()


def expected(records, method, agent, dataset="digits"):
    (r,) = [r for r in records if (r.dataset, r.method, r.agent) == (dataset, method, agent)]
    rate = Rate(n=r.tested, hits=r.covered, level=0.99)
    return {
        "coverage": f"{r.covered / r.tested:.3f}",
        "interval": f"exact 99 % interval {rate.low:.3f} to {rate.high:.3f}",
        "calibration points": f"{r.n:,}",
        "bytes sent": f"{r.bytes_up:,}",
        "threshold": "infinite" if r.threshold == inf else f"{r.threshold:.3g}",
    }


def test_it_is_silent_and_loads_nothing(opened, folder):
    opened.press("split-cp")
    opened.press("synthetic (Friedman)")
    opened.page.wait_for_selector("html[data-drawn='1']")
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [
        (folder / "report.html").as_uri()
    ]


def test_every_chart_is_drawn_and_nothing_is_wider_than_the_page(opened):
    plots = opened.page.locator(".plot:visible")
    assert plots.count() == 10  # scatter, six agents, partition, bytes, decomposition
    for plot in plots.all():
        assert plot.locator("svg").count() == 1
        assert len(plot.get_attribute("aria-label")) > 40
    width = opened.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]


def test_the_cards_tell_the_numbers_of_the_records(opened, records):
    for method in ("fedwq-cp", "split-cp", "fcp"):
        opened.press(method)
        cards = opened.cards()
        assert list(cards) == ["S0", "S1", "S2", "W3", "W4", "W5"]
        for agent, said in cards.items():
            assert said.items() >= expected(records, method, agent).items()
        verdict = opened.page.locator(".verdict:visible").inner_text()
        assert f"{method} covers" in verdict


def test_an_agent_is_filtered_and_shown_again(opened, records):
    opened.press("W4")
    assert list(opened.cards()) == ["W4"]
    assert opened.page.locator(".grid .plot:visible").count() == 1
    assert {
        h.split(" at ")[1] for h in opened.page.locator(".example:visible h4").all_inner_texts()
    } == {"W4"}
    rows = opened.page.locator(".table:visible", has_text="Message by message").locator(
        "tbody tr:visible"
    )
    assert rows.count() == 1
    opened.press("S1")
    assert list(opened.cards()) == ["S1", "W4"]
    opened.press("Show all")
    assert len(opened.cards()) == 6


def test_charts_follow_the_filter(opened):
    def marks():
        return opened.page.evaluate(
            "document.querySelector('.view:not([hidden]) .plot').view"
            ".scenegraph().root.items[0].items.flatMap(g => g.items || [])"
            ".filter(i => i.datum && i.datum.method && i.shape)"
            ".map(i => [i.datum.method, i.datum.agent, i.opacity])"
        )

    assert len(marks()) == 24  # four methods, six agents
    opened.press("W5")
    opened.press("fcp")
    opened.page.wait_for_timeout(100)
    assert {agent for _, agent, _ in marks()} == {"W5"}
    assert {method for method, _, opacity in marks() if opacity == 1} == {"fcp"}


def test_a_click_on_a_mark_chooses_its_method_and_agent(opened):
    opened.page.locator(".view:not([hidden]) .plot").first.scroll_into_view_if_needed()
    opened.page.evaluate(
        """() => {
          const view = document.querySelector('.view:not([hidden]) .plot').view;
          const mark = view.scenegraph().root.items[0].items.flatMap(g => g.items || [])
            .filter(i => i.datum && i.shape)
            .find(i => i.datum.method === 'split-cp' && i.datum.agent === 'S2');
          mark._svg.dispatchEvent(new MouseEvent('click', {bubbles: true}));
        }"""
    )
    assert list(opened.cards()) == ["S2"]
    assert "split-cp covers" in opened.page.locator(".verdict:visible").inner_text()


def test_another_dataset_has_its_own_numbers_and_is_called_synthetic(opened, records):
    opened.press("synthetic (Friedman)")
    opened.page.wait_for_selector("html[data-drawn='1']")
    assert "Stand-in data" in opened.page.locator(".stand-in:visible").inner_text()
    said = opened.cards()["S0"]
    assert said.items() >= expected(records, "fedwq-cp", "S0", "synthetic (Friedman)").items()


def test_the_data_of_a_chart_can_be_downloaded(opened, records):
    figure = opened.page.locator("figure:visible", has_text="Coverage against size").first
    figure.locator("summary").click()
    with opened.page.expect_download() as waiting:
        figure.get_by_role("link", name="Download the data").click()
    assert waiting.value.suggested_filename == "coverage-and-size.csv"
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text())))
    digits = {(r.method, r.agent): r.coverage for r in records if r.dataset == "digits"}
    assert {(row["method"], row["agent"]) for row in rows} == set(digits)
    for row in rows:
        assert float(row["coverage"]) == pytest.approx(
            digits[row["method"], row["agent"]], abs=1e-6
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_serious(chromium, folder, axe, scheme, size):
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    opened = Opened(context.new_page()).open(folder / "report.html")
    opened.page.locator("details:visible summary").first.click()
    found = grave(opened, axe)
    context.close()
    assert found == []


def test_in_print_the_chosen_method_stands_on_white(chromium, folder):
    context = chromium.new_context(viewport=DESKTOP, color_scheme="dark")
    opened = Opened(context.new_page()).open(folder / "report.html")
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert (
        opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert opened.page.evaluate("getComputedStyle(document.body).color") == "rgb(29, 28, 26)"
    assert opened.page.locator(".filters:visible").count() == 0
    assert len(opened.cards()) == 6
    context.close()


def test_a_hostile_name_is_shown_as_text_when_pointed_at(chromium, tmp_path):
    name = "<img src=x onerror=window.harmed=1>"
    point = {"method": "m", "agent": name, "coverage": 0.9, "low": 0.8, "high": 1.0, "size": 2.0}
    chart = coverage_chart([point], nominal=0.9, size="labels", method="m", title=name)
    view = View(
        name,
        ["m"],
        [name],
        "m",
        {"m": ViewVerdict("good", "", "")},
        [Section("s", "", "", [chart])],
    )
    (tmp_path / "page.html").write_text(to_html(Page("", name, [], [view])))
    opened = Opened(chromium.new_page(viewport=DESKTOP)).open(tmp_path / "page.html")
    opened.page.locator(".plot path[aria-label], .plot .mark-symbol path").first.hover()
    opened.page.wait_for_selector("#vg-tooltip-element.visible")
    assert name in opened.page.locator("#vg-tooltip-element").inner_text()
    assert opened.page.locator("#vg-tooltip-element img").count() == 0
    assert opened.page.evaluate("window.harmed") is None
    opened.page.close()
