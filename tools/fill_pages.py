"""Fill the generated parts of all pages: ``python tools/fill_pages.py``.

Between ``<!-- FILE: NAME -->`` and ``<!-- end -->`` stands what ``tables()`` of that file returns
under that name.
"""

from __future__ import annotations

import re
import runpy
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"(<!-- (\S+\.py): (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Return every page that has a generated part, with its text."""
    found = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    return {page: text for page in found if PART.search(text := page.read_text(encoding="utf-8"))}


def filled(text: str) -> str:
    """Return a page with its parts as they are now."""
    return PART.sub(lambda part: f"{part[1]}\n{tables(part[2])[part[3]]}\n\n{part[4]}", text)


@cache
def tables(script: str) -> dict[str, str]:
    """Return what a script makes, by name."""
    return dict(runpy.run_path(str(ROOT / script))["tables"]())


if __name__ == "__main__":
    sys.path += [str(ROOT / "tools"), str(ROOT / "docs")]
    for page, text in pages().items():
        if (made := filled(text)) != text:
            page.write_text(made, encoding="utf-8")
            print(page.relative_to(ROOT))
