"""A headless browser; with FEDWQCP_REQUIRE_BROWSER=1 its absence is a failure, not a skip."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from four_hospitals import SITES, two_levels

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def absent():
    """Skips, or fails where a browser is required."""
    return _absent


def _absent(reason):
    if os.environ.get("FEDWQCP_REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _absent("needs the Python packages playwright and axe-playwright-python")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    with sync_playwright() as play:
        if program is None and not Path(play.chromium.executable_path).exists():
            _absent("needs Chromium (apt-get install chromium, or playwright install chromium)")
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    try:
        import axe_playwright_python
    except ImportError:
        _absent("needs the Python package axe-playwright-python")
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A report of the four hospitals at two levels."""
    pytest.importorskip("fedwqcp.report.html")
    pytest.importorskip("sklearn")
    out = tmp_path_factory.mktemp("report")
    tests = {site.name: site.test for site in SITES(0)}
    two_levels().report(out / "report.html", tests)
    return out
