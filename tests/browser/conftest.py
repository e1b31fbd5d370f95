"""A headless browser; with FEDWQCP_REQUIRE_BROWSER=1 its absence is a failure, not a skip."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fedwqcp import methods
from fedwqcp.demo.demo import Demo, run
from fedwqcp.demo.records import REPORT_FILE, load_records, save_records, save_report

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FEW = ("fcp", "fedavgq-cp", "fedwq-cp", "split-cp")


def absent(reason):
    """Skip, or fail where a browser is required."""
    if os.environ.get("FEDWQCP_REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def chromium():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        absent("needs the Python packages playwright and axe-playwright-python")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        absent(f"needs Chromium, one of {', '.join(PROGRAMS)} (apt-get install chromium)")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe():
    try:
        import axe_playwright_python
    except ImportError:
        absent("needs the Python package axe-playwright-python")
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The demo on little data: its records, what it kept, and its report."""
    html = pytest.importorskip("fedwqcp.report.html")
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(methods, "available", lambda: FEW)
        results = run(Demo(digits=600, friedman=400, epochs=3))
    save_records(out / "records.jsonl", results.records)
    save_report(out / REPORT_FILE, results.report)
    html.write(out, out / "report.html", html.ReportOptions(examples=4))
    return out


@pytest.fixture(scope="session")
def records(folder):
    return [r for r in load_records(folder / "records.jsonl") if r.experiment == "methods"]
