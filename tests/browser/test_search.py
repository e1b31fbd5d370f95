"""The search of the documentation site, in a browser: ``make docs`` builds it before."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/docs"
SPEC = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)


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
        first = page.locator("#search-results ul.search li a").first
        first.wait_for(timeout=30_000)
        page.wait_for_function("Search.stopPulse && Search._pulse_status < 0")
        results = page.locator("#search-results ul.search li a")
        assert results.first.get_attribute("href").partition("#")[0].partition("?")[0] == (
            f"{generate.SEARCHED[words]}.html"
        ), results.all_inner_texts()[:5]
    finally:
        page.close()
