"""What a command writes into a page is what it would write now."""

from __future__ import annotations

import pytest
from fill_pages import ROOT, filled, pages

PAGES = {str(page.relative_to(ROOT)): text for page, text in pages().items()}


@pytest.mark.parametrize("page", PAGES)
def test_generated_parts_are_current(page):
    assert filled(PAGES[page]) == PAGES[page], "run python tools/fill_pages.py"


def test_a_stale_part_is_found():
    stale = "<!-- benchmarks/privacy.py: sizes -->\nold\n<!-- end -->"
    assert "| epsilon |" in filled(stale)
    with pytest.raises(KeyError):
        filled(stale.replace("sizes", "median"))
