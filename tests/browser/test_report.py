"""A report in a browser: it draws, filters, sorts, keeps the selection, loads nothing."""

from __future__ import annotations

import csv
import io

import pytest

from four_hospitals import SITES, two_levels
from opened import DESKTOP, PHONE, Opened, grave

NAMES = ["Cleveland", "Budapest", "Zurich-Basel", "Long-Beach"]
VIEWS = ["alpha = 0.1", "alpha = 0.2"]


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
    for view in VIEWS[1:]:
        go_to(opened, view)
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("data:")] == [
        (folder / "report.html").as_uri()
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_the_page(opened, view):
    if view != VIEWS[0]:
        go_to(opened, view)
    width = opened.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]


def test_on_a_phone_every_table_fits_its_width(chromium, folder):
    context = chromium.new_context(viewport=PHONE, offline=True)
    opened = Opened(context.new_page()).open(folder / "report.html")
    tables = opened.page.locator(".table .scroll:visible")
    assert tables.count() >= 2
    for table in tables.all():
        inner, outer = table.evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert inner <= outer
    context.close()


def test_the_cards_tell_the_numbers_of_the_results(opened):
    cards = opened.cards()
    assert list(cards) == NAMES
    for site in SITES(0):
        found = two_levels().measure(site.name, site.test, alpha=0.1)
        said = cards[site.name]
        assert said["coverage"] == f"{found.coverage:.3f}"
        assert f"{found.low:.3f} to {found.high:.3f}" in said["interval"]
    assert "Sets of split-cp" in opened.page.locator(".verdict:visible").inner_text()


def test_a_hospital_is_filtered_and_shown_again(opened):
    opened.press("Zurich-Basel")
    assert list(opened.cards()) == ["Zurich-Basel"]
    opened.press("Budapest")
    assert list(opened.cards()) == ["Budapest", "Zurich-Basel"]
    opened.press("Show all")
    assert list(opened.cards()) == NAMES


def test_a_table_is_sorted_by_numbers_and_by_names_both_ways(opened):
    table = opened.page.locator("#classes-0 table")

    def column(place):
        return table.locator(f"tbody tr td:nth-child({place})").all_inner_texts()

    before = column(4)
    table.get_by_role("button", name="coverage").click()
    head = table.locator("th").nth(3)
    up = column(4)
    assert head.get_attribute("aria-sort") == "ascending"
    assert up == sorted(before, key=lambda cell: float(cell.split()[0]))
    table.get_by_role("button", name="coverage").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(c.split()[0]) for c in column(4)] == sorted(
        (float(c.split()[0]) for c in before), reverse=True
    )
    table.get_by_role("button", name="agent").click()
    assert column(1) == sorted(column(1))
    assert head.get_attribute("aria-sort") is None


def test_the_address_holds_the_selection_and_gives_it_back(opened, chromium):
    go_to(opened, VIEWS[1])
    opened.press("Budapest")
    found = address(opened)
    assert (found["view"], found["agents"]) == ("1", '["Budapest"]')
    other = Opened(opened.page.context.new_page())
    other.page.goto(opened.page.url)
    other.page.wait_for_selector("html[data-drawn='1']")
    assert list(other.cards()) == ["Budapest"]
    assert other.said == []


@pytest.mark.parametrize(
    "hash", ["#view=99&method=none&agents=%5B1%5D", "#agents={", "#new-site-0", "#at=h-best-0"]
)
def test_an_address_of_another_page_opens_this_one(chromium, folder, hash):
    context = chromium.new_context(viewport=DESKTOP, offline=True)
    opened = Opened(context.new_page())
    opened.page.goto((folder / "report.html").as_uri() + hash)
    opened.page.wait_for_selector("html[data-drawn='0']")
    assert list(opened.cards()) == NAMES
    assert opened.said == []
    context.close()


def test_the_rows_of_a_table_can_be_downloaded(opened):
    with opened.page.expect_download() as waiting:
        opened.page.locator("#exchanged-0").get_by_role("link", name="Download all rows").click()
    assert waiting.value.suggested_filename.endswith(".csv")
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text())))
    assert sorted(row["agent"] for row in rows) == sorted(NAMES)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing_serious(chromium, folder, axe, scheme, size):
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    opened = Opened(context.new_page()).open(folder / "report.html")
    opened.page.locator("#classes-0 .sort").first.click()
    found = grave(opened, axe)
    context.close()
    assert found == []
