"""The import graph in CONTRIBUTING.md is that of the code."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_import_graph_is_that_of_the_code():
    house = runpy.run_path(str(ROOT / "tools" / "house.py"))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert house["page"](text) == text
    assert "theory --> methods" in text
