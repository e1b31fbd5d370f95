"""Photograph a report on a desktop, a phone and in print, for the docs.

    make demo && python tools/screenshots.py out/report.html docs/images

It needs Chromium (``apt-get install chromium``) and the Python package playwright.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Literal

SIZES: dict[str, tuple[int, int, Literal["screen", "print"]]] = {
    "desktop": (1280, 1480, "screen"),
    "phone": (390, 844, "screen"),
    "print": (794, 1123, "print"),
}
"""Name, and width, height and medium of the window; print is a sheet of A4."""


def photograph(report: Path, out: Path) -> list[Path]:
    """Write one picture of a page of ``fedwqcp report html`` for each size."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if program is None:
        raise SystemExit("needs Chromium: apt-get install chromium")
    files = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, (width, height, medium) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.emulate_media(media=medium)
            page.goto(report.resolve().as_uri())
            page.wait_for_selector("html[data-drawn]")
            files.append(out / f"report-{name}.png")
            page.screenshot(path=files[-1])
        browser.close()
    return files


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    for file in photograph(arguments.report, arguments.out):
        print(file)
