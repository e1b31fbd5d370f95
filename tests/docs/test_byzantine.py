"""The table of the page on Byzantine agents is what its command gives."""

from __future__ import annotations

import runpy
from pathlib import Path

import fedwqcp as fw

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "byzantine_table.py"))


def test_the_table_is_of_now():
    text = TOOL["PAGE"].read_text()
    assert TOOL["page"](text) == text, "run python tools/byzantine_table.py"


def test_every_method_is_in_it():
    assert set(TOOL["METHODS"]) == set(fw.methods.available())
