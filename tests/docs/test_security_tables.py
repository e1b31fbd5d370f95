"""The tables of SECURITY.md have every method, and name tests that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import fedwqcp as fw

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()
BYZANTINE, DISCLOSURE = (
    runpy.run_path(str(ROOT / "tools" / f"{name}_table.py")) for name in ("byzantine", "disclosure")
)


def test_every_method_is_in_them():
    methods = set(fw.methods.built_in())
    assert set(BYZANTINE["METHODS"]) == set(BYZANTINE["PARTIES"]) == methods
    assert {name for name, _, _ in DISCLOSURE["ROWS"]} == methods


def test_every_test_that_the_page_on_security_names_is_there():
    named = re.findall(r"`((?:tests/)?[a-z_]+/[a-z_/]*test_[a-z_]+\.py)(?:::(test_\w+))?`", TEXT)
    assert len(named) > 20
    for file, name in named:
        source = (ROOT / "tests" / file.removeprefix("tests/")).read_text()
        assert f"def {name}(" in source or not name, (file, name)
