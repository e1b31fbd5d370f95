"""The demo's report in a browser: it draws, filters, sorts, keeps the selection, loads nothing."""

from __future__ import annotations

import csv
import io

import pytest

from fedwqcp.report.html.charts import coverage_chart
from fedwqcp.report.html.page import Page, Section, View, ViewVerdict
from fedwqcp.report.html.render import to_html
from four_hospitals import results
from opened import DESKTOP, PHONE, Opened, grave

NAMES = ["Cleveland", "Budapest", "Zurich-Basel", "Long-Beach"]
VIEWS = ["Four hospitals", "One with few patients", "A newcomer without labels", "Regression"]


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def opened(request, chromium, folder):
    context = chromium.new_context(viewport=request.param, offline=True)
    yield Opened(context.new_page()).open(folder / "report.html")
    context.close()


def address(opened):
    """Return the words of the address after the file's name."""
    return opened.page.evaluate(
        "Object.fromEntries(new URLSearchParams(location.hash.slice(1)).entries())"
    )


def go_to(opened, view):
    opened.press(view)
    opened.page.wait_for_selector(f"html[data-drawn='{VIEWS.index(view)}']")


def test_it_is_silent_and_loads_nothing(opened, folder):
    opened.press("split-cp")
    for view in VIEWS[1:]:
        go_to(opened, view)
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [
        (folder / "report.html").as_uri()
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_every_chart_is_drawn_and_nothing_is_wider_than_the_page(opened, view):
    if view != VIEWS[0]:
        go_to(opened, view)
    plots = opened.page.locator(".plot:visible")
    assert plots.count() == (1 if view == "Regression" else 2)
    for plot in plots.all():
        assert plot.locator("svg").count() == 1
        assert len(plot.get_attribute("aria-label")) > 40
    width = opened.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]


def test_on_a_phone_every_table_fits_its_width(chromium, folder):
    context = chromium.new_context(viewport=PHONE, offline=True)
    opened = Opened(context.new_page()).open(folder / "report.html")
    tables = opened.page.locator(".table .scroll:visible")
    assert tables.count() >= 4
    for table in tables.all():
        inner, outer = table.evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert inner <= outer
    cell = opened.page.locator(".table:visible td").nth(1)
    assert cell.evaluate("e => getComputedStyle(e, '::before').content") == '"Cleveland"'
    context.close()


def test_the_cards_tell_the_numbers_of_the_results(opened):
    for method in ("fedwq-cp", "split-cp", "fcp"):
        opened.press(method)
        cards = opened.cards()
        assert list(cards) == NAMES
        for agent, said in cards.items():
            (f,) = results().of("four", method, agent)
            low, high = (f"{100 * end:.0f}" for end in (f.rate.low, f.rate.high))
            assert said["coverage"] == f"{100 * f.covered / f.tested:.0f} %"
            assert said["interval"] == f"exact 95 % interval [{low}, {high}]"
            assert said["one answer"] == f"{100 * f.one / f.tested:.0f} %"
            assert said["bytes sent"] == f"{f.bytes_up:,}"
        assert f"{method} covers" in opened.page.locator(".verdict:visible").inner_text()


def test_a_hospital_is_filtered_and_shown_again(opened):
    opened.press("Zurich-Basel")
    assert list(opened.cards()) == ["Zurich-Basel"]
    names = opened.page.locator(".example:visible h4").all_inner_texts()
    assert len(names) == 6
    assert all(name.startswith("Zurich-Basel") for name in names)
    rows = opened.page.locator("#splits-0 tbody tr:visible")
    assert rows.count() == 5
    opened.press("Budapest")
    assert list(opened.cards()) == ["Budapest", "Zurich-Basel"]
    opened.press("Show all")
    assert list(opened.cards()) == NAMES


def test_charts_follow_the_filter(opened):
    def marks():
        return opened.page.evaluate(
            "document.querySelector('.view:not([hidden]) .plot').view"
            ".scenegraph().root.items[0].items.flatMap(g => g.items || [])"
            ".filter(i => i.datum && i.datum.says && i.shape)"
            ".map(i => [i.datum.method, i.datum.agent])"
        )

    assert len(marks()) == 4
    opened.press("Long-Beach")
    opened.press("fcp")
    opened.page.wait_for_timeout(100)
    assert marks() == [["fcp", "Long-Beach"]]


