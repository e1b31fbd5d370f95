"""The table of SECURITY.md says what the methods declare."""

from __future__ import annotations

import runpy
from pathlib import Path

import fedwqcp as fw

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "disclosure_table.py"))


def test_the_table_is_of_now():
    text = TOOL["PAGE"].read_text()
    assert TOOL["page"](text) == text, "run python tools/disclosure_table.py"


def test_every_method_is_in_it():
    assert {name for name, _, _ in TOOL["ROWS"]} == set(fw.methods.available())
