"""The documentation site in a browser: ``make docs`` builds it before."""

from __future__ import annotations

import functools
import http.server
import threading
from pathlib import Path

import generate
import pytest

from fedwqcp import methods
from opened import Opened, grave

SITE = Path(__file__).resolve().parents[2] / "build/docs"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="module")
def site(absent):
    """Address of the built site, served from this machine."""
    if not (SITE / "search.html").exists():
        absent("needs the built documentation (make docs)")
    handler = functools.partial(Quiet, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("words", generate.SEARCHED)
def test_a_search_finds_its_page_first(site, chromium, words):
    page = chromium.new_page()
    try:
        page.goto(f"{site}/search.html?q={words.replace(' ', '+')}")
        results = page.locator("#search-results ul.search li a")  # shown one by one, best first
        results.first.wait_for()
        assert results.first.get_attribute("href").partition("#")[0].partition("?")[0] == (
            f"{generate.SEARCHED[words]}.html"
        ), results.all_inner_texts()[:5]
    finally:
        page.close()


def test_formulas_are_drawn_by_the_browser_without_a_request_to_another_server(site, chromium, axe):
    page = chromium.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    try:
        page.goto(f"{site}/docs/explanation/methods.html", wait_until="networkidle")
        formulas = page.locator(".formula math")
        assert formulas.count() >= len(methods.built_in())
        for place in range(formulas.count()):
            assert formulas.nth(place).bounding_box()["height"] > 10
        assert [url for url in asked if not url.startswith((site, "data:"))] == []
        assert grave(Opened(page), axe) == []
        page.goto(f"{site}/docs/reference/generated/python.html")
        assert grave(Opened(page), axe) == []
    finally:
        page.close()


def test_the_first_page_fits_one_screen_doors_included_and_a_phone(site, chromium, axe):
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    try:
        page.goto(f"{site}/docs/index.html")
        doors = page.locator(".cards").bounding_box()
        assert doors["y"] + doors["height"] <= 800
        assert grave(Opened(page), axe) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    finally:
        page.close()