def test_a_table_is_sorted_by_numbers_and_by_names_both_ways(opened):
    table = opened.page.locator("#splits-0 table")

    def column(place):
        return table.locator(f"tbody tr td:nth-child({place})").all_inner_texts()

    before = column(3)
    table.get_by_role("button", name="mean coverage").click()
    head = table.locator("th").nth(2)
    up = column(3)
    assert head.get_attribute("aria-sort") == "ascending"
    assert up == sorted(before, key=lambda cell: float(cell.split()[0]))
    table.get_by_role("button", name="mean coverage").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(c.split()[0]) for c in column(3)] == sorted(
        (float(c.split()[0]) for c in before), reverse=True
    )
    table.get_by_role("button", name="hospital").click()
    assert column(2) == sorted(column(2))
    assert head.get_attribute("aria-sort") is None


def test_the_contents_lead_to_every_section(opened):
    links = opened.page.locator(".toc:visible a")
    titles = opened.page.locator(".view:not([hidden]) section h3").all_inner_texts()
    assert links.all_inner_texts() == titles
    links.filter(has_text="What is promised").click()
    top = opened.page.locator("#promises-0").evaluate("e => e.getBoundingClientRect().top")
    assert 0 <= top < opened.page.viewport_size["height"] / 2
    assert address(opened)["at"] == "promises-0"


def test_the_address_holds_the_selection_and_gives_it_back(opened, chromium):
    go_to(opened, "One with few patients")
    opened.press("fcp")
    opened.press("Budapest")
    assert address(opened) == {"view": "1", "method": "fcp", "agents": '["Budapest"]'}
    other = Opened(opened.page.context.new_page())
    other.page.goto(opened.page.url)
    other.page.wait_for_selector("html[data-drawn='1']")
    assert list(other.cards()) == ["Budapest"]
    assert "fcp covers" in other.page.locator(".verdict:visible").inner_text()
    assert other.said == []


@pytest.mark.parametrize(
    "hash", ["#view=99&method=none&agents=%5B1%5D", "#agents={", "#promises-0", "#at=h-best-0"]
)
def test_an_address_of_another_page_opens_this_one(chromium, folder, hash):
    context = chromium.new_context(viewport=DESKTOP, offline=True)
    opened = Opened(context.new_page())
    opened.page.goto((folder / "report.html").as_uri() + hash)
    opened.page.wait_for_selector("html[data-drawn='0']")
    assert list(opened.cards()) == NAMES
    assert opened.said == []
    context.close()


def test_the_data_of_a_chart_can_be_downloaded(opened):
    figure = opened.page.locator("figure.chart:visible").first
    figure.locator("summary").click()
    with opened.page.expect_download() as waiting:
        figure.get_by_role("link", name="Download the data").click()
    assert waiting.value.suggested_filename == "coverage.csv"
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text())))
    (row,) = [r for r in rows if (r["method"], r["agent"]) == ("fedwq-cp", "Zurich-Basel")]
    (f,) = results().of("four", "fedwq-cp", "Zurich-Basel")
    assert float(row["coverage"]) == pytest.approx(100 * f.covered / f.tested, abs=0.01)
    assert len(rows) == 20


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_serious(chromium, folder, axe, scheme, size):
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    opened = Opened(context.new_page()).open(folder / "report.html")
    opened.page.locator("details:visible summary").first.click()
    opened.page.locator("#splits-0 .sort").first.click()
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
    assert opened.page.locator(".filters:visible, .toc:visible").count() == 0
    assert list(opened.cards()) == NAMES
    context.close()


def test_a_hostile_name_is_shown_as_text_when_pointed_at(chromium, tmp_path):
    name = "<img src=x onerror=window.harmed=1>"
    point = {"method": "m", "agent": name, "coverage": 0.9, "low": 0.8, "high": 1.0, "size": 2.0}
    chart = coverage_chart([point], nominal=0.9, size="labels", method="m", title=name)
    view = View(
        name,
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
